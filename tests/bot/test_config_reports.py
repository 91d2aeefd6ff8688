"""Each process follows its file, and one of them reports a content to the admins."""

from pathlib import Path

from sqlalchemy import select

from bot.config.differences import differences, fingerprint
from bot.config.model import Config
from bot.config.reloading import LiveConfig, Reload
from bot.config_reports import ConfigReports
from bot.conversations.access import AccessSettings
from bot.conversations.admin_notices import AdminNotices
from bot.events import EventBus
from bot.subagents.limits import SubagentSettings
from db import tables, workers
from db.audit import SYSTEM
from db.database import Database
from tests.fakes.clock import FakeClock

OLD = Config(access=AccessSettings(admins=("discord:123456789012345678",)))
NEW = OLD.model_copy(update={"subagents": SubagentSettings(max_concurrent_per_user=7)})
FILE = Path("/etc/retinue/config.yaml")


class Process:
    """A process of the bot, with its configuration."""

    def __init__(self, database: Database, clock: FakeClock, name: str) -> None:
        self.config, self.name, self.database, self.clock = OLD, name, database, clock
        self.current = LiveConfig(lambda: self.config)
        self.reports = ConfigReports(
            database=database,
            worker_id=name,
            current=self.current,
            notices=AdminNotices(
                access=self.current.live(AccessSettings),
                outlets={},
                database=database,
                events=EventBus(),
                present=lambda: None,
                now=clock,
            ),
            now=clock,
        )

    async def start(self) -> "Process":
        async with self.database.transaction() as tx:
            await workers.start(tx, self.name, ["discord"], fingerprint(self.config))
        return self

    async def follow(self, config: Config, content: str) -> None:
        changes = differences(self.config, config)
        self.config = config
        self.clock.advance(1)
        await self.reports.report(Reload(file=FILE, content=content, changes=changes))

    async def refuse(self, content: str) -> None:
        self.clock.advance(1)
        await self.reports.report(Reload(file=FILE, content=content, error="Line 3 is wrong."))


async def notices(database: Database) -> list[str]:
    async with database.snapshot() as tx:
        query = select(tables.outbox.c.text).order_by(tables.outbox.c.created_at)
        return list(await tx.scalars(query))


async def in_force(database: Database) -> dict[str, str]:
    async with database.snapshot() as tx:
        return {each.id: each.configuration for each in await tx.execute(select(tables.workers))}


async def test_processes_that_differ_are_seen_until_all_have_followed(
    database: Database, clock: FakeClock
) -> None:
    one = await Process(database, clock, "one").start()
    two = await Process(database, clock, "two").start()
    await one.follow(NEW, "new")
    between = await in_force(database)
    await two.follow(NEW, "new")

    assert between == {"one": fingerprint(NEW), "two": fingerprint(OLD)}
    assert set((await in_force(database)).values()) == {fingerprint(NEW)}


async def test_a_change_and_a_mistake_are_each_reported_by_one_process(
    database: Database, clock: FakeClock
) -> None:
    one = await Process(database, clock, "one").start()
    two = await Process(database, clock, "two").start()
    for each in (one, two):
        await each.follow(NEW, "new")
    for each in (two, one):
        await each.refuse("broken")
    for each in (one, two):
        await each.follow(OLD, "old")

    first, second, third = await notices(database)
    assert "`subagents.max_concurrent_per_user`: 3 → 7" in first
    assert "Line 3 is wrong." in second
    assert "`subagents.max_concurrent_per_user`: 7 → 3" in third
    changed = "changed: subagents.max_concurrent_per_user"
    async with database.snapshot() as tx:
        audited = await tx.execute(select(tables.audit).order_by(tables.audit.c.created_at))
        assert [(row.user_id, row.action, row.subject, row.effect) for row in audited] == [
            (SYSTEM, "configuration", str(FILE), changed),
            (SYSTEM, "configuration", str(FILE), "invalid: the former one stays in force"),
            (SYSTEM, "configuration", str(FILE), changed),
        ]


async def test_a_changed_name_that_matches_nobody_is_reported_with_the_change(
    database: Database, clock: FakeClock
) -> None:
    one = await Process(database, clock, "one").start()
    blocked = AccessSettings(admins=OLD.access.admins, blocked=("slack:U01234567",))
    await one.follow(OLD.model_copy(update={"access": blocked}), "misspelt")
    await one.follow(NEW.model_copy(update={"access": blocked}), "something else")

    first, second = await notices(database)
    assert "⚠ access.blocked names “slack:U01234567”, which matches nobody" in first
    # Of the operator, who was there before, there is nothing to say now.
    assert "access.admins" not in first
    assert "⚠" not in second


async def test_a_dead_process_has_reported_nothing(database: Database, clock: FakeClock) -> None:
    one = await Process(database, clock, "one").start()
    await one.follow(NEW, "new")
    async with database.transaction() as tx:
        await workers.stop(tx, "one")
    two = await Process(database, clock, "two").start()
    await two.follow(NEW, "new")

    assert len(await notices(database)) == 2

"""The state of a bot for operators, and what admins are notified of by themselves."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import select

from bot.conversations.access import AccessSettings
from bot.conversations.admin_notices import AdminNotices
from bot.conversations.health import Health, disk_lines
from bot.conversations.notices import AdminWatch
from bot.disk import DiskReserve, DiskSettings
from bot.errors import ModelRefusedError, ModelUnavailableError
from bot.events import EventBus, ServiceTroubled, ended
from bot.loop_watch import LoopWatch, WatchedLoop, started
from bot.models.base import ModelRequest
from bot.models.providers import ProviderHealth, WatchedModel
from bot.tasks import Tasks
from bot.values import Identity, RunStatus
from db import pauses, workers
from db.database import Database
from db.pauses import Pause
from db.settings import DatabaseSettings
from db.tables import admin_notices
from tests.bot.agent.test_activity import Clock
from tests.fakes.clock import FakeClock
from tests.fakes.outlet import FakeOutlet
from tests.fakes.scripted_model import ScriptedModel, says
from tests.fakes.stored import Stored


@pytest.fixture
def stored(database: Database, clock: FakeClock) -> Stored:
    return Stored(database, clock)


def health_of(database: Database, clock: FakeClock, folder: Path) -> Health:
    return Health(
        database=database,
        schema="2026",
        shown="sqlite:///data/retinue.db",
        folders=(folder, folder / "not" / "there"),
        providers=lambda: ["anthropic: answered 2 s ago"],
        now=clock,
    )


async def test_the_state_names_queue_deliveries_processes_and_versions(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, tmp_path: Path
) -> None:
    conversation = await stored.conversation(alice)
    await stored.turn(alice, conversation)
    await stored.turn(alice, conversation)
    await stored.claim_turn(conversation)
    for status in ("queued", "running", "running", "waiting_input"):
        await stored.run(alice, status=status)
    for status in ("stalled", "failed", "failed"):
        await stored.run(alice, status=status, completed_at=clock())
    await stored.item(alice, status="blocked")
    await database.write(pauses.put, Pause(paused_by="discord::1", created_at=clock()))
    await database.write(workers.start, "box-1", ["discord"], "0123456789abcdef")
    # During an upgrade another process runs the version before.
    await database.write(workers.start, "box-2", ["slack"], version="retinue 0.1.0, tables 2025")

    text = await health_of(database, clock, tmp_path).text()

    assert "Queue: 1 message and 1 run wait" in text
    assert "At work: 1 answer and 3 runs; 1 more wait for their users" in text
    assert "Last 24 hours: 1 stalled, 0 lost, 2 failed" in text
    assert "Deliveries: 0 under way, 1 blocked" in text
    assert "Pauses: 1" in text
    assert "Provider anthropic: answered 2 s ago" in text
    assert "Process `box-1`: discord" in text
    [other] = [line for line in text.splitlines() if "`box-2`" in line]
    assert other.endswith("retinue 0.1.0, tables 2025")
    assert "configuration 01234567" in text
    assert "tables 2026" in text
    assert "Event loop" not in text
    assert "free" in text
    assert ("SQLite 3" in text) is database.is_sqlite


def test_the_longest_block_of_the_event_loop_is_shown(
    sqlite_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    seconds = [0.0]

    async def text() -> str:
        started()
        seconds[0] += 0.25
        async with Database.open(DatabaseSettings(url=sqlite_url)) as database:
            return await health_of(database, clock, tmp_path).text()

    watch = LoopWatch(lambda: seconds[0])
    with asyncio.Runner(loop_factory=lambda: WatchedLoop(watch)) as runner:
        found = runner.run(text())

    assert "- Event loop: blocked for at most `250 ms` in the last minutes" in found


def test_a_disk_is_shown_once(tmp_path: Path) -> None:
    assert len(disk_lines((tmp_path, tmp_path / "a" / "b"))) == 1


async def test_the_last_outcome_of_a_provider_is_remembered_and_a_refusal_reported() -> None:
    clock, refused = Clock(), []
    health = ProviderHealth("anthropic", lambda *given: refused.append(given), clock)
    model = WatchedModel(
        ScriptedModel(
            ModelUnavailableError("It is busy."), says("Hello."), ModelRefusedError("No money.")
        ),
        health,
    )
    request = ModelRequest(model="m", prompt="", messages=())
    lines = [str(health)]

    for kind in (ModelUnavailableError, None, ModelRefusedError):
        if kind is None:
            await model.ask(request)
        else:
            with pytest.raises(kind):
                await model.ask(request)
        clock.seconds += 5
        lines.append(str(health))

    assert lines == [
        "anthropic: not asked since the start of this process",
        "anthropic: It is busy. (5 s ago)",
        "anthropic: answered 5 s ago",
        "anthropic: No money. (5 s ago)",
    ]
    assert refused == [("anthropic", "No money.")]


@dataclass
class Office:
    """A watch, and the notices that it sends."""

    database: Database
    clock: FakeClock
    folder: Path
    tasks: Tasks
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.outlet = FakeOutlet("discord")
        self.disk = DiskSettings(reserve_bytes=0)
        self.notices = AdminNotices(
            access=AccessSettings(admin_channel=("discord:9:8",)),
            outlets={"discord": self.outlet},
            database=self.database,
            events=EventBus(),
            present=lambda: None,
            now=self.clock,
        )
        self.watch = AdminWatch(
            notices=self.notices,
            database=self.database,
            tasks=self.tasks,
            reserve=DiskReserve(lambda: self.disk, (self.folder,)),
            now=self.clock,
        )

    async def texts(self) -> list[str]:
        """Return the texts of all notices, in order."""
        await self.tasks.wait_idle(5)
        async with self.database.snapshot() as tx:
            query = select(admin_notices.c.text).order_by(admin_notices.c.created_at)
            return list(await tx.scalars(query))


@pytest.fixture
async def office(database: Database, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Office]:
    async with Tasks() as tasks:
        yield Office(database, clock, tmp_path, tasks)


async def test_a_stalled_run_is_reported_and_no_other(
    office: Office, stored: Stored, alice: Identity
) -> None:
    run = await stored.run(alice, label="hens")
    for status in (RunStatus.FAILED, RunStatus.STALLED, RunStatus.STALLED):
        office.watch.on_run_ended(ended(status, run_id=run.id, user_id=alice.key))

    [text] = await office.texts()
    assert "“hens”" in text


async def test_a_trouble_that_lasts_is_reported_once_a_day(
    office: Office, clock: FakeClock
) -> None:
    for _ in range(3):
        office.watch.on_refused("anthropic", "It does not accept the key.")
        office.watch.on_service_troubled(
            ServiceTroubled(service="The MCP server git", problem="refused")
        )
        await office.tasks.wait_idle(5)
    first = len(await office.texts())
    clock.advance(24 * 3600)
    office.watch.on_refused("anthropic", "It does not accept the key.")

    assert first == 2
    assert len(await office.texts()) == 3


async def test_a_disk_that_is_nearly_full_is_reported(office: Office, clock: FakeClock) -> None:
    await office.watch.look_at_disks()
    before = len(await office.texts())
    office.disk = DiskSettings(reserve_bytes=10**18, reserve_percent=100)
    await office.watch.look_at_disks()
    too_soon = len(await office.texts())
    clock.advance(61)
    await office.watch.look_at_disks()

    assert (before, too_soon) == (0, 0)
    [text] = await office.texts()
    assert "nearly full" in text


async def test_processes_that_ended_unexpectedly_are_reported(office: Office) -> None:
    office.watch.on_crashes(2)

    [text] = await office.texts()
    assert text.startswith("2 processes of the bot ended unexpectedly")

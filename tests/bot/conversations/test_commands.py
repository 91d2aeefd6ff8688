"""Commands: which answers are private, and what becomes of results that could not be delivered."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy import select

from bot.conversations.commands import CommandRunner
from bot.subagents.requests import Caller
from bot.values import Identity, Role, short
from db import conversations, history, outbox, standing_grants
from db.database import Database, DatabaseSettings
from db.outbox import NewOutboxEntry
from db.tables import audit
from tests.fakes.clock import FakeClock
from tests.fakes.commands import command_runner
from tests.fakes.office import FakeOffice, caller, limits, model_of
from tests.fakes.stored import Stored, room
from tests.fakes.watched_database import WatchedDatabase


@pytest.fixture
async def database(database_settings: DatabaseSettings) -> AsyncIterator[Database]:
    one = database_settings.model_copy(update={"pool_size": 1})
    async with WatchedDatabase.open(one) as opened:
        yield opened


@pytest.fixture
def stored(database: Database, clock: FakeClock) -> Stored:
    return Stored(database, clock)


@pytest.fixture
def commands(database: Database, clock: FakeClock) -> CommandRunner:
    return command_runner(FakeOffice(database, limits(), clock))


async def audited(database: Database) -> list[tuple[str, str, str]]:
    async with database.snapshot() as tx:
        rows = await tx.execute(select(audit))
        return [(row.user_id, row.action, row.subject) for row in rows]


async def late_reply(stored: Stored, user: Identity, key: str) -> None:
    """Keep a reply that could not be delivered."""
    await stored.person(user)
    item = NewOutboxEntry(
        key=key, user_id=user.key, place=room(user), run_id=None, title="↩ To “Hi”", text="Hello."
    )
    async with stored.database.transaction() as tx:
        await outbox.put(tx, item, stored.now(), status="blocked")


@pytest.mark.parametrize(
    "typed",
    [
        "/subagents",
        "/subagents list",
        "/subagents ls",
        "/subagents list all",
        "/subagents info sheep",
        "/subagents log sheep",
        "/subagents read sheep",
        "/subagents send sheep Hurry",
        "/subagents stop sheep",
        "/subagents kill sheep",
        "/subagents usage",
        "/subagents retry sheep",
        "/subagents dismiss sheep",
        "/SUBAGENT LIST",
        "/subagents nonsense",
    ],
)
@pytest.mark.parametrize("several", [False, True])
async def test_an_answer_that_may_name_runs_is_private(
    commands: CommandRunner, stored: Stored, alice: Identity, typed: str, *, several: bool
) -> None:
    for _ in range(1 + several):
        await stored.run(alice, label="sheep")

    assert (await commands.run(typed, caller(alice))).private


@pytest.mark.parametrize(
    "typed", ["/help", "/new", "/model", "/subagents agents", "/subagents spawn Count"]
)
async def test_an_answer_without_anything_of_a_users_runs_is_for_everyone(
    commands: CommandRunner, stored: Stored, alice: Identity, typed: str
) -> None:
    await stored.person(alice)

    assert not (await commands.run(typed, caller(alice))).private


async def test_what_could_not_be_delivered_is_listed_and_read_whole(
    commands: CommandRunner, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    report = "".join(f"{number} sheep\n" for number in range(500))
    run = await stored.run(
        alice, status="completed", completed_at=clock(), result=report, label="sheep"
    )
    item = NewOutboxEntry(
        key=run.id, user_id=alice.key, place=room(alice), run_id=run.id, title="Over", text=report
    )
    async with stored.database.transaction() as tx:
        await outbox.put(tx, item, clock(), status="blocked")
    await late_reply(stored, alice, "0123456789abcdef0123456789abcdef")

    listed = await commands.run("/subagents list", caller(alice))
    whole = await commands.run("/subagents read sheep", caller(alice))
    reply = await commands.run("/subagents read 89abcdef", caller(alice))

    assert f"`{short(run.id)}` Over" in listed.text
    assert "`89abcdef` ↩ To “Hi”" in listed.text
    assert report.strip() in whole.text
    assert reply.text == "**↩ To “Hi”**\n\nHello."
    for stranger in (caller(bob), model_of(bob, role=Role.OPERATOR)):
        assert (await commands.run("/subagents read 89abcdef", stranger)).failed
        assert (await commands.run(f"/subagents read {run.id}", stranger)).failed


async def test_a_result_that_arrived_is_read_again_and_one_of_a_run_at_work_is_not_there_yet(
    commands: CommandRunner, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    await stored.run(alice, label="over", status="completed", completed_at=clock(), result="Ten.")
    await stored.run(alice, label="going", status="running")

    assert "Ten." in (await commands.run("/subagents read over", caller(alice))).text
    assert (await commands.run("/subagents read going", caller(alice))).failed


async def test_a_late_reply_is_retried_and_dismissed_by_the_end_of_its_key(
    commands: CommandRunner, stored: Stored, alice: Identity, bob: Identity
) -> None:
    key = "0123456789abcdef0123456789abcdef"
    await late_reply(stored, alice, key)

    assert (await commands.run("/subagents retry 89abcdef", caller(bob))).failed
    assert not (await commands.run("/subagents retry 89ABCDEF", caller(alice))).failed
    assert (await stored.read_item(key)).status == "pending"
    assert (await commands.run("/subagents dismiss 89abcdef", caller(alice))).failed


@pytest.mark.parametrize(("action", "status"), [("retry", "pending"), ("dismiss", "dismissed")])
async def test_an_admin_decides_on_the_undelivered_result_of_another_and_it_is_noted_once(
    commands: CommandRunner,
    stored: Stored,
    alice: Identity,
    bob: Identity,
    action: str,
    status: str,
) -> None:
    key = await stored.item(alice, status="blocked")

    refused = await commands.run(f"/subagents {action} {key}", caller(bob))
    done = await commands.run(f"/subagents {action} {key}", caller(bob, role=Role.OPERATOR))
    changed_nothing = await commands.run(f"/subagents retry {key}", caller(bob, role=Role.OPERATOR))

    assert refused.failed
    assert not done.failed
    assert changed_nothing.failed
    assert (await stored.read_item(key)).status == status
    assert await audited(commands.database) == [(bob.key, action, key)]


async def test_what_is_taken_back_is_recorded_and_nothing_where_nothing_is(
    commands: CommandRunner, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    await stored.person(alice)
    rule, until = "mail:*: ask", clock() + timedelta(days=1)
    async with commands.database.transaction() as tx:
        await standing_grants.give(
            tx, alice.key, room(alice), [rule], by=alice.key, until=until, now=clock()
        )

    taken = [await commands.run(f"/retinue grants {rule}", caller(alice)) for _ in range(2)]

    assert [reply.failed for reply in taken] == [False, True]
    assert await audited(commands.database) == [(alice.key, "revoke", rule)]


async def test_the_deletion_of_a_summary_is_an_admins_and_is_recorded(
    commands: CommandRunner, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    here = await stored.conversation(alice)
    async with commands.database.transaction() as tx:
        await conversations.say(tx, here, role="user", text="one", now=clock())
        (known,) = await history.personal(tx, here, until="~")
        await history.put_summary(tx, here, "one", behind=known, foreign=False, now=clock())
    place = room(alice)

    refused = await commands.run("/context forget", caller(alice, place=place))
    admin = caller(alice, role=Role.OPERATOR, place=place)
    deleted = [await commands.run("/context forget", admin) for _ in range(2)]

    assert refused.failed
    assert [reply.failed for reply in deleted] == [False, True]
    assert await audited(commands.database) == [(alice.key, "delete summary", "")]


async def test_everyones_runs_are_listed_for_a_command_of_an_admin_only(
    commands: CommandRunner, stored: Stored, alice: Identity, bob: Identity
) -> None:
    run = await stored.run(alice, label="secret")
    refusals: list[Caller] = [caller(bob), model_of(bob, role=Role.OPERATOR)]

    for refused in [await commands.run("/subagents list all", who) for who in refusals]:
        assert (refused.failed, refused.text) == (True, "Only admins can list everyone's runs.")
    listed = await commands.run("/subagents list all", caller(bob, role=Role.OPERATOR))

    assert short(run.id) in listed.text
    assert await audited(commands.database) == [(bob.key, "view", "all")]

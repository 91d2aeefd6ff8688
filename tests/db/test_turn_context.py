"""One statement finds the kinds of rows that concern the user of a turn."""

from dataclasses import asdict
from datetime import timedelta

from bot.values import Identity
from db import grants, todos, turn_context
from db.database import Database
from db.todos import Todo
from db.user_texts import MEMORIES, Memory
from tests.fakes.clock import FakeClock
from tests.fakes.plans import Statements
from tests.fakes.stored import Stored

HOUR = timedelta(hours=1)


async def concerns(database: Database, user: Identity, here: str, clock: FakeClock) -> set[str]:
    """Return the kinds of rows that concern a user in a conversation."""
    async with database.snapshot() as tx:
        found = await turn_context.concerns(
            tx,
            user.key,
            conversation_id=here,
            todo_list=here,
            since=clock() - HOUR,
            now=clock(),
        )
    return {name for name, there in asdict(found).items() if there}


async def test_a_new_user_is_concerned_by_nothing(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    here = await stored.conversation(alice)

    assert await concerns(database, alice, here, clock) == set()


async def test_each_kind_of_row_concerns_its_user_alone(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    here, there = await stored.conversation(alice), await stored.conversation(bob)
    await stored.run(alice)
    await stored.run(alice, status="completed", completed_at=clock())
    await stored.item(alice)
    async with database.transaction() as tx:
        await grants.give(tx, here, alice.key, ["recall"], clock() + HOUR)
        await todos.write(tx, here, alice.key, [Todo("Count sheep", "done")], clock())
        await MEMORIES.add(
            tx, alice.key, Memory(id="m", text="Tea", origin="said", created_at=clock())
        )

    everything = {"active", "recent", "undelivered", "memories", "todo", "grants"}
    assert await concerns(database, alice, here, clock) == everything
    assert await concerns(database, alice, there, clock) == everything - {"todo", "grants"}
    assert await concerns(database, bob, here, clock) == set()


async def test_what_is_over_does_not_concern_a_user(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    here = await stored.conversation(alice)
    await stored.run(alice, status="completed", completed_at=clock() - HOUR)
    await stored.item(alice, status="delivered")
    async with database.transaction() as tx:
        await grants.give(tx, here, alice.key, ["recall"], clock())

    # The run of the delivered item is unfinished.
    assert await concerns(database, alice, here, clock) == {"active"}


async def test_old_runs_of_a_user_are_not_read(
    database: Database, database_url: str, stored: Stored, clock: FakeClock, alice: Identity
) -> None:
    here = await stored.conversation(alice)
    recorded = Statements()

    with recorded.recorded():
        await concerns(database, alice, here, clock)

    assert recorded.scans(database_url, ()) == []
    # PostgreSQL decides by the number of rows, of which there are none.
    if database.is_sqlite:
        ((_, searches),) = recorded.searches(database_url, "subagent_runs").items()
        assert any("user_id=? AND completed_at>?" in each for each in searches), searches

"""No page that the model obeys pushes former notes, memories or values out of the undo store."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from bot.changes import Cause
from bot.errors import ToolError
from bot.values import Identity
from db import changes
from db.changes import MOST_PER_KIND
from db.database import Database
from db.user_texts import MEMORIES, Memory
from skills import memory, notes, whiteboard
from skills.base import Reach, ToolContext
from tests.fakes.calls import Caller
from tests.fakes.clock import FakeClock
from tests.fakes.rows import meet, store_run


@dataclass(frozen=True)
class Deletion:
    """A call that deletes or replaces something of a kind."""

    kind: str
    tool: str
    arguments: dict[str, Any]
    caller: Callable[..., Caller]


async def of_notes(database: Database, user: Identity, clock: FakeClock) -> Deletion:
    def caller(*, foreign: bool = False, agreed: bool = False) -> Caller:
        return Caller(notes.build(database), user, clock, foreign=foreign, agreed=agreed)

    await caller().call("note_save", text="Buy eggs")
    return Deletion("note", "note_delete", {"number": 1}, caller)


async def of_memories(database: Database, user: Identity, clock: FakeClock) -> Deletion:
    def caller(*, foreign: bool = False, agreed: bool = False) -> Caller:
        return Caller(memory.build(database), user, clock, foreign=foreign, agreed=agreed)

    fact = Memory(
        id="m1",
        number=1,
        text="I am vegan",
        origin="said",
        source="",
        conversation_id="",
        message_id="",
        created_at=clock(),
    )
    async with database.transaction() as tx:
        await MEMORIES.add(tx, user.key, fact)
    return Deletion("memory", "forget", {"number": 1}, caller)


async def of_a_runs_board(database: Database, user: Identity, clock: FakeClock) -> Deletion:
    run_id = await store_run(database, user, clock())

    def caller(*, foreign: bool = False, agreed: bool = False) -> Caller:
        return Caller(
            whiteboard.build_for_runs(database, clock),
            user,
            clock,
            run_id,
            foreign=foreign,
            agreed=agreed,
        )

    await main_board(database, user, clock)().call(
        "whiteboard_write", run_id=run_id, key="plan", value="go"
    )
    return Deletion("whiteboard", "whiteboard_write", {"key": "plan", "value": "stop"}, caller)


async def of_a_run_for_main(database: Database, user: Identity, clock: FakeClock) -> Deletion:
    run_id = await store_run(database, user, clock())
    run = Caller(whiteboard.build_for_runs(database, clock), user, clock, run_id)
    await run.call("whiteboard_write", key="plan", value="go")
    arguments: dict[str, Any] = {"run_id": run_id, "key": "plan"}
    return Deletion("whiteboard", "whiteboard_delete", arguments, main_board(database, user, clock))


def main_board(database: Database, user: Identity, clock: FakeClock) -> Callable[..., Caller]:
    async def resolve(_: ToolContext, given: str, /) -> str:
        return given

    def caller(*, foreign: bool = False, agreed: bool = False) -> Caller:
        skill = whiteboard.build_for_main(database, resolve, clock)
        return Caller(skill, user, clock, foreign=foreign, agreed=agreed)

    return caller


async def keep(database: Database, user: Identity, kind: str, clock: FakeClock) -> None:
    cause = Cause(user_id=user.key, work_id="turn-0", run_id=None)
    async with database.transaction() as tx:
        await changes.keep(
            tx, cause, kind=kind, key="k", title="t", before={}, after=None, now=clock()
        )


async def kept(database: Database, user: Identity) -> set[str]:
    async with database.snapshot() as tx:
        return {change.id for change in await changes.newest(tx, user.key)}


@pytest.mark.parametrize("begin", [of_notes, of_memories, of_a_runs_board, of_a_run_for_main])
async def test_a_deletion_that_would_push_a_former_version_out_asks_and_is_refused_without_a_yes(
    database: Database,
    alice: Identity,
    clock: FakeClock,
    begin: Callable[[Database, Identity, FakeClock], Awaitable[Deletion]],
) -> None:
    await meet(database, alice, clock())
    call = await begin(database, alice, clock)
    for _ in range(MOST_PER_KIND - 1):
        await keep(database, alice, call.kind, clock)
    foreign = call.caller(foreign=True)
    assert await foreign.reach(call.tool, **call.arguments) is Reach.CHANGES_OWN
    await keep(database, alice, call.kind, clock)
    before = await kept(database, alice)

    assert await foreign.reach(call.tool, **call.arguments) is Reach.DESTROYS
    with pytest.raises(ToolError, match="The undo store is full"):
        await foreign.call(call.tool, **call.arguments)
    assert await kept(database, alice) == before
    done = await call.caller(foreign=True, agreed=True).call(call.tool, **call.arguments)

    assert "`/retinue undo` takes it back." in done
    assert len(await kept(database, alice) & before) == MOST_PER_KIND - 1


async def test_a_value_that_replaces_nothing_of_others_needs_no_room(
    database: Database, alice: Identity, clock: FakeClock
) -> None:
    await meet(database, alice, clock())
    call = await of_a_runs_board(database, alice, clock)
    for _ in range(MOST_PER_KIND):
        await keep(database, alice, call.kind, clock)
    run = call.caller(foreign=True)

    assert await run.reach("whiteboard_write", key="new", value="1") is Reach.CHANGES_OWN
    assert await run.call("whiteboard_write", key="new", value="1") == "Written."
    assert await run.reach("whiteboard_write", key="new", value="2") is Reach.CHANGES_OWN
    assert await run.call("whiteboard_write", key="new", value="2") == "Written."

"""The end of a run, its announcement and the next admission happen together or not at all."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from bot.agent.messages import Usage
from bot.events import RunCompleted, RunFailed, RunStatusChanged, RunTimedOut
from bot.masking import MASK
from bot.subagents.wording import Outcome
from bot.values import Identity, RunStatus
from db import run_files, run_messages, runs
from db.database import Database, DatabaseSettings
from db.runs import Run
from db.tables import messages, outbox, turns
from tests.fakes.clock import FakeClock
from tests.fakes.office import FakeOffice, caller, limits
from tests.fakes.stored import Stored
from tests.fakes.watched_database import WatchedDatabase

TABLES = (messages, outbox, turns)
KEY = "sk-" + "0123456789abcdef" * 2


@pytest.fixture
async def database(database_settings: DatabaseSettings) -> AsyncIterator[WatchedDatabase]:
    one = database_settings.model_copy(update={"pool_size": 1})
    async with WatchedDatabase.open(one) as opened:
        yield opened
        assert opened.connections_in_use() == 0, "A connection was not given back."


@pytest.fixture
def stored(database: Database, clock: FakeClock) -> Stored:
    return Stored(database, clock)


@pytest.fixture
def office(database: Database, clock: FakeClock) -> FakeOffice:
    return FakeOffice(database, limits(per_user=2, everyone=4, queued=5), clock)


@dataclass
class Turn:
    """A turn of a conversation, in which a user asks for runs."""

    office: FakeOffice
    user: Identity
    conversation: str
    name: str = "turn"
    calls: int = 0

    async def spawn(self, **wanted: Any) -> Run:
        self.calls += 1
        asker = caller(
            self.user,
            conversation_id=self.conversation,
            batch_id=self.name,
            call_key=(self.name, str(self.calls)),
        )
        return await self.office.spawn(
            self.user, f"{self.name} {self.calls}", caller=asker, **wanted
        )


@pytest.fixture
async def turn(office: FakeOffice, stored: Stored, alice: Identity) -> Turn:
    return Turn(office, alice, await stored.conversation(alice))


async def statuses(stored: Stored, *runs_: Run) -> list[str]:
    return [(await stored.read_item(run.id)).status for run in runs_]


async def said(stored: Stored, conversation: str) -> list[tuple[str, str]]:
    async with stored.database.snapshot() as tx:
        query = select(messages.c.role, messages.c.text)
        where = messages.c.conversation_id == conversation
        return [(row.role, row.text) for row in await tx.execute(query.where(where))]


# -- one run ---------------------------------------------------------------------------------------


async def test_an_end_is_stored_announced_told_to_the_conversation_and_published(
    office: FakeOffice, stored: Stored, turn: Turn, alice: Identity
) -> None:
    run = await office.begin(await turn.spawn(label="flock"))
    outcome = Outcome(
        status=RunStatus.COMPLETED,
        text="<b>3</b> sheep",
        usage=Usage(30, 12),
        tool_calls=1,
        seconds_used=2.5,
        model="m-1",
        transcript=({"kind": "user", "text": "Count"},),
    )

    over = await office.endings.end(run, outcome, attempt=run.attempt)

    assert over is not None
    assert over == await office.read(run)
    assert (over.status, over.result, over.tokens) == (RunStatus.COMPLETED, "<b>3</b> sheep", 42)
    assert (over.tool_call_count, over.seconds_used, over.model) == (1, 2.5, "m-1")
    assert over.reserved_tokens == 0
    item = await stored.read_item(run.id)
    assert (item.status, item.user, item.place, item.run_id) == (
        "pending", alice, run.place, run.id,
    )  # fmt: skip
    assert item.text == "<b>3</b> sheep"
    assert "42 of" in item.footer
    ((role, words),) = await said(stored, turn.conversation)
    assert role == "result"
    assert "&lt;b&gt;3&lt;/b&gt; sheep" in words
    assert (office.announced, office.woken) == ([run.id], [])
    assert isinstance(office.events[-1], RunCompleted)
    assert RunStatusChanged in {type(event) for event in office.events}


@pytest.mark.parametrize(
    ("event", "table"), [("INSERT", "outbox"), ("INSERT", "messages"), ("UPDATE", "users")]
)
async def test_when_one_part_of_an_end_fails_nothing_of_it_is_stored_or_told(
    office: FakeOffice, stored: Stored, turn: Turn, event: str, table: str
) -> None:
    run, _, queued = [await turn.spawn() for _ in range(3)]
    before = await stored.counts(TABLES)
    told = len(office.events), len(office.admitted)

    async with refusing(stored.database, event, table):
        with pytest.raises(DBAPIError, match="not today"):
            await office.end(run)

    assert await office.read(run) == run
    assert (await office.read(queued)).status is RunStatus.QUEUED
    assert await stored.counts(TABLES) == before
    assert (office.announced, office.woken) == ([], [])
    assert (len(office.events), len(office.admitted)) == told
    assert await office.end(run) is not None
    assert (await office.read(queued)).status is RunStatus.ACCEPTED


@asynccontextmanager
async def refusing(database: Database, event: str, table: str) -> AsyncIterator[None]:
    """Let the database refuse to change a table, as one that is full or broken does."""
    if database.is_sqlite:
        begin = [
            f"CREATE TRIGGER refuse BEFORE {event} ON {table} "
            "BEGIN SELECT RAISE(ABORT, 'not today'); END"
        ]
        end = "DROP TRIGGER refuse"
    else:
        begin = [
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'not today'; END $$",
            f"CREATE TRIGGER refuse BEFORE {event} ON {table} EXECUTE FUNCTION refuse()",
        ]
        end = f"DROP TRIGGER refuse ON {table}"
    async with database.transaction() as tx:
        for statement in begin:
            await tx.exec_driver_sql(statement)
    yield
    async with database.transaction() as tx:
        await tx.exec_driver_sql(end)


async def test_an_end_whose_commit_was_not_answered_changes_nothing_when_it_is_repeated(
    office: FakeOffice, database: WatchedDatabase, stored: Stored, turn: Turn
) -> None:
    run = await turn.spawn()
    database.fail_next(ConnectionError("gone"), when="answer")

    with pytest.raises(ConnectionError):
        await office.end(run, "first")
    again = await office.end(run, "second")

    assert again is None
    assert (await office.read(run)).result == "first"
    assert await statuses(stored, run) == ["pending"]
    assert len(await said(stored, turn.conversation)) == 1


async def test_a_stale_attempt_ends_nothing(office: FakeOffice, stored: Stored, turn: Turn) -> None:
    stale = await office.begin(await turn.spawn())
    fresh = await office.begin(stale)
    over = Outcome(status=RunStatus.FAILED, text="stale")

    assert await office.endings.end(stale, over, attempt=stale.attempt) is None

    assert await office.read(fresh) == fresh
    assert await stored.counts(TABLES) == {"messages": 0, "outbox": 0, "turns": 0}
    assert office.announced == []


async def test_the_next_run_is_let_in_with_the_end_and_handed_to_the_engine_after_it(
    office: FakeOffice, turn: Turn
) -> None:
    first, second, queued = [await turn.spawn() for _ in range(3)]

    await office.end(first)

    let_in = await office.read(queued)
    assert let_in.status is RunStatus.ACCEPTED
    assert office.admitted == [first.id, second.id, queued.id]
    moved = [event for event in office.events if isinstance(event, RunStatusChanged)]
    assert (moved[-1].run_id, moved[-1].new) == (queued.id, RunStatus.ACCEPTED)


async def test_waiting_runs_are_let_in_when_the_caps_are_raised(
    office: FakeOffice, database: Database, clock: FakeClock, turn: Turn
) -> None:
    queued = [await turn.spawn() for _ in range(4)][2:]
    wider = FakeOffice(database, limits(per_user=3), clock)

    await wider.endings.promote()
    await wider.endings.promote()

    assert wider.admitted == [queued[0].id]


async def test_why_a_run_did_not_complete_is_said_with_what_it_had(
    office: FakeOffice, stored: Stored, turn: Turn
) -> None:
    run, late = await turn.spawn(), await turn.spawn()
    async with stored.database.transaction() as tx:
        await run_messages.add(tx, message_id="m", run_id=run.id, text="Hi", now=stored.now())

    await office.end(run, "Half of it", RunStatus.TIMEOUT)
    error = Outcome(status=RunStatus.FAILED, error=f"The model said \0no to {KEY}.")
    await office.endings.end(late, error, attempt=None)

    told = await stored.read_item(run.id)
    assert "limit of 5 min" in told.text
    assert "What it had so far:\n\nHalf of it" in told.text
    assert "A message you sent came too late" in told.text
    assert (await office.read(late)).error == f"The model said \ufffdno to {MASK}."
    assert KEY not in (await stored.read_item(late.id)).text
    assert KEY not in str(await said(stored, turn.conversation))
    ends = [type(event) for event in office.events]
    assert RunTimedOut in ends
    assert RunFailed in ends


async def test_texts_that_no_database_takes_and_keys_do_not_reach_the_tables(
    office: FakeOffice, stored: Stored, turn: Turn
) -> None:
    run = await turn.spawn()
    hostile = f'a\0b\ud800 \x1b[31m"{KEY}" ://me:{KEY}"@x 🙂'
    said_so = {"kind": "answer", "text": hostile, "calls": [{"arguments": {"k\0": hostile}}]}

    over = await office.endings.end(
        run,
        Outcome(status=RunStatus.COMPLETED, text=hostile, transcript=(said_so,)),
        attempt=None,
    )

    assert over is not None
    async with stored.database.snapshot() as tx:
        (kept,) = await runs.transcript(tx, run.id)
    everything = str([over.result, kept, await said(stored, turn.conversation)])
    assert "a\ufffdb\ufffd" in everything
    assert KEY not in everything
    assert kept["kind"] == "answer"
    assert "\0" not in everything


# -- what is said, and by whom ---------------------------------------------------------------------


async def test_a_silent_run_is_told_to_the_conversation_and_announced_to_nobody(
    office: FakeOffice, stored: Stored, turn: Turn
) -> None:
    await office.end(await turn.spawn(announce="silent"))

    assert len(await said(stored, turn.conversation)) == 1
    assert await stored.count(outbox) == 0
    assert (office.announced, office.woken) == ([], [])


async def test_the_files_of_a_silent_run_are_sent_without_a_text(
    office: FakeOffice, stored: Stored, turn: Turn
) -> None:
    run = await turn.spawn(announce="silent")
    async with stored.database.transaction() as tx:
        await run_files.add(tx, run.id, [("a.md", b"a")], after=0)

    await office.end(run)

    item = await stored.read_item(run.id)
    assert (item.status, item.text_delivered) == ("pending", True)
    assert office.announced == [run.id]


async def test_a_run_that_no_conversation_knows_is_announced_all_the_same(
    office: FakeOffice, stored: Stored, alice: Identity
) -> None:
    await stored.person(alice)
    for announce in ("result", "summary"):
        await office.end(await office.spawn(alice, announce=announce))

    assert len(office.announced) == 2
    assert await stored.counts(TABLES) == {"messages": 0, "outbox": 2, "turns": 0}


async def test_results_to_be_worded_are_held_until_the_last_run_of_their_turn_is_over(
    office: FakeOffice, stored: Stored, clock: FakeClock, turn: Turn, alice: Identity
) -> None:
    first, second, third = [await turn.spawn(announce="summary") for _ in range(3)]
    other_turn = Turn(office, alice, turn.conversation, name="other")
    await other_turn.spawn(announce="summary")
    await turn.spawn(announce="silent")

    for run in (first, second):
        await office.end(run)
        clock.advance(1)
    assert (office.woken, await stored.count(turns)) == ([], 0)
    await office.end(third)

    assert await statuses(stored, first, second, third) == ["held"] * 3
    assert office.woken == [(turn.conversation, alice.platform)]
    assert office.announced == []
    async with stored.database.snapshot() as tx:
        row = (await tx.execute(select(turns.c.kind, turns.c.status, turns.c.message_id))).one()
        text = await tx.scalar(select(messages.c.text).where(messages.c.id == row.message_id))
    assert (row.kind, row.status) == ("summary", "queued")
    assert third.id in str(text)


@pytest.mark.parametrize("last", [RunStatus.FAILED, RunStatus.CANCELLED])
async def test_a_failure_is_announced_at_once_and_the_results_held_with_it_are_worded(
    office: FakeOffice, stored: Stored, turn: Turn, last: RunStatus
) -> None:
    good, bad = [await turn.spawn(announce="summary") for _ in range(2)]

    await office.end(good)
    await office.end(bad, status=last)

    assert await statuses(stored, good, bad) == ["held", "pending"]
    assert office.announced == [bad.id]
    assert office.woken == [(turn.conversation, turn.user.platform)]
    assert await stored.count(turns) == 1


async def test_a_lone_failure_needs_no_words(
    office: FakeOffice, stored: Stored, turn: Turn
) -> None:
    await office.end(await turn.spawn(announce="summary"), status=RunStatus.FAILED)

    assert (office.woken, await stored.count(turns)) == ([], 0)
    assert len(office.announced) == 1


async def test_a_result_is_announced_in_the_place_where_its_run_was_asked_for(
    office: FakeOffice, stored: Stored, turn: Turn
) -> None:
    run = await turn.spawn()

    await office.end(run)

    assert (await stored.read_item(run.id)).place == caller(turn.user).place


async def test_a_card_from_before_a_restart_shows_the_end(
    office: FakeOffice, stored: Stored, alice: Identity
) -> None:
    run = await stored.run(alice, status="running", attempt=1, card_message_id="card-7")

    await office.endings.end(run, Outcome(status=RunStatus.LOST), attempt=None)

    assert office.cards[-1].status is RunStatus.LOST
    assert office.cards[-1].message_id == "card-7"
    assert office.cards[-1].owner == alice


async def test_no_card_is_made_for_a_run_that_had_none(
    office: FakeOffice, stored: Stored, alice: Identity
) -> None:
    run = await stored.run(alice, status="running", attempt=1)

    await office.endings.end(run, Outcome(status=RunStatus.LOST), attempt=None)

    assert office.cards == []

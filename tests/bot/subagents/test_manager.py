"""The manager lets runs in within the caps, whoever asks at once, and its owner reaches each."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import select

from bot.errors import (
    BadRequestError,
    LimitReachedError,
    NotAllowedError,
    NotFoundError,
)
from bot.events import RunCancelled, RunSpawned
from bot.subagents.requests import PRIVATE, RunRequest
from bot.values import Identity, Place, Role, RunStatus, short
from db import run_messages, whiteboard
from db.database import Database, DatabaseSettings
from db.tables import audit, outbox, subagent_runs, users
from db.tables import whiteboard as board
from tests.fakes.clock import FakeClock
from tests.fakes.office import FakeOffice, caller, limits, model_of
from tests.fakes.stored import Stored
from tests.fakes.watched_database import WatchedDatabase

HOUR = 3600


@pytest.fixture
async def database(database_settings: DatabaseSettings) -> AsyncIterator[WatchedDatabase]:
    # One connection: a transaction inside a transaction would wait for itself.
    one = database_settings.model_copy(update={"pool_size": 1})
    async with WatchedDatabase.open(one) as opened:
        yield opened
        assert opened.connections_in_use() == 0, "A connection was not given back."


@pytest.fixture
async def stored(database: Database, clock: FakeClock, alice: Identity, bob: Identity) -> Stored:
    stored = Stored(database, clock)
    await stored.person(alice)
    await stored.person(bob)
    return stored


@pytest.fixture
def office(database: Database, clock: FakeClock, stored: Stored) -> FakeOffice:
    return FakeOffice(database, limits(per_user=2, everyone=3, queued=2), clock)


# -- letting in ------------------------------------------------------------------------------------


async def test_a_run_that_is_let_in_is_stored_told_and_handed_to_the_engine(
    office: FakeOffice, alice: Identity
) -> None:
    asked = await office.ask(alice, "Count\0 sheep", label="flock", whiteboard={"a\0": "b\ud800"})

    run = await office.read(asked.run)
    assert (run.status, run.number, run.task) == (RunStatus.ACCEPTED, 1, "Count\ufffd sheep")
    assert asked.position is None
    assert office.admitted == [run.id]
    assert [card.run_id for card in office.cards] == [run.id]
    assert [type(event) for event in office.events] == [RunSpawned]
    async with office.database.snapshot() as tx:
        (entry,) = await whiteboard.entries(tx, run.id)
    assert (entry.key, entry.preview) == ("a\ufffd", "b\ufffd")


async def test_runs_wait_in_line_when_the_slots_are_taken_and_are_refused_when_the_line_is_full(
    office: FakeOffice, alice: Identity, bob: Identity
) -> None:
    for _ in range(2):
        await office.spawn(alice)
    positions = [(await office.ask(alice)).position for _ in range(2)]

    with pytest.raises(LimitReachedError, match=r"2 of 2 are waiting") as caught:
        await office.spawn(alice)
    await office.spawn(bob)
    other = await office.ask(bob)

    assert caught.value.limit == "subagents.max_queued_per_user"
    assert positions == [1, 2]
    assert len(office.admitted) == 3
    assert (other.run.status, other.position) == (RunStatus.QUEUED, 1)


async def test_the_rate_counts_what_was_let_in_within_the_window_and_says_when_to_ask_again(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    office = FakeOffice(database, limits(per_user=9, queued=0, rate=3), clock)
    for _ in range(3):
        await office.end(await office.spawn(alice))
        clock.advance(60)

    with pytest.raises(LimitReachedError, match="3 of 3 runs in the last 1 h") as caught:
        await office.spawn(alice)
    await office.spawn(bob)
    clock.advance(caught.value.retry_after_seconds or 0)
    await office.spawn(alice)
    with pytest.raises(LimitReachedError):
        await office.spawn(alice)

    assert caught.value.retry_after_seconds == HOUR - 180


async def test_a_refused_request_leaves_nothing_behind(
    office: FakeOffice, stored: Stored, alice: Identity
) -> None:
    for _ in range(4):
        await office.spawn(alice)
    before = await stored.counts([subagent_runs, board, outbox])
    events = len(office.events)

    with pytest.raises(LimitReachedError):
        await office.spawn(alice, whiteboard={"a": "b"})
    with pytest.raises(LimitReachedError):
        await office.manager.delegate(RunRequest(task="Now"), caller(alice))

    assert await stored.counts([subagent_runs, board, outbox]) == before
    assert len(office.events) == events
    async with office.database.snapshot() as tx:
        counter = select(users.c.run_counter).where(users.c.id == alice.key)
        assert await tx.scalar(counter) == 4


async def test_a_run_whose_whiteboard_cannot_be_written_is_not_let_in(
    office: FakeOffice, stored: Stored, alice: Identity
) -> None:
    with pytest.raises(BadRequestError):
        await office.spawn(alice, whiteboard={"fine": "a", "\u200b ": "no key"})

    assert await stored.counts([subagent_runs, board]) == {"subagent_runs": 0, "whiteboard": 0}
    assert (office.admitted, office.cards, office.events) == ([], [], [])


@pytest.mark.parametrize("when", ["begin", "commit"])
async def test_a_run_that_the_database_did_not_take_is_told_to_nobody(
    office: FakeOffice, database: WatchedDatabase, stored: Stored, alice: Identity, when: str
) -> None:
    database.fail_next(ConnectionError("gone"), when="begin" if when == "begin" else "commit")

    with pytest.raises(ConnectionError):
        await office.spawn(alice)

    assert await stored.count(subagent_runs) == 0
    assert (office.admitted, office.cards, office.events) == ([], [], [])


async def test_a_call_that_is_made_again_after_a_crash_means_the_same_run(
    office: FakeOffice, stored: Stored, alice: Identity
) -> None:
    asker = caller(alice, batch_id="turn", call_key=("turn", "1.0"))
    first = await office.ask(alice, "one", caller=asker)

    again = await office.ask(alice, "one", caller=asker)
    await office.end(first.run)
    over = await office.ask(alice, "one", caller=asker)

    assert (again.run.id, again.new) == (first.run.id, False)
    assert (over.run.id, over.run.status) == (first.run.id, RunStatus.COMPLETED)
    assert await stored.count(subagent_runs) == 1
    assert len(office.admitted) == 1


async def test_two_calls_for_the_same_thing_in_one_turn_are_one_run_while_it_goes_on(
    office: FakeOffice, alice: Identity, bob: Identity
) -> None:
    def call(number: int, turn: str = "turn") -> dict[str, object]:
        return {"caller": caller(alice, batch_id=turn, call_key=(turn, str(number)))}

    first = await office.ask(alice, "one", **call(1))
    same = await office.ask(alice, " one ", **call(2))
    other = await office.ask(alice, "two", **call(3))
    third = await office.ask(alice, "one", **call(4, "another turn"))
    await office.end(first.run)
    later = await office.ask(alice, "one", **call(5))

    ids = [asked.run.id for asked in (first, same, other, third, later)]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 4
    assert same.new is False
    # A command belongs to no turn: each one is meant.
    assert (await office.spawn(bob, "one")).id != (await office.spawn(bob, "one")).id


async def test_a_repeated_call_is_answered_even_when_the_caps_are_reached(
    office: FakeOffice, alice: Identity
) -> None:
    askers = [caller(alice, call_key=("turn", str(number))) for number in range(4)]
    asked = [await office.ask(alice, caller=asker) for asker in askers]

    again = [await office.ask(alice, caller=asker) for asker in askers]

    assert [each.run.id for each in again] == [each.run.id for each in asked]
    assert [each.position for each in again] == [None, None, 1, 2]


async def test_a_run_cannot_start_runs_and_nobody_can_when_they_are_switched_off(
    office: FakeOffice, database: Database, clock: FakeClock, alice: Identity
) -> None:
    run = await office.spawn(alice)
    off = FakeOffice(database, limits(enabled=False), clock)

    for depth in (0, 1):
        with pytest.raises(NotAllowedError, match="cannot start subagents"):
            await office.ask(alice, caller=caller(alice, run_id=run.id, depth=depth))
    with pytest.raises(NotAllowedError, match="switched off"):
        await off.spawn(alice)


# -- delegating ------------------------------------------------------------------------------------


async def test_a_delegated_task_is_worked_off_in_place_and_its_result_is_wrapped(
    office: FakeOffice, stored: Stored, alice: Identity
) -> None:
    async def work(run_id: str) -> None:
        run = await stored.read_run(run_id)
        assert (run.status, run.mode) == (RunStatus.ACCEPTED, "sync")
        await office.end(run, "<b>42</b>")

    office.work = work

    result = await office.manager.delegate(RunRequest(task="Add up"), caller(alice))

    assert "<subagent_result" in result
    assert "&lt;b&gt;42&lt;/b&gt;" in result
    # Nobody is told of it but the one who waits.
    assert (office.admitted, office.announced, office.woken, office.cards) == ([], [], [], [])
    assert await stored.count(outbox) == 0


async def test_a_delegated_task_never_waits_in_line(office: FakeOffice, alice: Identity) -> None:
    for _ in range(2):
        await office.spawn(alice)

    with pytest.raises(LimitReachedError, match="use sessions_spawn") as caught:
        await office.manager.delegate(RunRequest(task="Now"), caller(alice))

    assert caught.value.limit == "subagents.max_concurrent_per_user"


async def test_the_same_task_delegated_twice_at_once_is_worked_off_by_each_caller(
    office: FakeOffice, stored: Stored, alice: Identity
) -> None:
    async def work(run_id: str) -> None:
        await office.end(await stored.read_run(run_id), f"by {run_id}")

    office.work = work

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                office.manager.delegate(
                    RunRequest(task="Add up"),
                    caller(alice, batch_id="turn", call_key=("turn", f"1.{number}")),
                )
            )
            for number in range(2)
        ]

    assert len({task.result() for task in tasks}) == 2


async def test_a_delegated_task_that_was_left_half_done_says_so(
    office: FakeOffice, alice: Identity
) -> None:
    with pytest.raises(BadRequestError, match="interrupted"):
        await office.manager.delegate(RunRequest(task="Add up"), caller(alice))


# -- sending ---------------------------------------------------------------------------------------


async def test_a_message_waits_for_the_next_step_of_its_run(
    office: FakeOffice, alice: Identity
) -> None:
    run = await office.spawn(alice, label="flock")
    asker = caller(alice, call_key=("turn", "1.0"))

    for _ in range(2):
        said = await office.manager.send("flock", " Hurry\0 up ", asker)

    assert said.startswith("Queued for “flock”")
    async with office.database.snapshot() as tx:
        assert [text for _, text in await run_messages.unread(tx, run.id)] == ["Hurry\ufffd up"]


async def test_a_message_written_from_private_material_makes_its_run_private(
    office: FakeOffice, alice: Identity
) -> None:
    run = await office.spawn(alice, label="flock")

    await office.manager.send("flock", "Hurry", model_of(alice, call_key=("turn", "1.0")))
    before = (await office.read(run)).metadata
    knows = model_of(alice, call_key=("turn", "1.1"), private=True)
    await office.manager.send("flock", "The code is 4711", knows)

    after = (await office.read(run)).metadata
    assert (before.get(PRIVATE), after) == (None, {**before, PRIVATE: True})


async def test_a_message_to_a_run_that_is_over_is_not_taken(
    office: FakeOffice, alice: Identity
) -> None:
    run = await office.spawn(alice)
    await office.end(run)

    said = await office.manager.send("#1", "Too late", caller(alice))

    assert "is over (completed)" in said
    async with office.database.snapshot() as tx:
        assert await run_messages.of_run(tx, run.id) == []


async def test_a_message_without_words_or_with_too_many_is_refused(
    office: FakeOffice, alice: Identity
) -> None:
    await office.spawn(alice)

    for text in ("", " \u200b\n", "x" * 4001):
        with pytest.raises(BadRequestError, match="1 to 4,000 characters"):
            await office.manager.send("last", text, caller(alice))


# -- stopping --------------------------------------------------------------------------------------


async def test_a_run_that_has_not_begun_is_over_when_stop_returns_and_the_next_one_is_let_in(
    office: FakeOffice, alice: Identity
) -> None:
    first, second, third = [await office.spawn(alice) for _ in range(3)]

    (stopped,) = await office.manager.stop(short(first.id), caller(alice))
    again = await office.manager.stop(first.id, caller(alice))

    assert (stopped.status, again) == (RunStatus.CANCELLED, [])
    assert office.admitted == [first.id, second.id, third.id]
    assert office.announced == [first.id]
    assert RunCancelled in {type(event) for event in office.events}


async def test_a_run_at_work_in_this_process_is_cancelled_at_once(
    office: FakeOffice, alice: Identity
) -> None:
    run = await office.begin(await office.spawn(alice))
    begun = asyncio.Event()

    async def work() -> None:
        office.active.enter(run.id)
        begun.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        task = group.create_task(work())
        await begun.wait()
        (stopped,) = await office.manager.stop("last", caller(alice))

    assert task.cancelled()
    assert stopped.status is RunStatus.RUNNING
    assert (await office.read(run)).cancel_requested_at is not None


async def test_stop_all_stops_everything_of_this_user_and_nothing_of_others(
    office: FakeOffice, alice: Identity, bob: Identity
) -> None:
    mine = [await office.spawn(alice) for _ in range(4)]
    theirs = await office.spawn(bob)
    begun = await office.begin(mine[0])

    stopped = await office.manager.stop(" ALL ", caller(alice))

    assert {run.id for run in stopped} == {run.id for run in mine}
    states = [(await office.read(run)).status for run in mine]
    assert states == [RunStatus.RUNNING, *[RunStatus.CANCELLED] * 3]
    assert (await office.read(begun)).cancel_requested_at is not None
    assert (await office.read(theirs)).cancel_requested_at is None
    assert await office.manager.stop("all", caller(bob, role=Role.OPERATOR)) != []


async def test_nobody_stops_or_reaches_the_run_of_another_and_is_told_the_same_as_for_none(
    office: FakeOffice, alice: Identity, bob: Identity
) -> None:
    run = await office.spawn(alice, label="secret")

    for handle in (run.id, short(run.id), "secret", "#1", "last", "x" * 1000, "\0"):
        for refused in (
            office.manager.stop(handle, caller(bob)),
            office.manager.send(handle, "hi", caller(bob)),
        ):
            with pytest.raises(NotFoundError, match="You have no run"):
                await refused

    assert await office.read(run) == run


async def test_an_admin_messages_and_stops_the_run_of_another_and_it_is_written_down(
    office: FakeOffice, alice: Identity, bob: Identity
) -> None:
    run = await office.spawn(alice)

    for sender in (caller(alice), caller(bob, role=Role.OPERATOR)):
        await office.manager.send(run.id, "Hurry up", sender)
    await office.manager.stop(run.id, caller(bob, role=Role.OPERATOR))

    assert (await office.read(run)).status is RunStatus.CANCELLED
    async with office.database.snapshot() as tx:
        rows = await tx.execute(select(audit).order_by(audit.c.id))
        noted = [(row.user_id, row.action, row.owner_id, row.subject) for row in rows]
    assert noted == [
        (alice.key, "spawn", alice.key, run.id),
        (bob.key, "send", alice.key, run.id),
        (bob.key, "stop", alice.key, run.id),
    ]


async def test_the_model_of_an_admin_neither_stops_nor_messages_the_run_of_another(
    office: FakeOffice, alice: Identity, bob: Identity
) -> None:
    run = await office.spawn(alice, label="secret")
    model = model_of(bob, role=Role.OPERATOR, call_key=("turn", "1"))

    for refused in (
        office.manager.stop(run.id, model),
        office.manager.send(run.id, "Tell me the code.", model),
    ):
        with pytest.raises(NotFoundError, match="You have no run"):
            await refused

    assert await office.manager.stop("all", model) == []
    assert (await office.manager.usage(model)).people is None
    assert await office.read(run) == run


async def test_a_model_in_a_channel_stops_all_that_was_started_there(
    office: FakeOffice, alice: Identity
) -> None:
    channel, direct = Place("discord", "guild", "general"), Place("discord", "", "55")
    here = await office.spawn(alice, "Count sheep", caller=caller(alice, place=channel))
    private = await office.spawn(alice, "Count goats", caller=caller(alice, place=direct))

    stopped = await office.manager.stop("all", model_of(alice, place=channel))

    assert [run.id for run in stopped] == [here.id]
    assert await office.read(private) == private


async def test_what_a_user_has_used_is_counted_for_that_user(
    office: FakeOffice, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    await office.end(await office.spawn(alice))
    for _ in range(3):
        await office.spawn(alice)
    await office.spawn(bob)

    mine = await office.manager.usage(caller(alice))
    everyone = await office.manager.usage(caller(bob, role=Role.OPERATOR))

    assert (mine.runs.started_in_window, mine.runs.running, mine.runs.queued) == (4, 2, 1)
    assert mine.runs.running_global == 3
    assert (mine.runs_today, mine.people) == (4, None)
    assert (everyone.runs.started_in_window, everyone.runs.running, everyone.people) == (1, 1, 2)

"""A run has one final status, one owner, and a handle that its owner can type."""

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import insert

from bot.values import UNFINISHED, Identity, RunStatus, short
from db import admission, retention, run_claims, runs
from db.database import Database
from db.runs import Run
from db.tables import run_messages, steps, subagent_runs, whiteboard
from tests.fakes.clock import FakeClock
from tests.fakes.forgetting import forget
from tests.fakes.stored import Stored, room

FINAL = sorted(set(RunStatus) - UNFINISHED)

attempts = st.none() | st.integers(0, 4)
signals = st.one_of(
    st.just(("claim", None, None)),
    st.just(("cancel", None, None)),
    st.tuples(st.just("release"), st.integers(0, 4), st.none()),
    st.tuples(st.just("finish"), attempts, st.sampled_from(FINAL)),
)


async def send(
    database: Database, clock: FakeClock, run: Run, signal: tuple[str, Any, Any]
) -> Run | None:
    """Let one signal reach a run, and return the run if it was heard."""
    name, attempt, status = signal
    clock.advance(1)
    async with database.transaction() as tx:
        match name:
            case "claim":
                return await run_claims.claim(tx, run.id, worker_id="w", reserve=10, now=clock())
            case "cancel":
                return await runs.request_cancel(tx, run.id, by="someone", now=clock())
            case "release":
                await run_claims.release(tx, run.id, attempt, clock())
                return None
            case _:
                values = {"status": str(status), "result": f"by {attempt}"}
                return await runs.finish(tx, run.id, values, attempt=attempt, now=clock())


@settings(max_examples=20)  # Each makes many transactions.
@given(order=st.lists(signals, max_size=12), last=st.sampled_from(FINAL))
async def test_a_run_gets_one_final_status_whatever_signals_come_in_whatever_order(
    database: Database,
    clock: FakeClock,
    stored: Stored,
    order: list[tuple[str, Any, Any]],
    last: RunStatus,
) -> None:
    run = await stored.run(await stored.somebody())
    first_end: Run | None = None
    attempt = 0

    for signal in [*order, ("finish", None, last), *order]:
        heard = await send(database, clock, run, signal)
        now = await stored.read_run(run.id)
        if first_end is not None:
            assert heard is None
            assert now == first_end
        elif signal[0] == "finish":
            assert (heard is not None) == (signal[1] in {None, attempt})
            first_end = heard
        elif signal[0] == "claim":
            attempt += 1
            assert heard is not None
            assert heard.attempt == attempt

    assert first_end is not None
    assert first_end.status.final
    assert first_end.completed_at is not None


async def test_only_the_attempt_that_has_a_run_can_end_it(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    run = await stored.run(alice)
    await send(database, clock, run, ("claim", None, None))
    await send(database, clock, run, ("claim", None, None))

    stale = await send(database, clock, run, ("finish", 1, RunStatus.COMPLETED))
    fresh = await send(database, clock, run, ("finish", 2, RunStatus.FAILED))

    assert stale is None
    assert fresh is not None
    assert (fresh.status, fresh.result) == (RunStatus.FAILED, "by 2")


async def test_a_queued_run_cannot_begin(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    run = await stored.run(alice, status="queued")

    assert await send(database, clock, run, ("claim", None, None)) is None
    assert await stored.read_run(run.id) == run


async def test_the_call_under_way_when_an_attempt_was_cut_off_is_charged_and_that_alone_is_no_crash(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    run = await stored.run(alice, input_tokens=100)
    first = await send(database, clock, run, ("claim", None, None))

    second = await send(database, clock, run, ("claim", None, None))

    assert first is not None
    assert second is not None
    assert (first.input_tokens, first.crashes) == (100, 0)
    assert (second.input_tokens, second.reserved_tokens, second.crashes) == (110, 10, 0)
    assert second.started_at == first.started_at


async def test_a_run_left_in_good_order_is_charged_nothing_and_counts_no_crash(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    run = await stored.run(alice)
    await send(database, clock, run, ("claim", None, None))
    await send(database, clock, run, ("claim", None, None))
    await send(database, clock, run, ("release", 2, None))

    third = await send(database, clock, run, ("claim", None, None))

    assert third is not None
    assert (third.input_tokens, third.crashes, third.attempt) == (10, 0, 3)


async def test_a_stop_is_seen_by_whoever_works_on_the_run_until_it_is_over(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    wanted, other = await stored.run(alice), await stored.run(alice)
    await send(database, clock, wanted, ("cancel", None, None))

    async with database.transaction() as tx:
        seen = await runs.cancel_requested(tx, [wanted.id, other.id])
        await runs.finish(tx, wanted.id, {"status": "cancelled"}, attempt=None, now=clock())
        later = await runs.cancel_requested(tx, [wanted.id, other.id])

    assert (seen, later) == ([wanted.id], [])


# -- finding -------------------------------------------------------------------------------------


async def found(database: Database, handle: str, user: Identity | None) -> list[Run]:
    async with database.snapshot() as tx:
        return await runs.find(tx, handle, user_id=user.key if user else None)


async def test_a_run_is_found_by_the_beginning_of_its_id_however_it_is_typed(
    database: Database, stored: Stored, alice: Identity
) -> None:
    run = await stored.run(alice, id="abcdef01-2345-4789-8abc-def012345678")
    await stored.run(alice, id="fedcba98-7654-4321-8abc-def012345678")

    for handle in (
        run.id,
        run.id.upper(),
        run.id.replace("-", ""),
        short(run.id),
        "ABCDEF01-23",
        "abcdef0123",
        "a",
    ):
        assert await found(database, handle, alice) == [run]


async def test_a_run_is_found_by_its_number_as_last_and_by_its_label(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    older = await stored.run(alice, number=7, label="Berlin weather")
    clock.advance(1)
    newer = await stored.run(alice, number=8, label="Paris weather")

    assert await found(database, "#7", alice) == [older]
    assert await found(database, "last", alice) == [newer]
    assert await found(database, "LAST", alice) == [newer]
    assert await found(database, "berlin WEATHER", alice) == [older]
    assert await found(database, "Paris", alice) == [newer]
    assert await found(database, "weather", alice) == [newer, older]


async def test_a_label_typed_in_full_comes_before_labels_that_only_contain_it(
    database: Database, stored: Stored, alice: Identity
) -> None:
    for label in ("weather", "ÄPFEL"):
        exact = await stored.run(alice, label=label)
        await stored.run(alice, label=f"{label} in Paris")

        assert await found(database, label, alice) == [exact]


async def test_signs_that_a_search_could_take_for_more_mean_themselves(
    database: Database, stored: Stored
) -> None:
    for handle in ("%", "_", "100%", "a_b", "\\", "\\%", "[a-z]", "*", "'", "/", "/%"):
        person = await stored.somebody()
        await stored.run(person, label="axb is 1000 done")
        literal = await stored.run(person, label=f"so {handle} it is")

        assert await found(database, handle, person) == [literal], handle


async def test_a_handle_that_means_nothing_finds_nothing(
    database: Database, stored: Stored, alice: Identity
) -> None:
    await stored.run(alice)

    for handle in ("#0", "#9999999999", "#" + "9" * 5000, "#", "-", "x" * 60_000):
        assert await found(database, handle, alice) == []


async def test_nobody_finds_the_run_of_another_unless_everyones_are_asked_for(
    database: Database, stored: Stored, alice: Identity, bob: Identity
) -> None:
    run = await stored.run(alice, number=1, label="secret")
    mine = await stored.run(bob, number=1, label="mine")

    for handle in (run.id, short(run.id), "secret", "sec"):
        assert await found(database, handle, bob) == []
        assert await found(database, handle, None) == [run]
    assert await found(database, "#1", bob) == [mine]
    assert await found(database, "last", bob) == [mine]


async def test_a_run_finds_only_the_runs_that_it_asked_for(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    parent = await stored.run(alice)
    child = await stored.run(alice, parent_run_id=parent.id)
    over = await stored.run(
        alice, parent_run_id=parent.id, label="over", status="failed", completed_at=clock()
    )
    for _ in range(10):
        clock.advance(1)
        await stored.run(alice)
        await stored.run(alice, status="failed", completed_at=clock())

    async with database.snapshot() as tx:
        for handle in ("sheep", short(child.id), f"#{child.number}"):
            assert await runs.find(tx, handle, user_id=alice.key, parent=parent.id) == [child]
        assert await runs.find(tx, "last", user_id=alice.key, parent=parent.id) == [over]
        assert await runs.find(tx, parent.id, user_id=alice.key, parent=parent.id) == []
        assert await runs.active(tx, alice.key, parent=parent.id, limit=1) == [child]
        since = over.created_at - timedelta(1)
        ended = await runs.ended_since(tx, alice.key, since, limit=1, parent=parent.id)
        assert ended == [over]


async def test_of_runs_with_one_label_the_one_that_goes_on_is_meant(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    going = await stored.run(alice)
    for _ in range(8):
        clock.advance(1)
        await stored.run(alice, status="completed", completed_at=clock())

    assert await found(database, "sheep", alice) == [going]


# -- lists ---------------------------------------------------------------------------------------


async def test_lists_hold_a_users_own_runs_newest_first(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity, bob: Identity
) -> None:
    begin = clock()
    ended = await stored.run(alice, status="completed", completed_at=clock() + timedelta(1))
    clock.advance(1)
    first = await stored.run(alice, status="queued")
    clock.advance(1)
    second = await stored.run(alice, status="running")
    clock.advance(1)
    foreign = await stored.run(bob, status="running")

    async with database.snapshot() as tx:
        assert await runs.active(tx, alice.key) == [second, first]
        assert await runs.active(tx, None) == [foreign, second, first]
        assert await runs.ended_since(tx, alice.key, begin, limit=5) == [ended]
        assert await runs.ended_since(tx, bob.key, begin, limit=5) == []
        assert await runs.newest(tx, alice.key, limit=5) == [second, first, ended]
        assert await runs.newest(tx, alice.key, limit=2) == [second, first]
        assert await runs.get_many(tx, []) == []
        assert sorted(run.number for run in await runs.get_many(tx, [first.id, ended.id])) == [1, 2]


async def test_only_background_runs_that_wait_too_long_are_handed_over_again(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    late = await stored.run(alice)
    delegated = await stored.run(alice, mode="sync")
    await stored.run(alice, status="queued")
    begun = await stored.run(alice, status="running")
    clock.advance(60)
    await stored.run(alice)

    async with database.snapshot() as tx:
        assert await runs.admitted(tx, before=clock()) == [late]
        assert await admission.admitted_sync(tx) == [delegated]
        assert await runs.unfinished(tx, before=clock()) == [begun]


async def test_tokens_are_summed_per_user_from_a_moment_on(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity, bob: Identity
) -> None:
    await stored.run(alice, input_tokens=1000)
    since = clock()
    clock.advance(1)
    await stored.run(alice, input_tokens=10, output_tokens=5, discounted_tokens=7)
    await stored.run(alice, input_tokens=1)
    await stored.run(bob, input_tokens=100)

    async with database.snapshot() as tx:
        assert await admission.tokens_since(tx, alice.key, since) == (16, 9, 2)


async def test_a_transcript_is_empty_until_the_run_is_over(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    run = await stored.run(alice)
    async with database.transaction() as tx:
        assert await runs.transcript(tx, run.id) == []
        values = {"status": "completed", "transcript": [{"kind": "user", "text": "hi"}]}
        await runs.finish(tx, run.id, values, attempt=None, now=clock())
        assert await runs.transcript(tx, run.id) == [{"kind": "user", "text": "hi"}]


# -- forgetting ----------------------------------------------------------------------------------


async def test_old_runs_go_with_what_hangs_on_them_and_nothing_else_goes(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    going = await stored.run(alice, status="running")
    old = await stored.run(alice, status="failed", completed_at=clock())
    young = await stored.run(alice, status="failed", completed_at=clock() + timedelta(1))
    async with database.transaction() as tx:
        for run in (going, old, young):
            row = {"id": run.id, "run_id": run.id, "text": "hi", "created_at": clock()}
            await tx.execute(insert(run_messages).values(row))
            note = {"board_id": run.id, "key": "k", "value": "v", "updated_at": clock()}
            await tx.execute(insert(whiteboard).values(note))

    async with database.transaction() as tx:
        assert await forget(tx, subagent_runs, clock() + timedelta(hours=1)) == 1

    async with database.snapshot() as tx:
        assert await runs.get(tx, old.id) is None
    counts = await stored.counts([subagent_runs, run_messages, whiteboard, steps])
    assert counts == {"subagent_runs": 2, "run_messages": 2, "whiteboard": 2, "steps": 0}
    assert await stored.read_run(going.id) == going
    assert await stored.read_run(young.id) == young


async def test_an_archived_run_leaves_short_lists_and_can_still_be_found(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    over = await stored.run(alice, status="completed", completed_at=clock())
    going = await stored.run(alice, status="running")

    async with database.transaction() as tx:
        await retention.archive(tx, clock() + timedelta(1), clock())

    async with database.snapshot() as tx:
        assert await runs.newest(tx, alice.key, limit=5) == [going]
        # The list of what ended lately too, however short the time is.
        since = clock() - timedelta(1)
        assert await runs.ended_since(tx, alice.key, since, limit=5) == []
    assert await found(database, over.id, alice) == [over]


async def test_a_run_comes_back_as_it_was_stored(stored: Stored, alice: Identity) -> None:
    values = {
        "allowed_tools": ["a", "b"],
        "blocked_tools": [],
        "metadata": {"deep": [1, None, "Straße 🙂"]},
        "parent_run_id": "00000000-0000-4000-8000-000000000001",
        "seconds_used": 1.5,
    }

    run = await stored.run(alice, **values)
    bare = await stored.run(alice)

    assert run.place == room(alice)
    assert (run.allowed_tools, run.blocked_tools) == (("a", "b"), ())
    assert bare.allowed_tools is None
    assert (run.metadata, run.parent_run_id) == (values["metadata"], values["parent_run_id"])
    assert (run.seconds_used, run.status, run.mode) == (1.5, RunStatus.ACCEPTED, "async")

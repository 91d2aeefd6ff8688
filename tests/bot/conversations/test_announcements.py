"""Announcements are tried until they arrive, at most twice when nobody knows, and then kept."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import pairwise

import pytest
from sqlalchemy import update

from bot.conversations.announcements import Announcements
from bot.errors import DeliveryError
from bot.platforms.base import Announcement, Delivered, OutgoingFile
from bot.tasks import Tasks
from bot.values import Identity
from db import deliveries, outbox, run_files
from db.database import Database, DatabaseSettings
from db.tables import outbox as outbox_table
from db.tables import subagent_runs
from tests.fakes.clock import FakeClock
from tests.fakes.outlet import FakeOutlet
from tests.fakes.stored import Stored, room
from tests.fakes.watched_database import WatchedDatabase

MINUTE = 60.0


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    tasks = Tasks()
    yield tasks
    await tasks.wait_idle(5)
    assert not len(tasks)


@pytest.fixture
def stored(database: Database, clock: FakeClock) -> Stored:
    return Stored(database, clock)


@pytest.fixture
def outlet(alice: Identity) -> FakeOutlet:
    return FakeOutlet(alice.platform)


def announcements(
    database: Database,
    clock: FakeClock,
    tasks: Tasks,
    *outlets: FakeOutlet,
    worker: str = "me",
) -> Announcements:
    by_platform = {outlet.platform: outlet for outlet in outlets}
    return Announcements(database, by_platform, tasks=tasks, worker_id=worker, now=clock)


@pytest.fixture
def said(database: Database, clock: FakeClock, tasks: Tasks, outlet: FakeOutlet) -> Announcements:
    return announcements(database, clock, tasks, outlet)


class SlowOutlet(FakeOutlet):
    """An outlet whose platform takes its time over every announcement."""

    def __init__(self, platform: str) -> None:
        super().__init__(platform)
        self.reached = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def announce(self, announcement: Announcement) -> Delivered:
        self.reached.set()
        await self.goes_on.wait()
        return await super().announce(announcement)


async def test_what_is_due_is_said_once_in_its_place(
    said: Announcements, stored: Stored, outlet: FakeOutlet, alice: Identity
) -> None:
    key = await stored.item(alice, text="Fine.")

    assert await said.deliver(key)
    assert not await said.deliver(key)

    (told,) = outlet.announcements
    item = await stored.read_item(key)
    assert (told.key, told.place, told.owner, told.text) == (key, item.place, alice, "Fine.")
    assert not told.maybe_repeated
    assert item.status == "delivered"


async def test_what_is_due_at_once_is_said_once_each(
    said: Announcements, stored: Stored, outlet: FakeOutlet, alice: Identity
) -> None:
    keys = [await stored.item(alice, text=f"Result {number}.") for number in range(5)]

    async with asyncio.TaskGroup() as group:
        sends = [group.create_task(said.deliver(key)) for key in [*keys, keys[0]]]

    assert [send.result() for send in sends] == [True] * 5 + [False]
    assert sorted(told.key for told in outlet.announcements) == sorted(keys)
    assert {(await stored.read_item(key)).status for key in keys} == {"delivered"}
    assert said.under_way == set()


async def test_the_announcement_of_a_run_that_did_not_complete_names_what_can_be_resumed(
    said: Announcements, stored: Stored, outlet: FakeOutlet, alice: Identity
) -> None:
    completed, failed = await stored.item(alice), await stored.item(alice)
    async with stored.database.transaction() as tx:
        for key, status in ((completed, "completed"), (failed, "failed")):
            this = subagent_runs.c.id == key
            await tx.execute(update(subagent_runs).where(this).values(status=status))

    for key in (completed, failed):
        await said.deliver(key)

    assert [told.resumable for told in outlet.announcements] == ["", failed]


async def test_a_failed_send_is_tried_again_after_15_s_doubling_to_5_min_for_half_an_hour(
    said: Announcements, stored: Stored, outlet: FakeOutlet, clock: FakeClock, alice: Identity
) -> None:
    key = await stored.item(alice)
    begin, tried = clock(), []

    for _ in range(100):
        outlet.fail_next("announcement", DeliveryError("The platform is down."))
        assert not await said.deliver(key)
        tried.append((clock() - begin).total_seconds())
        item = await stored.read_item(key)
        if item.status == "blocked":
            break
        clock.advance((item.due_at - clock()).total_seconds())

    waits = [later - earlier for earlier, later in pairwise(tried)]
    assert waits[:5] == [15, 30, 60, 120, 240]
    assert set(waits[5:]) == {300}
    assert 25 * MINUTE < tried[-1] <= 30 * MINUTE
    assert outlet.announcements == []
    assert await said.deliver(key) is False


async def test_a_place_that_is_gone_is_tried_once_and_the_text_is_kept(
    said: Announcements, stored: Stored, outlet: FakeOutlet, alice: Identity
) -> None:
    key = await stored.item(alice, text="Kept.")
    outlet.fail_next("announcement", DeliveryError("The room is gone.", permanent=True))

    await said.deliver(key)

    item = await stored.read_item(key)
    assert (item.status, item.attempts, item.text) == ("blocked", 1, "Kept.")


async def test_a_send_of_unknown_fate_is_repeated_once_marked_and_then_given_up(
    said: Announcements, stored: Stored, outlet: FakeOutlet, clock: FakeClock, alice: Identity
) -> None:
    key = await stored.item(alice)
    for _ in range(3):
        lost = DeliveryError("No answer.", fate_unknown=True)
        outlet.fail_next("announcement", lost, taken=True)
        await said.deliver(key)
        clock.advance(5 * MINUTE)

    assert [told.maybe_repeated for told in outlet.announcements] == [False, True]
    assert (await stored.read_item(key)).status == "blocked"


@pytest.mark.parametrize(
    ("asked", "wait"), [(90, 90), (40 * 60, 40 * 60), (7_200, 3_600), (1e15, 3_600)]
)
async def test_a_platform_that_wants_to_be_left_alone_is_for_so_long(
    said: Announcements,
    stored: Stored,
    outlet: FakeOutlet,
    clock: FakeClock,
    alice: Identity,
    asked: float,
    wait: int,
) -> None:
    key = await stored.item(alice)
    outlet.fail_next("announcement", DeliveryError("Busy.", retry_after_seconds=asked))

    await said.deliver(key)

    item = await stored.read_item(key)
    assert (item.status, item.due_at) == ("pending", clock() + timedelta(seconds=wait))


async def test_an_error_that_nobody_expected_is_a_send_of_unknown_fate(
    database: Database, stored: Stored, clock: FakeClock, tasks: Tasks, alice: Identity
) -> None:
    class BrokenOutlet(FakeOutlet):
        async def announce(self, announcement: Announcement) -> Delivered:
            await super().announce(announcement)
            raise ZeroDivisionError

    key = await stored.item(alice)
    broken = BrokenOutlet(alice.platform)
    said = announcements(database, clock, tasks, broken)

    for _ in range(3):
        await said.deliver(key)
        clock.advance(5 * MINUTE)

    assert [told.maybe_repeated for told in broken.announcements] == [False, True]


async def test_somebody_who_is_not_there_is_waited_for_however_long_it_takes(
    said: Announcements, stored: Stored, outlet: FakeOutlet, clock: FakeClock, alice: Identity
) -> None:
    first = await stored.item(alice)
    clock.advance(1)
    second = await stored.item(alice)
    outlet.absent.add(alice)
    for _ in range(3):
        for key in (first, second):
            assert not await said.deliver(key)
        await said.deliver_waiting(alice)
        clock.advance(24 * 60 * MINUTE)
    outlet.absent.clear()

    await said.deliver_waiting(alice)

    assert [told.key for told in outlet.announcements] == [first, second]
    assert (await stored.read_item(first)).attempts == 1


async def test_a_sweep_sends_what_is_due_and_what_was_held_too_long_on_its_own_platforms(
    said: Announcements,
    stored: Stored,
    outlet: FakeOutlet,
    clock: FakeClock,
    tasks: Tasks,
    alice: Identity,
    bob: Identity,
) -> None:
    held = await stored.item(alice, status="held")
    clock.advance(4 * MINUTE)
    young, due = await stored.item(alice, status="held"), await stored.item(alice)
    foreign = await stored.item(bob)
    clock.advance(2 * MINUTE)

    await said.sweep()
    await tasks.wait_idle(5)

    assert sorted(told.key for told in outlet.announcements) == sorted([held, due])
    assert (await stored.read_item(young)).status == "held"
    assert (await stored.read_item(foreign)).status == "pending"


async def test_processes_that_sweep_at_once_say_everything_once(
    database: Database,
    database_settings: DatabaseSettings,
    stored: Stored,
    outlet: FakeOutlet,
    clock: FakeClock,
    tasks: Tasks,
    alice: Identity,
) -> None:
    keys = [await stored.item(alice) for _ in range(5)]
    async with asyncio.timeout(20), Database.open(database_settings) as elsewhere:
        both = [
            announcements(database, clock, tasks, outlet, worker="w1"),
            announcements(elsewhere, clock, tasks, outlet, worker="w2"),
        ]
        for said in both * 2:
            await said.sweep()
        await tasks.wait_idle(10)

    assert sorted(told.key for told in outlet.announcements) == sorted(keys)
    assert not any(told.maybe_repeated for told in outlet.announcements)


async def test_a_send_under_way_is_not_taken_for_stuck(
    database: Database,
    database_settings: DatabaseSettings,
    stored: Stored,
    clock: FakeClock,
    tasks: Tasks,
    alice: Identity,
) -> None:
    key = await stored.item(alice)
    slow = SlowOutlet(alice.platform)

    async with (
        asyncio.timeout(20),
        WatchedDatabase.open(database_settings) as watched,
        asyncio.TaskGroup() as group,
    ):
        claimed = watched.hold_next(when="answer")
        said = announcements(watched, clock, tasks, slow)
        group.create_task(said.deliver(key))
        for moment, goes_on in (
            (claimed.reached, claimed.released),
            (slow.reached, slow.goes_on),
        ):
            await moment.wait()
            async with database.transaction() as tx:
                assert await outbox.recover(tx, ["me"], me="me", under_way=said.under_way) == 0
            assert not await said.deliver(key)
            goes_on.set()

    assert [told.maybe_repeated for told in slow.announcements] == [False]
    assert (await stored.read_item(key)).status == "delivered"
    assert not said.under_way


async def test_results_that_are_due_at_once_and_sent_together_are_not_taken_for_stuck(
    database: Database, stored: Stored, clock: FakeClock, tasks: Tasks, alice: Identity
) -> None:
    keys = [await stored.item(alice) for _ in range(2)]
    async with database.transaction() as tx:
        await tx.execute(update(outbox_table).values(batch_id="turn"))
    slow = SlowOutlet(alice.platform)
    said = announcements(database, clock, tasks, slow)

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        sends = [group.create_task(said.deliver(key)) for key in keys]
        await slow.reached.wait()
        await asyncio.wait(sends, return_when=asyncio.FIRST_COMPLETED)
        async with database.transaction() as tx:
            stuck = await outbox.recover(tx, ["me"], me="me", under_way=said.under_way)
        slow.goes_on.set()

    assert stuck == 0
    assert [told.maybe_repeated for told in slow.announcements] == [False]
    assert not said.under_way


async def test_a_process_that_was_stopped_in_a_send_does_not_cause_a_third_one(
    database: Database,
    stored: Stored,
    outlet: FakeOutlet,
    clock: FakeClock,
    tasks: Tasks,
    alice: Identity,
) -> None:
    key = await stored.item(alice)
    slow = SlowOutlet(alice.platform)
    stopped = announcements(database, clock, tasks, slow, worker="stopped")
    other = announcements(database, clock, tasks, outlet, worker="other")
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(stopped.deliver(key))
        await slow.reached.wait()
        async with database.transaction() as tx:
            await outbox.recover(tx, ["other"], me="other", under_way=other.under_way)
        assert await other.deliver(key)
        slow.fail_next("announcement", DeliveryError("Too late."), taken=True)
        slow.goes_on.set()
    clock.advance(60 * MINUTE)

    for said in (stopped, other):
        await said.sweep()
    await tasks.wait_idle(5)

    marks = [told.maybe_repeated for told in (*slow.announcements, *outlet.announcements)]
    assert marks == [False, True]


async def test_what_this_process_cannot_say_is_left_to_one_that_can(
    database: Database, stored: Stored, clock: FakeClock, tasks: Tasks, bob: Identity
) -> None:
    key = await stored.item(bob)
    deaf = announcements(database, clock, tasks, FakeOutlet("terminal"))
    right = FakeOutlet(bob.platform)

    assert not await deaf.deliver(key)
    clock.advance(15)
    assert await announcements(database, clock, tasks, right).deliver(key)

    assert [told.key for told in right.announcements] == [key]


# -- files of runs ---------------------------------------------------------------------------------

PLAN, HENS = OutgoingFile("plan.md", b"Feed"), OutgoingFile("hens.csv", b"hens,3")


async def with_files(stored: Stored, user: Identity) -> str:
    """Store an announcement of a run with two files, and return its key."""
    key = await stored.item(user, text="Fine.")
    async with stored.database.transaction() as tx:
        await run_files.add(tx, key, [PLAN, HENS], after=0)
    return key


async def test_the_files_of_a_run_follow_its_announcement_once(
    said: Announcements, stored: Stored, outlet: FakeOutlet, alice: Identity
) -> None:
    other = await with_files(stored, alice)
    key = await with_files(stored, alice)

    assert await said.deliver(key)
    assert not await said.deliver(key)

    item = await stored.read_item(key)
    assert item.status == "delivered"
    assert [told.key for told in outlet.announcements] == [key]
    assert outlet.sent_files == [(item.place, PLAN), (item.place, HENS)]
    assert outlet.repeated_files == [False]
    async with stored.database.snapshot() as tx:
        assert await run_files.of_run(tx, key) == []
        assert await run_files.exist(tx, other)


async def test_files_that_were_not_delivered_are_tried_again_without_the_text(
    said: Announcements, stored: Stored, outlet: FakeOutlet, clock: FakeClock, alice: Identity
) -> None:
    key = await with_files(stored, alice)
    outlet.fail_next("files", DeliveryError("The platform is down."))

    assert not await said.deliver(key)
    item = await stored.read_item(key)
    assert (item.status, item.text_delivered, item.first_tried_at) == ("pending", True, clock())
    clock.advance((item.due_at - clock()).total_seconds())
    assert await said.deliver(key)

    assert [told.key for told in outlet.announcements] == [key]
    assert [file for _, file in outlet.sent_files] == [PLAN, HENS]


async def test_files_whose_process_died_are_sent_once_more_marked_and_then_given_up(
    said: Announcements, stored: Stored, outlet: FakeOutlet, alice: Identity
) -> None:
    key = await with_files(stored, alice)
    async with stored.database.transaction() as tx:
        assert await deliveries.claim(tx, [key], "dead", stored.now())
        assert await outbox.follow_with_files(tx, key, ["m1"], stored.now())
        assert not await outbox.follow_with_files(tx, key, ["m2"], stored.now())
        assert await deliveries.claim(tx, [key], "dead", stored.now())
        assert await outbox.recover(tx, ["me"]) == 1

    assert await said.deliver(key)

    assert outlet.announcements == []
    assert outlet.repeated_files == [True]


async def test_files_that_a_platform_refuses_are_kept_and_can_be_retried(
    said: Announcements, stored: Stored, outlet: FakeOutlet, alice: Identity
) -> None:
    key = await with_files(stored, alice)
    outlet.fail_next("files", DeliveryError("No files here.", permanent=True))
    await said.deliver(key)
    assert (await stored.read_item(key)).status == "blocked"

    async with stored.database.transaction() as tx:
        assert await outbox.retry_blocked(tx, key, alice.key, stored.now())
    assert await said.deliver(key)

    assert [told.key for told in outlet.announcements] == [key]
    assert len(outlet.sent_files) == 2


async def test_a_reply_that_comes_late_belongs_to_no_run_and_has_no_files(
    said: Announcements, stored: Stored, outlet: FakeOutlet, alice: Identity
) -> None:
    await stored.person(alice)
    late = outbox.NewOutboxEntry(
        key="turn", user_id=alice.key, place=room(alice), run_id=None, title="", text="Late."
    )
    async with stored.database.transaction() as tx:
        await outbox.put(tx, late, stored.now())

    assert await said.deliver("turn")

    assert [told.text for told in outlet.announcements] == ["Late."]

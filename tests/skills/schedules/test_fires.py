"""Every fire is made once: across processes, crashes, down-times and refusals."""

import asyncio
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert, select

from bot.conversations.access import AccessSettings
from bot.conversations.rights import UNKNOWN
from bot.errors import NotAllowedError, UnknownRoleError
from bot.rights.effective import Rights
from bot.subagents.manager import SubagentManager
from bot.subagents.requests import Caller, RunRequest, Spawned
from bot.values import Identity, Place, RunStatus
from db import pauses
from db.database import Database, DatabaseSettings
from db.pauses import Pause
from db.schedules import Fire
from db.tables import conversations, schedule_fires, schedules, subagent_runs
from skills.schedules.fires import GIVE_UP_AFTER, OUR_FAULT, Fires
from skills.schedules.settings import ScheduleSettings
from tests.fakes.clock import FakeClock
from tests.fakes.office import FakeOffice, limits
from tests.fakes.planned import Plans

# The clock of a test begins on Saturday 21 November 2026 at 9:00, which is 10:00 in Berlin.
NINE = datetime(2026, 11, 22, 8, tzinfo=UTC)


@pytest.fixture
def plans(database: Database, clock: FakeClock) -> Plans:
    return Plans(database, clock)


class Broken(SubagentManager):
    """A manager that breaks, so many times."""

    def __init__(self, times: int, then: SubagentManager) -> None:
        super().__init__(**{each.name: getattr(then, each.name) for each in fields(then)})
        self.times = times

    async def spawn(self, request: RunRequest, caller: Caller, *, mode: str = "async") -> Spawned:
        if self.times:
            self.times -= 1
            raise RuntimeError("No room left on the device")
        return await super().spawn(request, caller, mode=mode)


async def test_what_was_planned_for_once_happens_once(plans: Plans, alice: Identity) -> None:
    planned = await plans.plan(alice, "Count sheep", at="in 2 hours", label="Sheep")

    await plans.pass_until("2026-11-21 10:59:59")
    early = len(await plans.runs())
    await plans.pass_until("2026-11-21 11:00:03")
    await plans.pass_until("2026-11-22 11:00:03")

    (run,) = await plans.runs()
    assert early == 0
    assert run.user_id == alice.key
    assert run.task == "Count sheep"
    assert run.label == "Sheep (scheduled)"
    assert run.place == planned.schedule.place
    assert (await plans.read(planned.schedule)).status == "done"


async def test_nothing_is_started_for_a_user_who_has_lost_access(
    plans: Plans, alice: Identity
) -> None:
    async def lost(_: Identity, __: Place) -> Rights:
        raise NotAllowedError("You have no access to this bot here any more.")

    planned = await plans.plan(alice, cron="0 9 * * *")
    fires = plans.fires(manager=replace(plans.office.manager, rights=lost))
    plans.clock.advance(timedelta(days=1).total_seconds())
    await fires.fire_due()

    assert await plans.runs() == []
    ((_, made),) = await plans.made()
    assert made == "refused"
    assert (await plans.read(planned.schedule)).status == "active"


@pytest.mark.parametrize(
    ("away", "made", "runs"),
    [(timedelta(minutes=20), "started", 1), (2 * GIVE_UP_AFTER, "refused", 0)],
)
async def test_a_fire_waits_for_a_platform_that_does_not_tell_the_role(
    plans: Plans, alice: Identity, away: timedelta, made: str, runs: int
) -> None:
    back = NINE + away

    async def rights(_: Identity, __: Place) -> Rights:
        if plans.clock() < back:
            raise UnknownRoleError(UNKNOWN)
        return Rights()

    await plans.plan(alice, at="2026-11-22 09:00")
    fires = plans.fires(manager=replace(plans.office.manager, rights=rights))
    plans.clock.advance((NINE - plans.clock()).total_seconds())
    for _ in range(70):
        await fires.fire_due()
        plans.clock.advance(60)

    assert [status for _, status in await plans.made()] == [made]
    assert len(await plans.runs()) == runs


async def test_a_schedule_that_is_due_during_a_pause_fires_after_it(
    plans: Plans, alice: Identity
) -> None:
    await plans.plan(alice, "Count sheep", at="in 2 hours")
    pause = Pause(user_id=alice.key, paused_by="discord::9", created_at=plans.clock())
    await plans.database.write(pauses.put, pause)

    await plans.pass_until("2026-11-21 11:30:00")
    during = len(await plans.runs())
    await plans.database.write(pauses.lift, pause.id)
    await plans.pass_until("2026-11-21 11:30:05")

    assert during == 0
    assert len(await plans.runs()) == 1


async def test_many_schedules_that_a_pause_holds_do_not_keep_others_from_firing(
    plans: Plans, alice: Identity
) -> None:
    planned = (await plans.plan(alice, at="in 1 hour")).schedule
    async with plans.database.transaction() as tx:
        row = (await tx.execute(select(schedules))).mappings().one()
        copies = [{**row, "id": f"{number:032d}", "number": number} for number in range(2, 252)]
        await tx.execute(insert(schedules), copies)
    await plans.plan(Identity("discord", "", "1002"), "Milk the cow", at="in 2 hours")
    pause = Pause(user_id=alice.key, paused_by="discord::9", created_at=plans.clock())
    await plans.database.write(pauses.put, pause)

    await plans.pass_until("2026-11-21 11:00:03")

    assert [run.task for run in await plans.runs()] == ["Milk the cow"]
    assert (await plans.read(planned)).status == "active"


async def test_a_rhythm_fires_at_each_of_its_times(plans: Plans, alice: Identity) -> None:
    await plans.plan(alice, cron="0 9 * * 1-5")

    for day in range(22, 29):
        await plans.pass_until(f"2026-11-{day} 07:59:59")
        await plans.pass_until(f"2026-11-{day} 08:00:02")
        await plans.pass_until(f"2026-11-{day} 08:00:07")

    # Sunday the 22nd and Saturday the 28th are left out.
    assert [moment.day for moment, _ in await plans.made()] == [23, 24, 25, 26, 27]
    assert len(await plans.runs()) == 5
    assert len({run.id for run in await plans.runs()}) == 5


async def test_a_run_is_told_that_it_was_scheduled_and_belongs_to_the_open_conversation(
    plans: Plans, alice: Identity
) -> None:
    await plans.plan(alice, at="in 1 hour")

    await plans.pass_until("2026-11-21 10:00:01")

    (run,) = await plans.runs()
    assert "The user scheduled this task" in run.context
    assert "Saturday 21 November 2026, 11:00 (Europe/Berlin)" in run.context
    assert "late" not in run.context
    async with plans.database.snapshot() as tx:
        (open_there,) = (await tx.scalars(select(conversations.c.id))).all()
    assert run.conversation_id == open_there


async def test_many_processes_that_look_at_once_make_one_fire(
    plans: Plans, alice: Identity
) -> None:
    await plans.plan(alice, cron="0 9 * * *")
    await plans.plan(alice, at="2026-11-22 09:00")
    plans.clock.advance((NINE - plans.clock()).total_seconds() + 1)

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(plans.fires().fire_due())

    assert len(await plans.runs()) == 2
    assert await plans.made() == [(NINE, "started"), (NINE, "started")]


async def test_processes_whose_clocks_differ_make_one_fire(plans: Plans, alice: Identity) -> None:
    await plans.plan(alice, cron="*/5 * * * *")
    ahead = FakeClock(plans.clock() + timedelta(minutes=5, seconds=2))
    behind = FakeClock(plans.clock() + timedelta(minutes=5, seconds=1))

    for clock in (ahead, behind, ahead, behind):
        await plans.fires(now=clock).fire_due()

    assert len(await plans.runs()) == 1


async def test_a_fire_whose_process_died_before_its_run_was_there_is_made_by_another(
    plans: Plans, alice: Identity
) -> None:
    planned = await plans.plan(alice, at="in 1 hour")
    plans.clock.advance(3601)
    await claim(plans, planned.schedule.id)

    await plans.fires().fire_due()
    at_once = len(await plans.runs())
    plans.clock.advance(11)
    await plans.fires().fire_due()
    await plans.fires().fire_due()

    assert at_once == 0
    assert len(await plans.runs()) == 1
    assert [status for _, status in await plans.made()] == ["started"]


async def test_a_fire_whose_process_died_after_its_run_was_there_finds_that_run(
    plans: Plans, alice: Identity
) -> None:
    planned = await plans.plan(alice, at="in 1 hour")
    await plans.pass_until("2026-11-21 10:00:01")
    async with plans.database.transaction() as tx:
        await tx.execute(schedule_fires.update().values(status="claimed", run_id=None))

    plans.clock.advance(11)
    await plans.fires().fire_due()

    assert len(await plans.runs()) == 1
    async with plans.database.snapshot() as tx:
        assert len((await tx.scalars(select(subagent_runs.c.id))).all()) == 1
        fire = (await tx.execute(select(schedule_fires))).one()
    assert (fire.status, fire.run_id) == ("started", (await plans.runs())[0].id)
    assert planned.schedule.id == fire.schedule_id


async def test_a_row_that_is_there_already_keeps_a_fire_from_being_made(
    plans: Plans, alice: Identity
) -> None:
    planned = await plans.plan(alice, cron="0 9 * * *")
    async with plans.database.transaction() as tx:
        row = {"schedule_id": planned.schedule.id, "due_at": NINE, "created_at": plans.clock()}
        await tx.execute(insert(schedule_fires).values(row | {"status": "counted"}))

    await plans.pass_until("2026-11-22 08:00:01")

    assert (await plans.runs()) == []
    assert (await plans.read(planned.schedule)).due_at == NINE + timedelta(days=1)


async def test_what_was_missed_fires_once_and_says_that_it_is_late(
    plans: Plans, alice: Identity
) -> None:
    await plans.plan(alice, cron="0 * * * *", label="News")

    await plans.pass_until("2026-11-22 06:20:00")
    await plans.pass_until("2026-11-22 06:20:05")

    (run,) = await plans.runs()
    assert run.label == "News (scheduled, 20 min late)"
    assert "It is late because the bot was down" in run.context
    assert await plans.made() == [(datetime(2026, 11, 22, 6, tzinfo=UTC), "started")]


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ({"at": "in 1 hour"}, "Ask for it again if it is still wanted."),
        ({"cron": "0 11 21 * *"}, "It fires next on Monday 21 December 2026, 11:00"),
    ],
)
async def test_what_is_more_than_a_day_late_is_skipped_and_its_user_told(
    plans: Plans, alice: Identity, when: dict[str, str], said: str
) -> None:
    await plans.plan(alice, label="News", **when)

    await plans.pass_until("2026-11-22 10:00:01")
    await plans.pass_until("2026-11-22 10:00:20")

    (item,) = await plans.told()
    assert (await plans.runs()) == []
    assert item.title == "⏱ Skipped: schedule 1 “News”"
    assert "It was due on Saturday 21 November 2026, 11:00 (Europe/Berlin)" in item.text
    assert said in item.text
    assert (item.user, item.place.channel) == (alice, "room")


async def test_a_process_makes_only_the_fires_of_its_platforms(
    plans: Plans, alice: Identity, bob: Identity
) -> None:
    await plans.plan(alice, at="in 1 hour")
    await plans.plan(bob, at="in 1 hour")

    await plans.pass_until("2026-11-21 10:00:01")
    first = [run.user_id for run in await plans.runs()]
    await plans.fires(platform="slack").fire_due()

    assert first == [alice.key]
    assert [run.user_id for run in await plans.runs()] == [alice.key, bob.key]


async def test_schedules_of_people_who_are_shut_out_do_not_fire(
    plans: Plans, alice: Identity, bob: Identity
) -> None:
    await plans.plan(alice, cron="0 * * * *")
    shut_out = AccessSettings(blocked=("discord:1001",))
    plans.clock.advance(3601)

    await plans.fires(access=shut_out).fire_due()
    then = len(await plans.runs())
    plans.clock.advance(3600)
    await plans.fires().fire_due()

    assert then == 0
    assert [status for _, status in await plans.made()] == ["blocked", "started"]
    assert plans.said == []


async def test_what_is_cancelled_or_switched_off_does_not_fire(
    plans: Plans, alice: Identity
) -> None:
    await plans.plan(alice, at="in 1 hour")
    await plans.plan(alice, cron="0 * * * *")
    await plans.cancel(1, alice)
    await plans.book.toggle(2, alice, on=False)

    await plans.pass_until("2026-11-21 12:30:00")
    off = len(await plans.runs())
    await plans.book.toggle(2, alice, on=True)
    await plans.pass_until("2026-11-21 12:30:05")
    still = len(await plans.runs())
    await plans.pass_until("2026-11-21 13:00:01")

    assert (off, still, len(await plans.runs())) == (0, 0, 1)


# -- what goes wrong -----------------------------------------------------------------------------


async def test_a_fire_past_its_owners_limits_is_refused_and_the_owner_told(
    plans: Plans, alice: Identity
) -> None:
    plans.office = FakeOffice(plans.database, limits(rate=1), plans.clock)
    await plans.plan(alice, at="in 1 hour", label="One")
    await plans.plan(alice, at="in 1 hour", label="Two")

    await plans.pass_until("2026-11-21 10:00:01")

    (item,) = await plans.told()
    assert len(await plans.runs()) == 1
    assert item.title == "🔴 Not started: schedule 2 “Two”"
    assert "You have started 1 of 1 run" in item.text
    assert [status for _, status in await plans.made()] == ["started", "refused"]


async def test_a_schedule_ends_after_so_many_failures_in_a_row_and_says_so(
    plans: Plans, alice: Identity
) -> None:
    plans.settings = ScheduleSettings(max_failures_in_a_row=3)
    planned = await plans.plan(alice, cron="0 * * * *", label="News")
    outcomes = [RunStatus.FAILED, RunStatus.COMPLETED, RunStatus.FAILED]
    outcomes += [RunStatus.TIMEOUT, RunStatus.CANCELLED, RunStatus.FAILED]

    for hour, status in enumerate(outcomes, start=10):
        assert (await plans.read(planned.schedule)).status == "active"
        await plans.pass_until(f"2026-11-21 {hour}:00:01")
        await end(plans, status)

    (item,) = await plans.told()
    ended = await plans.read(planned.schedule)
    await plans.pass_until("2026-11-21 17:00:01")
    assert (ended.status, ended.due_at) == ("failed", None)
    assert item.title == "⏹ Ended: schedule 1 “News”"
    assert "It failed 3 times in a row" in item.text
    assert len(await plans.runs()) == len(outcomes)


async def test_a_failure_is_counted_once_whoever_looks(plans: Plans, alice: Identity) -> None:
    planned = await plans.plan(alice, cron="0 * * * *")
    await plans.pass_until("2026-11-21 10:00:01")
    await plans.office.end((await plans.runs())[-1], status=RunStatus.FAILED)
    await plans.deliver_all()

    async with asyncio.TaskGroup() as group:
        for _ in range(6):
            group.create_task(plans.fires().fire_due())

    assert (await plans.read(planned.schedule)).failures == 1


async def test_refusals_count_as_failures(plans: Plans, alice: Identity) -> None:
    plans.settings = ScheduleSettings(max_failures_in_a_row=2)
    plans.office = FakeOffice(plans.database, limits(rate=1, enabled=False), plans.clock)
    planned = await plans.plan(alice, cron="0 * * * *")

    for hour in (10, 11, 12):
        await plans.pass_until(f"2026-11-21 {hour}:00:01")

    titles = [item.title.partition(":")[0] for item in await plans.told()]
    assert titles == ["🔴 Not started", "🔴 Not started", "⏹ Ended"]
    assert (await plans.read(planned.schedule)).status == "failed"


async def test_results_that_reach_nobody_end_a_schedule(plans: Plans, alice: Identity) -> None:
    plans.settings = ScheduleSettings(max_failures_in_a_row=1)
    planned = await plans.plan(alice, cron="0 * * * *")
    await plans.pass_until("2026-11-21 10:00:01")
    await plans.office.end((await plans.runs())[-1])

    await plans.fires().fire_due()
    while_it_is_sent = await plans.read(planned.schedule)
    await plans.deliver_all("blocked")
    await plans.fires().fire_due()

    assert while_it_is_sent.status == "active"
    assert (await plans.read(planned.schedule)).status == "failed"


async def test_what_breaks_on_our_side_is_tried_again(plans: Plans, alice: Identity) -> None:
    await plans.plan(alice, at="in 1 hour")
    fires = plans.fires(manager=Broken(2, plans.office.manager))
    plans.clock.advance(3601)

    for _ in range(3):
        await fires.fire_due()
        plans.clock.advance(11)

    assert len(await plans.runs()) == 1
    assert plans.said == []


async def test_what_stays_broken_is_given_up_and_said_so(plans: Plans, alice: Identity) -> None:
    await plans.plan(alice, at="in 1 hour")
    fires = plans.fires(manager=Broken(99, plans.office.manager))
    plans.clock.advance(3601)
    await fires.fire_due()

    plans.clock.advance(GIVE_UP_AFTER.total_seconds() + 1)
    await fires.fire_due()
    await fires.fire_due()

    (item,) = await plans.told()
    assert item.text.endswith(OUR_FAULT)
    assert [status for _, status in await plans.made()] == ["refused"]


async def test_one_schedule_that_cannot_be_read_does_not_stop_the_others(
    plans: Plans, alice: Identity
) -> None:
    broken = await plans.plan(alice, at="in 1 hour", cron="")
    await plans.plan(alice, at="in 2 hours")
    async with plans.database.transaction() as tx:
        this = schedules.update().where(schedules.c.id == broken.schedule.id)
        await tx.execute(this.values(timezone="Gone/Zone", cron="0 * * * *"))

    await plans.pass_until("2026-11-21 11:00:01")

    assert len(await plans.runs()) == 1


@pytest.mark.processes
async def test_two_processes_with_their_own_connections_make_each_fire_once(
    postgres_url: str, clock: FakeClock, alice: Identity
) -> None:
    settings = DatabaseSettings(url=postgres_url)
    async with Database.open(settings) as first, Database.open(settings) as second:
        here, there = Plans(first, clock), Plans(second, clock)
        for _ in range(10):
            await here.plan(alice, at="in 1 hour")
        clock.advance(3601)

        async with asyncio.TaskGroup() as group:
            for plans in (here, there, here, there):
                group.create_task(plans.fires().fire_due())

        everything = [run.id for plans in (here, there) for run in await plans.runs()]
        assert len(everything) == len(set(everything)) == 10


async def claim(plans: Plans, schedule_id: str) -> None:
    """Claim a fire, as a process does that dies right after."""

    class Dead(Fires):
        async def _make(self, fire: Fire) -> None:
            """Never come to it."""

    parts = {name: getattr(plans.fires(), name) for name in Fires.__dataclass_fields__}
    await Dead(**parts).fire_due()
    assert [status for _, status in await plans.made()] == ["claimed"], schedule_id


async def end(plans: Plans, status: RunStatus) -> None:
    """Let the newest run end like this, and its owner hear of it."""
    await plans.office.end((await plans.runs())[-1], status=status)
    await plans.deliver_all()
    await plans.fires().fire_due()

"""Schedules and fires as rows: who has one, who takes one, and what is forgotten when."""

from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from bot.values import Identity, Place
from db import schedules
from db.database import Database
from db.schedules import Fire, Schedule
from db.tables import schedule_fires
from db.tables import schedules as table
from tests.fakes.clock import FakeClock
from tests.fakes.forgetting import forget
from tests.fakes.rows import meet
from tests.fakes.stored import Stored

HOUR = timedelta(hours=1)


@pytest.fixture
async def owner(database: Database, alice: Identity, clock: FakeClock) -> str:
    return await meet(database, alice, clock())


async def put(database: Database, user: str, clock: FakeClock, number: int = 1) -> Schedule:
    schedule = Schedule(
        id=f"s{number}",
        user_id=user,
        place=Place("discord", "", "room", "thread", "m1"),
        number=number,
        label="News",
        task="Read the news",
        agent="general",
        cron="0 * * * *",
        timezone="Europe/Berlin",
        status="active",
        due_at=clock(),
        failures=0,
        created_at=clock(),
    )
    async with database.transaction() as tx:
        await schedules.add(tx, schedule)
    return schedule


async def take(database: Database, schedule: Schedule, clock: FakeClock) -> Fire | None:
    assert schedule.due_at is not None
    async with database.transaction() as tx:
        return await schedules.claim(
            tx,
            schedule,
            due_at=schedule.due_at,
            next_due=schedule.due_at + HOUR,
            now=clock(),
        )


async def test_a_schedule_comes_back_as_stored(
    database: Database, owner: str, bob: Identity, clock: FakeClock
) -> None:
    schedule = await put(database, owner, clock)

    async with database.snapshot() as tx:
        assert await schedules.find(tx, owner, "s1") == schedule
        assert await schedules.get(tx, owner, 1) == schedule
        assert await schedules.alive(tx, owner) == [schedule]
        assert await schedules.get(tx, bob.key, 1) is None
        assert await schedules.find(tx, bob.key, "s1") is None
        assert await schedules.alive(tx, bob.key) == []
        assert await schedules.next_number(tx, owner) == 2
        assert await schedules.newest_zone(tx, owner) == "Europe/Berlin"
        assert await schedules.newest_zone(tx, bob.key) == ""


async def test_only_what_is_due_here_and_active_is_due(
    database: Database, owner: str, clock: FakeClock
) -> None:
    for number in (1, 2, 3):
        await put(database, owner, clock, number)
    async with database.transaction() as tx:
        await schedules.pause(tx, "s2")
        await schedules.cancel(tx, "s3", clock())

    async with database.snapshot() as tx:
        due = await schedules.due(tx, ["discord"], clock())
        assert [schedule.id for schedule in due] == ["s1"]
        assert await schedules.due(tx, ["slack"], clock()) == []
        assert await schedules.due(tx, ["discord"], clock() - timedelta(seconds=1)) == []


async def test_a_fire_is_taken_once_and_the_schedule_moves_on(
    database: Database, owner: str, clock: FakeClock
) -> None:
    schedule = await put(database, owner, clock)

    first = await take(database, schedule, clock)
    second = await take(database, schedule, clock)

    assert first is not None
    assert first.due_at == schedule.due_at
    assert second is None
    async with database.snapshot() as tx:
        moved = await schedules.find(tx, owner, "s1")
    assert moved is not None
    assert moved.due_at == clock() + HOUR == first.schedule.due_at


async def test_who_read_a_schedule_before_it_moved_on_takes_no_fire_of_it(
    database: Database, owner: str, clock: FakeClock
) -> None:
    schedule = await put(database, owner, clock)
    await take(database, schedule, clock)

    async with database.transaction() as tx:
        # By a clock that is ahead, for which a later time is due as well.
        later = clock() + HOUR / 2
        stale = await schedules.claim(
            tx, schedule, due_at=later, next_due=clock() + 2 * HOUR, now=later
        )

    assert stale is None


async def test_what_was_cancelled_or_paused_meanwhile_is_not_taken(
    database: Database, owner: str, clock: FakeClock
) -> None:
    cancelled, paused = await put(database, owner, clock), await put(database, owner, clock, 2)
    async with database.transaction() as tx:
        await schedules.cancel(tx, "s1", clock())
        await schedules.pause(tx, "s2")

    assert await take(database, cancelled, clock) is None
    assert await take(database, paused, clock) is None


async def test_the_last_fire_ends_a_schedule(
    database: Database, owner: str, clock: FakeClock
) -> None:
    schedule = await put(database, owner, clock)
    async with database.transaction() as tx:
        await schedules.claim(tx, schedule, due_at=clock(), next_due=None, now=clock())

    async with database.snapshot() as tx:
        over = await schedules.find(tx, owner, "s1")
        assert over is not None
        assert (over.status, over.due_at) == ("done", None)
        assert await schedules.alive(tx, owner) == []


async def test_a_fire_is_closed_once(database: Database, owner: str, clock: FakeClock) -> None:
    fire = await take(database, await put(database, owner, clock), clock)
    assert fire is not None

    async with database.transaction() as tx:
        closed = [await schedules.close(tx, fire, "refused") for _ in range(2)]
        booked = await schedules.book(tx, fire)

    assert closed == [True, False]
    assert booked is False


async def test_what_is_over_is_forgotten_and_what_is_alive_is_not(
    database: Database, owner: str, clock: FakeClock
) -> None:
    stored = Stored(database, clock)
    alive, over = await put(database, owner, clock), await put(database, owner, clock, 2)
    for schedule in (alive, over):
        await take(database, schedule, clock)
    async with database.transaction() as tx:
        await schedules.cancel(tx, over.id, clock())

    async with database.transaction() as tx:
        early = await forget(tx, table, clock())
    kept = await stored.counts([table, schedule_fires])
    async with database.transaction() as tx:
        await forget(tx, schedule_fires, clock() + HOUR)
        forgotten = await forget(tx, table, clock() + HOUR)

    assert (early, forgotten) == (0, 1)
    assert kept == {"schedules": 2, "schedule_fires": 2}
    assert await stored.counts([table, schedule_fires]) == {"schedules": 1, "schedule_fires": 0}


async def test_a_number_is_given_once(database: Database, owner: str, clock: FakeClock) -> None:
    schedule = await put(database, owner, clock)

    with pytest.raises(IntegrityError):
        async with database.transaction() as tx:
            await schedules.add(
                tx,
                Schedule(
                    **{
                        name: getattr(schedule, name)
                        for name in Schedule.__dataclass_fields__
                        if name != "id"
                    },
                    id="other",
                ),
            )

"""Work that people have done later: in one process, in several, and over a death."""

import asyncio
from datetime import datetime, timedelta

import pytest
from sqlalchemy import func, select

from bot.values import Place, RunStatus, new_run_id, utc_now
from db import schedules
from db.database import Database, DatabaseSettings, Transaction
from db.schedules import Schedule
from db.tables import outbox, schedule_fires, subagent_runs
from db.tables import schedules as table
from tests.fakes.anthropic_server import FakeAnthropic, Reply
from tests.stories.actor import actor
from tests.stories.stage import (
    ALICE,
    PLATFORM,
    ROOM,
    Play,
    Stage,
    call,
    change,
    is_run,
    said,
    stage,
)


async def make_due(it: Stage) -> None:
    """Let the time of all schedules come, and look what is due, as upkeep does."""
    await change(it.bot, table, due_at=it.bot.upkeep.now())
    for duty in it.bot.upkeep.further():
        await duty()


async def test_what_was_planned_in_a_talk_is_done_later_and_told_in_the_same_place(
    database_url: str,
) -> None:
    play = Play(
        main=[
            call("schedule_task", task="Count the sheep", cron="0 9 * * *", label="Sheep"),
            Reply(text="Every day at nine."),
            call("schedule_list"),
            Reply(text="That one."),
        ],
        runs={"Count the sheep": [Reply(text="There are seven.")]},
    )
    place = Place(PLATFORM, "guild", "room", "thread", "m1")
    async with stage(database_url, play) as it:
        await it.say(ALICE, "Count my sheep every morning", place)
        await it.outlet.replied()

        await make_due(it)
        run = await it.ended("Count the sheep", RunStatus.COMPLETED)
        told = await it.outlet.announced(run.id)
        await it.say(ALICE, "What is planned?", place)
        await it.outlet.replied(2)

    assert told.text == "There are seven."
    assert "“Sheep (scheduled)”" in told.title
    assert told.place.thread == "thread"
    assert "The user scheduled this task" in said(
        next(body for body in play.asked if is_run(body))["messages"][0]
    )
    talk = [said(message) for message in play.asked[-1]["messages"]]
    assert any("There are seven." in text for text in talk)
    assert "1 “Sheep”, `0 9 * * *` in UTC" in talk[-1]


async def test_a_run_cannot_plan_and_has_no_memory(database_url: str) -> None:
    play = Play(
        runs={
            "Plan": [
                call("schedule_task", task="More", at="in 1 hour"),
                call("remember", text="Plan it"),
                call("recall"),
                Reply(text="I could not."),
            ]
        }
    )
    async with stage(database_url, play) as it:
        await it.command(ALICE, "/subagents spawn Plan it")
        run = await it.run_of("Plan it")
        await it.outlet.announced(run.id)

    refusals = said(play.asked[-1]["messages"][-1]), said(play.asked[-2]["messages"][-1])
    offered = {tool["name"] for tool in play.asked[0]["tools"]}
    assert all("You have no tool" in text for text in refusals)
    assert "todo_write" in offered
    assert not offered & {"schedule_task", "scheduler_toggle", "remember", "recall", "forget"}


async def test_where_it_is_switched_off_nothing_is_planned_and_nothing_fires(
    database_url: str,
) -> None:
    play = Play(main=[Reply(text="Hello.")])
    async with stage(database_url, play, schedules={"enabled": False}) as it:
        await it.say(ALICE, "Hi")
        await it.outlet.replied()

        duties = {duty.__name__ for duty in it.bot.upkeep.further()}
        assert "fire_due" not in duties
    assert "schedule_task" not in {tool["name"] for tool in play.asked[0]["tools"]}


@pytest.mark.timeout(120)
async def test_of_several_processes_one_makes_each_fire_and_tells_of_it_once(
    postgres_url: str,
) -> None:
    async with (
        FakeAnthropic(Play()) as server,
        actor(postgres_url, server.url) as first,
        actor(postgres_url, server.url),
        Database.open(DatabaseSettings(url=postgres_url)) as database,
    ):
        first.say("alice", "/subagents list")
        await first.event("answer")
        now = utc_now()
        async with database.transaction() as tx:
            for _ in range(5):
                await put(tx, now)
            # One that a process had claimed, which then died.
            lost = await put(tx, now)
            claimed_at = now - timedelta(minutes=1)
            await schedules.claim(tx, lost, due_at=now, next_due=None, now=claimed_at)
        await told_of(database, 6)

        async with database.snapshot() as tx:
            runs = await tx.scalar(select(func.count()).select_from(subagent_runs))
            tries = (await tx.scalars(select(outbox.c.attempts))).all()
            fires = (await tx.scalars(select(schedule_fires.c.status))).all()

    assert runs == 6
    assert list(tries) == [1] * 6
    assert len(fires) == 6
    assert set(fires) <= {"started", "counted"}


async def put(tx: Transaction, due_at: datetime) -> Schedule:
    """Store a schedule of Alice that is due at this time."""
    number = await schedules.next_number(tx, ALICE.key)
    schedule = Schedule(
        id=new_run_id(),
        user_id=ALICE.key,
        place=ROOM,
        number=number,
        label=f"Job {number}",
        task=f"Do job {number}",
        agent="",
        cron="",
        timezone="UTC",
        status="active",
        due_at=due_at,
        failures=0,
        created_at=due_at,
    )
    await schedules.add(tx, schedule)
    return schedule


async def told_of(database: Database, count: int) -> None:
    """Wait until so many announcements have been delivered."""
    query = select(func.count()).where(outbox.c.status == "delivered")
    async with asyncio.timeout(60):
        while True:
            async with database.snapshot() as tx:
                if await tx.scalar(query) == count:
                    return
            await asyncio.sleep(0.2)

"""Whatever is done again and again finds its rows by an index, however large a table has grown."""

from datetime import timedelta
from typing import Any

from sqlalchemy import Table, UniqueConstraint

from bot.subagents.limits import SubagentSettings
from bot.values import utc_now
from db import commands, conversations, turns, workers
from db.database import Database, DatabaseSettings
from db.tables import metadata
from tests.fakes.anthropic_server import Reply
from tests.fakes.history import History
from tests.fakes.plans import Statements
from tests.stories.stage import ALICE, PLATFORM, ROOM, Play, Stage, call, stage

#: Tables that do not grow with the use of the bot, or lose a row as soon as it is dealt with.
SMALL = frozenset(
    {
        "alembic_version",
        "commands",
        "holds",
        "listeners",
        "mcp_pins",
        "pauses",
        "reservations",
        "slack_installs",
        "slack_states",
        "workers",
    }
)
#: Under a hold, old rows stay.
HOLDS = frozenset({"holds", "held_copies"})
OLD = timedelta(days=400)
#: Histories of work that is not over, by name.
UNFINISHED: dict[str, dict[str, Any]] = {
    "queued": {"subagent_runs_status": "queued", "turns_status": "queued"},
    "going": {"subagent_runs_status": "running", "turns_status": "running"},
    "ready": {"subagent_runs_status": "waiting_input", "run_questions_status": "open"},
    "admitted": {"subagent_runs_status": "accepted", "outbox_status": "pending"},
    "held": {"outbox_status": "held", "approvals_status": "open"},
    "sending": {"outbox_status": "sending", "schedule_fires_status": "started"},
    "due": {"schedules_status": "active", "schedule_fires_status": "claimed"},
}


async def fill(url: str) -> None:
    """Store old rows of every kind, some of them of work that is not over."""
    then = utc_now() - OLD
    async with Database.open(DatabaseSettings(url=url)) as database:
        await History(database, "over", then).store(without=HOLDS)
        await History(database, "gone", then).store(
            without=HOLDS | {"notes", "memories", "pairings"}
        )
        for name, changed in UNFINISHED.items():
            values = dict(changed)
            if "subagent_runs_status" in values:
                values |= {"subagent_runs_completed_at": None, "turns_ended_at": None}
            await History(database, name, then).store(without=HOLDS, **values)


async def work(it: Stage) -> None:
    """Let a turn, a delegated task, and runs of every kind of announcement be worked on."""
    await it.say(ALICE, "Count the sheep")
    await it.outlet.replied()
    for task in ("spawn --label one Work on it", "spawn --label two Work on it too"):
        await it.command(ALICE, f"/subagents {task}")
        run = await it.run_of("Work on it")
        await it.outlet.announced(run.id)
    await it.command(ALICE, "/subagents list")


async def duties(it: Stage) -> None:
    """Do everything that is done at regular times, and after each connection to a platform."""
    upkeep, now = it.bot.upkeep, it.bot.upkeep.now()
    await upkeep.beat()
    await upkeep.poll()
    await upkeep.recover()
    await upkeep.sweep()
    await upkeep.release()
    await upkeep.retention.apply()
    for duty in upkeep.further():
        await duty()
    async with it.bot.database.transaction() as tx:
        await workers.mark_listener(tx, PLATFORM, now)
        await workers.last_event_at(tx, PLATFORM)
        await turns.idle_places(tx, PLATFORM, since=now)
        await conversations.last_word(tx, ALICE, ROOM)
        await conversations.places(tx, PLATFORM, since=now)
        await commands.take_over(tx, ["w"], me="w", under_way=set(), platforms=[PLATFORM])


def test_whoever_deletes_a_row_finds_those_that_refer_to_it_by_an_index() -> None:
    """Both databases look for them at each deletion, in no statement that could be explained."""
    missing = [
        f"{table.name}.{key.parent.name}"
        for table in metadata.sorted_tables
        for key in table.foreign_keys
        if table.name not in SMALL and key.parent.name not in first_columns(table)
    ]

    assert missing == []


def first_columns(table: Table) -> set[str]:
    """Return the columns with which an index of all rows begins."""
    whole = [index for index in table.indexes if not index.dialect_kwargs]
    unique = [each for each in table.constraints if isinstance(each, UniqueConstraint)]
    parts = [part.columns for part in (table.primary_key, *unique)]
    parts += [index.columns for index in whole]
    return {next(iter(columns)).name for columns in parts}


async def test_no_regular_duty_and_no_step_of_the_work_reads_a_whole_table(
    database_url: str,
) -> None:
    await fill(database_url)
    play = Play(
        main=[
            call("delegate_to_subagent", task="Count them", agent="general"),
            Reply(text="Six."),
        ],
        runs={"": []},
    )
    recorded = Statements()

    limits = SubagentSettings(cleanup_interval_seconds=3600)
    with recorded.recorded():
        async with stage(database_url, play, subagents=limits) as it:
            await work(it)
            await duties(it)

    scans = recorded.scans(database_url, SMALL)
    assert not scans, "\n".join(scans)
    written = "\n".join(recorded.found)
    deleted = {name for name in metadata.tables if f"DELETE FROM {name} " in written}
    assert deleted >= {"messages", "turns", "subagent_runs", "outbox", "steps", "users"}

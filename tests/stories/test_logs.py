"""The log of a run shows readable steps, and all results that it got, however it ended."""

import asyncio
from datetime import timedelta

import pytest

from bot.counted_events import ToolCalled
from bot.subagents.limits import SubagentSettings
from bot.values import RunStatus
from db.tables import subagent_runs
from tests.fakes.anthropic_server import Reply
from tests.stories.stage import ALICE, Play, call, calls, change, stage

NOTED = ("whiteboard_write", {"key": "sheep", "value": "three sheep"})
HANGS = Reply(text="never", fault="hang")
SHORT = SubagentSettings(default_timeout_minutes=0.1)


@pytest.mark.parametrize(
    ("second", "status", "settings"),
    [
        (HANGS, RunStatus.CANCELLED, SubagentSettings()),
        (HANGS, RunStatus.TIMEOUT, SHORT),
        (Reply(status=400, text="The model is gone."), RunStatus.FAILED, SubagentSettings()),
        (Reply(text="Three."), RunStatus.COMPLETED, SubagentSettings()),
    ],
    ids=["stopped", "timed out", "failed", "completed"],
)
async def test_a_log_holds_the_last_results_however_the_run_ended(
    second: Reply, status: RunStatus, settings: SubagentSettings, database_url: str
) -> None:
    play = Play(runs={"Work": [calls(NOTED), second, HANGS]})
    async with stage(database_url, play, subagents=settings) as it:
        await it.command(ALICE, "/subagents spawn Work")
        await it.server.received(2)
        if status is RunStatus.CANCELLED:
            await it.command(ALICE, "/subagents stop last")
        await it.ended("Work", status)
        log = (await it.command(ALICE, "/subagents log last")).text

        assert "→ whiteboard_write(key: sheep, value: three sheep)" in log
        assert "{'" not in log
        after = log.split("→ whiteboard_write", 1)[1]
        assert "\n- ← " in after


async def test_a_log_holds_the_result_beside_a_call_that_was_stopped(database_url: str) -> None:
    play = Play(runs={"Work": [calls(NOTED, ("wait_here", {}))]})
    async with stage(database_url, play) as it:
        noted = asyncio.Event()
        it.bot.events.subscribe(ToolCalled, lambda _: noted.set())
        await it.command(ALICE, "/subagents spawn Work")
        await it.gate.held(1)
        await asyncio.wait_for(noted.wait(), 20)
        await it.command(ALICE, "/subagents stop last")
        await it.ended("Work", RunStatus.CANCELLED)
        log = (await it.command(ALICE, "/subagents log last")).text

        assert "→ wait_here()" in log
        assert "\n- ← " in log
        assert log.endswith("- ended: stopped. It was stopped on request.")


async def test_a_resumed_run_knows_the_results_of_a_stopped_one(database_url: str) -> None:
    play = Play(runs={"Work": [call("current_time"), HANGS]})
    async with stage(database_url, play) as it:
        await it.command(ALICE, "/subagents spawn Work")
        await it.server.received(2)
        await it.command(ALICE, "/subagents stop last")
        await it.ended("Work", RunStatus.CANCELLED)
        play.runs["Work"] = [Reply(text="Done.")]
        await it.command(ALICE, "/subagents resume last")
        await it.ended("Work", RunStatus.COMPLETED)

        carried = str(play.asked[-1]["messages"])
        assert "current_time may have run" not in carried
        assert "UTC" in carried


async def test_an_archived_run_leaves_the_lists_and_can_still_be_read(database_url: str) -> None:
    settings = SubagentSettings(archive_ttl_minutes=5)
    play = Play(runs={"Count": [Reply(text="Three.")], "Sing": [Reply(text="La.")]})
    async with stage(database_url, play, subagents=settings) as it:
        for task, minutes in (("Count", 6), ("Sing", 4)):
            await it.command(ALICE, f"/subagents spawn {task}")
            run = await it.ended(task, RunStatus.COMPLETED)
            ago = it.bot.upkeep.now() - timedelta(minutes=minutes)
            await change(it.bot, subagent_runs, subagent_runs.c.id == run.id, completed_at=ago)
        old = (await it.run_of("Count")).id
        before = (await it.command(ALICE, "/subagents list")).text
        await it.bot.upkeep.retention.apply()
        after = (await it.command(ALICE, "/subagents list")).text
        info = (await it.command(ALICE, f"/subagents info {old}")).text
        log = (await it.command(ALICE, f"/subagents log {old}")).text

        assert "Count" in before
        assert "Count" not in after
        assert "Sing" in after
        assert "Count" in info
        assert "Three." in log

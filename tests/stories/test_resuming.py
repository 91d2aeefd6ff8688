"""A run that failed, was stopped or reached a limit is continued by a new run, once."""

import asyncio

from bot.conversations.access import AccessSettings
from bot.values import RunStatus, short
from db import run_messages
from skills.base import Effects, Skill, ToolContext, tool
from tests.fakes.anthropic_server import Reply
from tests.stories.stage import ADMIN, ALICE, BOB, Play, Stage, call, calls, said, stage

SPAWN = "/subagents spawn --label work Work on it"


class Launcher:
    """Tools with effects: `launch` returns at once, `launch_slowly` never."""

    def __init__(self) -> None:
        self.launched: list[str] = []
        self.hangs = asyncio.Event()

    @property
    def skill(self) -> Skill:
        launcher = self

        @tool(effects=Effects.ONCE)
        async def launch(context: ToolContext, what: str) -> str:
            """Launch something."""
            launcher.launched.append(what)
            return f"Launched {what}."

        @tool(effects=Effects.ONCE)
        async def launch_slowly(context: ToolContext, what: str) -> str:
            """Launch something that takes long."""
            launcher.launched.append(what)
            launcher.hangs.set()
            await asyncio.Event().wait()
            return "never"

        return Skill(name="launcher", description="Launches.", tools=(launch, launch_slowly))


async def failed(it: Stage) -> str:
    """Start a run that launches something and fails; return its id."""
    await it.command(ALICE, SPAWN)
    return (await it.ended("Work", RunStatus.FAILED)).id


def failing(*after: Reply) -> Play:
    """Return a play whose run launches a rocket, loses its model, and then goes on so."""
    lost = Reply(status=400, text="The model is gone.")
    return Play(runs={"Work": [call("launch", what="rocket"), lost, *after]})


async def test_a_failed_run_is_continued_with_all_that_it_did(database_url: str) -> None:
    launcher, play = Launcher(), failing(Reply(text="All is done."))
    async with stage(database_url, play, further_skills=[launcher.skill]) as it:
        before = await failed(it)
        reply = await it.command(ALICE, "/subagents resume work")
        after = await it.ended("Work", RunStatus.COMPLETED)
        told = await it.outlet.announced(after.id)
        info = await it.command(ALICE, f"/subagents info {short(after.id)}")
        old = await it.command(ALICE, f"/subagents info {short(before)}")

    asked = play.asked[-1]["messages"]
    assert "Resumed “work” as a new run" in reply.text
    assert (told.text, after.number, launcher.launched) == ("All is done.", 2, ["rocket"])
    assert "Launched rocket." in said(asked[2])
    assert "ended: failed. This run continues it" in said(asked[2])
    assert after.tokens < 1_000
    assert f"Continues: `{short(before)}`, #1, failed" in info.text
    assert "Status: failed" in old.text
    assert f"Continued by: `{short(after.id)}`, #2, completed" in old.text


async def test_a_call_that_was_stopped_in_the_middle_may_have_run(database_url: str) -> None:
    launcher = Launcher()
    both = calls(("launch", {"what": "one"}), ("launch_slowly", {"what": "two"}))
    play = Play(runs={"Work": [both, Reply(text="All is done.")]})
    async with stage(database_url, play, further_skills=[launcher.skill]) as it:
        await it.command(ALICE, SPAWN)
        await launcher.hangs.wait()
        await it.command(ALICE, "/subagents stop work")
        await it.ended("Work", RunStatus.CANCELLED)
        await it.command(ALICE, "/subagents resume work")
        await it.ended("Work", RunStatus.COMPLETED)

    results = said(play.asked[-1]["messages"][2])
    assert "Launched one." in results
    assert "launch_slowly may have run" in results
    assert launcher.launched == ["one", "two"]


async def test_resuming_twice_starts_one_run_which_can_be_resumed_itself(
    database_url: str,
) -> None:
    launcher = Launcher()
    play = failing(call("wait_here"), Reply(status=400, text="Gone again."), Reply(text="Done."))
    async with stage(database_url, play, further_skills=[launcher.skill]) as it:
        first = await failed(it)
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(it.command(ALICE, f"/subagents resume {first}"))
        await it.gate.held(1)
        again = await it.command(ALICE, f"/subagents resume {first}")
        listed = await it.command(ALICE, "/subagents list")
        it.gate.opened.set()
        second = await it.ended("Work", RunStatus.FAILED)
        once_more = await it.command(ALICE, f"/subagents resume {first}")
        await it.command(ALICE, f"/subagents resume {second.id}")
        third = await it.ended("Work", RunStatus.COMPLETED)

    assert f"was resumed before, as `{short(second.id)}`, #2: running." in again.text
    assert "Active runs** (1)" in listed.text
    assert f"`/subagents resume {short(second.id)}` resumes that run" in once_more.text
    assert (third.number, launcher.launched) == (3, ["rocket"])
    assert "Launched rocket." in said(play.asked[-1]["messages"][2])
    assert "You may pass." in said(play.asked[-1]["messages"][4])


async def test_only_the_owner_and_admins_resume_a_run(database_url: str) -> None:
    launcher, play = Launcher(), failing(Reply(text="All is done."))
    access = AccessSettings(admins=("fake:root",))
    async with stage(database_url, play, further_skills=[launcher.skill], access=access) as it:
        before = await failed(it)
        foreign = await it.command(BOB, f"/subagents resume {before}")
        unknown = await it.command(BOB, f"/subagents resume {before[::-1]}")
        await it.command(ADMIN, f"/subagents resume {before}")
        after = await it.ended("Work", RunStatus.COMPLETED)

    assert foreign.failed
    assert foreign.text.replace(before, "ID") == unknown.text.replace(before[::-1], "ID")
    assert after.user_id == ALICE.key


async def test_runs_that_go_on_or_completed_are_not_resumed(database_url: str) -> None:
    play = Play(runs={"Work": [call("wait_here"), Reply(text="Done.")]})
    async with stage(database_url, play) as it:
        await it.command(ALICE, SPAWN)
        await it.gate.held(1)
        active = await it.command(ALICE, "/subagents resume work")
        it.gate.opened.set()
        await it.ended("Work", RunStatus.COMPLETED)
        completed = await it.command(ALICE, "/subagents resume work")

    assert "is not over: running" in active.text
    assert "is completed: there is nothing to resume" in completed.text
    assert active.failed
    assert completed.failed


async def test_a_message_that_came_too_late_is_read_by_the_run_that_continues(
    database_url: str,
) -> None:
    play = Play(runs={"Work": [Reply(text="x", fault="hang"), Reply(text="Done.")]})
    async with stage(database_url, play) as it:
        await it.command(ALICE, SPAWN)
        await it.server.received(1)
        await it.command(ALICE, "/subagents send work Mind the gap.")
        await it.command(ALICE, "/subagents stop work")
        before = await it.ended("Work", RunStatus.CANCELLED)
        async with it.bot.database.snapshot() as tx:
            assert await run_messages.unread(tx, before.id)
        await it.command(ALICE, "/subagents resume work")
        await it.ended("Work", RunStatus.COMPLETED)

    assert "Mind the gap." in "".join(map(said, play.asked[-1]["messages"]))

"""What survives when a process dies: rows of `faults.md`, with real processes and real kills."""

import asyncio
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bot.subagents import active
from bot.values import Json
from db import workers as db_workers
from db.database import Database, DatabaseSettings
from tests.fakes.anthropic_server import FakeAnthropic, Reply
from tests.stories.actor import actor
from tests.stories.stage import ADMIN, ALICE, BOB, ROOM, Play, call, is_run, newest, said, stage

pytestmark = pytest.mark.timeout(120)

SPAWN = "/subagents spawn --label work Work on it"


def requests_of_runs(server: FakeAnthropic) -> list[str]:
    """Return what each request of a run ended with: two alike are one step asked for twice."""
    return [
        json.dumps(asked.body["messages"], sort_keys=True)
        for asked in server.requests
        if is_run(asked.body)
    ]


async def test_a_run_killed_in_a_model_call_goes_on_from_its_steps_and_pays_none_twice(
    database_url: str,
) -> None:
    play = Play(
        runs={
            "Work": [
                call("look", at="left"),
                call("look", at="right"),
                Reply(text="never read", fault="hang"),
                call("look", at="up"),
                Reply(text="Finished."),
            ]
        }
    )
    async with FakeAnthropic(play) as server:
        async with actor(database_url, server.url) as first:
            first.say("alice", SPAWN)
            await server.received(3)
            await first.kill()
        async with actor(database_url, server.url) as second:
            told = await second.event("announcement")
            second.say("alice", "/subagents info work")
            info = await second.event("answer")

    asked = requests_of_runs(server)
    assert told["text"] == "Finished."
    assert told["repeated"] is False
    assert len(second.events("announcement")) == 1
    assert [asked.count(one) for one in dict.fromkeys(asked)] == [1, 1, 2, 1]
    # The second result was not stored when the process died: that reading tool is called again.
    assert [line["at"] for line in first.events("tool")] == ["left", "right"]
    assert [line["at"] for line in second.events("tool")] == ["right", "up"]
    assert "completed" in info["text"]


async def test_a_tool_that_only_reads_is_repeated_after_a_crash(database_url: str) -> None:
    play = Play(runs={"Work": [call("look", wait=True), Reply(text="Finished.")]})
    async with FakeAnthropic(play) as server:
        async with actor(database_url, server.url) as first:
            first.say("alice", SPAWN)
            await first.event("tool", name="look")
            await first.kill()
        play.runs["Work"] = [Reply(text="Finished.")]
        async with actor(database_url, server.url) as second:
            await second.event("tool", name="look")


async def test_a_tool_with_side_effects_is_never_repeated_and_the_model_is_told(
    database_url: str,
) -> None:
    play = Play(runs={"Work": [call("launch", wait=True), Reply(text="I will check.")]})
    async with FakeAnthropic(play) as server:
        async with actor(database_url, server.url) as first:
            first.say("alice", SPAWN)
            await first.event("tool", name="launch")
            await first.kill()
        async with actor(database_url, server.url) as second:
            await second.event("announcement")

    assert second.events("tool") == []
    assert "may have run" in said(server.requests[-1].body["messages"][-1])


async def test_killed_between_the_end_and_the_message_a_result_is_announced_once(
    database_url: str,
) -> None:
    play = Play(runs={"Work": [Reply(text="Finished.")]})
    async with FakeAnthropic(play) as server:
        async with actor(database_url, server.url, crash_at="before-send") as first:
            first.say("alice", SPAWN)
            await first.gone()
        async with actor(database_url, server.url) as second:
            told = await second.event("announcement")
            second.say("alice", "/subagents list")
            await second.event("answer")

    assert told["text"] == "Finished."
    assert len(second.events("announcement")) == 1
    assert len(requests_of_runs(server)) == 1


async def test_killed_after_the_send_a_result_is_sent_once_more_and_marked(
    database_url: str,
) -> None:
    play = Play(runs={"Work": [Reply(text="Finished.")]})
    async with FakeAnthropic(play) as server:
        async with actor(database_url, server.url, crash_at="after-send") as first:
            first.say("alice", SPAWN)
            await first.gone()
        async with actor(database_url, server.url, crash_at="after-send") as second:
            await second.gone()
        async with actor(database_url, server.url) as third:
            listed = await third.answer_with("alice", "/subagents list", "Could not be delivered")

    assert [line["repeated"] for line in first.events("announcement")] == [False]
    assert [line["repeated"] for line in second.events("announcement")] == [True]
    assert third.events("announcement") == []
    assert "work" in listed["text"]


async def test_a_turn_killed_while_it_is_answered_is_answered_after_the_restart(
    database_url: str,
) -> None:
    play = Play(main=[call("look"), Reply(text="lost", fault="hang"), Reply(text="Here I am.")])
    async with FakeAnthropic(play) as server:
        async with actor(database_url, server.url) as first:
            first.say("alice", "Are you there?")
            await server.received(2)
            await first.kill()
        async with actor(database_url, server.url) as second:
            reply = await second.event("reply")

    assert reply["text"] == "Here I am."
    assert len(server.requests) == 3


async def test_a_delegated_task_goes_on_with_its_turn_after_a_crash(database_url: str) -> None:
    play = Play(
        main=[
            call("delegate_to_subagent", task="Work now", tools_needed=["look"]),
            Reply(text="It says: fine."),
        ],
        runs={"Work now": [call("look"), Reply(text="x", fault="hang"), Reply(text="Fine.")]},
    )
    async with FakeAnthropic(play) as server:
        async with actor(database_url, server.url) as first:
            first.say("alice", "Do it.")
            await server.received(3)
            await first.kill()
        async with actor(database_url, server.url) as second:
            reply = await second.event("reply")
            second.say("alice", "/subagents list")
            listed = await second.event("answer")

    assert reply["text"] == "It says: fine."
    assert len(server.requests) == 5
    assert "#1 **Work now**" in listed["text"]
    assert "#2" not in listed["text"]


async def test_a_run_that_takes_its_process_down_each_time_is_given_up_after_three(
    database_url: str,
) -> None:
    play = Play(runs={"Work": [call("explode")]})
    async with FakeAnthropic(play) as server:
        async with actor(database_url, server.url) as first:
            first.say("alice", SPAWN)
            await first.gone()
        for _ in range(2):
            async with actor(database_url, server.url) as again:
                await again.event("tool", name="explode")
                await again.gone()
        async with actor(database_url, server.url) as last:
            told = await last.event("announcement")

    assert "failed" in told["title"]
    assert "3 times" in told["text"]
    assert last.events("tool") == []


async def test_a_run_that_takes_its_process_down_ends_alone(sqlite_url: str) -> None:
    failed: list[str] = []

    def script(body: Json) -> Reply:
        if "Explode" in said(body["messages"][0]):
            return call("explode")
        if failed:
            return Reply(text="Finished.")
        # Long enough for the process to end before it is a step.
        return replace(call("look", at=str(len(body["messages"]))), latency_seconds=2.0)

    async with FakeAnthropic(script) as server:
        starts, calm, told = 0, ["one", "two", "three"], {}
        while not failed:
            async with actor(sqlite_url, server.url) as bot:
                if not starts:
                    for name in calm[:2]:
                        bot.say("alice", f"/subagents spawn --label {name} Work on {name}")
                    bot.say("bob", "/subagents spawn --label bad Explode at once")
                    bot.say("carol", f"/subagents spawn --label {calm[2]} Work on it")
                starts += 1
                ended = await bot.until(lambda line: line["event"] in {"gone", "announcement"})
                if ended["event"] == "announcement":
                    failed.append(ended["title"])
                    await bot.until(lambda _: len(bot.events("announcement")) == 4)
                    told = {line["title"]: line["text"] for line in bot.events("announcement")}

    assert "“bad”" in failed[0]
    assert "3 times" in told.pop(failed[0])
    assert list(told.values()) == ["Finished."] * 3
    assert starts <= 7


async def test_after_two_crashes_interrupted_turns_are_taken_up_one_at_a_time(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active, "TRIAL_SECONDS", 600.0)

    def script(body: Json) -> Reply:
        interrupted = "Remember" in newest(body)
        return Reply(text="x", fault="hang") if interrupted else Reply(text="I am.")

    async with stage(sqlite_url, Play(), script=script) as it:
        await it.say(ALICE, "Remember one")
        await it.say(BOB, "Remember two", replace(ROOM, thread="of Bob"))
        await it.server.received(2)
    async with (
        Database.open(DatabaseSettings(url=sqlite_url)) as database,
        database.transaction() as tx,
    ):
        for name in ("first", "second"):
            await db_workers.start(tx, name, [ROOM.platform])
        await db_workers.count_crashes(tx, [])
    async with stage(sqlite_url, Play(), script=script) as it:
        await it.server.received(1)
        await it.say(ADMIN, "Are you there?", replace(ROOM, thread="of an admin"))
        await it.outlet.replied()
        asked = [newest(each.body) for each in it.server.requests]

    assert sum("Remember" in each for each in asked) == 1


async def test_a_process_asked_to_end_leaves_its_runs_to_the_next_one(database_url: str) -> None:
    play = Play(runs={"Work": [call("look"), Reply(text="x", fault="hang"), Reply(text="Done.")]})
    async with FakeAnthropic(play) as server:
        async with actor(database_url, server.url) as first:
            first.say("alice", SPAWN)
            await server.received(2)
            first.signal(signal.SIGTERM)
            await first.event("drained")
            await first.gone()
        async with actor(database_url, server.url) as second:
            told = await second.event("announcement")

    assert first.process.returncode == 0
    assert told["text"] == "Done."


async def test_a_second_bot_on_the_same_file_is_told_who_has_it(
    sqlite_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "second.yaml"
    file.write_text(json.dumps({"database": {"url": sqlite_url}}))
    command = (sys.executable, "-m", "bot", "chat", "--plain", "--as", "bob", "--config", str(file))
    async with FakeAnthropic(Play()) as server, actor(sqlite_url, server.url) as first:
        second = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(30):
            _, said_there = await second.communicate()

        assert second.returncode == 1
        assert f"process {first.process.pid}" in said_there.decode()
        assert first.process.returncode is None

"""Several processes on one PostgreSQL: who works, who takes over, and what is counted."""

import asyncio
import json
import re
import signal
from dataclasses import replace
from typing import Any

import pytest

from bot.conversations.upkeep import POLL_SECONDS
from bot.values import Json
from tests.fakes.anthropic_server import FakeAnthropic, Reply
from tests.fakes.patience import PATIENCE_SECONDS
from tests.stories.actor import Actor, actor
from tests.stories.stage import Play, call, is_run

pytestmark = pytest.mark.timeout(150)

SPAWN = "/subagents spawn --label work Work on it"


async def first_to(kind: str, one: Actor, two: Actor, **fields: Any) -> tuple[Actor, Actor]:
    """Wait for an event in one of two processes; return that process, and the other."""
    waits = {asyncio.ensure_future(each.event(kind, **fields)): each for each in (one, two)}
    done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for each in pending:
        each.cancel()
    found = waits[done.pop()]
    return (one, two) if found is one else (two, one)


async def test_a_dead_workers_run_is_taken_over_and_announced_once(postgres_url: str) -> None:
    play = Play(
        runs={"Work": [call("look", at="left"), Reply(text="x", fault="hang"), Reply(text="Done.")]}
    )
    async with (
        FakeAnthropic(play) as server,
        actor(postgres_url, server.url) as first,
        actor(postgres_url, server.url) as second,
    ):
        first.say("alice", SPAWN)
        await server.received(2)
        at_work, other = await first_to("tool", first, second)
        await at_work.kill()
        told = await other.event("announcement")

    asked = [json.dumps(a.body["messages"]) for a in server.requests if is_run(a.body)]
    assert told["text"] == "Done."
    assert told["repeated"] is False
    assert [asked.count(one) for one in dict.fromkeys(asked)] == [1, 2]
    assert len(other.events("announcement")) + len(at_work.events("announcement")) == 1


async def test_a_worker_that_slept_is_fenced_and_says_nothing_twice(postgres_url: str) -> None:
    play = Play(
        runs={"Work": [call("look", at="left"), Reply(text="x", fault="hang"), Reply(text="Done.")]}
    )
    async with (
        FakeAnthropic(play) as server,
        actor(postgres_url, server.url) as first,
        actor(postgres_url, server.url) as second,
    ):
        first.say("alice", SPAWN)
        await server.received(2)
        sleeper, other = await first_to("tool", first, second)
        sleeper.signal(signal.SIGSTOP)
        await other.event("announcement")
        sleeper.signal(signal.SIGCONT)
        server.go.set()
        await sleeper.answer_with("alice", "/subagents list", "completed")

    assert len(sleeper.events("announcement")) + len(other.events("announcement")) == 1


async def test_a_run_is_stopped_from_another_process(postgres_url: str) -> None:
    play = Play(runs={"Work": [call("look", at="left"), Reply(text="x", fault="hang")]})
    async with (
        FakeAnthropic(play) as server,
        actor(postgres_url, server.url) as first,
        actor(postgres_url, server.url) as second,
    ):
        first.say("alice", SPAWN)
        await server.received(2)
        at_work, other = await first_to("tool", first, second)
        other.say("alice", "/subagents stop work")
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.disconnected.wait()
        told = await at_work.event("announcement")

    assert "Sub-agent stopped" in told["title"]
    # How soon, is said by how often it is looked for: a figure of a busy machine tells nothing.
    assert POLL_SECONDS <= 1


async def test_a_message_reaches_a_run_in_another_process(postgres_url: str) -> None:
    def look_until_told(body: Json) -> Reply:
        if "Look up" in json.dumps(body["messages"]):
            return Reply(text="Done.")
        return replace(call("look", at=str(len(body["messages"]))), latency_seconds=0.5)

    async with (
        FakeAnthropic(look_until_told) as server,
        actor(postgres_url, server.url) as first,
        actor(postgres_url, server.url) as second,
    ):
        first.say("alice", SPAWN)
        await server.received(2)
        at_work, other = await first_to("tool", first, second)
        other.say("alice", "/subagents send work Look up")
        await other.until(lambda line: "Queued" in str(line.get("text")))
        await at_work.event("announcement")

    assert "Look up" in json.dumps(server.requests[-1].body["messages"])


async def test_two_processes_that_spawn_at_once_never_pass_a_cap(postgres_url: str) -> None:
    play = Play(runs={"Job": [call("look", wait=True)] * 100})
    caps = {
        "subagents": {
            "max_concurrent_per_user": 3,
            "max_concurrent_global": 4,
            "max_queued_per_user": 2,
            "spawn_rate_limit": {"max_requests": 100},
        }
    }
    async with (
        FakeAnthropic(play) as server,
        actor(postgres_url, server.url, sections=caps) as first,
        actor(postgres_url, server.url, sections=caps) as second,
    ):
        for number in range(6):
            for bot in (first, second):
                bot.say("alice", f"/subagents spawn Job {number} of {id(bot)}")
                bot.say("bob", f"/subagents spawn Job {number} of {id(bot)}")
        for bot in (first, second):
            await bot.until(lambda _, bot=bot: len(bot.events("answer")) == 12)  # type: ignore[misc]
        answers = [line["text"] for bot in (first, second) for line in bot.events("answer")]

    started = [text for text in answers if "✅ Started" in text]
    waiting = [text for text in answers if "waits for a slot" in text]
    numbers = re.findall(r"#(\d+)\)", "\n".join(started + waiting))
    assert len(started) == 4
    assert len(waiting) == 4
    assert len(answers) == 24
    assert sorted(numbers) == sorted(numbers, key=int)
    assert len(started) + len(waiting) == len(numbers)


async def test_the_same_event_in_two_processes_at_once_is_one_turn(postgres_url: str) -> None:
    play = Play(main=[Reply(text="Once."), Reply(text="Twice.")])
    async with (
        FakeAnthropic(play) as server,
        actor(postgres_url, server.url) as first,
        actor(postgres_url, server.url) as second,
    ):
        for bot in (first, second):
            bot.say("alice", "Hello?", event_id="E1")
        await first_to("reply", first, second)
        for bot in (first, second):
            bot.say("alice", "/subagents list")
            await bot.event("answer")

    assert len(first.events("reply")) + len(second.events("reply")) == 1
    assert len(server.requests) == 1


async def test_a_kill_in_one_process_stops_the_work_of_another_and_pauses_both(
    postgres_url: str,
) -> None:
    play = Play(
        main=[Reply(text="On and on", fault="hang", after_events=4), Reply(text="Here I am.")],
        runs={"Work": [call("look", at="left"), Reply(text="x", fault="hang")]},
    )
    operator = {"access": {"admins": ["fake:root"]}}
    async with (
        FakeAnthropic(play) as server,
        actor(postgres_url, server.url, sections=operator) as first,
        actor(postgres_url, server.url, sections=operator) as second,
    ):
        first.say("alice", SPAWN)
        await server.received(2)
        at_work, other = await first_to("tool", first, second)
        at_work.say("alice", "Talk!")
        await server.received(3)
        other.say("root", "/retinue kill all yes")
        killed = await other.until(lambda line: "Stopped" in str(line.get("text")))
        stopped = await at_work.event("reply")
        result = await at_work.event("announcement")
        at_work.say("alice", "And now?")
        kept = await at_work.until(lambda line: "is kept" in str(line.get("text")))
        asked = len(server.requests)
        at_work.say("root", "/retinue resume all")
        # Either process may be the first to begin what has waited.
        await first_to("reply", first, second, text="Here I am.")

    assert "Stopped 1 run and 1 answer of 1 user" in killed["text"]
    assert "(stopped)" in stopped["text"]
    assert "Sub-agent stopped" in result["title"]
    assert "root has paused the whole bot" in kept["text"]
    assert asked == 3

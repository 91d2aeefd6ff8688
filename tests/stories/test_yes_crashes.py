"""The turn after a Yes survives the death of the process: its calls are made at most once."""

import signal
from contextlib import AbstractAsyncContextManager

import pytest

from tests.fakes.anthropic_server import FakeAnthropic, Reply
from tests.stories.actor import Actor, actor
from tests.stories.stage import Play, call, said

pytestmark = pytest.mark.timeout(120)

SECTIONS = {"permissions": {"rules": {"launch": "ask"}}}


def bot_at(
    database_url: str, server: FakeAnthropic, *, crash_at: str = ""
) -> AbstractAsyncContextManager[Actor]:
    """Start a bot that asks before it launches."""
    return actor(database_url, server.url, crash_at=crash_at, sections=SECTIONS)


async def asked(database_url: str, server: FakeAnthropic) -> None:
    """Let Alice's agent ask whether it may launch, and end the process."""
    async with bot_at(database_url, server) as bot:
        bot.say("alice", "Launch it")
        await bot.event("question")
        await bot.event("reply")
        bot.signal(signal.SIGTERM)
        await bot.event("drained")


async def test_killed_between_the_yes_and_the_call_it_is_made_once_by_the_next_process(
    database_url: str,
) -> None:
    play = Play(main=[call("launch"), Reply(text="I asked."), Reply(text="It flies.")])
    async with FakeAnthropic(play) as server:
        await asked(database_url, server)
        async with bot_at(database_url, server, crash_at="after INSERT INTO turns") as first:
            first.say("alice", "yes", event_id="E1")
            await first.gone()
        async with bot_at(database_url, server) as second:
            await second.event("reply", text="It flies.")
            # Delivered again by the platform, which heard nothing.
            second.say("alice", "yes", event_id="E1")
            await second.answer_with("alice", "/subagents usage", "Your usage")

    assert first.events("tool") == []
    assert len(second.events("tool")) == 1
    assert [line["text"] for line in second.events("reply")] == ["It flies."]
    assert "launched" in said(server.requests[-1].body["messages"][-1])


async def test_killed_before_the_yes_was_stored_nothing_is_done_until_it_is_given_again(
    database_url: str,
) -> None:
    play = Play(main=[call("launch"), Reply(text="I asked."), Reply(text="It flies.")])
    async with FakeAnthropic(play) as server:
        await asked(database_url, server)
        async with bot_at(database_url, server, crash_at="before INSERT INTO turns") as first:
            first.say("alice", "yes", event_id="E1")
            await first.gone()
        async with bot_at(database_url, server) as second:
            await second.answer_with("alice", "/subagents usage", "Your usage")
            before = second.events("tool")
            second.say("alice", "yes", event_id="E1")
            await second.event("reply", text="It flies.")

    assert (first.events("tool"), before) == ([], [])
    assert len(second.events("tool")) == 1


async def test_killed_in_the_call_it_is_not_made_again_and_may_have_run(
    database_url: str,
) -> None:
    play = Play(main=[call("launch", wait=True), Reply(text="I asked."), Reply(text="Unknown.")])
    async with FakeAnthropic(play) as server:
        await asked(database_url, server)
        async with bot_at(database_url, server) as first:
            first.say("alice", "yes")
            await first.event("tool", name="launch")
            await first.kill()
        async with bot_at(database_url, server) as second:
            await second.event("reply", text="Unknown.")

    assert len(first.events("tool")) == 1
    assert second.events("tool") == []
    assert "may have run" in said(server.requests[-1].body["messages"][-1])


async def test_killed_before_the_answer_the_call_is_not_made_again_and_answered_once(
    database_url: str,
) -> None:
    hangs = Reply(text="never read", fault="hang")
    play = Play(main=[call("launch"), Reply(text="I asked."), hangs, Reply(text="It flies.")])
    async with FakeAnthropic(play) as server:
        await asked(database_url, server)
        async with bot_at(database_url, server) as first:
            first.say("alice", "yes")
            await server.received(3)
            await first.kill()
        # Dies once more, after the answer was said and before it was stored.
        before_stored = "before INSERT INTO messages"
        async with bot_at(database_url, server, crash_at=before_stored) as second:
            await second.gone()
        async with bot_at(database_url, server) as third:
            again = await third.event("reply", text="It flies.")

    said_first = second.events("reply")
    assert [len(each.events("tool")) for each in (first, second, third)] == [1, 0, 0]
    assert [line["text"] for line in said_first] == ["It flies."]
    # The same message, written once more.
    assert again["message_id"] == said_first[0]["message_id"]
    assert len(server.requests) == 4
    results = said(server.requests[-1].body["messages"][-1])
    assert "launched" in results
    assert "may have run" not in results

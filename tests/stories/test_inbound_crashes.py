"""What users typed and clicked survives the death of the process: rows 2 and 76 of `faults.md`."""

import pytest

from tests.fakes.anthropic_server import FakeAnthropic, Reply
from tests.stories.actor import Actor, actor
from tests.stories.stage import Play, call

pytestmark = pytest.mark.timeout(120)

SPAWN = "/subagents spawn --label work Work on it"
STORED = "after INSERT INTO seen_events"


async def delivered_again(bot: Actor, text: str) -> None:
    """Let the platform deliver an event twice more, as it does after a crash."""
    for _ in range(2):
        bot.say("alice", text, event_id="E1")
    bot.say("alice", "/subagents usage")
    await bot.until(lambda line: "Your usage" in line.get("text", ""))


@pytest.mark.parametrize(
    "crash_at", ["before INSERT INTO seen_events", STORED, "after INSERT INTO subagent_runs"]
)
async def test_a_typed_command_is_carried_out_once_wherever_its_process_is_killed(
    database_url: str, crash_at: str
) -> None:
    play = Play(runs={"Work": [Reply(text="Finished.")] * 3})
    async with FakeAnthropic(play) as server:
        async with actor(database_url, server.url, crash_at=crash_at) as first:
            first.say("alice", SPAWN, event_id="E1")
            await first.gone()
        async with actor(database_url, server.url) as second:
            await delivered_again(second, SPAWN)
            await second.event("announcement")
            # The run begins at once; the command, when its process counts as dead.
            await second.until(lambda line: "✅ Started" in line.get("text", ""))
            listed = await second.answer_with("alice", "/subagents list", "completed")
            told = [line["text"] for line in second.events("told") + second.events("answer")]

    assert listed["text"].count("**work**") == 1
    assert len(server.requests) == 1
    assert len(second.events("announcement")) == 1
    assert sum("✅ Started" in text for text in told) == 1


@pytest.mark.parametrize("crash_at", [STORED, "after INSERT INTO subagent_runs"])
async def test_a_run_is_resumed_once_wherever_its_process_is_killed(
    database_url: str, crash_at: str
) -> None:
    resume = "/subagents resume work"
    lost = Reply(status=400, text="The model is gone.")
    play = Play(runs={"Work": [lost, *[Reply(text="Finished.")] * 3]})
    async with FakeAnthropic(play) as server:
        async with actor(database_url, server.url) as before:
            before.say("alice", SPAWN)
            await before.event("announcement")
        async with actor(database_url, server.url, crash_at=crash_at) as first:
            first.say("alice", resume, event_id="E1")
            await first.gone()
        async with actor(database_url, server.url) as second:
            await delivered_again(second, resume)
            await second.until(lambda line: "Sub-agent completed" in line.get("title", ""))
            listed = await second.answer_with("alice", "/subagents list", "completed")
            titles = [line["title"] for line in second.events("announcement")]

    assert listed["text"].count("**work**") == 2
    assert len(server.requests) == 2
    assert sum("completed" in title for title in titles) == 1


@pytest.mark.parametrize("crash_at", [STORED, "after INSERT INTO run_messages"])
async def test_a_message_typed_to_a_run_reaches_it_once(database_url: str, crash_at: str) -> None:
    play = Play(runs={"Work": [call("look", wait=True)] * 9})
    async with FakeAnthropic(play) as server:
        async with actor(database_url, server.url) as before:
            before.say("alice", SPAWN)
            await before.event("tool", name="look")
            await before.kill()
        async with actor(database_url, server.url, crash_at=crash_at) as first:
            await first.event("tool", name="look")
            first.say("alice", "/subagents send work Look up", event_id="E1")
            await first.gone()
        async with actor(database_url, server.url) as second:
            told = await second.event("told")
            await delivered_again(second, "/subagents send work Look up")
            info = await second.answer_with("alice", "/subagents info work", "Look up")

    assert "/subagents send" in told["text"]
    assert info["text"].count("Look up") == 1
    assert len(second.events("told")) == 1


async def test_a_message_killed_right_after_it_was_stored_is_answered_once(
    database_url: str,
) -> None:
    play = Play(main=[Reply(text="Here I am."), Reply(text="Here I am again.")])
    async with FakeAnthropic(play) as server:
        async with actor(database_url, server.url, crash_at=STORED) as first:
            first.say("alice", "Are you there?", event_id="E1")
            await first.gone()
        async with actor(database_url, server.url) as second:
            await second.event("reply")
            await delivered_again(second, "Are you there?")

    assert [line["text"] for line in second.events("reply")] == ["Here I am."]


@pytest.mark.parametrize("crash_at", ["before INSERT INTO seen_events", STORED])
async def test_the_answer_to_what_a_run_asks_is_never_lost(
    database_url: str, crash_at: str
) -> None:
    asks = call("ask_user", question="Which colour?", options=["red", "blue"])
    play = Play(runs={"Work": [asks, Reply(text="Finished.")]})
    async with FakeAnthropic(play) as server:
        async with actor(database_url, server.url) as before:
            before.say("alice", SPAWN)
            await before.event("question")
            await before.kill()
        async with actor(database_url, server.url, crash_at=crash_at) as first:
            await first.event("question")
            first.say("alice", "blue", event_id="E1")
            await first.gone()
        async with actor(database_url, server.url) as second:
            await delivered_again(second, "blue")
            told = await second.event("announcement")

    assert told["text"] == "Finished."
    assert "blue" in str(server.requests[-1].body["messages"])
    assert second.events("reply") == []

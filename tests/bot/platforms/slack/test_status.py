"""A thread shows that the bot is at work, and no longer than it is."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bot.platforms.slack.problems import RefusedError
from bot.platforms.slack.status import TRY_AGAIN_SECONDS, Abilities, Ability
from bot.values import Place
from tests.bot.platforms.slack.speaking import AT_ONCE, Stand, question_of, stand

THINKING = "is thinking…"
CHANNEL, OTHER = Place("slack", "T1", "C1", "1.0"), Place("slack", "T2", "C1", "1.0")


@pytest.fixture
async def room() -> AsyncIterator[Stand]:
    async with stand() as opened:
        yield opened


def text(room: Stand, place: Place | None = None) -> str:
    return room.fake.status(room.channel, (place or room.place).thread)


def session(room: Stand, place: Place | None = None) -> str:
    return room.fake.session(room.channel, (place or room.place).thread)


def told(room: Stand, kind: str) -> list[str]:
    return [status.status for status in room.fake.statuses if status.kind == kind]


async def idle(room: Stand) -> None:
    await room.tasks.wait_idle(5)


async def test_while_an_answer_is_given_slack_shows_its_stop_button(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    await idle(room)

    assert (text(room), session(room)) == (THINKING, "processing")

    await reply.finish("Done.")
    await idle(room)

    assert (text(room), session(room)) == ("", "active")


async def test_a_streamed_answer_ends_its_session_with_its_last_words(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("One two")
    await room.shows("One")
    await idle(room)

    await reply.finish("One two.")
    await idle(room)

    assert (text(room), session(room)) == ("", "active")
    assert room.called("chat.stopStream")[0].args["session_status"] == "active"
    assert [c.args["status"] for c in room.called("agents.sessions.setStatus")] == ["processing"]


async def test_a_quick_answer_leaves_nothing_behind_however_slow_slack_is(room: Stand) -> None:
    held = room.fake.fail("assistant.threads.setStatus", hold=asyncio.Event())
    heard = asyncio.create_task(room.outlet.acknowledge(room.place))  # noqa: TID251
    await held.reached.wait()
    reply = room.outlet.open_reply(room.place, room.owner)
    await reply.finish("Done.")
    await room.tasks.wait_idle(0.1)
    assert held.hold is not None
    held.hold.set()
    await heard
    await idle(room)

    assert (text(room), session(room)) == ("", "active")


async def test_hearing_and_answering_is_told_once(room: Stand) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(room.outlet.acknowledge(room.place))
        await asyncio.sleep(0)
        reply = room.outlet.open_reply(room.place, room.owner)
    await idle(room)

    assert told(room, "text") == [THINKING]
    await reply.finish("Done.")


async def test_the_line_is_shown_again_before_slack_takes_it_away() -> None:
    async with stand(replace(AT_ONCE, refresh_seconds=0.02)) as room:
        reply = room.outlet.open_reply(room.place, room.owner)
        await room.fake.until(lambda: len(told(room, "text")) >= 3, "three times")
        await reply.finish("Done.")
        await idle(room)
        count = len(told(room, "text"))
        await asyncio.sleep(0.1)

        assert told(room, "text")[-1] == ""
        assert len(told(room, "text")) == count
        assert told(room, "session") == ["processing", "active"]


async def test_the_line_is_still_shown_while_an_answer_streams() -> None:
    async with stand(replace(AT_ONCE, refresh_seconds=0.02)) as room:
        reply = room.outlet.open_reply(room.place, room.owner)
        reply.update("One two")
        await room.shows("One")
        await room.fake.until(lambda: text(room) == THINKING, "the line")

        await reply.finish("One two.")
        await idle(room)

        assert text(room) == ""


async def test_an_answer_that_is_left_is_not_shown_any_more_by_us() -> None:
    async with stand(replace(AT_ONCE, refresh_seconds=0.02)) as room:
        reply = room.outlet.open_reply(room.place, room.owner)
        await idle(room)
        await reply.abandon()
        await idle(room)
        count = len(room.fake.statuses)
        await asyncio.sleep(0.1)

        assert len(room.fake.statuses) == count


async def test_two_answers_in_one_thread_end_one_after_the_other(room: Stand) -> None:
    first = room.outlet.open_reply(room.place, room.owner)
    second = room.outlet.open_reply(room.place, room.other)
    await idle(room)
    await first.finish("Done.")
    await idle(room)

    assert session(room) == "processing"

    await second.finish("Done as well.")
    await idle(room)

    assert (text(room), session(room)) == ("", "active")


async def test_an_answer_that_fails_is_over_all_the_same(room: Stand) -> None:
    room.fake.fail("chat.postMessage", error="is_archived", times=None)
    reply = room.outlet.open_reply(room.place, room.owner)
    await idle(room)

    with pytest.raises(Exception, match="archived"):
        await reply.finish("Done.")
    await idle(room)

    assert (text(room), session(room)) == ("", "active")


# --- questions ----------------------------------------------------------------------------------


async def test_while_a_question_waits_the_session_is_suspended(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    await room.outlet.ask(question_of(room))
    await idle(room)
    assert session(room) == "processing"

    await reply.finish("I asked you.")
    await idle(room)
    assert session(room) == "suspended"

    await room.outlet.question_answered("question-1", room.place, "Yes.")
    await idle(room)
    assert session(room) == "active"


async def test_a_stream_that_ends_with_a_question_suspends_the_session(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("I ask you")
    await room.shows("I ask")
    await room.outlet.ask(question_of(room))

    await reply.finish("I ask you.")
    await idle(room)

    assert session(room) == "suspended"


async def test_a_question_that_nobody_answers_suspends_nothing_for_ever(room: Stand) -> None:
    await room.outlet.ask(question_of(room, expires_in_seconds=0.05))

    await room.fake.until(lambda: told(room, "session") == ["suspended", "active"], "the end")


async def test_a_question_that_another_process_asked_suspends_nothing_once_it_is_answered(
    room: Stand,
) -> None:
    await room.after_a_restart().ask(question_of(room))
    await idle(room)
    assert session(room) == "suspended"

    await room.outlet.question_answered("question-1", room.place, "Yes.")
    await idle(room)

    assert session(room) == "active"


async def test_an_answer_while_something_else_goes_on_changes_nothing(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    await idle(room)
    await room.outlet.question_answered("question-1", room.place, "Yes.")
    await idle(room)

    assert told(room, "session") == ["processing"]
    await reply.finish("Done.")


async def test_an_answer_to_something_unknown_is_nothing(room: Stand) -> None:
    await room.outlet.question_answered("question-0", room.place, "Yes.")

    assert room.fake.statuses == []


# --- where it does not work ---------------------------------------------------------------------


async def test_an_app_that_is_no_agent_asks_for_the_stop_button_once(room: Stand) -> None:
    room.fake.agents.agent = False
    for _ in range(2):
        reply = room.outlet.open_reply(room.place, room.owner)
        await idle(room)
        assert text(room) == THINKING
        await reply.finish("Done.")
        await idle(room)

    assert len(room.called("agents.sessions.setStatus")) == 1
    assert room.texts() == ["Done.", "Done."]


async def test_an_app_without_the_scope_asks_for_the_line_once(room: Stand) -> None:
    room.fake.granted_scopes.remove("assistant:write")
    room.fake.granted_scopes.remove("chat:write")
    for _ in range(2):
        await room.outlet.acknowledge(room.place)

    assert len(room.called("assistant.threads.setStatus")) == 1
    assert "eyes" in room.said.reactions


@pytest.mark.parametrize("error", ["ratelimited", "internal_error", "channel_not_found"])
async def test_what_fails_for_another_reason_is_tried_the_next_time(
    room: Stand, error: str
) -> None:
    room.fake.fail("assistant.threads.setStatus", error=error)
    await room.outlet.acknowledge(room.place)

    await room.outlet.acknowledge(room.place)

    assert text(room) == THINKING


@pytest.mark.parametrize("fault", [{"status": 500}, {"cut": True}, {"error": "token_revoked"}])
async def test_nothing_of_this_ever_hurts_an_answer(room: Stand, fault: dict[str, object]) -> None:
    for method in ("assistant.threads.setStatus", "agents.sessions.setStatus"):
        room.fake.fail(method, times=None, **fault)  # type: ignore[arg-type]
    reply = room.outlet.open_reply(room.place, room.owner)

    await reply.finish("Done.")

    assert room.texts() == ["Done."]


async def test_outside_of_threads_nothing_is_shown(room: Stand) -> None:
    reply = room.outlet.open_reply(room.in_channel, room.owner)
    await reply.finish("Done.")
    await idle(room)

    assert room.fake.statuses == []


# --- at the start -------------------------------------------------------------------------------


async def test_what_a_process_that_died_has_left_is_taken_away(room: Stand) -> None:
    room.outlet.open_reply(room.place, room.owner)
    elsewhere = await room.in_direct()
    room.outlet.open_reply(elsewhere, room.owner)
    await idle(room)
    room.outlet.status.close()

    again = room.after_a_restart()
    await again.status.clear_open([room.place, replace(room.place, message="1.2"), elsewhere])
    await idle(room)

    assert (text(room), session(room)) == ("", "active")
    assert room.fake.session(room.direct, elsewhere.thread) == "active"
    assert told(room, "text") == [THINKING, THINKING, "", ""]


async def test_an_answer_under_way_is_not_taken_away(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    await idle(room)

    await room.outlet.status.clear_open([room.place, room.in_channel])
    await idle(room)

    assert (text(room), session(room)) == (THINKING, "processing")
    await reply.finish("Done.")


async def test_clearing_a_thread_that_is_gone_harms_nobody(room: Stand) -> None:
    await room.outlet.status.clear_open([replace(room.place, thread="1700000000.000001")])
    await idle(room)

    assert await room.outlet.status.heard(room.place)


async def test_nothing_is_remembered_of_threads_in_which_nothing_goes_on(room: Stand) -> None:
    for _ in range(3):
        await room.outlet.acknowledge(room.place)
        reply = room.outlet.open_reply(room.place, room.owner)
        await room.outlet.ask(question_of(room))
        await reply.finish("Done.")
        await room.outlet.question_answered("question-1", room.place, "Yes.")
        await idle(room)

    assert room.outlet.status._threads == {}


def test_a_feature_that_was_refused_is_tried_again_later() -> None:
    now = 50.0
    abilities = Abilities(now=lambda: now)
    refused = RefusedError("Not here.", "feature_not_enabled")

    abilities.lost(Ability.STREAM, CHANNEL, refused)

    assert not abilities.has(Ability.STREAM, CHANNEL)
    assert abilities.has(Ability.STREAM, OTHER)
    assert abilities.has(Ability.STATUS, CHANNEL)
    now += TRY_AGAIN_SECONDS
    assert abilities.has(Ability.STREAM, CHANNEL)

    abilities.lost(Ability.STREAM, CHANNEL, refused)
    assert not abilities.has(Ability.STREAM, CHANNEL)


@pytest.mark.parametrize("code", ["channel_not_found", "invalid_auth"])
def test_what_the_place_or_the_token_refuses_is_no_missing_feature(code: str) -> None:
    abilities = Abilities(now=lambda: 0.0)

    abilities.lost(Ability.STREAM, CHANNEL, RefusedError("Not here.", code))

    assert abilities.has(Ability.STREAM, CHANNEL)

"""A run has one message, which moves with it and stays at its end."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bot.platforms.slack.budget import BURST, EDITS_PER_MINUTE
from bot.platforms.slack.live import Tempo
from bot.platforms.slack.texts import NO_THREAD
from bot.values import RunStatus
from tests.bot.platforms.slack.speaking import RUN, Stand, card_of, no_limits, stand


@pytest.fixture
async def room() -> AsyncIterator[Stand]:
    async with stand() as opened:
        yield opened


async def idle(room: Stand) -> None:
    await room.tasks.wait_idle(5)


async def test_a_card_shows_the_run_and_its_buttons(room: Stand) -> None:
    room.outlet.show_card(card_of(room, tool="web_fetch", line="halfway", elapsed_seconds=65.0))
    await idle(room)

    message = room.shown()[0]
    assert message.thread_ts == room.said.ts
    assert message.readable(room.alice).split("\n") == [
        "🔵 *the news* · `1a2b3c4d` · running",
        "`general` · 1:05 · 3 tool calls · 12,345 of 100,000 tokens",
        "🔧 `web_fetch`",
        "↳ halfway",
        "[Stop] [Log] [Send]",
    ]
    assert [(b.action_id, b.value) for b in message.buttons()] == [
        ("run:stop", RUN),
        ("run:log", RUN),
        ("run:send", RUN),
    ]
    assert message.text == "the news: running"


async def test_only_the_owner_sees_the_buttons(room: Stand) -> None:
    room.outlet.show_card(card_of(room))
    await idle(room)

    message = room.shown()[0]
    assert len(message.buttons(room.alice)) == 3
    assert message.buttons(room.bob) == []


async def test_slack_itself_asks_before_a_run_is_stopped(room: Stand) -> None:
    room.outlet.show_card(card_of(room))
    await idle(room)

    stop, log, send = room.shown()[0].buttons()
    assert stop.element["style"] == "danger"
    assert stop.confirm is not None
    assert stop.confirm["title"]["text"] == "Stop this run?"
    assert log.confirm is None
    assert send.confirm is None


@pytest.mark.parametrize(
    ("status", "buttons"),
    [
        (RunStatus.COMPLETED, [("run:log", RUN)]),
        (RunStatus.TIMEOUT, [("run:resume", RUN), ("run:log", RUN)]),
    ],
)
async def test_the_card_of_a_run_that_ended_offers_its_log_and_resume_unless_it_completed(
    room: Stand, status: RunStatus, buttons: list[tuple[str, str]]
) -> None:
    room.outlet.show_card(card_of(room, status))
    await idle(room)

    assert [(each.action_id, each.value) for each in room.shown()[0].buttons()] == buttons
    assert room.shown()[0].buttons(room.bob) == []


async def test_the_card_of_a_run_without_its_tools_says_so(room: Stand) -> None:
    room.outlet.show_card(card_of(room, RunStatus.COMPLETED, degraded=True))
    await idle(room)

    message = room.shown()[0]
    assert "🟡 *the news* · `1a2b3c4d` · finished without its tools" in message.readable(room.alice)
    assert message.text == "the news: finished without its tools"


async def test_a_card_moves_in_one_message(room: Stand) -> None:
    begun: list[str] = []
    for status in (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.COMPLETED):
        room.outlet.show_card(card_of(room, status), begun=begun.append)
        await idle(room)

    message = room.shown()[0]
    assert room.shown() == [message]
    assert "completed" in message.readable()
    assert message.edits == 2
    assert begun == [message.ts]


async def test_the_states_between_two_edits_are_left_out(room: Stand) -> None:
    held = room.fake.fail("chat.postMessage", hold=asyncio.Event())
    room.outlet.show_card(card_of(room, RunStatus.QUEUED))
    await held.reached.wait()
    for calls in range(50):
        room.outlet.show_card(card_of(room, tool_calls=calls))
    assert held.hold is not None
    held.hold.set()
    await idle(room)

    assert "49 tool calls" in room.shown()[0].readable()
    assert room.shown()[0].edits == 1


async def test_two_edits_are_as_far_apart_as_it_is_configured() -> None:
    tempo = Tempo(edit_seconds=2.0)
    async with stand(tempo) as room:
        for calls in range(3):
            room.outlet.show_card(card_of(room, tool_calls=calls))
            await room.shows(f"{calls} tool")

        first, second = room.called("chat.update")
        # As they arrive: one that is on its way for long comes closer to the next.
        assert second.time - first.time >= 1.2
        assert first.time - room.called("chat.postMessage")[0].time >= 1.2


async def test_a_card_that_looks_the_same_is_not_edited(room: Stand) -> None:
    for elapsed in (60.0, 60.4, 60.9):
        room.outlet.show_card(card_of(room, elapsed_seconds=elapsed))
        await idle(room)

    assert room.shown()[0].edits == 0


async def test_every_run_has_a_card_of_its_own(room: Stand) -> None:
    for number in range(3):
        room.outlet.show_card(card_of(room, run_id=f"run-{number}", label=f"number {number}"))
    await idle(room)

    assert len(room.shown()) == 3


async def test_a_card_for_a_channel_is_in_the_channel(room: Stand) -> None:
    room.outlet.show_card(card_of(room, place=room.in_channel))
    await idle(room)

    assert room.shown()[0].thread_ts == ""


async def test_a_card_whose_thread_is_gone_is_not_shown_in_the_channel(room: Stand) -> None:
    await room.fake.delete(room.said)
    room.outlet.show_card(card_of(room))
    await idle(room)
    room.outlet.show_card(card_of(room, RunStatus.COMPLETED))
    await idle(room)

    assert room.shown() == []


async def test_a_card_whose_thread_in_direct_messages_is_gone_goes_on_beside_it(
    room: Stand,
) -> None:
    place = await room.in_direct()
    asked = next(each for each in room.fake.messages(room.direct) if each.ts == place.thread)
    await room.fake.delete(asked)

    room.outlet.show_card(card_of(room, place=place))
    await idle(room)

    (message,) = room.shown(room.direct)
    assert (message.thread_ts, message.pings) == ("", [])
    assert NO_THREAD not in message.readable()


async def test_after_a_restart_the_same_message_moves(room: Stand) -> None:
    room.outlet.show_card(card_of(room))
    await idle(room)
    message = room.shown()[0]

    again = room.after_a_restart()
    again.show_card(card_of(room, RunStatus.FAILED, message_id=message.ts))
    await idle(room)

    assert room.shown() == [message]
    assert "failed" in message.readable()


async def test_a_card_that_somebody_deleted_is_posted_anew(room: Stand) -> None:
    begun: list[str] = []
    room.outlet.show_card(card_of(room), begun=begun.append)
    await idle(room)
    room.shown()[0].deleted = True

    room.outlet.show_card(card_of(room, RunStatus.COMPLETED), begun=begun.append)
    await idle(room)

    message = room.shown()[0]
    assert "completed" in message.readable()
    assert len(begun) == 2
    assert begun[-1] == message.ts


@pytest.mark.parametrize("error", ["cant_update_message", "edit_window_closed"])
async def test_a_card_that_can_no_longer_be_edited_is_posted_anew_and_the_old_one_taken_away(
    room: Stand, error: str
) -> None:
    room.outlet.show_card(card_of(room))
    await idle(room)
    old = room.shown()[0]
    room.fake.fail("chat.update", error=error, times=None)

    room.outlet.show_card(card_of(room, RunStatus.COMPLETED))
    await idle(room)

    assert old.deleted
    assert len(room.shown()) == 1
    assert "completed" in room.texts()[0]


@pytest.mark.parametrize(
    "fault", [{"error": "ratelimited"}, {"error": "internal_error"}, {"refuse": True, "times": 3}]
)
async def test_the_last_state_is_tried_again_when_slack_is_down(
    room: Stand, fault: dict[str, object]
) -> None:
    room.outlet.show_card(card_of(room))
    await idle(room)
    room.fake.fail("chat.update", **fault)  # type: ignore[arg-type]

    room.outlet.show_card(card_of(room, RunStatus.COMPLETED))
    await idle(room)

    assert "completed" in room.texts()[0]
    assert len(room.shown()) == 1


async def test_a_card_is_left_as_it_is_when_slack_stays_down(room: Stand) -> None:
    room.outlet.show_card(card_of(room))
    await idle(room)
    room.fake.fail("chat.update", error="internal_error", times=None)

    room.outlet.show_card(card_of(room, RunStatus.COMPLETED))
    await idle(room)

    assert "running" in room.texts()[0]
    assert len(room.called("chat.update")) == 3
    assert len(room.outlet._cards) == 0


async def test_a_state_that_did_not_get_through_is_followed_by_the_next(room: Stand) -> None:
    room.outlet.show_card(card_of(room))
    await idle(room)
    fault = room.fake.fail("chat.update", error="ratelimited")
    room.outlet.show_card(card_of(room, tool_calls=4))
    await room.fake.until(lambda: fault.hits, "a refusal")

    room.outlet.show_card(card_of(room, tool_calls=5))
    await idle(room)

    assert "5 tool calls" in room.texts()[0]


async def test_where_no_card_may_be_posted_slack_is_not_asked_with_every_state(
    room: Stand,
) -> None:
    room.channel.archived = True
    for calls in range(5):
        room.outlet.show_card(card_of(room, tool_calls=calls))
        await idle(room)
    room.outlet.show_card(card_of(room, RunStatus.COMPLETED))
    await idle(room)

    assert len(room.called("chat.postMessage")) == 1
    assert len(room.outlet._cards) == 0


async def test_a_card_that_is_over_is_forgotten_once_it_says_so(room: Stand) -> None:
    room.outlet.show_card(card_of(room))
    await idle(room)
    assert len(room.outlet._cards) == 1

    room.outlet.show_card(card_of(room, RunStatus.COMPLETED))
    await idle(room)

    assert len(room.outlet._cards) == 0


async def test_forty_cards_stay_below_what_a_workspace_takes_and_the_last_states_go_first() -> None:
    async with stand() as room:
        room.fake.people.echo = False
        for number in range(40):
            room.outlet.show_card(card_of(room, run_id=f"run-{number}", label=f"number {number}."))
        await idle(room)
        for number in range(40):
            room.outlet.show_card(card_of(room, run_id=f"run-{number}", tool_calls=9))
        await room.fake.until(lambda: len(room.called("chat.update")) >= 3, "some edits")
        room.outlet.show_card(card_of(room, RunStatus.FAILED, run_id="run-39"))
        await room.fake.until(lambda: any("failed" in text for text in room.texts()), "the end")

        updates = room.called("chat.update")
        seconds = updates[-1].time - updates[0].time
        assert len(updates) <= BURST + 1 + EDITS_PER_MINUTE / 60 * seconds
        assert "failed" in updates[-1].args["text"]


async def test_cards_of_a_workspace_without_limits_are_quick() -> None:
    async with stand(budgets=no_limits()) as room:
        for calls in range(20):
            room.outlet.show_card(card_of(room, tool_calls=calls))
            await idle(room)

        assert "19 tool calls" in room.texts()[0]

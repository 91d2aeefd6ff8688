"""Announcements, questions and short things reach their user, in place or else directly."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bot.errors import DeliveryError
from bot.platforms.base import Choice, Weight
from bot.platforms.messaging.texts import KEPT_FOR_USER
from bot.platforms.slack.outlet import ABOVE
from bot.platforms.slack.texts import ELSEWHERE, IN_FILE, NO_THREAD, REPEATED
from bot.values import Place, Stopper
from tests.bot.platforms.slack.speaking import (
    Stand,
    announcement_of,
    question_of,
    stand,
)
from tests.fakes.slack.messages import Message


@pytest.fixture
async def room() -> AsyncIterator[Stand]:
    async with stand() as opened:
        yield opened


def ping(room: Stand) -> str:
    return f"<@{room.alice.id}>"


def only(messages: list[Message]) -> Message:
    assert len(messages) == 1
    return messages[0]


# --- hearing ------------------------------------------------------------------------------------


async def test_that_a_message_was_heard_is_seen_at_once(room: Stand) -> None:
    await room.outlet.acknowledge(room.place)

    assert room.fake.status(room.channel, room.said.ts) == "is thinking…"
    assert room.said.reactions == {}


@pytest.mark.parametrize("error", ["missing_scope", "unknown_method", "internal_error"])
async def test_where_there_is_no_status_eyes_show_that_a_message_was_heard(
    room: Stand, error: str
) -> None:
    room.fake.fail("assistant.threads.setStatus", error=error, times=None)

    await room.outlet.acknowledge(room.place)

    assert room.said.reactions == {"eyes": {room.fake.bot_user().id}}


async def test_a_message_outside_of_threads_is_heard_with_eyes(room: Stand) -> None:
    await room.outlet.acknowledge(replace(room.in_channel, message=room.said.ts))

    assert "eyes" in room.said.reactions
    assert room.fake.statuses == []


@pytest.mark.parametrize(
    "fault",
    [
        {"error": "channel_not_found"},
        {"error": "token_revoked"},
        {"error": "ratelimited"},
        {"status": 503},
        {"refuse": True},
        {"body": "nonsense"},
    ],
)
async def test_acknowledging_never_raises(room: Stand, fault: dict[str, object]) -> None:
    room.fake.fail("*", times=None, **fault)  # type: ignore[arg-type]

    await room.outlet.acknowledge(room.place)


async def test_acknowledging_nowhere_is_nothing(room: Stand) -> None:
    await room.outlet.acknowledge(Place("slack"))

    assert room.fake.calls == []


# --- announcements ------------------------------------------------------------------------------


async def test_an_announcement_is_in_its_thread_and_pings_its_owner(room: Stand) -> None:
    delivered = await room.outlet.announce(announcement_of(room))

    message = only(room.shown())
    assert message.thread_ts == room.said.ts
    assert message.readable().split("\n") == [
        "@alice *the news completed*",
        "There is **some**.",
        "12,345 tokens",
    ]
    assert message.pings == [ping(room)]
    assert (message.unfurl_links, message.unfurl_media) == (False, False)
    assert (message.link_names, message.parse) == (False, "none")
    assert delivered.message_ids == (message.ts,)


async def test_what_may_be_a_repetition_says_so(room: Stand) -> None:
    await room.outlet.announce(announcement_of(room, maybe_repeated=True))

    assert REPEATED in room.texts()[0]


async def test_an_announcement_names_who_stopped_a_run_and_pings_its_owner_only(
    room: Stand,
) -> None:
    stopper = Stopper(room.other, "Root <!channel>")

    await room.outlet.announce(announcement_of(room, stopped_by=stopper))

    message = only(room.shown())
    assert "Stopped by @Root <!channel>." in message.readable()
    assert message.pings == [ping(room)]


@pytest.mark.parametrize("text", ["There is some.", "A long story. " * 900])
async def test_an_announcement_of_a_run_that_can_be_resumed_has_a_button_for_its_owner(
    room: Stand, text: str
) -> None:
    await room.outlet.announce(announcement_of(room, text=text, resumable="the run"))

    *before, last = room.shown()
    assert [(each.action_id, each.value) for each in last.buttons(room.alice)] == [
        ("run:resume", "the run")
    ]
    assert last.buttons(room.bob) == []
    assert [message.buttons() for message in before] == [[] for _ in before]


async def test_an_announcement_for_a_channel_is_in_the_channel(room: Stand) -> None:
    await room.outlet.announce(announcement_of(room, place=room.in_channel))

    message = only(room.shown())
    assert message.thread_ts == ""
    assert message.pings == [ping(room)]
    assert NO_THREAD not in message.readable()


async def test_an_announcement_in_direct_messages_is_in_its_thread(room: Stand) -> None:
    place = await room.in_direct()

    await room.outlet.announce(announcement_of(room, place=place))

    assert only(room.shown(room.direct)).thread_ts == place.thread


async def test_a_long_announcement_goes_on_and_ends_with_its_footer(room: Stand) -> None:
    words = [f"word{number:04}" for number in range(3000)]

    delivered = await room.outlet.announce(announcement_of(room, text=" ".join(words)))

    messages = room.shown()
    assert [message.pings for message in messages] == [[ping(room)], [], []]
    assert "12,345 tokens" not in messages[0].readable()
    assert messages[-1].readable().endswith("12,345 tokens")
    assert "".join(" ".join(room.texts()).split("word")[1:]).startswith("0000 0001")
    assert all(word in " ".join(room.texts()) for word in words)
    assert delivered.message_ids == tuple(message.ts for message in messages)
    assert room.refused() == []


async def test_a_very_long_announcement_is_its_beginning_and_a_file(room: Stand) -> None:
    await room.outlet.announce(announcement_of(room, text="word " * 12_000))

    first, file = room.shown()
    assert first.pings == [ping(room)]
    assert first.readable().endswith("12,345 tokens")
    assert file.text == IN_FILE
    assert file.thread_ts == room.said.ts
    assert file.files[0].name == file.files[0].title == "result.md"
    assert file.files[0].snippet_type == "markdown"
    assert (file.files[0].content or b"").split() == [b"word"] * 12_000


async def test_an_announcement_without_text_says_so(room: Stand) -> None:
    await room.outlet.announce(announcement_of(room, title="", text="", footer=""))

    assert room.refused() == []
    assert "There is no text" in room.texts()[0]


# --- where else ---------------------------------------------------------------------------------


async def test_an_announcement_whose_thread_is_gone_is_a_direct_message_and_nowhere_else(
    room: Stand,
) -> None:
    await room.fake.delete(room.said)

    await room.outlet.announce(announcement_of(room))

    message = only(room.shown(room.direct))
    assert ELSEWHERE in message.readable()
    assert "There is **some**." in message.readable()
    assert room.shown() == []


@pytest.mark.parametrize(
    "error", ["cannot_reply_to_message", "message_not_found", "restricted_action_thread_locked"]
)
async def test_a_thread_that_takes_nothing_is_as_good_as_gone(room: Stand, error: str) -> None:
    room.fake.fail("chat.postMessage", error=error, times=None, when=lambda a: "thread_ts" in a)

    await room.outlet.announce(announcement_of(room))

    assert ELSEWHERE in only(room.shown(room.direct)).readable()
    assert room.shown() == []


async def test_when_direct_messages_take_nothing_the_channel_is_told_in_a_line_without_content(
    room: Stand,
) -> None:
    await room.fake.delete(room.said)
    room.fake.fail("conversations.open", error="user_disabled", times=None)

    with pytest.raises(DeliveryError) as caught:
        await room.outlet.announce(announcement_of(room))

    assert caught.value.permanent
    message = only(room.shown())
    assert message.readable() == f"@alice {KEPT_FOR_USER}"
    assert (message.thread_ts, message.pings) == ("", [ping(room)])


async def test_a_question_whose_thread_is_gone_is_asked_in_direct_messages_only(
    room: Stand,
) -> None:
    await room.fake.delete(room.said)

    assert await room.outlet.ask(question_of(room)) == ""

    assert len(room.shown(room.direct)) == 1
    assert room.shown() == []


async def test_an_announcement_whose_thread_in_direct_messages_is_gone_is_beside_it(
    room: Stand,
) -> None:
    place = await room.in_direct()
    asked = next(each for each in room.fake.messages(room.direct) if each.ts == place.thread)
    await room.fake.delete(asked)

    await room.outlet.announce(announcement_of(room, place=place))

    assert NO_THREAD in only(room.shown(room.direct)).readable()


async def test_an_announcement_whose_channel_is_archived_is_a_direct_message(room: Stand) -> None:
    room.channel.archived = True

    await room.outlet.announce(announcement_of(room))

    message = only(room.shown(room.direct))
    assert room.shown() == []
    assert ELSEWHERE in message.readable()
    assert "There is **some**." in message.readable()
    assert message.pings == []
    assert len(room.called("chat.postMessage")) == 2


@pytest.mark.parametrize(
    "error", ["channel_not_found", "not_in_channel", "restricted_action", "is_archived"]
)
async def test_an_announcement_for_a_channel_that_takes_nothing_is_a_direct_message(
    room: Stand, error: str
) -> None:
    room.fake.fail(
        "chat.postMessage", error=error, times=None, when=lambda a: a["channel"] == room.channel.id
    )

    await room.outlet.announce(announcement_of(room, place=room.in_channel))

    assert ELSEWHERE in only(room.shown(room.direct)).readable()


async def test_an_announcement_whose_bot_was_removed_is_a_direct_message(room: Stand) -> None:
    room.fake.remove_bot(room.channel)

    await room.outlet.announce(announcement_of(room))

    assert ELSEWHERE in only(room.shown(room.direct)).readable()


async def test_an_announcement_that_nobody_takes_is_kept_for_good(room: Stand) -> None:
    room.fake.fail("chat.postMessage", error="is_archived", times=None)

    with pytest.raises(DeliveryError, match="cannot be said anywhere") as caught:
        await room.outlet.announce(announcement_of(room))

    assert caught.value.permanent
    assert not caught.value.fate_unknown


async def test_an_announcement_for_somebody_who_is_gone_is_kept_for_good(room: Stand) -> None:
    room.channel.archived = True
    room.fake.fail("conversations.open", error="user_disabled", times=None)

    with pytest.raises(DeliveryError, match="deactivated") as caught:
        await room.outlet.announce(announcement_of(room))

    assert caught.value.permanent


async def test_direct_messages_that_take_nothing_are_not_asked_twice(room: Stand) -> None:
    place = await room.in_direct()
    room.fake.fail("chat.postMessage", error="messages_tab_disabled", times=None)

    with pytest.raises(DeliveryError) as caught:
        await room.outlet.announce(announcement_of(room, place=place))

    assert caught.value.permanent
    assert len(room.called("chat.postMessage")) == 1


@pytest.mark.parametrize("error", ["token_revoked", "account_inactive", "invalid_auth"])
async def test_a_bot_that_was_thrown_out_says_so_and_tries_nothing_else(
    room: Stand, error: str
) -> None:
    room.fake.fail("*", error=error, times=None)

    with pytest.raises(DeliveryError, match="install it again") as caught:
        await room.outlet.announce(announcement_of(room))

    assert caught.value.permanent
    assert len(room.fake.calls) == 1


@pytest.mark.parametrize(
    "fault", [{"error": "ratelimited"}, {"status": 503}, {"error": "fatal_error"}, {"cut": True}]
)
async def test_trouble_is_no_reason_to_say_it_elsewhere(
    room: Stand, fault: dict[str, object]
) -> None:
    room.fake.fail("chat.postMessage", times=None, **fault)  # type: ignore[arg-type]

    with pytest.raises(DeliveryError) as caught:
        await room.outlet.announce(announcement_of(room))

    assert not caught.value.permanent
    assert caught.value.fate_unknown == (fault in ({"error": "fatal_error"}, {"cut": True}))
    assert len(room.fake.calls) == 1


async def test_an_announcement_is_never_anywhere_else(room: Stand) -> None:
    room.fake.add_channel("elsewhere")
    room.channel.archived = True
    room.fake.dm(room.bob)

    await room.outlet.announce(announcement_of(room))

    assert {message.channel for message in room.everything()} == {room.direct}


# --- questions ----------------------------------------------------------------------------------


async def test_a_question_names_its_owner_the_time_and_the_answers(room: Stand) -> None:
    await room.outlet.ask(question_of(room))

    message = only(room.shown())
    assert message.thread_ts == room.said.ts
    assert message.pings == [ping(room)]
    assert message.readable(room.alice).split("\n") == [
        "@alice",
        "Shall I delete the list?",
        "The question ends at 10 min from now; no answer counts as no.",
        "[Yes] [No]",
    ]
    answers = [(b.action_id, b.value) for b in message.buttons(room.alice)]
    assert answers == [("ask:yes", "question-1"), ("ask:no", "question-1")]


async def test_a_question_has_a_button_for_each_choice_in_its_colour(room: Stand) -> None:
    allowed = (
        Choice("yes", "Allow once", Weight.GOOD),
        Choice("all", "Allow for this run"),
        Choice("no", "Deny", Weight.BAD),
    )

    await room.outlet.ask(question_of(room, choices=allowed))

    message = only(room.shown())
    buttons = message.buttons(room.alice)
    assert [b.label for b in buttons] == ["Allow once", "Allow for this run", "Deny"]
    assert [b.action_id for b in buttons] == ["ask:yes", "ask:all", "ask:no"]
    assert [b.element.get("style") for b in buttons] == ["primary", None, "danger"]
    assert message.text == (
        f"{message.readable().splitlines()[0].replace('@alice', ping(room))}\n"
        "Shall I delete the list?\n"
        "Answer here with `yes`, `all` or `no` (`yes tion-1` when several are open). "
        "No answer within 10 min counts as no."
    )


async def test_an_open_question_says_that_a_message_is_an_answer_and_has_at_most_six_buttons(
    room: Stand,
) -> None:
    options = tuple(Choice(f"{number}", f"Option {number}") for number in range(1, 8))

    await room.outlet.ask(question_of(room, choices=options, open_ended=True))

    message = only(room.shown())
    assert "Answer here with a message, or press a button." in message.readable()
    assert "counts as no" not in message.readable()
    assert message.text.endswith("`6` Option 6\nAnswer here with a message.")
    rows = [block["elements"] for block in message.blocks if block["type"] == "actions"]
    assert [len(row) for row in rows] == [5, 1]


async def test_nobody_else_sees_the_buttons_of_a_question(room: Stand) -> None:
    await room.outlet.ask(question_of(room))

    assert only(room.shown()).buttons(room.bob) == []


async def test_a_long_question_is_shown_whole_before_it_can_be_answered(room: Stand) -> None:
    text = " ".join(f"word{number}" for number in range(700))

    await room.outlet.ask(question_of(room, text=text))

    first, last = room.shown()
    assert text in first.readable()
    assert first.pings == [ping(room)]
    assert ABOVE in last.readable()
    assert len(last.buttons(room.alice)) == 2
    assert room.refused() == []


async def test_a_question_follows_its_owner_as_an_announcement_does(room: Stand) -> None:
    room.channel.archived = True

    await room.outlet.ask(question_of(room))

    message = only(room.shown(room.direct))
    assert ELSEWHERE in message.readable()
    assert len(message.buttons(room.alice)) == 2


async def test_where_nobody_can_be_asked_the_question_fails(room: Stand) -> None:
    room.fake.fail("*", error="is_archived", times=None)

    with pytest.raises(DeliveryError):
        await room.outlet.ask(question_of(room))


# --- short things -------------------------------------------------------------------------------


async def test_what_is_told_is_seen_by_that_user_only(room: Stand) -> None:
    await room.outlet.tell(room.place, room.owner, "Your run was **stopped**.")

    message = only(room.fake.ephemerals(room.alice))
    assert message.readable() == "Your run was **stopped**."
    assert message.thread_ts == room.said.ts
    assert message.pings == []
    assert room.shown() == []


async def test_what_is_told_in_direct_messages_stays_there(room: Stand) -> None:
    place = await room.in_direct()

    await room.outlet.tell(place, room.owner, "Your run was stopped.")

    assert only(room.shown(room.direct)).thread_ts == place.thread


async def test_what_cannot_be_told_in_place_is_told_in_a_direct_message(room: Stand) -> None:
    room.channel.members.discard(room.alice.id)

    await room.outlet.tell(room.place, room.owner, "Your run was stopped.")

    assert only(room.shown(room.direct)).readable() == "Your run was stopped."


@pytest.mark.parametrize(
    "fault",
    [{"error": "channel_not_found"}, {"error": "ratelimited"}, {"status": 502}, {"cut": True}],
)
async def test_telling_never_raises(room: Stand, fault: dict[str, object]) -> None:
    room.fake.fail("*", times=None, **fault)  # type: ignore[arg-type]

    await room.outlet.tell(room.place, room.owner, "Your run was stopped.")
    await room.outlet.tell(Place("slack"), room.owner, "Your run was stopped.")

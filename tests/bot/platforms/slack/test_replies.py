"""A reply streams or is edited, ends whole whatever happens, and pings nobody."""

import asyncio
import re
from collections.abc import AsyncIterator

import pytest

from bot.errors import DeliveryError
from bot.platforms.slack.texts import IN_FILE, MOST_CHARACTERS, NO_ANSWER, NO_THREAD
from bot.values import Place
from tests.bot.platforms.slack.speaking import Stand, stand


@pytest.fixture
async def room() -> AsyncIterator[Stand]:
    async with stand() as opened:
        yield opened


# --- streaming ----------------------------------------------------------------------------------


async def test_a_reply_streams_in_one_message_and_ends_in_it(room: Stand) -> None:
    begun: list[str] = []
    reply = room.outlet.open_reply(room.place, room.owner, begun=begun.append)
    reply.update("The answer is")
    message = await room.shows("The answer")
    reply.update("The answer is forty-two, I thi")
    await room.shows("forty-two, I")

    delivered = await reply.finish("The answer is forty-two, I think.")

    assert room.texts() == ["The answer is forty-two, I think."]
    assert message.thread_ts == room.said.ts
    assert message.stream is not None
    assert message.stream.end == "stopped"
    assert begun == list(delivered.message_ids) == [message.ts]
    assert room.called("chat.update") == []


async def test_in_a_channel_the_stream_names_who_asked(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("The answer is")
    await room.shows("The answer")

    await reply.finish("The answer is 42.")

    start = room.called("chat.startStream")[0].args
    assert start["recipient_user_id"] == room.alice.id
    assert start["recipient_team_id"] == room.fake.team.id


async def test_a_user_of_an_organisation_is_named_with_the_team_of_the_place(
    room: Stand,
) -> None:
    owner = type(room.owner)("slack", "E0ORG", room.alice.id)
    place = Place("slack", f"E0ORG.{room.fake.team.id}", room.channel.id, room.said.ts)
    reply = room.outlet.open_reply(place, owner)
    reply.update("The answer is")
    await room.shows("The answer")

    await reply.finish("The answer is 42.")

    assert room.called("chat.startStream")[0].args["recipient_team_id"] == room.fake.team.id


async def test_words_are_shown_when_they_are_whole(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("Look at xoxb-12345")
    message = await room.shows("Look at")

    assert "xoxb" not in message.readable()

    await reply.finish("Look at xoxb-123456789012-abcdefghij please.")

    assert "123456789012" not in room.texts()[-1]
    assert room.texts()[-1].endswith("please.")


async def test_what_the_model_thinks_is_not_streamed(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("💭 Let me think about that")
    reply.update("First this.\n\n💭 And what about this")
    message = await room.shows("First this.")
    reply.update("First this.\n\nThen that, I thi")
    await room.shows("Then that, I")

    await reply.finish("First this.\n\nThen that, I think.")

    assert room.texts() == ["First this.\n\nThen that, I think."]
    assert message.edits == 0


async def test_a_reply_that_was_never_shown_is_posted(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)

    delivered = await reply.finish("Done.")

    message = room.shown()[0]
    assert room.texts() == ["Done."]
    assert delivered.message_ids == (message.ts,)
    assert message.thread_ts == room.said.ts
    assert (message.unfurl_links, message.unfurl_media) == (False, False)
    assert message.parse == "none"
    assert room.called("chat.startStream") == []


async def test_an_empty_answer_says_so(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)

    await reply.finish("\n")

    assert room.texts() == [NO_ANSWER]


async def test_where_nothing_streams_it_is_tried_once(room: Stand) -> None:
    room.fake.streaming = False
    first = room.outlet.open_reply(room.place, room.owner)
    first.update("The answer is")
    message = await room.shows("The answer")
    first.update("The answer is forty or")
    await room.shows("forty")
    await first.finish("The answer is forty-two.")

    second = room.outlet.open_reply(room.place, room.owner)
    second.update("Another answer")
    await room.shows("Another")
    await second.finish("Another answer.")

    assert room.texts() == ["The answer is forty-two.", "Another answer."]
    assert len(room.called("chat.startStream")) == 1
    assert message.edits == 2


async def test_a_stream_that_dies_goes_on_as_edits_of_the_same_message(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("One two three")
    message = await room.shows("One two")
    room.fake.end_streams()
    reply.update("One two three four five six")
    await room.shows("four five")

    delivered = await reply.finish("One two three four five six.")

    assert room.texts() == ["One two three four five six."]
    assert delivered.message_ids == (message.ts,)


async def test_a_stream_that_dies_unnoticed_ends_whole(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("One two three")
    message = await room.shows("One two")
    room.fake.end_streams()

    delivered = await reply.finish("One two three four.")

    assert room.texts() == ["One two three four."]
    assert delivered.message_ids == (message.ts,)


async def test_a_stream_that_the_user_stopped_ends_whole(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("One two three")
    await room.shows("One two")
    await room.fake.until(
        lambda: room.fake.session(room.channel, room.said.ts) == "processing", "Stop"
    )
    await room.fake.stop_clicked(room.alice, room.channel, room.said.ts)

    await reply.finish("One two three\n\nStopped.")

    assert room.texts() == ["One two three\n\nStopped."]
    await room.fake.until(
        lambda: room.fake.session(room.channel, room.said.ts) == "active", "no Stop"
    )


async def test_what_was_shown_and_has_changed_is_edited(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("One two three")
    message = await room.shows("One two")
    reply.update("Now something else is here")
    await room.shows("something else")

    await reply.finish("Now something else is here.")

    assert room.texts() == ["Now something else is here."]
    assert room.shown() == [message]


async def test_a_piece_whose_fate_is_unknown_is_not_shown_twice(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("One two three")
    await room.shows("One two")
    room.fake.fail("chat.appendStream", cut=True)
    reply.update("One two three four five six")
    await room.shows("four five")

    await reply.finish("One two three four five six.")

    assert room.texts() == ["One two three four five six."]


async def test_an_end_whose_fate_is_unknown_is_not_shown_twice(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("One two three")
    await room.shows("One two")
    room.fake.fail("chat.stopStream", cut=True)

    await reply.finish("One two three four.")

    assert room.texts() == ["One two three four."]


async def test_a_piece_that_slack_is_too_busy_for_follows_later(room: Stand) -> None:
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("One two three")
    await room.shows("One two")
    fault = room.fake.fail("chat.appendStream", error="ratelimited")
    reply.update("One two three four five")
    await room.fake.until(lambda: fault.hits, "a refusal")
    reply.update("One two three four five six seven")
    message = await room.shows("five six")

    await reply.finish("One two three four five six seven.")

    assert room.texts() == ["One two three four five six seven."]
    assert message.edits == 0


async def test_when_too_many_begin_at_once_a_reply_is_edited(room: Stand) -> None:
    while room.outlet.budgets.streams[room.fake.team.id].take_now():
        pass
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("The answer is")
    await room.shows("The answer")

    await reply.finish("The answer is 42.")

    assert room.texts() == ["The answer is 42."]
    assert room.called("chat.startStream") == []


async def test_a_command_in_a_channel_is_answered_without_a_stream(room: Stand) -> None:
    reply = room.outlet.open_reply(room.in_channel, room.owner)
    reply.update("The answer is")
    message = await room.shows("The answer")

    await reply.finish("The answer is 42.")

    assert room.texts() == ["The answer is 42."]
    assert message.thread_ts == ""


async def test_a_reply_in_direct_messages_is_in_the_thread_of_its_question(room: Stand) -> None:
    place = await room.in_direct()
    reply = room.outlet.open_reply(place, room.owner)
    reply.update("The answer is")
    message = await room.shows("The answer", room.direct)

    await reply.finish("The answer is 42.")

    assert room.texts(room.direct) == ["The answer is 42."]
    assert message.thread_ts == place.thread


# --- going on -----------------------------------------------------------------------------------


async def test_a_reply_that_is_left_stays_as_it_is_and_is_gone_on_with(room: Stand) -> None:
    begun: list[str] = []
    first = room.outlet.open_reply(room.place, room.owner, begun=begun.append)
    first.update("One two three")
    message = await room.shows("One two")
    await first.abandon()
    first.update("One two three four five")

    assert not message.streaming
    assert message.readable() == "One two "

    again = room.outlet.open_reply(room.place, room.owner, begun[0])
    again.update("One two three four")
    await room.shows("two three")
    delivered = await again.finish("One two three four five.")

    assert room.texts() == ["One two three four five."]
    assert delivered.message_ids == (message.ts,)


async def test_a_reply_that_is_gone_on_with_never_shrinks(room: Stand) -> None:
    begun: list[str] = []
    first = room.outlet.open_reply(room.place, room.owner, begun=begun.append)
    first.update("One two three four")
    message = await room.shows("three")
    await first.abandon()

    again = room.outlet.open_reply(room.place, room.owner, begun[0])
    again.update("Five six")
    await room.fake.until(lambda: bool(room.called("conversations.replies")), "a look at it")
    again.update("Five six seven eight nine ten")
    await room.shows("nine")
    await again.finish("Eleven.")

    assert room.texts() == ["Eleven."]
    assert message.edits == 2


async def test_a_reply_whose_process_was_killed_is_gone_on_with(room: Stand) -> None:
    begun: list[str] = []
    first = room.outlet.open_reply(room.place, room.owner, begun=begun.append)
    first.update("One two three")
    message = await room.shows("One two")
    assert message.streaming
    # Slack shows it before its own answer has arrived.
    await room.fake.until(lambda: begun, "the reply knows its message")

    again = room.outlet.open_reply(room.place, room.owner, begun[0])
    await again.finish("One two three four.")

    assert room.texts() == ["One two three four."]
    assert message.edits == 1


async def test_a_reply_that_somebody_deleted_is_posted_anew(room: Stand) -> None:
    again = room.outlet.open_reply(room.place, room.owner, "1700000000.000001")

    delivered = await again.finish("The answer is 42.")

    assert room.texts() == ["The answer is 42."]
    assert delivered.message_ids == (room.shown()[0].ts,)


async def test_a_reply_too_old_to_be_edited_is_posted_anew_and_the_old_one_taken_away(
    room: Stand,
) -> None:
    first = room.outlet.open_reply(room.place, room.owner)
    await first.finish("An old answer")
    old = room.shown()[0]
    room.fake.chat.edit_window = 0.0

    again = room.outlet.open_reply(room.place, room.owner, old.ts)
    await again.finish("The answer is 42.")

    assert room.texts() == ["The answer is 42."]
    assert old.deleted


# --- long answers -------------------------------------------------------------------------------


async def test_a_long_answer_streams_on_in_one_message_as_far_as_it_goes(room: Stand) -> None:
    words = [f"word{number:04}" for number in range(800)]
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update(" ".join(words[:600]))
    await room.shows("word0598")

    await reply.finish(" ".join(words))

    assert len(room.shown()) == 1
    assert re.findall(r"word\d{4}", room.texts()[0]) == words


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_very_long_answer_goes_on_in_further_messages(
    room: Stand, *, streaming: bool
) -> None:
    room.fake.streaming = streaming
    words = [f"word{number:04}" for number in range(3000)]
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update(" ".join(words[:2000]))
    await room.fake.until(room.shown, "something")
    reply.update(" ".join(words[:2500]))

    delivered = await reply.finish(" ".join(words))

    assert len(room.shown()) == 3
    assert re.findall(r"word\d{4}", " ".join(room.texts())) == words
    assert delivered.message_ids == tuple(message.ts for message in room.shown())
    assert room.refused() == []


async def test_an_answer_of_too_many_messages_ends_in_a_file(room: Stand) -> None:
    words = [f"word{number:05}" for number in range(7000)]
    reply = room.outlet.open_reply(room.place, room.owner)

    await reply.finish(" ".join(words) + " & a < b")

    first, file = room.shown()
    assert first.readable().startswith("word00000")
    assert len(first.readable()) <= MOST_CHARACTERS
    content = file.files[0].content
    assert file.text == IN_FILE
    assert content is not None
    assert re.findall(r"word\d{5}", content.decode()) == words
    assert content.decode().strip().endswith("& a < b")
    assert file.files[0].name == "answer.md"
    assert file.thread_ts == room.said.ts


@pytest.mark.parametrize(
    "fault",
    [
        {"error": "file_uploads_disabled"},
        {"error": "missing_scope"},
        {"status": 503, "times": None},
        {"cut": True},
    ],
)
async def test_where_no_files_are_taken_a_long_answer_goes_out_in_messages(
    room: Stand, fault: dict[str, object]
) -> None:
    room.fake.fail("files.getUploadURLExternal", **({"times": None} | fault))  # type: ignore[arg-type]
    words = [f"word{number:05}" for number in range(7000)]
    reply = room.outlet.open_reply(room.place, room.owner)

    await reply.finish(" ".join(words))

    assert len(room.shown()) == 7
    assert re.findall(r"word\d{5}", " ".join(room.texts())) == words


async def test_what_slack_does_not_take_as_markdown_is_sent_plain(room: Stand) -> None:
    room.fake.fail(
        "chat.postMessage", error="msg_too_long", times=None, when=lambda a: "markdown_text" in a
    )
    reply = room.outlet.open_reply(room.place, room.owner)

    await reply.finish("Is a < b & c <!channel>?")

    assert "Is a < b & c" in room.texts()[0]
    assert room.pings() == []


async def test_an_edit_that_slack_does_not_take_is_a_message_instead(room: Stand) -> None:
    room.fake.streaming = False
    room.fake.fail("chat.update", error="msg_too_long", times=None)
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("The answer is")
    await room.shows("The answer")

    await reply.finish("The answer is 42.")

    assert room.texts() == ["The answer is 42."]


# --- trouble ------------------------------------------------------------------------------------


async def test_a_reply_whose_thread_is_gone_is_not_said_in_the_channel(room: Stand) -> None:
    await room.fake.delete(room.said)
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("The answer is")

    with pytest.raises(DeliveryError) as caught:
        await reply.finish("The answer is 42.")

    assert caught.value.permanent
    assert not caught.value.fate_unknown
    assert room.shown() == []


async def test_a_reply_whose_thread_in_direct_messages_is_gone_is_said_beside_it(
    room: Stand,
) -> None:
    place = await room.in_direct()
    asked = next(each for each in room.fake.messages(room.direct) if each.ts == place.thread)
    await room.fake.delete(asked)

    await room.outlet.open_reply(place, room.owner).finish("The answer is 42.")

    (message,) = room.shown(room.direct)
    assert NO_THREAD in message.readable()
    assert "The answer is 42." in message.readable()


@pytest.mark.parametrize(
    "error", ["channel_not_found", "is_archived", "not_in_channel", "token_revoked"]
)
async def test_a_reply_that_slack_refuses_for_good_says_so(room: Stand, error: str) -> None:
    room.fake.fail("*", error=error, times=None)
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("The answer is")

    with pytest.raises(DeliveryError) as caught:
        await reply.finish("The answer is 42.")

    assert caught.value.permanent
    assert not caught.value.fate_unknown


@pytest.mark.parametrize(
    ("error", "unknown"), [("ratelimited", False), ("internal_error", True), ("fatal_error", True)]
)
async def test_a_reply_that_slack_cannot_take_now_is_not_lost_for_good(
    room: Stand, error: str, unknown: bool
) -> None:
    room.fake.fail("*", error=error, times=None)
    reply = room.outlet.open_reply(room.place, room.owner)

    with pytest.raises(DeliveryError) as caught:
        await reply.finish("The answer is 42.")

    assert not caught.value.permanent
    assert caught.value.fate_unknown is unknown


async def test_a_reply_that_got_no_answer_has_an_unknown_fate_and_is_not_repeated(
    room: Stand,
) -> None:
    room.fake.fail("chat.postMessage", cut=True)
    reply = room.outlet.open_reply(room.place, room.owner)

    with pytest.raises(DeliveryError) as caught:
        await reply.finish("The answer is 42.")

    assert caught.value.fate_unknown
    assert len(room.called("chat.postMessage")) == 1


async def test_a_reply_whose_rest_is_refused_may_have_been_read(room: Stand) -> None:
    calls: list[int] = []

    def all_but_the_first(_: object) -> bool:
        calls.append(1)
        return len(calls) > 1

    room.fake.fail("chat.postMessage", error="is_archived", times=None, when=all_but_the_first)
    reply = room.outlet.open_reply(room.place, room.owner)

    with pytest.raises(DeliveryError) as caught:
        await reply.finish("word " * 3000)

    assert caught.value.fate_unknown
    assert not caught.value.permanent


async def test_the_rest_of_a_reply_waits_until_slack_is_well(room: Stand) -> None:
    calls: list[int] = []

    def the_second(_: object) -> bool:
        calls.append(1)
        return len(calls) in {2, 3}

    room.fake.fail("chat.postMessage", status=503, times=None, when=the_second)
    reply = room.outlet.open_reply(room.place, room.owner)

    delivered = await reply.finish("word " * 3000)

    assert len(delivered.message_ids) == 2
    assert len(" ".join(room.texts()).split()) == 3000


async def test_trouble_while_it_grows_is_no_trouble_at_the_end(room: Stand) -> None:
    room.fake.streaming = False
    reply = room.outlet.open_reply(room.place, room.owner)
    reply.update("The answer is")
    await room.shows("The answer")
    fault = room.fake.fail("chat.update", error="internal_error", times=1)
    reply.update("The answer is forty")
    await room.fake.until(lambda: fault.hits, "an error")

    await reply.finish("The answer is 42.")

    assert room.texts() == ["The answer is 42."]


async def test_many_replies_at_once_all_end_whole(room: Stand) -> None:
    async def one(number: int) -> None:
        said = await room.fake.say(room.alice, room.channel, f"question {number}")
        place = Place("slack", room.fake.team.id, room.channel.id, said.ts, said.ts)
        reply = room.outlet.open_reply(place, room.owner)
        reply.update(f"Answer number {number} is")
        await asyncio.sleep(0)
        await reply.finish(f"Answer number {number} is here.")

    async with asyncio.TaskGroup() as group:
        for number in range(12):
            group.create_task(one(number))

    texts = sorted(room.texts(), key=lambda text: int(text.split()[2]))
    assert texts == [f"Answer number {number} is here." for number in range(12)]


async def test_a_text_that_slack_takes_offence_at_is_no_reason_to_stream_no_more(
    room: Stand,
) -> None:
    room.fake.fail("chat.startStream", error="msg_too_long")
    for text in ("One. Two. ", "Three. Four. "):
        reply = room.outlet.open_reply(room.place, room.owner)
        reply.update(text)
        await room.fake.until(lambda: text.split()[0] in "".join(room.texts()), "it to grow")  # noqa: B023
        await reply.finish(text)

    assert len(room.called("chat.startStream")) == 2


# --- when Slack takes no edits for long -----------------------------------------------------------


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_answer_whose_edits_are_limited_for_minutes_is_posted_anew_at_once(
    room: Stand, *, streaming: bool
) -> None:
    room.fake.streaming = streaming
    begun: list[str] = []
    reply = room.outlet.open_reply(room.place, room.owner, begun=begun.append)
    reply.update("The answer is")
    await room.shows("The answer")
    for method in ("chat.update", "chat.stopStream", "chat.appendStream"):
        room.fake.fail(method, error="ratelimited", status=429, retry_after=300, times=None)

    async with asyncio.timeout(20):
        delivered = await reply.finish("The answer is 42.")

    assert room.texts()[-1] == "The answer is 42."
    assert list(delivered.message_ids) == begun[-1:]
    # What is still streaming cannot be deleted.
    assert len(room.texts()) == 1 + streaming


async def test_edits_that_rest_in_a_workspace_hold_up_no_answer(room: Stand) -> None:
    room.fake.streaming = False
    first, second = (room.outlet.open_reply(room.place, room.owner) for _ in range(2))
    for reply in (first, second):
        reply.update("Wait a moment")
    await room.fake.until(lambda: len(room.texts()) == 2, "both")
    room.fake.fail("chat.update", error="ratelimited", status=429, retry_after=60, times=None)

    async with asyncio.timeout(20):
        await first.finish("One.")
        await second.finish("Two.")

    assert sorted(room.texts()) == ["One.", "Two."]
    assert len(room.called("chat.update")) == 1

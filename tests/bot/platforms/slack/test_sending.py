"""What goes wrong on the way to Slack is told apart, and nothing is said twice by itself."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bot.errors import DeliveryError
from bot.platforms.slack.clients import Installed, new_client, open_session
from bot.platforms.slack.problems import CHANNEL_GONE, THREAD_GONE, USER_GONE, RefusedError
from bot.platforms.slack.sending import Draft, Sender, made_harmless
from bot.platforms.slack.texts import harmless, parts_of
from bot.values import Identity, Place
from tests.bot.platforms.slack.speaking import Stand, stand

HELLO = Draft(markdown="Hello.")


@pytest.fixture
async def room() -> AsyncIterator[Stand]:
    async with stand() as opened:
        yield opened


async def failing(room: Stand, **fault: object) -> DeliveryError:
    """Return what posting a message fails with."""
    room.fake.fail("chat.postMessage", **({"times": None} | fault))  # type: ignore[arg-type]
    with pytest.raises(DeliveryError) as caught:
        await room.outlet.sender.post(room.place, HELLO)
    return caught.value


# --- what goes wrong ----------------------------------------------------------------------------


async def test_a_connection_that_breaks_leaves_the_fate_of_a_message_unknown(room: Stand) -> None:
    error = await failing(room, cut=True)

    assert error.fate_unknown
    assert not error.permanent
    assert len(room.called("chat.postMessage")) == 1
    assert len(room.shown()) == 1


async def test_a_slack_that_cannot_be_reached_has_taken_nothing(room: Stand) -> None:
    async with open_session() as session:
        nowhere = new_client("xoxb-1", api_url="http://127.0.0.1:9/api/", session=session)

        class Nowhere:
            async def find(self, workspace: str) -> tuple[str, Installed]:
                return workspace, Installed(client=nowhere, token="xoxb-1", user="U1", bot="")

        with pytest.raises(DeliveryError) as caught:
            await Sender(Nowhere()).post(room.place, HELLO)  # type: ignore[arg-type]

    assert not caught.value.fate_unknown
    assert not caught.value.permanent


async def test_an_answer_that_takes_too_long_leaves_the_fate_unknown(room: Stand) -> None:
    late = asyncio.Event()
    await room.client.auth_test()
    room.fake.fail("chat.postMessage", late=late)
    room.client.session._timeout = type(room.client.session._timeout)(total=1.0)  # type: ignore[union-attr]

    with pytest.raises(DeliveryError) as caught:
        await room.outlet.sender.post(room.place, HELLO)

    late.set()
    assert caught.value.fate_unknown
    assert len(room.called("chat.postMessage")) == 1


@pytest.mark.parametrize(
    ("status", "unknown"), [(500, True), (502, True), (503, False), (504, True)]
)
async def test_a_slack_that_is_out_of_order_is_tried_again_later_and_not_at_once(
    room: Stand, status: int, unknown: bool
) -> None:
    error = await failing(room, status=status)

    assert not error.permanent
    assert error.fate_unknown is unknown
    assert len(room.called("chat.postMessage")) == 1


@pytest.mark.parametrize("body", ["<html>hello</html>", "{", ""])
async def test_an_answer_that_nobody_understands_is_trouble_for_now(room: Stand, body: str) -> None:
    error = await failing(room, body=body)

    assert not error.permanent
    assert error.fate_unknown


async def test_a_short_rate_limit_is_waited_for(room: Stand) -> None:
    fault = room.fake.fail("chat.postMessage", status=429, retry_after=0, times=2)

    await room.outlet.sender.post(room.place, HELLO)

    assert fault.hits == 2
    assert len(room.shown()) == 1


async def test_after_three_waits_it_is_for_later(room: Stand) -> None:
    error = await failing(room, status=429, retry_after=0)

    assert not error.permanent
    assert not error.fate_unknown
    assert len(room.called("chat.postMessage")) == 4


@pytest.mark.parametrize("seconds", [11, 3600])
async def test_a_long_rate_limit_is_for_later_at_once(room: Stand, seconds: int) -> None:
    error = await failing(room, status=429, retry_after=seconds)

    assert not error.permanent
    assert len(room.called("chat.postMessage")) == 1


@pytest.mark.parametrize("fault", [{"refuse": True}, {"status": 503}, {"cut": True}])
async def test_an_edit_is_repeated_since_that_changes_nothing(
    room: Stand, fault: dict[str, object]
) -> None:
    ts = await room.outlet.sender.post(room.place, HELLO)
    room.fake.fail("chat.update", **fault)  # type: ignore[arg-type]

    await room.outlet.sender.edit(room.place, ts, Draft(markdown="Bye."))

    assert room.texts() == ["Bye."]


@pytest.mark.parametrize("code", sorted(CHANNEL_GONE.keys() | USER_GONE.keys() | THREAD_GONE))
async def test_a_place_that_takes_nothing_is_refused_for_good(room: Stand, code: str) -> None:
    error = await failing(room, error=code)

    assert isinstance(error, RefusedError)
    assert error.permanent
    assert error.place_gone
    assert error.thread_gone == (code in THREAD_GONE)
    assert str(error).endswith(".")


async def test_an_unknown_refusal_is_for_good_and_no_reason_to_go_elsewhere(room: Stand) -> None:
    error = await failing(room, error="something_new")

    assert isinstance(error, RefusedError)
    assert not error.place_gone
    assert "something_new" in str(error)


async def test_what_fails_for_the_whole_app_is_not_the_place(room: Stand) -> None:
    error = await failing(room, error="token_expired")

    assert isinstance(error, RefusedError)
    assert error.token_refused
    assert not error.place_gone


async def test_no_error_carries_the_text_or_the_token(room: Stand) -> None:
    error = await failing(room, error="something_new")

    assert room.fake.bot_token not in str(error)
    assert "Hello" not in str(error)


# --- what is sent -------------------------------------------------------------------------------


async def test_a_message_shows_no_preview_and_finds_no_names(room: Stand) -> None:
    ts = await room.outlet.sender.post(room.place, HELLO)
    await room.outlet.sender.edit(room.place, ts, Draft(markdown="See @bob."))
    await room.outlet.sender.whisper(room.place, room.alice.id, Draft(markdown="See @bob."))

    for call in room.fake.calls:
        assert (call.args["link_names"], call.args["parse"]) == (False, "none")
    post = room.called("chat.postMessage")[0].args
    assert (post["unfurl_links"], post["unfurl_media"]) == (False, False)
    assert room.pings() == []


async def test_blocks_that_slack_does_not_take_are_said_in_words(room: Stand) -> None:
    draft = Draft(blocks=({"type": "nonsense"},), mrkdwn="In words")

    await room.outlet.sender.post(room.place, draft)

    assert room.texts() == ["In words"]


async def test_direct_messages_have_a_place(room: Stand) -> None:
    place = await room.outlet.sender.direct(room.fake.team.id, room.alice.id)

    assert place == Place("slack", room.fake.team.id, room.direct.id)


async def test_the_rest_of_a_text_goes_out_in_order(room: Stand) -> None:
    parts = parts_of(" ".join(f"word{number:04}" for number in range(2500)), name="x.md")

    ids = await room.outlet.sender.post_rest(room.place, parts)

    assert ids == tuple(message.ts for message in room.shown())
    assert tuple(room.texts()) == parts.texts[1:]


async def test_the_rest_of_a_text_that_fails_may_have_been_read_in_part(room: Stand) -> None:
    room.fake.fail("chat.postMessage", error="ratelimited", times=None)
    parts = parts_of("word " * 2500, name="x.md")

    with pytest.raises(DeliveryError) as caught:
        await room.outlet.sender.post_rest(room.place, parts)

    assert caught.value.fate_unknown
    assert not caught.value.permanent
    assert len(room.called("chat.postMessage")) == 3


async def test_a_stream_that_got_no_answer_is_not_begun_twice(room: Stand) -> None:
    room.fake.fail("chat.startStream", cut=True)

    with pytest.raises(DeliveryError) as caught:
        await room.outlet.sender.start_stream(room.place, room.owner, "One")

    assert caught.value.fate_unknown
    assert len(room.called("chat.startStream")) == 1


async def test_who_is_of_another_team_is_named_with_it(room: Stand) -> None:
    stranger = Identity("slack", "T0OTHER", room.bob.id)

    await room.outlet.sender.start_stream(room.place, stranger, "One")

    assert room.called("chat.startStream")[0].args["recipient_team_id"] == "T0OTHER"


async def test_long_texts_are_made_harmless_as_short_ones_are() -> None:
    text = "Look <!channel> & [here](https://evil.example). " * 400

    assert await made_harmless(text) == harmless(text)
    assert await made_harmless("a < b") == "a &lt; b"


async def test_while_slack_wants_to_be_left_alone_nothing_is_edited(room: Stand) -> None:
    now = 100.0
    sender = Sender(room.clients, monotonic=lambda: now)
    message_id = await sender.post(room.place, HELLO)
    room.fake.fail("chat.update", error="ratelimited", status=429, retry_after=30)
    with pytest.raises(DeliveryError) as caught:
        await sender.edit(room.place, message_id, HELLO)
    asked = len(room.called("chat.update"))

    editing = asyncio.ensure_future(sender.edit(room.place, message_id, Draft(markdown="Bye.")))
    done, _ = await asyncio.wait({editing}, timeout=0.3)
    assert not done
    assert len(room.called("chat.update")) == asked
    assert caught.value.retry_after_seconds == 30
    editing.cancel()

    now += 30
    await sender.edit(room.place, message_id, Draft(markdown="Bye."))
    assert room.texts()[-1] == "Bye."


async def test_new_messages_of_a_place_do_not_overtake_one_another(room: Stand) -> None:
    sender = room.outlet.sender
    elsewhere, hold = room.in_channel, asyncio.Event()
    first = room.fake.fail("chat.postMessage", hold=hold)
    async with asyncio.TaskGroup() as group:
        group.create_task(sender.post(room.place, Draft(markdown="the card")))
        await room.fake.until(lambda: first.hits, "the first")
        group.create_task(sender.start_stream(room.place, room.owner, "the answer"))
        group.create_task(sender.post(room.place, Draft(markdown="the announcement")))
        await sender.post(elsewhere, Draft(markdown="elsewhere"))
        assert room.texts() == ["elsewhere"]
        hold.set()

    shown = [message.readable(room.alice) for message in room.shown() if message.thread_ts]
    assert shown == ["the card", "the answer", "the announcement"]

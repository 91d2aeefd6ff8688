"""Messages go out once, ping nobody but the one, and what goes wrong is told apart."""

import asyncio
from collections.abc import AsyncIterator

import discord
import pytest

from bot.errors import DeliveryError
from bot.platforms.base import OutgoingFile
from bot.platforms.discord.buttons import Row, RunButton
from bot.platforms.discord.problems import TOO_MANY_EDITS
from bot.platforms.discord.sending import Draft, Sender, made_harmless
from bot.platforms.discord.texts import IN_FILE
from bot.platforms.messaging.outlet import RefusedError
from bot.platforms.messaging.splitting import MessageParts
from tests.bot.platforms.discord.speaking import MESSAGE, MESSAGES, RUN, THREADS, Stand, stand

SUPPRESSED, COMPONENTS_V2 = 1 << 2, 1 << 15


@pytest.fixture
async def room() -> AsyncIterator[Stand]:
    async with stand() as opened:
        yield opened


def here(room: Stand) -> str:
    return str(room.channel.id)


def payload(room: Stand, method: str = "POST", path: str = MESSAGES) -> dict[str, object]:
    return room.fake.requests(method, path)[-1].json


def layout() -> discord.ui.LayoutView:
    view = discord.ui.LayoutView(timeout=None)
    view.add_item(discord.ui.TextDisplay("look"))
    return view


# --- what goes over the wire --------------------------------------------------------------------


async def test_a_message_pings_nobody_and_shows_no_preview(room: Stand) -> None:
    message_id = await room.sender.post(here(room), Draft(text="@everyone <@1>"), key="k")

    sent = payload(room)
    assert sent["allowed_mentions"] == {"parse": []}
    assert sent["flags"] == SUPPRESSED
    assert sent["enforce_nonce"] is True
    assert "message_reference" not in sent
    assert room.channel.messages[int(message_id)].pings == set()


async def test_a_message_may_ping_the_one_that_it_names(room: Stand) -> None:
    draft = Draft(text=f"{room.alice.mention} {room.bob.mention} @here", ping=room.owner.account)

    message_id = await room.sender.post(here(room), draft, key="k")

    assert payload(room)["allowed_mentions"] == {"parse": [], "users": [room.alice.id]}
    assert room.channel.messages[int(message_id)].pings == {room.alice.id}


async def test_an_edit_pings_nobody_and_shows_no_preview(room: Stand) -> None:
    message_id = await room.sender.post(here(room), Draft(text="one"), key="k")

    await room.sender.edit(here(room), message_id, Draft(text=room.bob.mention))

    sent = payload(room, "PATCH", MESSAGE)
    assert sent["allowed_mentions"] == {"parse": []}
    assert sent["flags"] == SUPPRESSED
    assert room.channel.messages[int(message_id)].content == room.bob.mention
    assert room.channel.messages[int(message_id)].edit_pings == set()


async def test_a_message_of_components_has_their_flag_and_no_content(room: Stand) -> None:
    message_id = await room.sender.post(here(room), Draft(view=layout()), key="k")
    assert payload(room)["flags"] == SUPPRESSED | COMPONENTS_V2
    assert "content" not in payload(room)

    await room.sender.edit(here(room), message_id, Draft(view=layout()))

    assert payload(room, "PATCH", MESSAGE)["flags"] == SUPPRESSED | COMPONENTS_V2


async def test_nothing_of_a_view_is_kept_in_memory(room: Stand) -> None:
    await room.sender.post(here(room), Draft(text="x", view=Row(RunButton("log", RUN))), key="k")

    assert room.client.persistent_views == []


async def test_a_reply_points_to_its_message_and_pings_nobody(room: Stand) -> None:
    draft = Draft(text="hello", reply_to=str(room.said.id))

    message_id = await room.sender.post(here(room), draft, key="k")

    reference = payload(room)["message_reference"]
    assert isinstance(reference, dict)
    assert reference["fail_if_not_exists"] is False
    assert room.channel.messages[int(message_id)].reference == room.said.id
    assert room.channel.messages[int(message_id)].pings == set()


async def test_a_reply_to_a_message_that_is_gone_is_an_ordinary_message(room: Stand) -> None:
    await room.fake.delete(room.said)

    await room.sender.post(here(room), Draft(text="hello", reply_to=str(room.said.id)), key="k")

    assert [each.text() for each in room.fake.answers(room.channel)] == ["hello"]


async def test_where_replies_are_refused_it_is_an_ordinary_message(room: Stand) -> None:
    room.guild.deny(room.channel, "read_message_history")

    await room.sender.post(here(room), Draft(text="hello", reply_to=str(room.said.id)), key="k")

    assert [each.text() for each in room.fake.answers(room.channel)] == ["hello"]


# --- once ---------------------------------------------------------------------------------------


async def test_what_is_sent_again_under_a_key_is_one_message(room: Stand) -> None:
    first = await room.sender.post(here(room), Draft(text="hello"), key="k")

    again = await room.sender.post(here(room), Draft(text="hello"), key="k")

    assert again == first
    assert len(room.fake.answers(room.channel)) == 1


async def test_the_same_key_elsewhere_is_another_message(room: Stand) -> None:
    other = room.fake.add_channel(room.guild, "other")
    await room.sender.post(here(room), Draft(text="hello"), key="k")

    await room.sender.post(str(other.id), Draft(text="hello"), key="k")

    assert len(room.fake.answers(other)) == 1


async def test_a_nonce_is_as_short_as_discord_wants_it(room: Stand) -> None:
    await room.sender.post(here(room), Draft(text="hello"), key="k" * 500)

    assert len(room.fake.answers(room.channel)) == 1


async def test_what_an_earlier_attempt_left_is_changed_where_it_says_something_else(
    room: Stand,
) -> None:
    first = await room.sender.post(here(room), Draft(text="half"), key="k")

    again = await room.sender.post(here(room), Draft(text="whole"), key="k", exact=True)

    assert again == first
    assert [each.text() for each in room.fake.answers(room.channel)] == ["whole"]


async def test_what_an_earlier_attempt_left_is_not_touched_where_it_says_the_same(
    room: Stand,
) -> None:
    for _ in range(2):
        await room.sender.post(here(room), Draft(text=" hello\n"), key="k", exact=True)
        await room.sender.post(here(room), Draft(view=layout()), key="v", exact=True)

    assert room.fake.requests("PATCH", MESSAGE) == []


async def test_a_request_that_got_no_answer_is_repeated_and_is_one_message(room: Stand) -> None:
    cut = room.fake.fail("POST", MESSAGES, cut=True, times=2)

    await room.sender.post(here(room), Draft(text="hello"), key="k")

    assert cut.hits == 2
    assert len(room.fake.answers(room.channel)) == 1


async def test_a_file_is_whole_when_its_request_is_repeated(room: Stand) -> None:
    room.fake.fail("POST", MESSAGES, refuse=True)

    await room.sender.post(
        here(room), Draft(text="look", files=(OutgoingFile("x.md", b"whole"),)), key="k"
    )

    assert room.fake.answers(room.channel)[0].files == [("x.md", b"whole")]


# --- what goes wrong ------------------------------------------------------------------------------


async def test_no_answer_at_all_leaves_the_fate_unknown(room: Stand) -> None:
    room.fake.fail("POST", MESSAGES, cut=True, times=None)

    with pytest.raises(DeliveryError) as caught:
        await room.sender.post(here(room), Draft(text="hello"), key="k")

    assert caught.value.fate_unknown
    assert not caught.value.permanent


async def test_an_answer_that_takes_too_long_leaves_the_fate_unknown(room: Stand) -> None:
    hold = asyncio.Event()
    held = room.fake.fail("POST", MESSAGES, hold=hold)
    impatient = Sender(room.client, pauses=(0.0,), seconds=1.5)

    with pytest.raises(DeliveryError) as caught:
        await impatient.post(here(room), Draft(text="hello"), key="k")
    hold.set()

    assert caught.value.fate_unknown
    assert held.hits == 1


async def test_what_was_never_sent_is_known_not_to_have_arrived(room: Stand) -> None:
    # Put right again by the client that is closed at the end.
    discord.http.Route.BASE = "http://127.0.0.1:9/api/v10"

    with pytest.raises(DeliveryError) as caught:
        await room.sender.post(here(room), Draft(text="hello"), key="k")

    assert not caught.value.fate_unknown
    assert not caught.value.permanent


@pytest.mark.parametrize("fault", [{"status": 503}, {"cloudflare": True}, {"retry_after": 3600.0}])
async def test_a_discord_that_is_busy_or_broken_is_tried_again_later(
    room: Stand, fault: dict[str, float]
) -> None:
    room.fake.fail("POST", MESSAGES, **fault)  # type: ignore[arg-type]

    with pytest.raises(DeliveryError) as caught:
        await room.sender.post(here(room), Draft(text="hello"), key="k")

    assert not isinstance(caught.value, RefusedError)
    assert not caught.value.permanent
    assert not caught.value.fate_unknown


async def test_a_short_rate_limit_is_waited_for(room: Stand) -> None:
    room.fake.fail("POST", MESSAGES, retry_after=0.01)

    await room.sender.post(here(room), Draft(text="hello"), key="k")

    assert len(room.fake.answers(room.channel)) == 1


async def test_a_token_that_is_refused_may_be_renewed(room: Stand) -> None:
    room.fake.fail("POST", MESSAGES, status=401)

    with pytest.raises(DeliveryError, match="token") as caught:
        await room.sender.post(here(room), Draft(text="hello"), key="k")

    assert not caught.value.permanent


@pytest.mark.parametrize("code", [10003, 50001, 50013, 50083, 160005])
async def test_a_place_that_takes_nothing_is_refused_for_good(room: Stand, code: int) -> None:
    room.fake.fail("POST", MESSAGES, code=code)

    with pytest.raises(RefusedError) as caught:
        await room.sender.post(here(room), Draft(text="hello"), key="k")

    assert caught.value.permanent
    assert caught.value.code == code
    assert str(caught.value).endswith((".", "more."))


@pytest.mark.parametrize("channel", ["", "nowhere at all", "١٢٣", "-1", "1 2"])
async def test_what_is_no_id_is_no_place(room: Stand, channel: str) -> None:
    with pytest.raises(RefusedError):
        await room.sender.post(channel, Draft(text="hello"), key="k")


async def test_while_discord_refuses_too_much_nothing_is_sent(room: Stand) -> None:
    for _ in range(1000):
        room.client.breaker.count(403)
    before = len(room.fake.sent)

    with pytest.raises(DeliveryError) as caught:
        await room.sender.post(here(room), Draft(text="hello"), key="k")

    assert not caught.value.permanent
    assert not caught.value.fate_unknown
    assert len(room.fake.sent) == before


async def test_nothing_is_sent_over_a_client_that_is_closed(room: Stand) -> None:
    sender = room.sender
    await room.client.close()

    with pytest.raises(DeliveryError, match="cannot be reached"):
        await sender.post(here(room), Draft(text="hello"), key="k")


async def test_a_message_too_old_to_be_edited_is_told_apart(room: Stand) -> None:
    message_id = await room.sender.post(here(room), Draft(text="hello"), key="k")
    room.fake.make_old(room.channel.messages[int(message_id)])
    room.fake.old_edit_retry_after = 0.001

    with pytest.raises(RefusedError) as caught:
        await room.sender.edit(here(room), message_id, Draft(text="bye"))

    assert caught.value.code == TOO_MANY_EDITS


async def test_a_long_wait_for_the_edit_of_an_old_message_means_that_it_is_too_old(
    room: Stand,
) -> None:
    room.fake.fail("PATCH", MESSAGE, retry_after=3600.0, times=2)
    message_id = await room.sender.post(here(room), Draft(text="hello"), key="k")
    long_ago = str(int(message_id) - (2 * 3600 * 1000 << 22))

    with pytest.raises(RefusedError) as caught:
        await room.sender.edit(here(room), long_ago, Draft(text="bye"))
    with pytest.raises(DeliveryError) as young:
        await room.sender.edit(here(room), message_id, Draft(text="bye"))

    assert caught.value.code == TOO_MANY_EDITS
    assert not young.value.permanent


# --- the rest of a long text ----------------------------------------------------------------------


def parts(*parts: str) -> MessageParts:
    return MessageParts(parts, "\n".join(parts), "x.md")


async def test_the_rest_of_a_text_goes_out_in_order_with_the_buttons_below_the_last(
    room: Stand,
) -> None:
    rest = parts("one", "two", "three")

    ids = await room.sender.post_rest(here(room), rest, key="k", view=Row(RunButton("log", RUN)))

    answers = room.fake.answers(room.channel)
    assert [each.text() for each in answers] == ["two", "three"]
    assert ids == tuple(str(each.id) for each in answers)
    assert [each.buttons() for each in answers] == [[], ["Log"]]


async def test_too_many_parts_are_a_file(room: Stand) -> None:
    rest = parts(*(f"part {number}" for number in range(6)))

    await room.sender.post_rest(here(room), rest, key="k", view=Row(RunButton("log", RUN)))

    (answer,) = room.fake.answers(room.channel)
    assert answer.text() == IN_FILE
    assert answer.files == [("x.md", rest.whole.encode())]
    assert answer.buttons() == ["Log"]


async def test_a_file_that_is_too_large_is_sent_as_messages(room: Stand) -> None:
    room.fake.refuse_files = True
    rest = parts(*(f"part {number}" for number in range(7)))

    await room.sender.post_rest(here(room), rest, key="k", view=Row(RunButton("log", RUN)))

    answers = room.fake.answers(room.channel)
    assert [each.text() for each in answers] == [f"part {number}" for number in range(1, 7)]
    assert [each.buttons() for each in answers][-2:] == [[], ["Log"]]


async def test_where_no_files_are_allowed_a_long_text_is_sent_as_messages(room: Stand) -> None:
    room.guild.deny(room.channel, "attach_files")

    await room.sender.post_rest(here(room), parts(*"abcdef"), key="k")

    assert [each.text() for each in room.fake.answers(room.channel)] == list("bcdef")


async def test_a_file_that_does_not_arrive_now_is_no_reason_for_many_messages(
    room: Stand,
) -> None:
    room.fake.fail("POST", MESSAGES, status=503)

    with pytest.raises(DeliveryError):
        await room.sender.post_rest(here(room), parts(*"abcdef"), key="k")

    assert room.fake.answers(room.channel) == []


# --- and other things -----------------------------------------------------------------------------


async def test_a_message_can_be_deleted_and_looked_at(room: Stand) -> None:
    message_id = await room.sender.post(here(room), Draft(text="hello"), key="k")

    await room.sender.delete(here(room), message_id)
    await room.sender.react(here(room), str(room.said.id), "👀")
    await room.sender.type(here(room))

    assert room.fake.answers(room.channel) == []
    assert room.said.reactions == {"👀": [room.fake.bot.id]}
    assert room.fake.typing(room.channel) == 1


async def test_a_thread_of_a_message_has_its_id(room: Stand) -> None:
    await room.sender.begin_thread(here(room), str(room.said.id), "talk")

    assert [each.id for each in room.fake.threads(room.channel)] == [room.said.id]
    assert payload(room, path=THREADS)["name"] == "talk"


async def test_direct_messages_have_a_channel(room: Stand) -> None:
    assert await room.sender.direct_channel(room.owner.account) == str(room.fake.dm(room.alice).id)


async def test_long_texts_are_made_harmless_as_short_ones_are() -> None:
    assert await made_harmless("@everyone") == "@ everyone"
    assert await made_harmless("@everyone\n" * 9000) == ("@ everyone\n" * 9000)

"""Answers that only the one who asked gets to see, on whichever way Slack takes them."""

import logging
from collections.abc import AsyncIterator

import pytest

from bot.platforms.base import CommandReply
from bot.platforms.slack.answers import (
    IN_PRIVATE,
    MOST_FOLLOWING,
    PrivateAnswers,
)
from bot.platforms.slack.interactions import AdmittedInteraction
from bot.platforms.slack.people import SlackUser
from bot.values import Place
from tests.bot.platforms.slack.hearing import Counter, counter
from tests.fakes.slack.answers import MAX_SECONDS, MAX_USES, Answer
from tests.fakes.slack.messages import Channel, Message
from tests.fakes.slack.server import FakeSlack

#: As much as fits into one message, roughly.
MESSAGE = 10_000


@pytest.fixture
async def at(slack: FakeSlack) -> AsyncIterator[Counter]:
    async with counter(slack) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _news(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="bot")


def words(messages: int) -> str:
    """Return a text that takes so many messages."""
    return "word " * (MESSAGE * messages // 5)


def did(at: Counter, channel: Channel | None = None) -> Answer:
    """Let Alice do something to which an answer may follow."""
    return at.fake.answers.expect(
        at.alice, channel or at.general, at.fake.surfaces.trigger(at.alice)
    )


def admitted(at: Counter, place: Place, response_url: str = "") -> AdmittedInteraction:
    user = SlackUser(account=at.alice.id, home=at.fake.team.id, workspace=at.fake.team.id)
    return AdmittedInteraction(
        receiver=at.receiver,
        event_id="interaction:1",
        user=user,
        place=place,
        response_url=response_url,
    )


def after(at: Counter, answer: Answer, *, thread: str = "") -> AdmittedInteraction:
    channel = answer.channel.id if answer.channel else ""
    place = Place("slack", at.fake.team.id, channel, thread)
    return admitted(at, place, answer.response_url)


def recipient(
    at: Counter, channel: Channel | None = None, *, thread: str = ""
) -> AdmittedInteraction:
    place = Place("slack", at.fake.team.id, channel.id if channel else "", thread)
    return admitted(at, place)


def direct(at: Counter) -> list[Message]:
    return at.fake.said(at.fake.dm(at.alice))


def texts(messages: list[Message]) -> list[str]:
    return [message.readable() for message in messages]


async def say(at: Counter, whom: AdmittedInteraction, text: str) -> None:
    await whom.say(text)


# --- after a click or a command -------------------------------------------------------------------


async def test_what_follows_a_click_is_seen_by_who_clicked_alone_and_replaces_nothing(
    at: Counter,
) -> None:
    answer = did(at)

    await say(at, after(at, answer), "Only for **you**.")

    assert texts(answer.posts) == ["Only for **you**."]
    assert answer.ephemeral
    assert not answer.changed
    assert not at.fake.calls


async def test_a_longer_answer_follows_in_several_messages_in_order(at: Counter) -> None:
    answer = did(at)

    await say(at, after(at, answer), words(MOST_FOLLOWING - 1))

    assert 1 < len(answer.posts) <= MOST_FOLLOWING
    assert " ".join(texts(answer.posts)).split() == words(MOST_FOLLOWING - 1).split()
    assert not at.fake.calls


async def test_what_is_longer_still_goes_out_in_private_which_is_said(at: Counter) -> None:
    answer = did(at)

    await say(at, after(at, answer), words(MOST_FOLLOWING + 1))

    assert texts(answer.posts) == [IN_PRIVATE]
    first, *_, last = direct(at)
    assert first.readable().startswith("word word")
    files = [message.files[0] for message in direct(at) if message.files]
    said = files[0].content.decode() if files and files[0].content else ""
    whole = said or " ".join(texts(direct(at)))
    assert whole.split() == words(MOST_FOLLOWING + 1).split()
    assert last is not first


async def test_that_it_went_out_in_private_is_not_worth_saying_it_all_again(at: Counter) -> None:
    answer = did(at)
    at.fake.fail("response_url", status=404, error="expired_url", times=None)

    await say(at, after(at, answer), words(MOST_FOLLOWING + 1))

    assert not at.fake.ephemerals(at.alice)
    assert direct(at)


async def test_who_takes_no_direct_messages_gets_a_long_answer_where_they_asked(
    at: Counter,
) -> None:
    answer = did(at)
    at.fake.fail("conversations.open", error="cannot_dm_bot", times=None)

    await say(at, after(at, answer), words(MOST_FOLLOWING + 1))

    shown = at.fake.ephemerals(at.alice, at.general)
    assert " ".join(texts(shown)).split() == words(MOST_FOLLOWING + 1).split()


@pytest.mark.parametrize("gone", ["used", "expired"])
async def test_when_slack_takes_no_more_answers_it_is_whispered(at: Counter, gone: str) -> None:
    answer = did(at)
    if gone == "used":
        answer.uses = MAX_USES
    else:
        answer.at -= MAX_SECONDS

    await say(at, after(at, answer), "Only for you.")

    assert not answer.shown
    (whispered,) = at.fake.ephemerals(at.alice, at.general)
    assert whispered.readable() == "Only for you."


@pytest.mark.parametrize(
    "wrong", [{"status": 500, "error": "internal"}, {"status": 404, "error": "x"}]
)
async def test_an_answer_that_is_refused_is_whispered(
    at: Counter, wrong: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    at.fake.fail("response_url", **wrong)  # type: ignore[arg-type]

    await say(at, after(at, did(at)), "Only for you.")

    assert texts(at.fake.ephemerals(at.alice)) == ["Only for you."]
    assert "does not take the answer" in caplog.text


async def test_when_the_connection_breaks_it_is_whispered(at: Counter) -> None:
    at.fake.fail("response_url", refuse=True)

    await say(at, after(at, did(at)), "Only for you.")

    assert texts(at.fake.ephemerals(at.alice)) == ["Only for you."]


async def test_the_rest_of_a_long_answer_is_not_said_in_another_place(at: Counter) -> None:
    answer = did(at)
    answer.uses = MAX_USES - 1

    await say(at, after(at, answer), words(3))

    assert len(answer.shown) == 1
    assert not at.fake.calls


async def test_in_a_thread_the_answer_stands_in_the_thread(at: Counter) -> None:
    root = await at.fake.say(at.alice, at.general, "hello")
    answer = did(at)

    await say(at, after(at, answer, thread=root.ts), "Only for you.")

    assert answer.uses == 0
    (whispered,) = at.fake.ephemerals(at.alice, at.general)
    assert whispered.thread_ts == root.ts


async def test_without_connections_of_its_own_it_is_whispered(at: Counter) -> None:
    answer = did(at)
    there = after(at, answer)
    poor = PrivateAnswers(at.receiver.outlet.sender)

    await poor.say(there.place, at.alice.id, "Only for you.", response_url=answer.response_url)

    assert answer.uses == 0
    assert texts(at.fake.ephemerals(at.alice)) == ["Only for you."]


# --- elsewhere ------------------------------------------------------------------------------------


async def test_in_a_channel_it_is_whispered_to_who_asked(at: Counter) -> None:
    await say(at, recipient(at, at.general), "Only for you.")

    (whispered,) = at.fake.ephemerals(at.alice, at.general)
    assert whispered.readable() == "Only for you."
    assert not at.fake.ephemerals(at.bob)
    assert not at.fake.said(at.general)


async def test_in_a_direct_message_it_is_an_ordinary_message_in_its_thread(at: Counter) -> None:
    dm = at.fake.dm(at.alice)
    asked = await at.fake.say(at.alice, dm, "list")

    await say(at, recipient(at, dm, thread=asked.ts), "Nothing.")

    (message,) = at.fake.said(dm)
    assert (message.readable(), message.thread_ts) == ("Nothing.", asked.ts)
    assert not at.fake.ephemerals(at.alice)
    assert not at.fake.called("conversations.open")


async def test_from_the_home_tab_it_comes_as_a_direct_message(at: Counter) -> None:
    await say(at, recipient(at), "Stopped.")

    assert texts(direct(at)) == ["Stopped."]
    assert not at.fake.called("chat.postEphemeral")


@pytest.mark.parametrize("thread", [False, True])
async def test_where_the_bot_is_not_it_comes_as_a_direct_message(at: Counter, thread: bool) -> None:
    root = await at.fake.say(at.alice, at.general, "hello")
    at.fake.remove_bot(at.general)

    await say(at, recipient(at, at.general, thread=root.ts if thread else ""), "Only for you.")

    assert texts(direct(at)) == ["Only for you."]
    assert not at.fake.ephemerals(at.alice)


async def test_who_left_the_channel_gets_it_as_a_direct_message(at: Counter) -> None:
    at.general.members.discard(at.alice.id)

    await say(at, recipient(at, at.general), "Only for you.")

    assert texts(direct(at)) == ["Only for you."]


@pytest.mark.parametrize("direct_message", [False, True])
async def test_when_the_thread_is_gone_it_comes_as_a_direct_message(
    at: Counter, *, direct_message: bool
) -> None:
    channel = at.fake.dm(at.alice) if direct_message else at.general
    asked = await at.fake.say(at.alice, channel, "list")
    await at.fake.delete(asked)
    at.fake.fail("chat.postEphemeral", error="thread_not_found")

    await say(at, recipient(at, channel, thread=asked.ts), "Nothing.")

    (message,) = direct(at)
    assert (message.readable(), message.thread_ts) == ("Nothing.", "")


async def test_a_long_answer_in_a_channel_is_whispered_in_parts(at: Counter) -> None:
    await say(at, recipient(at, at.general), words(2))

    shown = at.fake.ephemerals(at.alice, at.general)
    assert len(shown) > 1
    assert " ".join(texts(shown)).split() == words(2).split()


# --- buttons below --------------------------------------------------------------------------------

PAGE = CommandReply(text="Page 1", more="/subagents log 1a2b 2")


def labels(message: Message) -> list[str]:
    return [button.label for button in message.buttons()]


async def test_the_button_for_the_next_page_stands_below_the_answer(at: Counter) -> None:
    answer = did(at)

    await after(at, answer).give(PAGE)

    (shown,) = answer.posts
    assert labels(shown) == ["More"]
    assert shown.buttons()[0].value == "/subagents log 1a2b 2"
    assert "Page 1" in shown.readable()


@pytest.mark.parametrize("there", ["channel", "direct", "home"])
async def test_the_button_stands_below_wherever_it_is_said(at: Counter, there: str) -> None:
    channel = {"channel": at.general, "direct": at.fake.dm(at.alice), "home": None}[there]

    await recipient(at, channel).give(PAGE)

    (shown,) = at.fake.ephemerals(at.alice) or direct(at)
    assert labels(shown) == ["More"]
    assert "Page 1" in shown.readable()


async def test_an_answer_without_a_next_page_has_no_button(at: Counter) -> None:
    answer = did(at)

    await after(at, answer).give(CommandReply(text="All of it"))

    assert [labels(each) for each in answer.posts] == [[]]


async def test_below_a_long_answer_the_button_stands_once_at_the_end(at: Counter) -> None:
    long = CommandReply(text=words(2), more="/subagents log 1a2b 2")
    answer = did(at)

    await after(at, answer).give(long)
    await recipient(at, at.general).give(long)
    await recipient(at, at.fake.dm(at.alice)).give(long)

    for shown in (answer.shown, at.fake.ephemerals(at.alice)[len(answer.shown) :], direct(at)):
        assert [labels(each) for each in shown] == [[]] * (len(shown) - 1) + [["More"]]


# --- what goes wrong ------------------------------------------------------------------------------


async def test_who_cannot_be_reached_at_all_is_noted_and_no_more(
    at: Counter, caplog: pytest.LogCaptureFixture
) -> None:
    at.fake.remove_bot(at.general)
    at.alice.deleted = True

    await say(at, recipient(at, at.general), "Only for you.")

    assert not direct(at)
    assert f"An answer in {at.general.id} is lost: That user's account" in caplog.text


async def test_what_slack_does_not_take_now_is_not_said_in_another_place(
    at: Counter, caplog: pytest.LogCaptureFixture
) -> None:
    at.fake.fail("chat.postEphemeral", error="internal_error", times=None)

    await say(at, recipient(at, at.general), "Only for you.")

    assert not direct(at)
    assert "is lost" in caplog.text


async def test_a_refusal_that_is_not_about_the_place_is_noted_too(
    at: Counter, caplog: pytest.LogCaptureFixture
) -> None:
    at.fake.fail("chat.postEphemeral", error="missing_scope", times=None)

    await say(at, recipient(at, at.general), "Only for you.")

    assert not direct(at)
    assert "is lost" in caplog.text


async def test_from_the_home_tab_what_is_lost_is_noted(
    at: Counter, caplog: pytest.LogCaptureFixture
) -> None:
    at.alice.deleted = True

    await say(at, recipient(at), "Stopped.")

    assert "An answer in Home is lost" in caplog.text


async def test_nothing_in_an_answer_pings_or_hides_a_link(at: Counter) -> None:
    hostile = f"<!channel> <@{at.bob.id}> @here [bank.example](https://evil.example)"
    answer = did(at)

    await say(at, after(at, answer), hostile)
    await say(at, recipient(at, at.general), hostile)
    await say(at, recipient(at, at.fake.dm(at.alice)), hostile)

    for shown in (*answer.posts, *at.fake.ephemerals(at.alice), *direct(at)):
        assert not shown.pings
        assert not shown.masked_links


async def test_a_blank_answer_is_said_all_the_same(at: Counter) -> None:
    answer = did(at)

    await say(at, after(at, answer), " \n")

    assert [bool(text.strip()) for text in texts(answer.posts)] == [True]

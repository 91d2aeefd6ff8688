"""What is heard on Slack: which messages are meant for the bot, from whom, and where."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from bot.errors import BotError, DeliveryError
from bot.platforms.base import CommandReply, Incoming
from bot.platforms.messages import Quoted
from bot.platforms.messaging.intake import AGAIN, NO_TEXT, NOT_YOU, TELL_AGAIN_SECONDS, TROUBLE
from bot.platforms.slack.clients import open_session
from bot.platforms.slack.installations import EncryptedInstallationStore
from bot.platforms.slack.people import NO_DIRECT_MESSAGES, SlackAccessPolicy
from bot.platforms.slack.problems import RefusedError
from bot.platforms.slack.sending import Draft
from bot.values import Json, Place
from db.database import Database
from tests.bot.platforms.slack import installing
from tests.bot.platforms.slack.hearing import (
    Counter,
    Here,
    Town,
    connected,
    counter,
    listening,
    people,
    settings_for,
)
from tests.bot.platforms.slack.speaking import question_of, stand
from tests.fakes.inbound import AWAY, FakeInboundHandler, Forgetful
from tests.fakes.slack.messages import Message
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.shapes import User

#: More attempts than a test takes time, without waiting for long.
SOON = (0.02,) * 1_000


@pytest.fixture
async def here(slack: FakeSlack) -> AsyncIterator[Here]:
    async with listening(slack) as opened:
        yield opened


@pytest.fixture
async def at(slack: FakeSlack) -> AsyncIterator[Counter]:
    async with counter(slack) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _only_our_own_troubles(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="bot")


async def nothing_but(here: Town, last: str = "the last") -> list[Incoming]:
    """Say something that is heard, and return what was heard beside it."""
    await here.fake.say(here.bob, here.fake.dm(here.bob), last)
    await here.inbound.until(lambda: last in here.inbound.texts(), last)
    return [each for each in here.inbound.heard if each.text != last]


def told(here: Town, user: User) -> list[str]:
    """Return what somebody alone was told."""
    return [message.readable() for message in here.fake.ephemerals(user)]


class Held(FakeInboundHandler):
    """Ears that hear no end of what is said until they may."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        self.may_go_on = asyncio.Event()
        self.done: list[str] = []

        async def take(incoming: Incoming) -> None:
            if incoming.text in texts:
                await self.may_go_on.wait()
            self.done.append(incoming.text)
            self._changed.set()

        self.on_message = take


# --- what is heard --------------------------------------------------------------------------------


async def test_a_mention_is_heard_once_in_the_thread_that_it_begins(here: Here) -> None:
    message = await here.fake.say(here.alice, here.general, "what is new?", mention=True)

    assert len(message.events) == 2, "a mention is a message as well"
    assert await nothing_but(here) == [
        Incoming(
            event_id=f"message:{here.fake.team.id}:{here.general.id}:{message.ts}",
            user=here.who(here.alice),
            user_name="alice",
            place=Place("slack", here.fake.team.id, here.general.id, message.ts, message.ts),
            text="what is new?",
            search_token=f"{here.alice.id}.{message.ts}.search",
        )
    ]


async def test_a_mention_in_a_thread_is_heard_in_that_thread(here: Here) -> None:
    root = await here.fake.say(here.bob, here.general, "lovely weather")
    message = await here.fake.say(here.alice, here.general, "is it?", mention=True, thread=root)
    await here.heard()

    place = here.inbound.heard[0].place
    assert (place.thread, place.message) == (root.ts, message.ts)


async def test_a_mention_in_the_middle_is_heard_too(here: Here) -> None:
    text = f"What does <@{here.fake.bot_user().id}> say?"
    await here.fake.say(here.alice, here.general, text, raw=True)
    await here.heard()

    assert here.inbound.texts() == [f"What does @{here.fake.bot_user().id} say?"]


async def test_what_slack_calls_a_mention_is_one_wherever_it_stands(at: Counter) -> None:
    mention, _ = at.bodies(await at.fake.say(at.alice, at.general, "hello", mention=True))
    mention["event"]["text"] = "hello"

    await at.listener.take(mention)

    assert at.inbound.texts() == ["hello"]


async def test_a_direct_message_is_heard_without_a_mention_in_a_thread_of_its_own(
    here: Here,
) -> None:
    dm = here.fake.dm(here.alice)
    first = await here.fake.say(here.alice, dm, "hello")
    second = await here.fake.say(here.alice, dm, "and?", thread=first)
    await here.heard(2)

    assert [each.place for each in here.inbound.heard] == [here.place(first), here.place(second)]
    assert [each.place.thread for each in here.inbound.heard] == [first.ts, first.ts]


async def test_a_direct_message_is_known_by_its_channel_alone(at: Counter) -> None:
    message = await at.fake.say(at.alice, at.fake.dm(at.alice), "hello")
    (body,) = at.bodies(message)
    del body["event"]["channel_type"]

    await at.listener.take(body)

    assert at.inbound.texts() == ["hello"]


async def test_in_a_conversation_of_several_people_the_bot_has_to_be_mentioned(here: Here) -> None:
    group = here.fake.mpim(here.alice, here.bob)
    private = here.fake.add_channel("secret", private=True)
    for room in (group, private):
        await here.fake.say(here.alice, room, "just talking")
        await here.fake.say(here.alice, room, f"for you, {room.kind}", mention=True)

    assert [each.text for each in await nothing_but(here)] == ["for you, mpim", "for you, group"]


async def test_what_is_said_to_nobody_in_a_channel_is_passed_over(here: Here) -> None:
    here.inbound.talking.add((here.who(here.alice), here.general.id, ""))

    await here.fake.say(here.alice, here.general, "just talking")
    await here.fake.say(here.alice, here.general, f"<@{here.bob.id}> listen", raw=True)
    await here.fake.say(here.alice, here.general, f"<@{here.fake.bot_user().id}>")

    assert await nothing_but(here) == []


async def test_outside_of_threads_nobody_is_talking_with_the_bot(slack: FakeSlack) -> None:
    class Eager(FakeInboundHandler):
        async def listens(self, *_: object) -> bool:
            return True

    async with counter(slack, Eager()) as at:
        root = await slack.say(at.alice, at.general, "lovely weather")
        await at.take(root)
        await at.take(await slack.say(at.bob, at.general, "it is", thread=root))

        assert at.inbound.texts() == ["it is"]


async def test_a_message_says_what_people_saw(here: Here) -> None:
    me = here.fake.bot_user().id
    text = f"<@{me}> see <https://a.example|this> &amp; ask <@{here.bob.id}|bob> &lt;!channel&gt;"
    await here.fake.say(here.alice, here.general, text, raw=True)
    await here.heard()

    assert here.inbound.texts() == ["see this (https://a.example) & ask @bob <!channel>"]


async def test_whoever_has_no_name_is_heard_all_the_same(here: Here) -> None:
    here.fake.fail("users.info", error="missing_scope", times=None)

    await here.fake.say(here.alice, here.general, "hello", mention=True)
    await here.heard()

    assert here.inbound.heard[0].user_name == here.alice.id


# --- what nobody said -----------------------------------------------------------------------------

ODD: list[Json] = [
    {"user": None},
    {"user": ""},
    {"user": None, "text": None, "bot_id": None},
    {"user": None, "subtype": "bot_message", "bot_id": "B1", "username": "workflow"},
    {"subtype": "bot_message", "bot_id": "B1"},
    {"bot_id": "B1", "app_id": "A1"},
    {"subtype": "channel_join"},
    {"subtype": "channel_topic", "topic": "weather"},
    {"subtype": "assistant_app_thread"},
    {"subtype": "message_changed", "hidden": True, "text": None, "message": {"text": "x"}},
    {"subtype": "message_deleted", "hidden": True, "previous_message": None},
    {"subtype": "message_replied", "message": {}},
    {"subtype": "tombstone", "user": "USLACKBOT"},
    {"subtype": "something_new"},
    {"user": "USLACKBOT", "text": "You have been removed from #town"},
    {"hidden": True},
]


@pytest.mark.parametrize("kind", ["message", "app_mention"])
async def test_what_bots_workflows_and_slack_say_is_taken_and_passed_over(
    here: Here, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    fake, dm = here.fake, here.fake.dm(here.alice)
    for number, odd in enumerate(ODD):
        event: Json = {
            "type": kind,
            "user": here.alice.id,
            "text": f"<@{fake.bot_user().id}> hello",
            "channel": dm.id,
            "channel_type": "im",
            "ts": f"1700000000.{number:06}",
        }
        await fake.send(event | odd, channel=dm)
    for field in ("user", "text", "ts", "channel"):
        nobody: Json = {"type": kind, "text": "x", "channel": dm.id, "ts": "1700000001.000001"}
        nobody.pop(field, None)
        await fake.send(nobody, channel=dm)

    assert await nothing_but(here) == []
    assert all(each.acked for each in fake.deliveries.all)
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_other_bots_and_the_bot_itself_are_passed_over(here: Here) -> None:
    robot = here.fake.add_user("robot", bot=True)
    me = here.fake.bot_user()
    dm = here.fake.dm(here.alice)

    await here.fake.say(robot, here.general, "hello", mention=True)
    await here.platform.outlet.sender.post(
        Place("slack", here.fake.team.id, dm.id), Draft(markdown=f"<@{me.id}> hello")
    )
    # Files that the bot itself has shared may come without saying that it is one.
    own: Json = {"type": "message", "subtype": "file_share", "user": me.id, "text": "a file"}
    await here.fake.send(own | {"channel": dm.id, "ts": "1700000000.000001"}, channel=dm)

    assert await nothing_but(here) == []


@pytest.mark.parametrize("text", [None, "", " \n"])
async def test_a_message_without_words_gets_a_hint(at: Counter, text: str | None) -> None:
    dm = at.fake.dm(at.alice)
    (body,) = at.bodies(await at.fake.say(at.alice, dm, "hello"))
    body["event"]["text"] = text

    await at.listener.take(body)

    (answer,) = await at.said(dm)
    assert answer.readable() == NO_TEXT
    assert at.inbound.heard == []


async def test_without_words_and_a_mention_there_is_no_hint(here: Here) -> None:
    root = await here.fake.say(here.alice, here.general, "hello", mention=True)
    here.talks(here.alice, root)
    await here.fake.say(here.alice, here.general, " ", thread=root)

    assert [each.text for each in await nothing_but(here)] == ["hello"]
    assert told(here, here.alice) == []


# --- kinds of messages ----------------------------------------------------------------------------


async def test_people_speak_in_other_ways_too(here: Here) -> None:
    root = await here.fake.say(here.alice, here.general, "first", mention=True)
    here.talks(here.alice, root)
    await here.fake.say(here.alice, here.general, "shown to all", thread=root, broadcast=True)
    event: Json = {
        "type": "message",
        "subtype": "me_message",
        "user": here.alice.id,
        "text": "waves",
        "channel": here.general.id,
        "channel_type": "channel",
        "thread_ts": root.ts,
        "ts": "1700000000.000001",
    }
    await here.fake.send(event, channel=here.general)

    heard = await nothing_but(here)
    assert [each.text for each in heard] == ["first", "shown to all", "waves"]
    assert {each.place.thread for each in heard} == {root.ts}


async def test_files_come_along_and_are_read_when_they_are_wanted(here: Here) -> None:
    files = [("notes.txt", "text/plain", b"eggs"), ("sun.png", "image/png", b"\x89PNG")]
    await here.fake.say(here.alice, here.general, "look", mention=True, files=files)
    await here.heard()

    text, image = here.inbound.heard[0].files
    assert (text.name, text.media_type, text.size) == ("notes.txt", "text/plain", 4)
    assert (image.name, image.media_type) == ("sun.png", "image/png")
    assert await text.read() == b"eggs"
    assert await image.read() == b"\x89PNG"


async def test_a_file_alone_says_something_too(here: Here) -> None:
    dm = here.fake.dm(here.alice)
    await here.fake.say(here.alice, dm, "", files=[("a.txt", "", b"eggs")])
    await here.heard()

    assert here.inbound.texts() == [""]
    assert [each.name for each in here.inbound.heard[0].files] == ["a.txt"]


@pytest.mark.parametrize("text", ["", None, "left out"])
async def test_a_file_without_any_text_in_a_thread_is_heard(at: Counter, text: str | None) -> None:
    root = await at.fake.say(at.alice, at.general, "hello", mention=True)
    at.talks(at.alice, root)
    files = [("a.txt", "", b"eggs")]
    (body,) = at.bodies(await at.fake.say(at.alice, at.general, "", thread=root, files=files))
    body["event"]["text"] = text
    if text == "left out":
        del body["event"]["text"]

    await at.listener.take(body)

    assert at.inbound.texts() == [""]


@pytest.mark.parametrize("files", [None, [], [{"id": "F1", "mode": "tombstone"}]])
async def test_odd_files_break_nothing(at: Counter, files: list[Json] | None) -> None:
    message = await at.fake.say(at.alice, at.fake.dm(at.alice), "look")
    (body,) = at.bodies(message)
    body["event"]["files"] = files

    await at.listener.take(body)

    assert at.inbound.texts() == ["look"]
    assert len(at.inbound.heard[0].files) == len(files or [])


# --- what changes afterwards ----------------------------------------------------------------------


async def test_an_edit_that_adds_a_mention_is_heard_and_further_edits_are_not(here: Here) -> None:
    message = await here.fake.say(here.alice, here.general, "who has seen my keys?")
    await here.fake.edit(message, "who has seen my keys?", mention=True)
    await here.fake.edit(message, "who?")
    await here.fake.edit(message, "and now?", mention=True)

    heard = await nothing_but(here)
    assert [(each.text, each.place) for each in heard] == [
        ("who has seen my keys?", here.place(message))
    ]


async def test_an_edit_that_adds_a_mention_is_heard_while_the_message_waits_in_line(
    slack: FakeSlack,
) -> None:
    inbound = Held("slow")
    async with counter(slack, inbound, stored_seconds=0.02) as at:
        root = await slack.say(at.bob, at.general, "lovely weather")
        await at.take(await slack.say(at.alice, at.general, "slow", mention=True))
        message = await slack.say(at.alice, at.general, "is it?", thread=root)
        await at.take(message)
        await slack.edit(message, "is it?", mention=True)
        await at.take(message)
        inbound.may_go_on.set()
        await at.heard(2)

        assert inbound.texts() == ["slow", "is it?"]


async def test_editing_or_deleting_what_was_heard_changes_nothing(here: Here) -> None:
    dm = here.fake.dm(here.alice)
    message = await here.fake.say(here.alice, dm, "hello")
    await here.fake.edit(message, "goodbye")
    await here.fake.delete(message)

    assert [each.text for each in await nothing_but(here)] == ["hello"]


# --- in threads -----------------------------------------------------------------------------------


@pytest.fixture
async def thread(here: Here) -> Message:
    """A thread in which Alice talks with the bot."""
    root = await here.fake.say(here.alice, here.general, "hello", mention=True)
    await here.heard()
    here.inbound.heard.clear()
    here.talks(here.alice, root)
    return root


async def test_in_a_thread_whoever_talks_with_the_bot_need_not_mention_it(
    here: Here, thread: Message
) -> None:
    message = await here.fake.say(here.alice, here.general, "and then?", thread=thread)

    (incoming,) = await nothing_but(here)
    assert (incoming.text, incoming.place) == ("and then?", here.place(message))
    assert incoming.place.thread == thread.ts


async def test_somebody_else_in_the_thread_has_to_mention_it(here: Here, thread: Message) -> None:
    await here.fake.say(here.bob, here.general, "not for you", thread=thread)
    await here.fake.say(here.bob, here.general, "for you", thread=thread, mention=True)

    assert [each.text for each in await nothing_but(here)] == ["for you"]


async def test_what_is_said_to_somebody_else_in_a_thread_is_passed_over(
    here: Here, thread: Message
) -> None:
    to_bob = f"<@{here.bob.id}> wait"
    about_bob = f"what does <@{here.bob.id}> think?"
    for text in (to_bob, about_bob):
        await here.fake.say(here.alice, here.general, text, thread=thread, raw=True)

    assert await nothing_but(here) == []


async def test_what_begins_with_another_and_mentions_the_bot_is_heard(
    here: Here, thread: Message
) -> None:
    text = f"<@{here.bob.id}> see what <@{here.fake.bot_user().id}> says"
    await here.fake.say(here.alice, here.general, text, thread=thread, raw=True)

    assert len(await nothing_but(here)) == 1


async def test_when_it_is_unknown_who_talks_nobody_is_bothered(
    slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    class Unsure(FakeInboundHandler):
        async def listens(self, *_: object) -> bool:
            raise BotError("That is not known.")

    async with listening(slack, Unsure()) as here:
        root = await slack.say(here.bob, here.general, "lovely weather")
        await slack.say(here.alice, here.general, "is it?", thread=root)

        assert await nothing_but(here) == []
        assert told(here, here.alice) == []
    assert "That is not known." in caplog.text


# --- who may --------------------------------------------------------------------------------------


async def test_in_other_channels_nobody_is_heard_or_told(slack: FakeSlack) -> None:
    general, alice, _ = people(slack)
    served = slack.add_channel("served")
    async with listening(slack, channels=(served.id,)) as here:
        await slack.say(alice, general, "hello", mention=True)
        await slack.say(alice, served, "in the right one", mention=True)

        assert [each.text for each in await nothing_but(here)] == ["in the right one"]
        assert told(here, alice) == []
        assert not slack.said(general)


async def test_in_other_workspaces_nobody_is_heard_or_told(slack: FakeSlack) -> None:
    async with listening(slack, workspaces=("T99",)) as here:
        dm = slack.dm(here.alice)
        message = await slack.say(here.alice, here.general, "hello", mention=True)
        direct = await slack.say(here.alice, dm, "hello")

        assert all(each.acked for each in (*message.events, *direct.events))
        assert here.inbound.heard == []
        assert told(here, here.alice) == []
        assert not slack.said(dm)


async def test_who_may_not_is_told_once_an_hour_in_each_channel_and_only_when_they_ask(
    slack: FakeSlack,
) -> None:
    _, alice, bob = people(slack)
    now = [0.0]
    settings = settings_for(slack, users=(bob.id,))
    reception = SlackAccessPolicy(settings, monotonic=lambda: now[0])
    async with counter(slack, reception=reception) as at:
        root = await slack.say(bob, at.general, "lovely weather")
        at.talks(alice, root)
        await at.take(await slack.say(alice, at.general, "is it?", thread=root))
        assert told(at, alice) == []
        for _ in range(2):
            await at.take(await slack.say(alice, at.general, "hello", mention=True))
        assert told(at, alice) == [NOT_YOU]
        await at.take(await slack.say(alice, slack.dm(alice), "hello"))
        assert [each.readable() for each in slack.said(slack.dm(alice))] == [NOT_YOU]
        now[0] += TELL_AGAIN_SECONDS
        await at.take(await slack.say(alice, at.general, "hello", mention=True))

        assert told(at, alice) == [NOT_YOU] * 2
        assert at.inbound.heard == []
        assert slack.called("users.info") == []


async def test_direct_messages_can_be_switched_off(slack: FakeSlack) -> None:
    async with listening(slack, direct_messages=False) as here:
        dm = slack.dm(here.alice)
        await slack.say(here.alice, dm, "hello")
        (answer,) = await here.said(dm)
        await slack.say(here.alice, here.general, "hello", mention=True)
        await here.heard()

        assert answer.readable() == NO_DIRECT_MESSAGES
        assert len(here.inbound.heard) == 1


async def test_where_the_bot_is_not_nothing_is_heard(slack: FakeSlack, database: Database) -> None:
    async with open_session() as session:
        nowhere = EncryptedInstallationStore(database, installing.settings_for(slack), session)
        async with counter(slack, clients=nowhere) as at:
            said = await slack.say(at.alice, at.general, "hello", mention=True)
            with pytest.raises(RefusedError, match="not installed"):
                await at.take(said)

            assert at.inbound.heard == []


# --- strangers ------------------------------------------------------------------------------------


async def shared_by(at: Counter, told_as: str) -> list[Json]:
    """Return what Slack really tells of a stranger who mentions the bot in a shared channel.

    The mention names the workspace where the bot is, and whose member they are; the message names
    their workspace alone.
    """
    beta = at.fake.add_team("Beta")
    carol = at.fake.add_user("carol", team=beta)
    room = at.fake.add_channel("shared", members=[at.alice, carol], shared_with=[beta])
    mention, message = at.bodies(await at.fake.say(carol, room, "hello", mention=True))
    home = told_as or beta.id
    mention["event"] |= {"team": at.fake.team.id, "user_team": home, "source_team": home}
    for field in ("user_team", "source_team"):
        del message["event"][field]
    return [mention, message]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("organisation", ["", "E99"])
async def test_a_stranger_is_heard_once_as_one_of_their_own_workspace(
    at: Counter, organisation: str, order: int
) -> None:
    bodies = await shared_by(at, organisation)

    for body in bodies[::order]:
        await at.listener.take(body)

    (incoming,) = at.inbound.heard
    assert incoming.user.workspace == bodies[1]["event"]["team"] != at.fake.team.id
    assert incoming.place.workspace == at.fake.team.id


# --- commands in words ----------------------------------------------------------------------------


async def test_a_command_in_a_channel_is_answered_in_its_thread_for_the_asker_alone(
    here: Here,
) -> None:
    here.answers("!subagents list", "No runs are going on.")
    message = await here.fake.say(here.alice, here.general, "!subagents list", mention=True)
    (answer,) = await here.whispered(here.alice)

    assert answer.readable() == "No runs are going on."
    assert answer.thread_ts == message.ts
    assert not here.fake.said(here.general)


async def test_a_command_in_a_direct_message_is_answered_in_its_thread(here: Here) -> None:
    here.answers("list", CommandReply(text="Page 1", more="/subagents list 2"))
    dm = here.fake.dm(here.alice)
    message = await here.fake.say(here.alice, dm, "list")
    (answer,) = await here.said(dm)

    assert "Page 1" in answer.readable()
    assert [button.label for button in answer.buttons()] == ["More"]
    assert answer.thread_ts == message.ts


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ("", "It is deleted."),
        ("Yes", "✅ alice said yes."),
        ("Use <euros>", "💬 alice: Use <euros>"),
    ],
)
async def test_a_question_that_is_answered_in_words_waits_no_more(chosen: str, words: str) -> None:
    async with stand() as its, counter(its.fake) as at:
        await at.receiver.outlet.ask(question_of(its))
        (question,) = its.fake.said(its.channel)
        at.answers("yes", CommandReply(text="It is deleted.", answered="question-1", chosen=chosen))
        assert question.buttons()

        await at.take(
            await its.fake.say(its.alice, its.channel, "yes", thread=its.said, mention=True)
        )

        assert not question.buttons()
        assert question.readable().endswith(f"\n{words}")
        assert told(at, its.alice) == ["It is deleted."]


# --- what goes wrong ------------------------------------------------------------------------------


async def test_what_the_core_cannot_do_is_said_and_the_next_message_is_heard(
    here: Here, caplog: pytest.LogCaptureFixture
) -> None:
    dm = here.fake.dm(here.alice)
    here.inbound.failure = BotError("That cannot be done.")
    await here.fake.say(here.alice, dm, "one")
    await here.said(dm)
    here.inbound.failure = ValueError("a bug")
    await here.fake.say(here.alice, dm, "two")
    await here.said(dm, 2)
    await here.fake.say(here.alice, dm, "three")
    await here.heard(3)

    assert [each.readable() for each in here.fake.said(dm)] == ["That cannot be done.", TROUBLE]
    assert "a bug" in caplog.text
    assert all(each.acked for each in here.fake.deliveries.all)


async def test_what_could_not_be_done_is_not_tried_again_when_slack_tells_it_again(
    here: Here,
) -> None:
    dm = here.fake.dm(here.alice)
    here.inbound.failure = BotError("That cannot be done.")
    message = await here.fake.say(here.alice, dm, "one")
    await here.said(dm)
    await here.fake.redeliver(message)

    assert [each.text for each in await nothing_but(here)] == ["one"]
    assert len(here.fake.said(dm)) == 1


async def test_an_answer_that_slack_does_not_take_is_logged_and_no_more(
    here: Here, caplog: pytest.LogCaptureFixture
) -> None:
    dm = here.fake.dm(here.alice)
    here.answers("one", "1")
    here.answers("two", "2")
    here.fake.fail("chat.postMessage", error="restricted_action")

    await here.fake.say(here.alice, dm, "one")
    await here.fake.say(here.alice, dm, "two")
    (answer,) = await here.said(dm)

    assert answer.readable() == "2"
    assert "is lost" in caplog.text


# --- order ----------------------------------------------------------------------------------------


async def test_what_one_user_says_in_a_channel_is_handed_on_in_order(slack: FakeSlack) -> None:
    inbound = Held("first")
    async with counter(slack, inbound, stored_seconds=0.01) as at:
        for text in ("first", "second", "third"):
            await at.take(await slack.say(at.alice, at.general, text, mention=True))
        await at.take(await slack.say(at.bob, at.general, "of another", mention=True))
        await at.take(await slack.say(at.alice, slack.dm(at.alice), "elsewhere"))
        await inbound.until(lambda: len(inbound.done) == 2, "what does not wait")
        assert sorted(inbound.done) == ["elsewhere", "of another"]
        inbound.may_go_on.set()
        await inbound.until(lambda: len(inbound.done) == 5, "the rest")

        assert inbound.done[2:] == ["first", "second", "third"]


async def test_slack_is_told_in_time_although_a_message_takes_long(slack: FakeSlack) -> None:
    inbound = Held("slow")
    async with counter(slack, inbound, stored_seconds=0.05) as at, connected(at):
        message = await slack.say(at.alice, slack.dm(at.alice), "slow")
        await slack.redeliver(message)

        assert [len(each.attempts) for each in message.events] == [2]
        assert all(each.acked_after is not None for each in message.events[0].attempts)
        assert inbound.done == []
        inbound.may_go_on.set()
        await inbound.until(lambda: bool(inbound.done), "the message")
        assert inbound.texts() == ["slow"]


async def test_a_message_is_stored_before_slack_is_told_that_it_was_delivered(
    slack: FakeSlack,
) -> None:
    inbound = Held("hello")
    async with counter(slack, inbound, stored_seconds=5.0) as at, connected(at):
        saying = at.tasks.start(slack.say(at.alice, slack.dm(at.alice), "hello"), name="say")
        await at.heard()
        assert not saying.done()
        inbound.may_go_on.set()
        message = await saying

        assert inbound.done == ["hello"]
        assert message.events[0].acked


# --- again and again ------------------------------------------------------------------------------


async def test_the_same_event_told_again_is_heard_once(here: Here) -> None:
    message = await here.fake.say(here.alice, here.general, "hello", mention=True)
    for retry in (1, 2, 3):
        await here.fake.redeliver(message, retry=retry)

    assert len(await nothing_but(here)) == 1
    assert all(attempt.acked_after is not None for e in message.events for attempt in e.attempts)


async def test_the_same_event_twice_at_once_is_heard_once(slack: FakeSlack) -> None:
    inbound = Held("hello")
    async with counter(slack, inbound, stored_seconds=5.0) as at:
        message = await slack.say(at.alice, at.general, "hello", mention=True)
        taking = [at.tasks.start(at.take(message), name="take") for _ in range(3)]
        await at.heard()
        assert not any(each.done() for each in taking)
        inbound.may_go_on.set()
        await asyncio.wait(taking)

        assert all(each.exception() is None for each in taking)
        assert inbound.texts() == ["hello"]


# --- a memory out of reach ------------------------------------------------------------------------


async def stored(at: Counter, inbound: Forgetful, count: int = 1) -> None:
    await inbound.until(lambda: len(inbound.kept) >= count, "a memory")
    await at.receiver.reception.wait_idle(5)


async def test_what_cannot_be_stored_is_tried_again_until_it_is(slack: FakeSlack) -> None:
    inbound = Forgetful(times=3)
    async with counter(slack, inbound, pauses=(0.0,) * 5) as at:
        dm = slack.dm(at.alice)
        await at.take(await slack.say(at.alice, dm, "remember me"))
        await stored(at, inbound)

        assert (inbound.attempts, inbound.kept) == (4, ["remember me"])
        assert [each.readable() for each in slack.said(dm)] == [f"{AWAY} {AGAIN}"]


async def test_what_is_stored_only_with_the_last_attempt_counts(slack: FakeSlack) -> None:
    inbound = Forgetful(times=2)
    async with counter(slack, inbound, pauses=(0.0, 0.0)) as at:
        dm = slack.dm(at.alice)
        await at.take(await slack.say(at.alice, dm, "remember me"))
        await stored(at, inbound)

        assert inbound.kept == ["remember me"]
        assert len(slack.said(dm)) == 1


async def test_what_cannot_be_stored_for_too_long_is_given_up_which_is_said(
    slack: FakeSlack,
) -> None:
    inbound = Forgetful(times=float("inf"))
    async with counter(slack, inbound, pauses=(0.0, 0.0)) as at:
        dm = slack.dm(at.alice)
        message = await slack.say(at.alice, dm, "remember me")
        await at.take(message)
        again, given_up = await at.said(dm, 2)
        await at.receiver.reception.wait_idle(5)
        assert inbound.attempts == 3
        inbound.times = 0
        await at.take(message)
        await stored(at, inbound)

        assert inbound.kept == ["remember me"]
        assert AGAIN in again.readable()
        assert AWAY in given_up.readable()
        assert "send it again later" in given_up.readable()


async def test_in_the_meantime_slack_is_told_that_it_is_not_taken_and_then_that_it_is(
    slack: FakeSlack,
) -> None:
    inbound = Forgetful(times=float("inf"))
    async with counter(slack, inbound, pauses=SOON, stored_seconds=0.05) as at, connected(at):
        await at.knows(at.alice)
        slack.deliveries.immediate_retry, slack.deliveries.ack_seconds = False, 0.3
        message = await slack.say(at.alice, slack.dm(at.alice), "remember me")
        await slack.redeliver(message)
        assert not message.events[0].acked
        inbound.times, slack.deliveries.ack_seconds = 0, 3.0
        await stored(at, inbound)
        await slack.redeliver(message, retry=2)

        assert message.events[0].acked
        assert inbound.kept == ["remember me"]
        assert len(slack.said(slack.dm(at.alice))) == 1


async def test_what_waits_behind_something_that_is_not_stored_is_not_taken_either(
    slack: FakeSlack,
) -> None:
    inbound = Forgetful(times=float("inf"))
    async with counter(slack, inbound, pauses=SOON, stored_seconds=0.05) as at:
        await at.knows(at.alice)
        dm = slack.dm(at.alice)
        messages = [await slack.say(at.alice, dm, text) for text in ("one", "two")]
        for message in (*messages, *messages):
            with pytest.raises(DeliveryError, match="not stored yet"):
                await at.take(message)
        inbound.times = 0
        await stored(at, inbound, 2)
        for message in messages:
            await at.take(message)

        assert inbound.kept == ["one", "two"]


async def test_a_message_that_is_stored_is_taken_although_its_answer_takes_long(
    slack: FakeSlack,
) -> None:
    go_on = asyncio.Event()
    inbound = Forgetful(times=1)
    async with counter(slack, inbound, pauses=(0.0,), stored_seconds=2) as at:
        at.answers("list", "Nothing.")
        slack.fail("chat.postMessage", hold=go_on, when=lambda args: AWAY not in str(args))

        await at.take(await slack.say(at.alice, slack.dm(at.alice), "list"))

        assert inbound.kept == ["list"]
        go_on.set()
        await at.said(slack.dm(at.alice), 2)


async def test_whoever_is_not_talking_to_the_bot_hears_nothing_of_its_trouble(
    slack: FakeSlack,
) -> None:
    inbound = Forgetful(times=float("inf"))
    async with counter(slack, inbound, pauses=(0.0, 0.0)) as at:
        root = await slack.say(at.bob, at.general, "lovely weather")
        await at.take(await slack.say(at.alice, at.general, "is it?", thread=root))
        await at.receiver.reception.wait_idle(5)

        assert inbound.attempts == 3
        assert told(at, at.alice) == []


async def test_what_is_said_in_a_thread_is_stored_once_the_memory_is_back(
    slack: FakeSlack,
) -> None:
    inbound = Forgetful(times=2)
    async with counter(slack, inbound, pauses=(0.0, 0.0)) as at:
        root = await slack.say(at.alice, at.general, "hello", mention=True)
        at.talks(at.alice, root)
        await at.take(await slack.say(at.alice, at.general, "and then?", thread=root))
        await stored(at, inbound)

        assert inbound.kept == ["and then?"]
        assert told(at, at.alice) == []


# --- what does not wait, and what is for us without a mention -----------------------------------


@pytest.mark.parametrize("text", ["!subagents list", "!retinue help", "  !Subagents"])
async def test_our_own_commands_need_no_mention_also_where_the_bot_talks_with_nobody(
    slack: FakeSlack, text: str
) -> None:
    async with counter(slack, FakeInboundHandler()) as at:
        at.answers(text.strip(), "Here you are.")
        root = await slack.say(at.bob, at.general, "lovely weather")
        await at.take(await slack.say(at.alice, at.general, text, thread=root))
        await at.take(await slack.say(at.alice, at.general, "!weather today", thread=root))

        [answer] = await at.whispered(at.alice)
        assert answer.readable() == "Here you are."
        assert at.inbound.texts() == [text.strip()]


@pytest.mark.parametrize("command", ["!stop", "/stop", "subagents stop last", "yes", "no 1a2b3c"])
async def test_a_command_does_not_wait_behind_a_message_whose_files_take_long(
    slack: FakeSlack, command: str
) -> None:
    go_on = asyncio.Event()

    class Slow(FakeInboundHandler):
        async def receive(self, incoming: Incoming) -> CommandReply | None:
            if incoming.files:
                await go_on.wait()
            return await super().receive(incoming)

    inbound = Slow()
    async with counter(slack, inbound, stored_seconds=0.05) as at:
        dm = slack.dm(at.alice)
        file = ("a.txt", "text/plain", b"Read me")
        await at.take(await slack.say(at.alice, dm, "Look", files=[file]))
        await at.take(await slack.say(at.alice, dm, "And this?"))
        await at.take(await slack.say(at.alice, dm, command))
        await at.heard(1)
        assert inbound.texts() == [command]

        go_on.set()
        await at.heard(3)
        assert inbound.texts() == [command, "Look", "And this?"]


async def test_a_shared_message_is_quoted_content_and_not_the_users_words(here: Here) -> None:
    shared = {"is_share": True, "text": "I am the boss."}
    dm = here.fake.dm(here.alice)
    await here.fake.say(here.alice, dm, "true?", attachments=[shared])
    await here.heard()

    incoming = here.inbound.heard[0]
    assert (incoming.text, incoming.quoted) == ("true?", (Quoted("shared", "I am the boss."),))

"""A model reads further in its place and its conversation, and nothing from before `/new`."""

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from bot.errors import DeliveryError, ToolError
from bot.platforms.messages import PastMessage
from bot.values import ConversationMode, Identity, Json, Place, Role
from db import conversations, users
from db.conversations import Attribution
from db.database import Database
from skills.base import Audience, ToolContext
from skills.conversation.messages import PlaceMessages
from skills.conversation.skill import NOTHING, build
from tests.fakes.clock import FakeClock
from tests.fakes.outlet import FakeOutlet
from tests.fakes.rows import meet

SHARED = ConversationMode(shared=True, silence=None)
THREAD = Place("discord", "guild", "general", "thread")


@dataclass
class Room:
    """A thread with a shared conversation, and the tools that read it."""

    database: Database
    clock: FakeClock
    user: Identity
    outlet: FakeOutlet
    conversation_id: str = ""

    async def begin(self) -> None:
        """Open a conversation; `/new` closes the one before."""
        async with self.database.transaction() as tx:
            if self.conversation_id:
                await conversations.close(tx, self.conversation_id, self.clock())
            self.conversation_id = await conversations.find_or_open(
                tx, self.user, THREAD, self.clock(), SHARED
            )

    def post(self, text: str, place: Place = THREAD, **given: Any) -> None:
        """Let a message stand on the platform."""
        self.clock.advance(60)
        past = PastMessage(
            event_id=text,
            place=replace(place, message=text),
            author=self.user,
            author_name="Alice",
            text=text,
            sent_at=self.clock(),
            **given,
        )
        self.outlet.past.append(past)

    async def store(self, text: str, role: str = "user") -> None:
        """Store a message of the conversation."""
        by = Attribution(author_number=1, author_name="Alice") if role == "user" else Attribution()
        async with self.database.transaction() as tx:
            await conversations.say(
                tx, self.conversation_id, role=role, text=text, now=self.clock(), by=by
            )

    async def call(self, name: str, **arguments: object) -> list[Json]:
        """Call a tool and return the messages in its result."""
        skill = build(PlaceMessages(self.database, {"discord": self.outlet}, ZoneInfo("UTC")))
        (tool,) = (each for each in skill.tools if each.name == name)
        context = replace(self.context, now=self.clock)
        result = await tool.run(context, arguments)
        return [json.loads(line) for line in result.splitlines() if result != NOTHING]

    @property
    def context(self) -> ToolContext:
        """The caller of the tools: the main agent, in a turn of Alice."""
        return ToolContext(
            user=self.user,
            role=Role.USER,
            place=replace(THREAD, message="m1"),
            conversation_id=self.conversation_id,
            work_id="turn-1",
            call_id="1",
            run_id=None,
            now=self.clock,
            shared=True,
        )


@pytest.fixture
async def place(database: Database, clock: FakeClock, alice: Identity) -> Room:
    await meet(database, alice, clock())
    found = Room(database, clock, alice, FakeOutlet("discord"))
    await found.begin()
    return found


def texts(found: list[Json]) -> list[str]:
    return [each["text"] for each in found]


async def test_the_newest_messages_of_the_thread_are_read_in_order(place: Room) -> None:
    for text in ("one", "two", "three"):
        place.post(text, reactions={"👍": 2})
    place.post("elsewhere", replace(THREAD, channel="other"))

    found = await place.call("channel_history", count=2)

    assert texts(found) == ["two", "three"]
    assert found[0] == {
        "name": "Alice",
        "at": f"{place.outlet.past[1].sent_at:%Y-%m-%d %H:%M}",
        "text": "two",
        "reactions": {"👍": 2},
    }


async def test_the_channel_around_a_thread_is_read_if_asked_for(place: Room) -> None:
    place.post("inside")
    place.post("outside", replace(THREAD, thread=""))

    assert texts(await place.call("channel_history", around=True)) == ["outside"]


async def test_older_messages_are_read_if_asked_for(place: Room) -> None:
    place.post("old")
    place.clock.advance(timedelta(hours=30).total_seconds())

    assert await place.call("channel_history") == []
    assert texts(await place.call("channel_history", hours=48)) == ["old"]


async def test_nothing_from_before_a_new_conversation_is_read(place: Room) -> None:
    place.post("before")
    place.clock.advance(60)
    await place.begin()
    place.post("after")

    assert texts(await place.call("channel_history")) == ["after"]


async def test_a_place_that_cannot_be_read_is_said(place: Room) -> None:
    place.outlet.unreadable = DeliveryError("The bot is not in that channel.")

    with pytest.raises(ToolError, match="not in that channel"):
        await place.call("channel_history")


async def test_a_message_is_found_by_all_its_words_in_any_case(place: Room) -> None:
    await place.store("The Hens are hungry")
    await place.store("The dogs are hungry")
    await place.store("Fed the hens at nine", role="assistant")

    assert texts(await place.call("conversation_search", query="HENS")) == [
        "The Hens are hungry",
        "Fed the hens at nine",
    ]
    assert texts(await place.call("conversation_search", query="hungry, hens")) == [
        "The Hens are hungry"
    ]
    assert (await place.call("conversation_search", query="nine"))[0]["name"] == "you"
    assert await place.call("conversation_search", query="100%") == []


async def test_other_conversations_are_not_searched(place: Room) -> None:
    await place.store("My code is 1234")
    await place.begin()

    assert await place.call("conversation_search", query="code") == []


async def test_a_search_needs_a_word(place: Room) -> None:
    with pytest.raises(ToolError, match="at least one word"):
        await place.call("conversation_search", query="?!")


# -- elsewhere -------------------------------------------------------------------------------------

LINK = "https://chat.example/other/1"


def post_elsewhere(place: Room, text: str, **given: Any) -> None:
    """Let a message stand in another channel of the platform."""
    place.outlet.elsewhere.setdefault(LINK, []).append(
        PastMessage(
            event_id=text,
            place=Place("discord", "guild", "other", message="1"),
            author=place.user,
            author_name="Bob",
            text=text,
            sent_at=place.clock(),
            **given,
        )
    )


async def test_a_link_is_read_for_the_user_who_asks_and_the_readers_of_the_place(
    place: Room,
) -> None:
    post_elsewhere(place, "The key is under the mat.", channel_name="other", link=LINK)

    (found,) = await place.call("channel_history", link=f" {LINK} ", count=5)

    assert (found["channel"], found["name"], found["link"]) == ("other", "Bob", LINK)
    ((link, request),) = place.outlet.requests
    assert (link, request.limit, request.search_token) == (LINK, 5, "")
    assert (request.user, request.place) == (place.user, place.context.place)


async def test_a_search_uses_the_permission_of_the_newest_message(place: Room) -> None:
    post_elsewhere(place, "The key is under the mat.")
    async with place.database.transaction() as tx:
        await users.set_search_token(tx, place.user.key, "token-1")

    assert texts(await place.call("channel_search", query="key")) == ["The key is under the mat."]
    assert await place.call("channel_search", query="lock") == []
    assert [each.search_token for _, each in place.outlet.requests] == ["token-1", "token-1"]


async def test_what_may_not_be_read_elsewhere_is_said(place: Room) -> None:
    place.outlet.unreadable = DeliveryError("There is no such message.")

    with pytest.raises(ToolError, match="no such message"):
        await place.call("channel_history", link=LINK)
    with pytest.raises(ToolError, match="Nothing was searched"):
        await place.call("channel_search", query="key")
    with pytest.raises(ToolError, match="at least one word"):
        await place.call("channel_search", query=" ")


def test_what_is_read_elsewhere_is_for_the_user_alone() -> None:
    skill = build(PlaceMessages(None, {}, ZoneInfo("UTC")))  # type: ignore[arg-type]
    history, search, _ = skill.tools

    assert history.read_by({"count": 5}) is history.read_by({"link": ""}) is Audience.PLACE
    assert history.read_by({"link": LINK}) is search.read_by({}) is Audience.PERSONAL

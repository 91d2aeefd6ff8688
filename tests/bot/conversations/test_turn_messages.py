"""The messages above the first mention are read once, within limits, and never keep a turn."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.conversations.settings import ConversationSettings
from bot.conversations.turn_messages import ThreadReader
from bot.errors import DeliveryError
from bot.platforms.messages import Attachment, PastMessage, Quoted
from bot.values import ConversationMode, Identity, Place
from db import conversations, history, turns
from db.conversations import StoredMessage
from db.database import Database
from db.turns import Turn
from tests.fakes.clock import FakeClock
from tests.fakes.outlet import FakeOutlet
from tests.fakes.stored import Stored, room


class Thread:
    """A thread with a turn that waits for what is above."""

    def __init__(self, database: Database, clock: FakeClock, user: Identity) -> None:
        self.database, self.clock, self.user = database, clock, user
        self.stored = Stored(database, clock)
        self.outlet = FakeOutlet("discord")
        self.place = replace(room(user), message="")

    def above(self, text: str, *, minutes: float = 5, **more: Any) -> None:
        """Put a message of another user into the thread."""
        number = len(self.outlet.past)
        values: dict[str, Any] = {
            "event_id": f"e{number}",
            "place": replace(self.place, message=f"p{number}"),
            "author": Identity("discord", "", "other"),
            "author_name": "Other",
            "text": text,
            "sent_at": self.clock() - timedelta(minutes=minutes),
        }
        self.outlet.past.append(PastMessage(**(values | more)))

    async def turn(self) -> Turn:
        """Open a shared conversation, and begin a turn in it."""
        await self.stored.person(self.user)
        async with self.database.transaction() as tx:
            opened = await conversations.find_or_open(
                tx, self.user, self.place, self.clock(), ConversationMode(shared=True)
            )
        await self.stored.turn(self.user, opened)
        return await self.stored.begin_turn(await self.stored.claim_turn(opened) or "")

    async def read(self, turn: Turn, *, seconds: float = 10, **settings: Any) -> str:
        outlets = {"discord": self.outlet}
        chosen = ConversationSettings(**settings)
        reader = ThreadReader(self.database, outlets, chosen, self.clock, seconds)
        return await reader.read(turn)

    async def known(self, turn: Turn) -> list[StoredMessage]:
        """Return the messages of the conversation without that of the turn."""
        async with self.database.snapshot() as tx:
            past = await history.shared(tx, turn.conversation_id, until=turn.message_id)
        return [each for each in past if each.id != turn.message_id]


@pytest.fixture
def thread(database: Database, clock: FakeClock, alice: Identity) -> Thread:
    return Thread(database, clock, alice)


async def test_what_is_above_is_stored_in_order_with_its_authors(thread: Thread) -> None:
    thread.above("first", minutes=9)
    thread.above("disk full", minutes=8, by_bot=True, author=Identity("discord", "", "alerts"))
    thread.above("mine", minutes=7, own=True)
    # The clock of the platform is ahead of ours.
    thread.above("last", minutes=-3, quoted=(Quoted("forwarded", "a rumour"),))
    turn = await thread.turn()

    assert await thread.read(turn) == ""

    known = await thread.known(turn)
    assert [(each.role, each.author_number, each.text) for each in known] == [
        ("user", 1, "first"),
        ("bot", 2, "disk full"),
        ("user", 1, "last"),
    ]
    assert known[2].quoted == ({"kind": "forwarded", "text": "a rumour"},)
    assert all(each.foreign for each in known)
    assert known[0].said_at == thread.clock() - timedelta(minutes=9)


async def test_it_is_read_once(thread: Thread) -> None:
    thread.above("first")
    turn = await thread.turn()
    await thread.read(turn)
    thread.above("later")
    async with thread.database.snapshot() as tx:
        later = await turns.get(tx, turn.id)
    assert later is not None

    await thread.read(later)

    assert [each.text for each in await thread.known(turn)] == ["first"]


async def test_the_newest_are_read_within_the_limits_and_what_opened_the_thread(
    thread: Thread,
) -> None:
    for number in range(6):
        thread.above(f"{number} " + "word " * 50)
    turn = await thread.turn()

    await thread.read(turn, context_messages=5, context_tokens=200)

    assert [each.text[0] for each in await thread.known(turn)] == ["0", "4", "5"]


async def test_names_of_files_are_known_and_empty_messages_left_out(thread: Thread) -> None:
    async def nothing() -> bytes:
        return b""

    plan = Attachment(name="plan.pdf", media_type="application/pdf", size=1, read=nothing)
    thread.above("", files=(plan,))
    thread.above(" ")
    turn = await thread.turn()

    await thread.read(turn)

    (message,) = await thread.known(turn)
    assert message.quoted == ({"kind": "note", "text": "attached: plan.pdf"},)


async def test_a_mention_in_a_channel_reads_its_last_minutes(thread: Thread) -> None:
    thread.place = Place("discord", "guild", "channel")
    thread.above("long ago", minutes=90)
    thread.above("just now", minutes=30)
    turn = replace(await thread.turn(), place=replace(thread.place, thread="m1", message="m1"))

    await thread.read(turn, context_minutes=60)

    assert [each.text for each in await thread.known(turn)] == ["just now"]


async def test_a_platform_that_refuses_is_told_of_and_asked_again(thread: Thread) -> None:
    thread.above("first")
    turn = await thread.turn()
    thread.outlet.unreadable = DeliveryError("Slack asks for patience.")

    note = await thread.read(turn)
    thread.outlet.unreadable = None

    assert "could not be read now: Slack asks for patience." in note
    assert await thread.known(turn) == []
    assert await thread.read(turn) == ""
    assert len(await thread.known(turn)) == 1


async def test_a_platform_that_does_not_answer_does_not_keep_the_turn(thread: Thread) -> None:
    thread.outlet.silent = True

    assert "did not answer in time" in await thread.read(await thread.turn(), seconds=0.01)

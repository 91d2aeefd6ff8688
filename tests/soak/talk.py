"""The users of the soak: they send messages, wait for what was asked, and note what came."""

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.things import Channel, Message, User

#: Longest wait for an answer or a result, in seconds: a run's own time and some more.
PATIENCE_SECONDS = 420.0
#: A refusal is expected when the message was sent so shortly before or in an outage.
BEFORE_OUTAGE_SECONDS = 10.0
#: So long after an outage what was refused in it is not answered any more.
AFTER_OUTAGE_SECONDS = 30.0
_REFUSED = re.compile(r"cannot (be reached|be read or written|store anything) right now")
_ANNOUNCED = re.compile(r"\b(Answer|Result) (m\d{5})\b")
KINDS = ("talk", "talk", "talk", "thread", "spawn", "spawn", "command")


@dataclass
class Tally:
    """What became of the messages of one chapter.

    Attributes:
        refused: Told of an outage in which they were sent.
        lost: Neither answered nor refused: the token, and what was said instead.
        repeated: Answers and results that came more than once without being marked.
        marked: Those that came once more, marked as possible duplicates.
    """

    sent: int = 0
    answered: int = 0
    refused: int = 0
    lost: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    marked: int = 0


@dataclass
class Talk:
    """Users on one Discord, and what they wait for.

    Attributes:
        name: Which bot they talk with.
        outage: Gives when the last outage of its database or of its disk began.
    """

    name: str
    discord: FakeDiscord
    users: int
    random: random.Random
    outage: Callable[[], tuple[float, float]]
    tally: Tally = field(default_factory=Tally)
    _tokens: set[str] = field(default_factory=set)
    _free: asyncio.Queue[User] = field(default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        guild = self.discord.add_guild(f"Soak {self.name}")
        self.channel = self.discord.add_channel(guild, "general")
        for number in range(self.users):
            user = self.discord.add_user(f"user{number}")
            self.discord.join(guild, user)
            self._free.put_nowait(user)

    async def greet(self) -> None:
        """Let each user say something: who never spoke before is not heard after a gap."""
        async with asyncio.TaskGroup() as group:
            for number in range(self.users):
                user = self._free.get_nowait()
                group.create_task(self._send(user, "talk", f"m9{number:04}"))
                group.create_task(self._send(user, "thread", f"m8{number:04}"))
                self._free.put_nowait(user)

    async def send(self, token: str) -> None:
        """Let the next free user send one message, and wait until it is dealt with."""
        user = await self._free.get()
        try:
            await self._send(user, self.random.choice(KINDS), token)
        finally:
            self._free.put_nowait(user)

    async def _send(self, user: User, kind: str, token: str) -> None:
        self.tally.sent += 1
        self._tokens.add(token)
        began = time.monotonic()
        private = self.discord.dm(user)
        if kind == "thread":
            said = await self.discord.say(user, self.channel, f"talk {token}", mention=True)
        elif kind == "command":
            text = f"/subagents spawn --label {token} work {token}"
            said = await self.discord.say(user, private, text)
        else:
            said = await self.discord.say(user, private, f"{kind} {token}")
        wanted = f"Answer {token}" if kind in {"talk", "thread"} else f"Result {token}"
        while time.monotonic() - began < PATIENCE_SECONDS:
            if any(wanted in text for text in self._said_after(said)):
                self.tally.answered += 1
                return
            if self._was_refused(said, began):
                self.tally.refused += 1
                return
            await asyncio.sleep(0.5)
        instead = " | ".join(text[:300] for text in self._said_after(said))
        self.tally.lost.append(f"{kind} {token} at {said.id}: {instead or 'nothing was said'}")

    def _was_refused(self, said: Message, sent: float) -> bool:
        """Whether its user was told of an outage in which it was sent, and that is over."""
        began, ended = self.outage()
        if (
            not began - BEFORE_OUTAGE_SECONDS
            < sent
            < ended
            < time.monotonic() - AFTER_OUTAGE_SECONDS
        ):
            return False
        return any(_REFUSED.search(text) for text in self._said_after(said))

    def _said_after(self, said: Message) -> Iterable[str]:
        for place in self._places(said):
            for each in self.discord.answers(place):
                if each.id > said.id:
                    yield each.text()

    def _places(self, said: Message) -> list[Channel]:
        return [said.channel, *([said.thread] if said.thread is not None else [])]

    def close(self) -> Tally:
        """Count what came more than once, and return the tally of the chapter."""
        counted: Counter[str] = Counter()
        marked: Counter[str] = Counter()
        for channel in list(self.discord.channels.values()):
            for each in self.discord.answers(channel):
                text = each.text()
                for found in set(_ANNOUNCED.findall(text)):
                    if found[1] not in self._tokens:
                        continue
                    counted[" ".join(found)] += 1
                    marked[" ".join(found)] += "may be a repetition" in text
        for words, count in counted.items():
            if count > 1 and marked[words]:
                self.tally.marked += 1
            elif count > 1:
                self.tally.repeated.append(f"{words} × {count}")
        done, self.tally = self.tally, Tally()
        self._tokens.clear()
        self.discord.sent.clear()
        return done

"""Reads messages for a turn: those above its first mention, and those sent while it works."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from bot.agent.messages import estimate_tokens
from bot.agent.plain import plain
from bot.conversations.model_texts import attributed, with_quotes
from bot.conversations.placing import put_overheard
from bot.conversations.settings import ConversationSettings
from bot.errors import DeliveryError
from bot.platforms.base import Outlet
from bot.platforms.messages import PastMessage, Quoted
from bot.platforms.messaging.intake import incoming_of
from bot.values import Clock, Live, Place
from db import conversations, turn_inbox
from db.conversations import StoredMessage
from db.database import Database, patiently
from db.turns import Turn

log = logging.getLogger(__name__)

#: Time for which a turn waits for the messages above it.
READ_SECONDS = 2.0
UNREAD = "What was said here before could not be read now: {reason} Say so if the answer needs it."
SLOW = "the platform did not answer in time."


@dataclass(frozen=True, slots=True)
class ThreadReader:
    """Stores the messages above the first mention of the bot, before its first turn begins.

    Attributes:
        seconds: The time for which a turn waits for them.
    """

    database: Database
    outlets: Mapping[str, Outlet]
    settings: Live[ConversationSettings]
    now: Clock
    seconds: float = READ_SECONDS

    async def read(self, turn: Turn) -> str:
        """Read and store the messages above a turn, unless its conversation has them.

        Returns:
            A note for the model on what could not be read; empty for none. A later turn of the
            conversation tries again.
        """
        outlet = self.outlets.get(turn.place.platform)
        if outlet is None or turn.looked_at is not None or not self.settings().reads_above:
            return ""
        place, said_at = replace(turn.place, message=""), turn.sent_at or turn.created_at
        begins = turn.place.thread in {"", turn.place.message}
        if begins:
            place = replace(place, thread="")
        since = said_at - timedelta(minutes=self.settings().context_minutes) if begins else ""
        try:
            async with asyncio.timeout(self.seconds):
                most = self.settings().context_messages
                found = await outlet.history(place, since, most, opening=not begins)
        except TimeoutError:
            return UNREAD.format(reason=SLOW)
        except DeliveryError as error:
            log.info("What was said above turn %s was not read: %s", turn.id, error)
            return UNREAD.format(reason=error)
        above = [
            each
            for each in found
            if not each.own
            and each.place.message != turn.place.message
            and (each.text.strip() or each.quoted or each.files)
        ]
        # The newest that fit, and the first in any case, which opened the thread.
        kept: list[PastMessage] = []
        room = self.settings().context_tokens
        for past in reversed(above):
            room -= estimate_tokens(past.text + "".join(each.text for each in past.quoted))
            if kept and room < 0:
                break
            kept.append(past)
        if not begins and above and kept[-1] is not above[0]:
            kept.append(above[0])
        await self._store(turn, kept[::-1])
        return ""

    async def _store(self, turn: Turn, above: Sequence[PastMessage]) -> None:
        now = self.now()
        async with self.database.transaction() as tx:
            known = await conversations.references(tx, turn.conversation_id)
            # Rising times that keep the order of messages, all before a time of our clock.
            times: list[datetime] = []
            for index, past in enumerate(above):
                latest = turn.created_at - timedelta(microseconds=len(above) - index)
                earliest = times[-1] + timedelta(microseconds=1) if times else past.sent_at
                times.append(min(max(past.sent_at, earliest), latest))
            for at, past in zip(times, above, strict=True):
                if past.place.message in known:
                    continue
                text = plain(past.text, limit=self.settings().context_tokens * 3)
                shown = ", ".join(f"{emoji} {count}" for emoji, count in past.reactions.items())
                reactions = [Quoted("note", f"reactions: {shown}")] if shown else []
                quoted = (*past.quoted, *reactions)
                await put_overheard(
                    tx,
                    turn.conversation_id,
                    replace(incoming_of(past), text=text, quoted=quoted),
                    by_bot=past.by_bot,
                    now=now,
                    sorted_at=at,
                )
            await conversations.mark_looked_at(tx, turn.conversation_id, now)


@dataclass(slots=True)
class TurnInbox:
    """The `MessageInbox` of one attempt at a turn.

    Attributes:
        read: Shows in a place that its message was read.
        foreign: Whether a message has brought content that the user did not write.
        private: No, since it has brought no private material.
    """

    database: Database
    turn: Turn
    zone: ZoneInfo
    read: Callable[[Place], None]
    foreign: bool = False
    private: bool = False
    _references: dict[str, str] = field(default_factory=dict)
    _begun: bool = False

    async def take(self) -> Sequence[tuple[str, str]]:
        """Return (id, text) of the messages that have arrived and were not read.

        The first step reads none: messages that were sent before it have turns of their own, or
        have joined the turn.
        """
        if not self._begun and self.turn.attempt == 1:
            self._begun = True
            return ()
        found = await patiently(self._unread)
        self.foreign |= any(each.foreign for each in found)
        self._references |= {each.id: each.reference for each in found}
        return [
            (
                each.id,
                attributed(each, {}, self.zone)
                if each.author_number
                else with_quotes(each.text, each.quoted),
            )
            for each in found
        ]

    async def _unread(self) -> list[StoredMessage]:
        async with self.database.snapshot() as tx:
            if not self._begun:
                earlier = await turn_inbox.read_by(tx, self.turn)
                self.foreign |= any(each.foreign for each in earlier)
                self._begun = True
            return await turn_inbox.unread(tx, self.turn)

    def mark_read(self, read: Sequence[str]) -> None:
        """Show on the platform that messages were read."""
        for each in read:
            if reference := self._references.get(each):
                self.read(replace(self.turn.place, message=reference))

"""Gives a turn in progress the messages that its user sends meanwhile."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from zoneinfo import ZoneInfo

from bot.conversations.model_texts import attributed, with_quotes
from bot.values import Place
from db import turn_inbox
from db.conversations import StoredMessage
from db.database import Database, patiently
from db.turns import Turn


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

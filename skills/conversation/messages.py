"""Reads the messages of a place on its platform, and those of a stored conversation."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from bot.agent.sanitizer import one_line
from bot.errors import BadRequestError, DeliveryError
from bot.platforms.base import Outlet
from bot.platforms.messages import PastMessage
from bot.values import Json, Place
from db import message_search
from db.conversations import StoredMessage
from db.database import Database
from db.search import words_of

#: Characters of one message in a result.
CHARACTERS = 1_000
#: Seconds that a platform has to return the history of a place.
SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class PlaceMessages:
    """The messages of the places of conversations, as JSON: author, time, text, files, reactions.

    Attributes:
        zone: The time zone of the times.
    """

    database: Database
    outlets: Mapping[str, Outlet]
    zone: ZoneInfo

    async def newest(
        self, conversation_id: str, place: Place, since: datetime, count: int
    ) -> Sequence[Json]:
        """Return the newest messages of a place since a time and since `/new`, oldest first.

        Raises:
            DeliveryError: The platform does not return them.
        """
        outlet = self.outlets.get(place.platform)
        if outlet is None:
            raise DeliveryError("This process does not read that platform.")
        async with self.database.snapshot() as tx:
            begun = await message_search.begun_anew(tx, conversation_id)
        place, after = replace(place, message=""), max(since, begun or since)
        try:
            async with asyncio.timeout(SECONDS):
                found = await outlet.history(place, after, count, opening=True)
        except TimeoutError:
            raise DeliveryError("The platform did not answer in time.") from None
        spoken = (each for each in found if each.text or each.quoted or each.files)
        # The message that opened the thread may be older.
        return [self._past(each) for each in spoken if each.sent_at >= after][-count:]

    async def search(self, conversation_id: str, query: str, limit: int) -> Sequence[Json]:
        """Return the newest messages of a conversation with all words of a query, oldest first.

        Raises:
            BadRequestError: The query has no words.
        """
        words = words_of(query)
        if not words:
            raise BadRequestError("Name at least one word to search for.")
        async with self.database.snapshot() as tx:
            found = await message_search.search(tx, conversation_id, words, limit=limit)
        return [self._stored(each) for each in found]

    def _past(self, message: PastMessage) -> Json:
        return {
            "name": "you" if message.own else one_line(message.author_name, 40) or "a bot",
            "at": self._shown(message.sent_at),
            "text": message.text[:CHARACTERS],
            "quoted": [each.text[:CHARACTERS] for each in message.quoted],
            "files": [one_line(each.name, 100) for each in message.files],
            "reactions": dict(message.reactions),
        }

    def _stored(self, message: StoredMessage) -> Json:
        by_user = message.role in {"user", "bot"}
        return {
            "name": (message.author_name or "the user") if by_user else "you",
            "at": self._shown(message.said_at or message.created_at),
            "text": message.text[:CHARACTERS],
        }

    def _shown(self, at: datetime) -> str:
        return f"{at.astimezone(self.zone):%Y-%m-%d %H:%M}"

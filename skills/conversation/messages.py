"""Reads messages of a platform, and those of a stored conversation."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from bot.agent.sanitizer import one_line
from bot.errors import BadRequestError, DeliveryError
from bot.platforms.base import Outlet
from bot.platforms.messages import PastMessage
from bot.platforms.reading import ReadRequest
from bot.values import Identity, Json, Place
from db import message_search, users
from db.database import Database
from db.user_texts import words_of

#: Characters of one message in a result.
CHARACTERS = 1_000
#: Seconds that a platform has to return the history of a place.
SECONDS = 20.0
NO_WORDS = "Name at least one word to search for."

Result = TypeVar("Result")


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
        outlet = self._outlet(place)
        async with self.database.snapshot() as tx:
            begun = await message_search.begun_anew(tx, conversation_id)
        place, after = replace(place, message=""), max(since, begun or since)
        found = await _in_time(outlet.history(place, after, count, opening=True))
        # The message that opened the thread may be older.
        return self._shown(each for each in found if each.sent_at >= after)[-count:]

    async def linked(self, link: str, user: Identity, place: Place, count: int) -> Sequence[Json]:
        """Return the message of a link with those around it, oldest first.

        Args:
            link: The address of the message.
            user: The user whose rights count.
            place: The place in which the result is read.
            count: The most messages.

        Raises:
            DeliveryError: The message cannot be read, or not for this user in this place.
        """
        request = ReadRequest(user=user, place=place, limit=count)
        return self._shown(await _in_time(self._outlet(place).linked(link, request)))

    async def found(self, query: str, user: Identity, place: Place, limit: int) -> Sequence[Json]:
        """Return the messages of a user's channels that the platform finds, the best first.

        Args:
            query: The words or the question.
            user: The user whose rights count.
            place: The place in which the result is read.
            limit: The most messages.

        Raises:
            BadRequestError: The query is empty.
            DeliveryError: The platform does not search for the bot.
        """
        if not query.strip():
            raise BadRequestError(NO_WORDS)
        async with self.database.snapshot() as tx:
            token = await users.search_token(tx, user.key)
        request = ReadRequest(user=user, place=place, limit=limit, search_token=token)
        return self._shown(await _in_time(self._outlet(place).search(query.strip(), request)))

    async def search(self, conversation_id: str, query: str, limit: int) -> Sequence[Json]:
        """Return the newest messages of a conversation with all words of a query, oldest first.

        Raises:
            BadRequestError: The query has no words.
        """
        words = words_of(query)
        if not words:
            raise BadRequestError(NO_WORDS)
        async with self.database.snapshot() as tx:
            found = await message_search.search(tx, conversation_id, words, limit=limit)
        return [
            {
                "name": (each.author_name or "the user") if each.role in {"user", "bot"} else "you",
                "at": self._at(each.said_at or each.created_at),
                "text": each.text[:CHARACTERS],
            }
            for each in found
        ]

    def _outlet(self, place: Place) -> Outlet:
        outlet = self.outlets.get(place.platform)
        if outlet is None:
            raise DeliveryError("This process does not read that platform.")
        return outlet

    def _shown(self, found: Iterable[PastMessage]) -> list[Json]:
        return [
            {
                "channel": one_line(message.channel_name, 100),
                "name": "you" if message.own else one_line(message.author_name, 40) or "a bot",
                "at": self._at(message.sent_at),
                "text": message.text[:CHARACTERS],
                "quoted": [each.text[:CHARACTERS] for each in message.quoted],
                "files": [one_line(each.name, 100) for each in message.files],
                "reactions": dict(message.reactions),
                "link": message.link,
            }
            for message in found
            if message.text or message.quoted or message.files
        ]

    def _at(self, at: datetime) -> str:
        return f"{at.astimezone(self.zone):%Y-%m-%d %H:%M}"


async def _in_time(reading: Coroutine[Any, Any, Result]) -> Result:
    try:
        async with asyncio.timeout(SECONDS):
            return await reading
    except TimeoutError:
        raise DeliveryError("The platform did not answer in time.") from None

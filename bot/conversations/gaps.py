"""Finds gaps in the reception of messages: their beginning, and the places to read."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import Field

from bot.agent.sanitizer import one_line
from bot.platforms.messages import Missed
from bot.values import Clock, Settings
from db import conversations, workers
from db.database import Database

#: Overlap with the time before a gap, for events in flight and for clocks that differ.
MARGIN = timedelta(minutes=2)
#: Longest quote of a message, in characters.
LONGEST_QUOTE = 200


class CatchUpSettings(Settings):
    """Everything under `catch_up:`."""

    enabled: bool = True
    """Read what was said while the bot was not listening."""

    hours: float = Field(1, gt=0, le=24)
    """The most to look back, in hours."""

    places: int = Field(100, ge=1, le=1_000)
    """The most places to read; a thread is a place of its own."""

    messages: int = Field(50, ge=1, le=200)
    """The newest messages to read in a place."""

    days: float = Field(7, gt=0, le=90)
    """Channels and threads are read if the bot said something in so many days; direct messages
    always.
    """

    quote_after_minutes: float = Field(10, gt=0)
    """An answer to a message older than this quotes it."""


def quote(text: str) -> str:
    """Return the beginning of an old message as a quote, to precede its answer."""
    return f"> {one_line(text, LONGEST_QUOTE)}\n\n"


@dataclass(frozen=True, slots=True)
class Gaps:
    """Records the time until which each connection received, and finds the places to read."""

    database: Database
    settings: CatchUpSettings
    now: Clock

    async def listening(self, listener: str) -> None:
        """Record that a connection receives messages now."""
        async with self.database.transaction() as tx:
            await workers.mark_listener(tx, listener, self.now())

    def is_old(self, said_at: datetime) -> bool:
        """Return True if the answer to a message of that time must quote it."""
        return self.now() - said_at > timedelta(minutes=self.settings.quote_after_minutes)

    async def missed(self, platform: str, listener: str) -> Missed | None:
        """Return the gap and the places to read; `None` at the first start or if switched off."""
        settings, now = self.settings, self.now()
        async with self.database.snapshot() as tx:
            heard_at = await workers.last_event_at(tx, listener)
            places = await conversations.places(
                tx, platform, since=now - timedelta(days=settings.days)
            )
        if heard_at is None:
            # At the very first start nothing was missed; messages from now on may be.
            await self.listening(listener)
            return None
        if not settings.enabled:
            return None
        return Missed(
            since=max(heard_at - MARGIN, now - timedelta(hours=settings.hours)),
            heard_at=heard_at,
            places=tuple(places),
            most_places=settings.places,
            most_messages=settings.messages,
        )

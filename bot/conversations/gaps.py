"""Gaps in what the bot has heard: since when, and in which places something may be missing."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.agent.sanitizer import one_line
from bot.conversations.catch_up_settings import CatchUpSettings
from bot.platforms.past import Missed
from bot.values import Clock
from db import conversations, listeners
from db.database import Database

#: Read before the last recorded moment as well: events in flight, and clocks that differ.
MARGIN = timedelta(minutes=2)
#: Longest quote of a message, in characters.
LONGEST_QUOTE = 200


def quote(text: str) -> str:
    """Return the beginning of a message that was said long ago, to stand above its answer."""
    return f"> {one_line(text, LONGEST_QUOTE)}\n\n"


@dataclass(frozen=True, slots=True)
class Gaps:
    """Knows until when each platform was heard, and where to read after a gap."""

    database: Database
    settings: CatchUpSettings
    now: Clock

    async def listening(self, listener: str) -> None:
        """Record that a platform is heard now."""
        async with self.database.transaction() as tx:
            await listeners.mark(tx, listener, self.now())

    def is_old(self, said_at: datetime) -> bool:
        """Return True if an answer now has to quote a message of that time."""
        return self.now() - said_at > timedelta(minutes=self.settings.quote_after_minutes)

    async def missed(self, platform: str, listener: str) -> Missed | None:
        """Return the places to read after a gap; `None` at the first start and if off."""
        settings, now = self.settings, self.now()
        async with self.database.snapshot() as tx:
            heard_at = await listeners.heard_at(tx, listener)
            places = await conversations.places(
                tx, platform, since=now - timedelta(days=settings.days)
            )
        if heard_at is None:
            # At the first start ever nothing was missed; what is said from now on may be.
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

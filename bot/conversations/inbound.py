"""Stores each inbound event once, in one transaction with its effect."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from bot.platforms.base import Incoming
from bot.values import Clock
from db import conversations
from db.database import Database, Transaction

log = logging.getLogger(__name__)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Event:
    """The key of an inbound event, which a platform may deliver several times."""

    platform: str
    id: str

    @classmethod
    def of(cls, incoming: Incoming) -> "Event":
        """Return the key of a message, command or click."""
        return cls(incoming.place.platform, incoming.event_id)


async def store(
    database: Database,
    event: Event | None,
    effect: Callable[[Transaction], Awaitable[Result]],
    now: Clock,
) -> Result | None:
    """Store an inbound event together with its effect, and return the result of the effect.

    The process may die at any moment: either both are stored, or neither is and the event is new
    when it is delivered or fetched again. Every change by an inbound event uses this function.

    Args:
        database: The database.
        event: The key; `None` for input that no platform delivers twice.
        effect: Writes what the event changes. It must not return `None`.
        now: The clock.

    Returns:
        The result; `None` if the event was stored before, and then the effect is not called.
    """
    async with database.transaction() as tx:
        if event is not None and not await conversations.is_new_event(
            tx, event.platform, event.id, now()
        ):
            log.info("The event %s was delivered again", event.id)
            return None
        return await effect(tx)

"""Retries the storing of received messages for minutes while the database is unreachable."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bot.errors import DatabaseUnreachableError

#: Backoff before each further attempt, in seconds: five minutes in all. Each pause is short, so
#: that a message is stored soon after the database is back.
PAUSES = (1.0, 2.0, 5.0, 10.0, 15.0, *(20.0,) * 14)

AGAIN = "I try again by myself for a few minutes, so do not send it twice."
GIVEN_UP = "I could not take what you said: {reason} Please send it again later."

Result = TypeVar("Result")


async def until_stored(
    hand_on: Callable[[], Awaitable[Result]],
    waits: Callable[[int, DatabaseUnreachableError], Awaitable[None]],
    *,
    pauses: tuple[float, ...] = PAUSES,
) -> Result:
    """Return the result of `hand_on`, with a retry after each pause while the database is down.

    Args:
        hand_on: Stores the message.
        waits: Called before each pause with its number, from 0 on, and the reason.
        pauses: The pauses, in seconds.

    Raises:
        DatabaseUnreachableError: The database was still unreachable after the last pause.
    """
    for number, pause in enumerate(pauses):
        try:
            return await hand_on()
        except DatabaseUnreachableError as error:
            await waits(number, error)
        await asyncio.sleep(pause)
    return await hand_on()

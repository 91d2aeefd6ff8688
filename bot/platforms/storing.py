"""Hands on what was said while the database is out of reach: again and again, for minutes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bot.errors import DatabaseUnreachableError

#: How long to wait before each further attempt, in seconds: five minutes in all. None is so long
#: that what was said would be taken late once the database is back.
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
    """Hand something on; while the database is out of reach, again after each pause.

    Args:
        hand_on: Does it.
        waits: Called before each pause with its number, from 0 on, and the reason.
        pauses: In seconds.

    Raises:
        DatabaseUnreachableError: It was out of reach after the last pause as well.
    """
    for number, pause in enumerate(pauses):
        try:
            return await hand_on()
        except DatabaseUnreachableError as error:
            await waits(number, error)
        await asyncio.sleep(pause)
    return await hand_on()

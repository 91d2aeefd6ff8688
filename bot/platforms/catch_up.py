"""Reads what was said while no process listened, behind what is said now."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from bot.agent.plain import plain
from bot.agent.sanitizer import one_line
from bot.errors import BotError, DatabaseUnreachableError, DeliveryError
from bot.platforms.base import Ears, Outlet
from bot.platforms.past import Missed, PastMessage, Quoted
from bot.values import Place

log = logging.getLogger(__name__)

#: How often it is stored until when the platform was heard, in seconds.
MARK_SECONDS = 10.0
#: How often it is looked whether there is a connection again, in seconds.
LOOK_SECONDS = 1.0
#: Shortest and longest pause before a place is read once more, in seconds.
SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 60.0
#: Most places that one line of the log names.
MOST_NAMED = 10
#: Most characters of other messages that an addressed message brings along.
MOST_CONTEXT = 6_000
LEFT_OUT = "[Earlier messages are left out.]"


class Listening(Protocol):
    """One connection that hears a platform.

    Attributes:
        listener: Names what this connection hears, the same after a restart.
    """

    listener: str

    async def connected(self) -> bool:
        """Return whether events arrive now."""
        ...

    def with_news(self, places: Sequence[Place], since: datetime) -> list[Place]:
        """Return the places where something was said since, the latest first.

        A place of which the platform tells nothing counts as one with news.
        """
        ...

    async def hear_missed(self, message: PastMessage) -> bool:
        """Hand on a message that is for the bot, unless it was heard already.

        Returns:
            Whether it has a turn; `False` for a command, and for what is refused or empty.

        Raises:
            BotError: It is not stored.
        """
        ...


class CatchUp:
    """After each gap reads what was missed, once per place, one place after another.

    Args:
        listening: The connection.
        outlet: Reads places.
        ears: Knows since when, and where.
        pause_seconds: The least time between two places: the platform's rate limit.
        mark_seconds: How often it is stored until when the platform was heard.
    """

    def __init__(
        self,
        listening: Listening,
        outlet: Outlet,
        ears: Ears,
        *,
        pause_seconds: float = 0.0,
        mark_seconds: float = MARK_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._listening = listening
        self._outlet = outlet
        self._ears = ears
        self._pause_seconds = pause_seconds
        self._mark_seconds = mark_seconds
        self._sleep = sleep
        self._gap, self._began = True, False
        self._look = asyncio.Event()

    def missed(self) -> None:
        """Record that the session was not resumed: something may have been missed."""
        self._gap = True
        self._look.set()

    async def run(self) -> None:
        """Read after gaps, and record how long the platform was heard, until cancelled."""
        while True:
            self._look.clear()
            try:
                await self._once()
            except DatabaseUnreachableError:
                self._gap = True
            except BotError as error:
                self._gap = True
                log.warning("What was missed on %s is read later: %s", self._outlet.platform, error)
            with suppress(TimeoutError):
                seconds = min(self._mark_seconds, LOOK_SECONDS) if self._gap else self._mark_seconds
                async with asyncio.timeout(seconds):
                    await self._look.wait()

    async def _once(self) -> None:
        connected = await self._listening.connected()
        self._gap = self._gap or not connected
        missed = None
        if self._gap and (connected or not self._began):
            # Asked before the first connection too: what is said from then on may be missed.
            missed = await self._ears.missed(self._outlet.platform, self._listening.listener)
            self._began = True
        if not connected:
            return
        # A session that is lost meanwhile is another gap.
        self._gap = False
        if missed is not None:
            await self._read(missed)
        if not self._gap:
            await self._ears.listening(self._listening.listener)

    async def _read(self, missed: Missed) -> None:
        places = self._listening.with_news(missed.places, missed.since)
        unread = places[missed.most_places :]
        for number, place in enumerate(places[: missed.most_places]):
            if number:
                await self._sleep(self._pause_seconds)
            try:
                await self._read_place(place, missed)
            except DeliveryError as error:
                log.info("%s was not read: %s", _named(place), error)
                unread.append(place)
            except BotError:
                raise
            except Exception:
                log.exception("%s could not be read", _named(place))
                unread.append(place)
        if unread:
            names = ", ".join(map(_named, unread[:MOST_NAMED]))
            more = f" and {len(unread) - MOST_NAMED} more" if len(unread) > MOST_NAMED else ""
            log.warning(
                "Places where messages since %s were not read: %s%s",
                missed.since.isoformat(timespec="seconds"),
                names,
                more,
            )

    async def _read_place(self, place: Place, missed: Missed) -> None:
        since, limit = missed.since, missed.most_messages
        try:
            messages = await self._outlet.history(place, since, limit)
        except DeliveryError as error:
            if error.permanent:
                raise
            pause = max(error.retry_after_seconds, SHORTEST_PAUSE_SECONDS)
            await self._sleep(min(pause, LONGEST_PAUSE_SECONDS))
            messages = await self._outlet.history(place, since, limit)
        before: list[PastMessage] = []
        for message in messages:
            if (
                message.addressed
                and not message.by_bot
                and await self._listening.hear_missed(_with_context(message, before))
            ):
                before = []
            elif not message.own and message.sent_at >= missed.heard_at:
                before.append(message)


def _with_context(message: PastMessage, before: Sequence[PastMessage]) -> PastMessage:
    """Return a message with what was said before it; unchanged if it says nothing itself."""
    context = _context(before)
    if not context or not (message.text or message.files or message.quoted):
        return message
    return replace(message, quoted=(Quoted("said_before", context), *message.quoted))


def _context(messages: Sequence[PastMessage]) -> str:
    """Return messages as text, oldest first; of too many, only the newest."""
    kept: list[str] = []
    room = MOST_CONTEXT
    for message in reversed(messages):
        parts = [message.text, *(f"[{each.kind}] {each.text}" for each in message.quoted)]
        parts += [f"[file] {each.name}" for each in message.files]
        text = plain("\n".join(part for part in parts if part.strip()), limit=MOST_CONTEXT).strip()
        if not text:
            continue
        name = one_line(message.author_name, 60) or ("an app" if message.by_bot else "somebody")
        # Indented, so that no line of a message looks like the beginning of another's.
        line = f"{name} ({message.sent_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC): {text}"
        line = line.replace("\n", "\n  ")
        if len(line) > room:
            # The newest is kept in any case, if only its beginning.
            kept += [LEFT_OUT] if kept else [plain(line, limit=room), LEFT_OUT]
            break
        kept.append(line)
        room -= len(line)
    return "\n".join(reversed(kept))


def _named(place: Place) -> str:
    return "/".join(part for part in (place.workspace, place.channel, place.thread) if part)

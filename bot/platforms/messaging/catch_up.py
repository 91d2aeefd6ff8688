"""Reads the messages that arrived while no process listened, beside the live messages."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from bot.agent.plain import plain
from bot.agent.sanitizer import one_line
from bot.errors import BotError, DatabaseUnreachableError, DeliveryError
from bot.platforms.base import Outlet
from bot.platforms.handler import InboundHandler
from bot.platforms.messages import Missed, PastMessage, Quoted
from bot.platforms.messaging.intake import incoming_of
from bot.values import Place

log = logging.getLogger(__name__)

#: Time before a gap whose messages are read too: they may have been edited or deleted meanwhile.
COMPARED = timedelta(days=1)
#: Interval at which the time of the last reception is stored, in seconds.
MARK_SECONDS = 10.0
#: Poll interval for a restored connection, in seconds.
LOOK_SECONDS = 1.0
#: Shortest and longest pause before the retry of a place, in seconds.
SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 60.0
#: Most places in one line of the log.
MOST_NAMED = 10
#: Most characters of earlier messages that are quoted with an addressed message.
MOST_CONTEXT = 6_000
LEFT_OUT = "[Earlier messages are left out.]"


class CatchUpSource(Protocol):
    """One connection that receives the events of a platform.

    Attributes:
        listener: The id of the event source of this connection, the same after a restart.
    """

    listener: str

    async def connected(self) -> bool:
        """Return True if events arrive now."""

    def with_news(self, places: Sequence[Place], since: datetime) -> list[Place]:
        """Return the places with messages since a given time, the latest first.

        A place without information from the platform counts as a place with messages.
        """

    async def receive_missed(self, message: PastMessage) -> bool:
        """Handle a message for the bot, unless it was received already.

        Returns:
            True if the message has a turn; False for a command, a refused or an empty message.

        Raises:
            BotError: The message could not be stored.
        """


class CatchUp:
    """Reads the missed messages after each gap, once per place, one place after another.

    Args:
        listening: The connection.
        outlet: Reads the places.
        inbound: Knows the start of the gap and the places to read.
        pause_seconds: The least time between two places: the platform's rate limit.
        mark_seconds: Interval at which the time of the last reception is stored.
    """

    def __init__(
        self,
        listening: CatchUpSource,
        outlet: Outlet,
        inbound: InboundHandler,
        *,
        pause_seconds: float = 0.0,
        mark_seconds: float = MARK_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._listening = listening
        self._outlet = outlet
        self._inbound = inbound
        self._pause_seconds = pause_seconds
        self._mark_seconds = mark_seconds
        self._sleep = sleep
        self._gap, self._began = True, False
        self._look = asyncio.Event()

    def missed(self) -> None:
        """Record a gap: the session was not resumed, so events may have been missed."""
        self._gap = True
        self._look.set()

    async def run(self) -> None:
        """Read after gaps and record the time of the last reception, until cancelled."""
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
            # Also before the first connection: messages from that moment on may be missed.
            missed = await self._inbound.missed(self._outlet.platform, self._listening.listener)
            self._began = True
        if not connected:
            return
        # A session that is lost while the places are read sets `_gap` again.
        self._gap = False
        if missed is not None:
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
        if not self._gap:
            await self._inbound.listening(self._listening.listener)

    async def _read_place(self, place: Place, missed: Missed) -> None:
        since, limit = missed.since - COMPARED, missed.most_messages
        try:
            messages = await self._outlet.history(place, since, limit)
        except DeliveryError as error:
            if error.permanent:
                raise
            pause = max(error.retry_after_seconds, SHORTEST_PAUSE_SECONDS)
            await self._sleep(min(pause, LONGEST_PAUSE_SECONDS))
            messages = await self._outlet.history(place, since, limit)
        await self._inbound.compare(place, messages)
        before: list[PastMessage] = []
        for message in messages:
            if message.sent_at < missed.since:
                continue
            if (
                message.addressed
                and not message.by_bot
                and await self._listening.receive_missed(_with_context(message, before))
            ):
                before = []
            elif (
                not message.own
                and message.sent_at >= missed.heard_at
                and not await self._inbound.overhear(incoming_of(message), by_bot=message.by_bot)
            ):
                before.append(message)


def _with_context(message: PastMessage, before: Sequence[PastMessage]) -> PastMessage:
    """Return a message with the earlier messages quoted; an empty message is unchanged.

    The quotation has the newest of them, oldest first, if all exceed `MOST_CONTEXT`.
    """
    if not before or not (message.text or message.files or message.quoted):
        return message
    kept: list[str] = []
    room = MOST_CONTEXT
    for past in reversed(before):
        parts = [past.text, *(f"[{each.kind}] {each.text}" for each in past.quoted)]
        parts += [f"[file] {each.name}" for each in past.files]
        text = plain("\n".join(part for part in parts if part.strip()), limit=MOST_CONTEXT).strip()
        if not text:
            continue
        name = one_line(past.author_name, 60) or ("an app" if past.by_bot else "somebody")
        # Indent the further lines: none may look like the beginning of another message.
        line = f"{name} ({past.sent_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC): {text}"
        line = line.replace("\n", "\n  ")
        if len(line) > room:
            # The newest message is always included, truncated if necessary.
            kept += [LEFT_OUT] if kept else [plain(line, limit=room), LEFT_OUT]
            break
        kept.append(line)
        room -= len(line)
    if not kept:
        return message
    context = Quoted("said_before", "\n".join(reversed(kept)))
    return replace(message, quoted=(context, *message.quoted))


def _named(place: Place) -> str:
    return "/".join(part for part in (place.workspace, place.channel, place.thread) if part)

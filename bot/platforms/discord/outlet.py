"""Sends messages to their place on Discord or, if that is refused, as direct messages."""

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

import discord

from bot.agent.sanitizer import LARGE
from bot.conversations.access import around, can_read
from bot.errors import DeliveryError
from bot.platforms.base import (
    Announcement,
    Confirmation,
    Delivered,
    OnBegun,
    RunCard,
    Settlement,
    not_kept,
)
from bot.platforms.discord import texts
from bot.platforms.discord.buttons import ResumeButton, Row
from bot.platforms.discord.cards import CardBoard
from bot.platforms.discord.history import History
from bot.platforms.discord.people import PLATFORM
from bot.platforms.discord.problems import RefusedError
from bot.platforms.discord.questions import row_for, settle_there
from bot.platforms.discord.replies import (
    TYPING_AT_MOST_SECONDS,
    TYPING_SECONDS,
    DiscordReply,
    Means,
)
from bot.platforms.discord.sending import PAUSES, Draft, Sender, made_harmless
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.discord.texts import parts_of
from bot.platforms.discord.threads import OPEN_SECONDS, Threads
from bot.platforms.messages import PastMessage
from bot.platforms.messaging.acknowledgements import Acknowledgements
from bot.platforms.messaging.cards import LAST_PAUSES
from bot.platforms.messaging.splitting import MessageParts
from bot.platforms.messaging.texts import KEPT
from bot.tasks import Tasks
from bot.values import Identity, Place

log = logging.getLogger(__name__)

T = TypeVar("T")

HEARD = "👀"
HEARD_SECONDS = 10.0
NOWHERE = "I can write neither where this belongs nor in a direct message."


@dataclass(frozen=True, slots=True, kw_only=True)
class Tempo:
    """Intervals and timeouts; tests use shorter ones.

    Attributes:
        edit_seconds: Shortest time between two edits of one message.
        typing_seconds: Interval at which the typing indicator is sent.
        typing_at_most_seconds: Longest time that one reply shows the typing indicator.
        open_seconds: Time for opening a thread before its channel is used instead.
        pauses: Pauses before the retries of a request without a response, in seconds.
        last_pauses: Pauses before the retries of a card's last edit, in seconds.
    """

    edit_seconds: float
    typing_seconds: float = TYPING_SECONDS
    typing_at_most_seconds: float = TYPING_AT_MOST_SECONDS
    open_seconds: float = OPEN_SECONDS
    pauses: tuple[float, ...] = PAUSES
    last_pauses: tuple[float, ...] = LAST_PAUSES


@dataclass(frozen=True, slots=True, kw_only=True)
class _Route:
    """A delivery route to a user.

    Attributes:
        reply_to: The message in the channel to reply to; empty for none.
        ping: The account to ping; empty for none.
        note: The reason for a direct message instead of the usual place.
    """

    channel: str
    reply_to: str = ""
    ping: str = ""
    note: str = ""

    @property
    def head(self) -> str:
        """The prefix of the message: the ping and the note."""
        return texts.mention(self.ping) + self.note


_Say = Callable[[_Route], Awaitable[tuple[str, ...]]]


class DiscordOutlet:
    """Discord's outlet. It needs only a login: no gateway connection and no cached events.

    Args:
        client: A logged-in client.
        settings: The settings under `discord:`.
        tasks: Owns the background tasks.
        tempo: Intervals and timeouts; by default those of the settings.
        now: A clock, in seconds since 1970.
    """

    platform = PLATFORM

    def __init__(
        self,
        client: discord.Client,
        settings: DiscordSettings,
        tasks: Tasks,
        *,
        tempo: Tempo | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        tempo = tempo or Tempo(edit_seconds=settings.edit_seconds)
        self._now = now
        self._sender = Sender(client, pauses=tempo.pauses)
        self._history = History(client, self._sender, settings.api_url)
        self._seen = Acknowledgements()
        self._threads = Threads(client, self._sender, tasks, open_seconds=tempo.open_seconds)
        self._board = CardBoard(
            self._sender,
            self._threads,
            tasks,
            seconds=tempo.edit_seconds,
            pauses=tempo.last_pauses,
            now=now,
        )
        self._means = Means(
            sender=self._sender,
            threads=self._threads,
            tasks=tasks,
            edit_seconds=tempo.edit_seconds,
            typing_seconds=tempo.typing_seconds,
            typing_at_most_seconds=tempo.typing_at_most_seconds,
        )

    async def acknowledge(self, place: Place) -> None:
        """Show immediately that the message was received. Never raises."""
        try:
            async with asyncio.timeout(HEARD_SECONDS), asyncio.TaskGroup() as group:
                group.create_task(self._tried(self._seen.put(place, partial(self._look, place))))
                group.create_task(self._tried(self._type(place)))
        except TimeoutError:
            log.info("Discord was not told in time that a message was heard")

    async def answered(self, place: Place) -> None:
        """Remove the sign of receipt from an answered message. Never raises."""
        await self._seen.take(place, partial(self._look, place, away=True))

    async def _look(self, place: Place, *, away: bool = False) -> bool:
        if place.message:
            inside = place.thread if place.thread != place.message else ""
            channel = inside or place.channel
            await self._sender.react(channel, place.message, HEARD, away=away)
        return bool(place.message)

    async def _type(self, place: Place) -> None:
        ready = await self._threads.ready(place)
        await self._sender.type(place.thread if ready else place.channel)

    async def _tried(self, work: Awaitable[None]) -> None:
        try:
            await work
        except DeliveryError as error:
            log.info("It was not shown that a message was heard: %s", error)

    def open_reply(
        self,
        place: Place,
        owner: Identity,
        message_id: str = "",
        *,
        begun: OnBegun = not_kept,
    ) -> DiscordReply:
        """Open a reply, or resume the one with the given message id."""
        return DiscordReply(self._means, place, owner, message_id=message_id, begun=begun)

    def show_card(self, card: RunCard, *, begun: OnBegun = not_kept) -> None:
        """Show or update a run card; only the newest state is sent, rate-limited. Never waits."""
        self._board.show(card, begun)

    async def announce(self, announcement: Announcement) -> Delivered:
        """Send an announcement to its place, or else to its owner; ping only the owner.

        If Discord refuses both, the parent channel of a public thread gets a notice.

        Raises:
            DeliveryError: The announcement was not delivered.
        """
        markdown = await _aside(texts.announcement_text, announcement, announcement.text)

        async def say(route: _Route) -> tuple[str, ...]:
            tail = texts.announcement_tail(announcement, shared=bool(route.ping))
            parts = parts_of(markdown, name="result.md", head=route.head, tail=tail)
            view = Row(ResumeButton(announcement.resumable)) if announcement.resumable else None
            return await self._say(route, parts, key=announcement.key, view=view)

        try:
            return Delivered(await self._reach(announcement.place, announcement.owner, say))
        except DeliveryError as error:
            if error.permanent:
                await self._hint(announcement)
            raise

    async def _hint(self, announcement: Announcement) -> None:
        """Notify the owner in the thread's parent channel that a result is stored.

        Threads that may be private get no notice. Never raises.
        """
        place, owner = announcement.place, announcement.owner
        if not place.thread or not can_read(around(place), place):
            return
        text = f"{texts.mention(owner.account)}{KEPT}"
        try:
            draft = Draft(text=text, ping=owner.account)
            await self._sender.post(place.channel, draft, key=f"kept {announcement.key}")
        except DeliveryError as error:
            log.info("The channel of %s is not told: %s", announcement.key, error)

    async def ask(self, confirmation: Confirmation) -> str:
        """Ask the owner a question, unless a message shows it already.

        Returns:
            The id of the message.

        Raises:
            DeliveryError: The question was not delivered; the answer is then no.
        """
        if confirmation.message_id:
            return confirmation.message_id
        markdown = await _aside(texts.question_text, confirmation, confirmation.text)
        expires = int(self._now() + confirmation.expires_in_seconds)
        tail = texts.question_tail(expires, open_ended=confirmation.open_ended)

        async def say(route: _Route) -> tuple[str, ...]:
            parts = parts_of(markdown, name="question.md", head=route.head, tail=tail)
            buttons = row_for(confirmation)
            return await self._say(route, parts, key=f"ask {confirmation.id}", view=buttons)

        return (await self._reach(confirmation.place, confirmation.owner, say))[-1]

    async def settle(self, question: Confirmation, settlement: Settlement) -> None:
        """Mark a question as settled, with the reason; a question that is not found is skipped."""
        place = question.place
        for channel in dict.fromkeys((place.thread, place.channel)):
            if channel and await settle_there(self._sender, channel, question.id, settlement):
                return

    async def tell(self, place: Place, user: Identity, text: str) -> None:
        """Send a short text for one user to the place, visible to all: Discord has no private area.

        Never raises.
        """
        key = f"tell {uuid.uuid4()}"

        async def say(route: _Route) -> tuple[str, ...]:
            quiet = replace(route, ping="")
            parts = parts_of(markdown, name="message.md", head=quiet.head)
            return await self._say(quiet, parts, key=key)

        try:
            markdown = await made_harmless(text)
            await self._reach(place, user, say)
        except DeliveryError as error:
            log.info("Not told in %s: %s", place.channel, error)

    async def history(self, place: Place, after: datetime | str, limit: int) -> list[PastMessage]:
        """Return the newest messages of a place after a time or a message id, oldest first."""
        return await self._history.read(place, after, limit)

    async def _say(
        self, route: _Route, parts: MessageParts, *, key: str, view: Row | None = None
    ) -> tuple[str, ...]:
        alone = len(parts.texts) == 1
        draft = Draft(
            text=parts.texts[0],
            view=view if alone else None,
            reply_to=route.reply_to,
            ping=route.ping,
        )
        first = await self._sender.post(route.channel, draft, key=key)
        if alone:
            return (first,)
        rest = await self._sender.post_rest(route.channel, parts, key=key, view=view)
        return (first, *rest)

    async def _reach(self, place: Place, owner: Identity, say: _Say) -> tuple[str, ...]:
        """Send something to its place or else to the user alone, never to more readers.

        Raises:
            DeliveryError: The delivery failed for now; if permanent, no route is left.
        """
        in_thread = await self._threads.ready(place)
        for find in (self._thread if in_thread else self._channel, self._direct):
            try:
                route = await find(place, owner)
                if route is not None:
                    return await say(route)
            except RefusedError as error:
                log.info("Discord does not take it there: %s", error)
                last = error
        raise DeliveryError(f"{NOWHERE} {last}", permanent=True) from last

    async def _thread(self, place: Place, owner: Identity) -> _Route | None:
        return _Route(channel=place.thread, ping=owner.account)

    async def _channel(self, place: Place, owner: Identity) -> _Route | None:
        if not place.channel:
            return None
        if not place.workspace:
            return _Route(channel=place.channel)
        return _Route(
            channel=place.channel,
            reply_to=place.message if place.thread in {"", place.message} else "",
            ping=owner.account,
        )

    async def _direct(self, place: Place, owner: Identity) -> _Route | None:
        channel = await self._sender.direct_channel(owner.account)
        return _Route(channel=channel, note=f"{texts.ELSEWHERE}\n")


async def _aside(work: Callable[[T], str], subject: T, text: str) -> str:
    """Return the result of `work`, run in a worker thread if the text is long."""
    return await asyncio.to_thread(work, subject) if len(text) > LARGE else work(subject)

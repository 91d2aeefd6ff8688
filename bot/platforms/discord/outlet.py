"""Sends messages to their place on Discord or, if that is refused, as direct messages."""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial

import discord

from bot.errors import DeliveryError
from bot.platforms.base import (
    Announcement,
    Confirmation,
    FileMessage,
    OnBegun,
    RunCard,
    Settlement,
)
from bot.platforms.discord import texts
from bot.platforms.discord.buttons import Row, RunButton
from bot.platforms.discord.live import DiscordCard, DiscordMessage, DiscordReply, Tempo, Threads
from bot.platforms.discord.members import DiscordMembers
from bot.platforms.discord.messages import past_of
from bot.platforms.discord.people import PLATFORM, DiscordAccessPolicy
from bot.platforms.discord.questions import AnswerButton, row_for, show_settlement
from bot.platforms.discord.reading import DiscordReader
from bot.platforms.discord.sending import Draft, Sender, made_harmless
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.discord.texts import parts_of
from bot.platforms.messages import PastMessage
from bot.platforms.messaging.outlet import MessagingOutlet, RefusedError, Route, Say
from bot.platforms.messaging.splitting import MessageParts
from bot.platforms.messaging.texts import KEPT_FOR_USER
from bot.platforms.reading import Membership, ReadRequest
from bot.tasks import Tasks
from bot.values import Identity, Live, Place

log = logging.getLogger(__name__)

RECEIVED, READ = "👀", "✅"
NOWHERE = "I can write neither where this belongs nor in a direct message."


class DiscordOutlet(MessagingOutlet):
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
        settings: Live[DiscordSettings],
        tasks: Tasks,
        *,
        tempo: Tempo | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._tempo = tempo or Tempo(edit_seconds=settings().edit_seconds)
        self._tasks = tasks
        self._now = now
        self._sender = Sender(client, pauses=self._tempo.pauses)
        self._client = client
        self._api_url = settings().api_url
        self._reader = DiscordReader(client, self._sender, settings)
        self._members = DiscordMembers(client, self._sender, DiscordAccessPolicy(settings))
        open_seconds = self._tempo.open_seconds
        self._threads = Threads(client, self._sender, tasks, open_seconds=open_seconds)
        self._message = partial(DiscordMessage, self._sender, self._threads)
        super().__init__(NOWHERE)

    async def membership(self, user: Identity, place: Place, *, groups: bool = True) -> Membership:
        """Return the membership of a user in a server; for no server, in any of the bot's.

        Raises:
            DeliveryError: Discord does not answer.
        """
        return await self._members.membership(user, place, groups=groups)

    async def _show_receipt(self, place: Place) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._receipts.put(place, partial(self._react, place)))
            try:
                ready = await self._threads.ready(place)
                await self._sender.type(place.thread if ready else place.channel)
            except DeliveryError as error:
                log.info("Typing is not shown: %s", error)

    async def answered(self, place: Place, *, read: bool = False) -> None:
        """Remove the sign of receipt, or replace it by that of a message read. Never raises."""
        await self._receipts.take(place, partial(self._react, place, away=True))
        if read:
            await self._receipts.show(partial(self._react, place, READ))

    async def _react(self, place: Place, emoji: str = RECEIVED, *, away: bool = False) -> bool:
        if place.message:
            inside = place.thread if place.thread != place.message else ""
            channel = inside or place.channel
            await self._sender.react(channel, place.message, emoji, away=away)
        return bool(place.message)

    def _begin_reply(
        self, place: Place, owner: Identity, message_id: str, begun: OnBegun
    ) -> DiscordReply:
        key = f"reply {place.message or uuid.uuid4()}"
        message = self._message(place, key=key, message_id=message_id, begun=begun, replies=True)
        return DiscordReply(message, self._tasks, self._tempo)

    def _begin_card(self, card: RunCard) -> DiscordCard:
        key = f"card {card.run_id}"
        message = self._message(card.place, key=key, message_id=card.message_id)
        return DiscordCard(message, self._tasks, self._tempo, self._now)

    async def _announcement(self, announcement: Announcement) -> Say:
        markdown = await made_harmless(texts.announcement_text(announcement))
        resumable, buttons = announcement.resumable, announcement.buttons
        view = Row(RunButton("resume", resumable)) if resumable else None
        if buttons:
            view = Row(*(AnswerButton(each.notice, each.choice) for each in buttons))

        async def say(route: Route) -> tuple[str, ...]:
            tail = texts.announcement_tail(announcement, shared=bool(route.ping))
            parts = parts_of(markdown, name="result.md", head=route.head, tail=tail)
            return await self._say(route, parts, key=announcement.key, view=view)

        return say

    async def _post_notice(self, channel: Place, owner: Identity, key: str) -> None:
        draft = Draft(text=f"{texts.mention(owner.account)}{KEPT_FOR_USER}", ping=owner.account)
        await self._sender.post(channel.channel, draft, key=key)

    async def _question(self, confirmation: Confirmation) -> Say:
        markdown = await made_harmless(texts.question_text(confirmation), links=False)
        expires = int(self._now() + confirmation.expires_in_seconds)
        tail = texts.question_tail(expires, open_ended=confirmation.open_ended)

        async def say(route: Route) -> tuple[str, ...]:
            parts = parts_of(markdown, name="question.md", head=route.head, tail=tail)
            buttons = row_for(confirmation)
            return await self._say(route, parts, key=f"ask {confirmation.id}", view=buttons)

        return say

    async def show_settlement(self, question: Confirmation, settlement: Settlement) -> None:
        """Mark a question as settled, with the reason; a question that is not found is skipped."""
        place = question.place
        for channel in dict.fromkeys((place.thread, place.channel)):
            if channel and await show_settlement(self._sender, channel, question.id, settlement):
                return

    async def tell(self, place: Place, user: Identity, text: str) -> None:
        """Send a short text for one user to the place, visible to all: Discord has no private area.

        Never raises.
        """

        async def say(route: Route) -> tuple[str, ...]:
            head = "" if route.ping else route.head
            return await self._post_text(replace(route, head=head, ping=""), text)

        try:
            await self._reach(place, user, say)
        except DeliveryError as error:
            log.info("A note for a user was not sent in %s: %s", place.channel, error)

    async def history(
        self, place: Place, after: datetime | str, limit: int, *, opening: bool = False
    ) -> list[PastMessage]:
        """Return the newest messages of a place after a time or a message id, oldest first."""
        channel = place.thread or place.channel
        found = await self._sender.newest(channel, limit, after=after, guild=place.workspace)
        if opening and place.thread and (first := await self._sender.opening(place)) is not None:
            found = [*(each for each in found if each.id != first.id), first]
        me, api_url = self._client.user, self._api_url
        return [past_of(message, place, me, api_url) for message in reversed(found)]

    async def linked(self, link: str, request: ReadRequest) -> list[PastMessage]:
        """Return the message of a link with the messages around it, oldest first."""
        return await self._reader.linked(link, request)

    async def search(self, query: str, request: ReadRequest) -> list[PastMessage]:
        """Return the messages of the server of a request that fit a query, the best first."""
        return await self._reader.search(query, request)

    async def _post_text(self, route: Route, text: str) -> tuple[str, ...]:
        parts = parts_of(await made_harmless(text), name="message.md", head=route.head)
        return await self._say(route, parts, key=f"tell {uuid.uuid4()}")

    async def _post_files(self, route: Route, message: FileMessage) -> tuple[str, ...]:
        text = texts.REPEATED if message.maybe_repeated else ""
        draft = Draft(text=text, files=tuple(message.files), reply_to=route.reply_to)
        return (await self._sender.post(route.channel, draft, key=f"files {message.key}"),)

    async def _say(
        self, route: Route, parts: MessageParts, *, key: str, view: Row | None = None
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

    async def _usual_route(self, place: Place, owner: Identity) -> Route | None:
        ping = owner.account if place.workspace else ""
        if await self._threads.ready(place):
            return Route(place=place, head=texts.mention(owner.account), ping=owner.account)
        if not place.channel:
            return None
        return Route(
            place=replace(place, thread=""),
            head=texts.mention(ping),
            ping=ping,
            reply_to=place.message if ping and place.thread in {"", place.message} else "",
        )

    async def _direct_route(
        self, place: Place, owner: Identity, refused: RefusedError | None
    ) -> Route | None:
        channel = await self._sender.direct_channel(owner.account)
        head = f"{texts.ELSEWHERE}\n" if place.channel else ""
        return Route(place=Place(PLATFORM, channel=channel), head=head)

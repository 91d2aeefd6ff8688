"""Receives messages from Slack, selects those for the bot and passes them to the core."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from slack_sdk.socket_mode.aiohttp import SocketModeClient

from bot.errors import DatabaseUnreachableError, DeliveryError
from bot.platforms.base import CommandReply, Incoming
from bot.platforms.messaging.intake import (
    STORE_PAUSES,
    AccessRefusal,
    MessageReceiver,
    ReceivedMessage,
    message_key,
)
from bot.platforms.messaging.texts import decision
from bot.platforms.slack import messages
from bot.platforms.slack.blocks import more_button
from bot.platforms.slack.interactions import SlackReceiver
from bot.platforms.slack.people import SlackUser, author_of, speaker_of
from bot.platforms.slack.problems import RefusedError
from bot.values import Json, Place

log = logging.getLogger(__name__)

#: Timeout for the storing of a message, in seconds: see `ACK_SECONDS`.
STORED_SECONDS = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedOnSlack(ReceivedMessage):
    """A received message and its author."""

    user: SlackUser


class SlackMessageReceiver(MessageReceiver[ReceivedOnSlack]):
    """Receives messages and passes those for the bot to the core.

    An edit counts until the message's turn begins; a message deleted before is not answered.

    Args:
        receiver: The shared dependencies of the handlers.
        stored_seconds: Longest wait for the storing of a message before Slack is answered.
        pauses: Backoff before each further attempt to store a message, in seconds.

    Attributes:
        socket: The connection of Socket Mode; `None` over HTTP.
    """

    listener = "slack"
    redelivers = True

    def __init__(
        self,
        receiver: SlackReceiver,
        *,
        stored_seconds: float = STORED_SECONDS,
        pauses: tuple[float, ...] = STORE_PAUSES,
    ) -> None:
        super().__init__(receiver.inbound, receiver.reception, receiver.tasks, pauses=pauses)
        self.socket: SocketModeClient | None = None
        self._receiver = receiver
        self._stored_seconds = stored_seconds
        self._under_way: dict[tuple[str, bool], asyncio.Task[None]] = {}

    async def take(self, body: Json) -> None:
        """Handle a message or a mention, if it may be for the bot.

        Returns when the message is handled or `stored_seconds` have passed. The handling then
        continues in the background.

        Raises:
            DeliveryError: The message is not stored, or its workspace cannot be determined now, so
                that Slack should deliver the message again.
        """
        message = await self._received(body)
        if message is None:
            event: Json = body["event"]
            if (found := messages.changed_in(event)) is not None:
                # A user's message was edited or deleted.
                workspace, installed = await self._receiver.where(body)
                ts, markup = found
                if (event.get("message") or {}).get("user") != installed.user:
                    place = Place("slack", workspace, str(event["channel"]), message=ts)
                    text = None if markup is None else messages.spoken(markup, installed.user)
                    self.follow(place, text)
            return
        task = self._under_way.get(message.key) or self.start(message)
        if task is None:
            return
        self._under_way[message.key] = task
        task.add_done_callback(lambda _: self._under_way.pop(message.key, None))
        await asyncio.wait({task}, timeout=self._stored_seconds)
        if message.queue in self.stuck:
            raise DeliveryError(f"The {message.incoming.event_id} is not stored yet.")

    async def _received(self, body: Json) -> ReceivedOnSlack | None:
        """Return the message of a payload; `None` if the message cannot be for the bot."""
        event: Json = body["event"]
        by_user = messages.is_from_user(event)
        if not (by_user or event.get("bot_id")):
            return None
        workspace, installed = await self._receiver.where(body)
        if not (by_user or messages.is_from_bot(event, installed)):
            return None
        markup, ts = str(event.get("text") or ""), str(event["ts"])
        channel, thread = str(event["channel"]), str(event.get("thread_ts") or "")
        mentioned = messages.mentions(markup, installed.user)
        addressed = (
            event.get("channel_type") == "im"
            or channel.startswith("D")
            or event["type"] == "app_mention"
            or mentioned
            or messages.is_for_us(markup)
        )
        if not (addressed or thread or self.inbound.hears_all(Place("slack", workspace, channel))):
            return None
        if by_user:
            user = speaker_of(event, body, workspace, installed.enterprise)
        else:
            user = author_of(event, workspace, installed.enterprise)
        foreign = user.home.startswith("E") and user.home != installed.enterprise
        if event["type"] == "app_mention" and foreign:
            # The payload names another organisation, not a workspace, as the home. The message
            # event arrives too and names the workspace, as the user's clicks do.
            return None
        text = messages.spoken(markup, installed.user)
        incoming = Incoming(
            event_id=message_key(workspace, channel, ts),
            user=user.identity,
            user_name="" if by_user else messages.bot_name(event),
            place=user.place(channel, thread or ts, ts),
            text=text,
            files=self._receiver.outlet.reader.files(event.get("files") or (), workspace),
            quoted=messages.quoted_in(event, installed.user),
            only_mention=mentioned and not text,
            search_token=messages.search_token_of(event),
        )
        # Commands and one-word answers do not wait for earlier messages.
        return ReceivedOnSlack(
            incoming=incoming,
            queue=(user, incoming.event_id if messages.bypasses_queue(text) else channel),
            addressed=addressed,
            to_another=messages.mentions_another(markup, installed.user),
            by_bot=not by_user,
            user=user,
        )

    async def connected(self) -> bool:
        """Return True if events arrive now: over HTTP there is no connection to lose."""
        return self.socket is None or await self.socket.is_connected()

    def with_news(self, places: Sequence[Place], since: datetime) -> list[Place]:
        """Return all places: Slack does not report the time of the last message of a place."""
        return list(places)

    async def _fetched(self, incoming: Incoming) -> ReceivedOnSlack | None:
        author, workspace = incoming.user, incoming.place.workspace
        try:
            _, installed = await self._receiver.clients.find(workspace)
        except RefusedError:
            return None
        except DeliveryError as error:
            # The installations are in the database: the whole gap is read again later.
            raise DatabaseUnreachableError(str(error)) from error
        stranger = author.workspace not in {workspace.rpartition(".")[2], installed.enterprise}
        user = SlackUser(
            account=author.account, home=author.workspace, workspace=workspace, stranger=stranger
        )
        return ReceivedOnSlack(incoming=incoming, user=user)

    async def _admit(
        self, message: ReceivedOnSlack
    ) -> tuple[ReceivedOnSlack, AccessRefusal | None]:
        channel = message.incoming.place.channel
        return message, self._receiver.reception.refusal(message.user, channel)

    async def _named(self, message: ReceivedOnSlack) -> Incoming:
        if message.by_bot:
            return message.incoming
        name = await self._receiver.outlet.names.of(message.user)
        return replace(message.incoming, user_name=name)

    async def _answer(
        self, message: ReceivedOnSlack, reply: CommandReply, *, first: bool = False
    ) -> None:
        place, account = message.incoming.place, message.user.account
        below = more_button(reply)
        await self._receiver.outlet.answers.say(place, account, reply.text, below=below)

    async def _show_settlement(self, message: ReceivedOnSlack, reply: CommandReply) -> None:
        shown = reply.text
        if reply.chosen:
            shown = decision(await self._receiver.outlet.names.of(message.user), reply.chosen)
        await self._receiver.outlet.question_answered(reply.answered, message.incoming.place, shown)

"""Receives Discord messages, selects those for the bot and passes them to the core."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import discord

from bot.errors import DeliveryError
from bot.platforms.base import CommandReply, Incoming, Outlet, Settlement
from bot.platforms.discord import answers, registration
from bot.platforms.discord.answers import Recipient
from bot.platforms.discord.client import RetinueClient
from bot.platforms.discord.interactions import UNSENT
from bot.platforms.discord.messages import (
    files_of,
    is_addressed,
    is_from_bot,
    is_from_user,
    is_to_another,
    quoted_in,
    reply_to_of,
    text_of,
)
from bot.platforms.discord.people import (
    PLATFORM,
    DiscordUser,
    identity_of,
    place_of,
    user_of,
)
from bot.platforms.discord.questions import show_settlement
from bot.platforms.discord.sending import Sender
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.handler import InboundHandler
from bot.platforms.messaging.catch_up import CatchUp
from bot.platforms.messaging.intake import (
    STORE_PAUSES,
    AccessRefusal,
    MessageReceiver,
    ReceivedMessage,
    message_key,
)
from bot.recent import Recent
from bot.tasks import Tasks
from bot.values import Place

log = logging.getLogger(__name__)

#: Grace period for messages in progress after the gateway has closed.
GRACE_SECONDS = 5.0
KNOWN_CHANNELS = 1_000

HIDDEN = (
    "Discord does not show me messages that do not mention me, so I cannot read this. Mention me "
    "in each message, or ask the people who run me to switch on the Message Content Intent."
)

_LATEST = datetime.max.replace(tzinfo=UTC)


class DiscordIntake:
    """Listens to the gateway and passes messages for the bot to the core.

    Args:
        client: A logged-in client with its commands and buttons registered.
        tasks: Owns the tasks that handle messages.
        outlet: Reads the missed messages; `None` to skip them.
        pauses: Pauses before the retries of passing a message on, in seconds.
    """

    platform = PLATFORM

    def __init__(
        self,
        client: RetinueClient,
        tasks: Tasks,
        outlet: Outlet | None = None,
        *,
        pauses: tuple[float, ...] = STORE_PAUSES,
    ) -> None:
        self._client = client
        self._tasks = tasks
        self._outlet = outlet
        self._pauses = pauses

    async def run(self, inbound: InboundHandler) -> None:
        """Listen until cancelled.

        Raises:
            ConfigError: Discord refuses the connection; the text gives the reason and the fix.
        """
        messages = DiscordMessageReceiver(self._client, inbound, self._tasks, pauses=self._pauses)
        for handler in (
            messages.on_message,
            messages.on_raw_message_edit,
            messages.on_raw_message_delete,
            messages.on_raw_bulk_message_delete,
        ):
            self._client.event(handler)
        syncing = registration.sync(self._client, inbound.command_table)
        beside = [self._tasks.start(syncing, name="register commands")]
        if self._outlet is not None:
            catch_up = CatchUp(messages, self._outlet, inbound)
            self._client.new_session = catch_up.missed
            beside.append(self._tasks.start(catch_up.run(), name="catch up"))
        try:
            await self._client.listen(inbound)
        finally:
            for task in beside:
                task.cancel()
            await self._client.access.wait_idle(GRACE_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedOnDiscord(ReceivedMessage):
    """A snapshot of a message on arrival; the library updates its own objects on edits.

    Attributes:
        source: The message; `None` for a message that was fetched after a gap.
        channel: The channel or thread that holds the message.
    """

    source: discord.Message | None = None
    channel: str


class DiscordMessageReceiver(MessageReceiver[ReceivedOnDiscord]):
    """Handles the messages of one gateway connection, and those that it missed.

    An edit counts until the message's turn begins; a message deleted before is not answered.

    Args:
        client: The listening client.
        inbound: Receives the messages.
        tasks: Owns the tasks that handle messages.
        pauses: Pauses before the retries of passing a message on, in seconds.

    Attributes:
        listener: A name for the shards that this process serves.
    """

    def __init__(
        self,
        client: RetinueClient,
        inbound: InboundHandler,
        tasks: Tasks,
        *,
        pauses: tuple[float, ...] = STORE_PAUSES,
    ) -> None:
        super().__init__(inbound, client.access, tasks, pauses=pauses)
        self._client = client
        self._sender = Sender(client)
        self._fetched_channels: Recent[int, object] = Recent(KNOWN_CHANNELS)
        shards = ",".join(map(str, client.settings.shard_ids))
        self.listener = f"discord:{shards}" if shards else "discord"

    async def on_message(self, message: discord.Message) -> None:
        """Queue a message that may be for the bot. Never waits, so that the order is preserved."""
        client, me = self._client, self._client.user
        if client.inbound is None or me is None:
            return
        by_bot = is_from_bot(message, me.id)
        if not (by_bot or is_from_user(message)):
            return
        addressed = is_addressed(message, me.id)
        guild, channel_id = message.guild, str(message.channel.id)
        everything = guild is not None and client.inbound.hears_all(
            Place(PLATFORM, str(guild.id), channel_id)
        )
        inside = everything or isinstance(
            message.channel, discord.Thread | discord.PartialMessageable
        )
        if not (addressed or inside):
            return
        # Discord withholds the text of messages that do not mention the bot.
        seen = message.guild is None or client.intents.message_content
        hidden = not (seen or message.content or me in message.mentions)
        text, channel = text_of(message, me), str(message.channel.id)
        guild_id = message.guild.id if message.guild else getattr(message.channel, "guild_id", None)
        incoming = Incoming(
            event_id=message_key("", channel, str(message.id)),
            user=identity_of(message.author.id),
            user_name=message.author.display_name,
            place=Place(PLATFORM, str(guild_id or ""), channel, message=str(message.id)),
            text=text,
            files=files_of(message, client.settings.api_url),
            quoted=quoted_in(message, me.id, whole=not text),
            only_mention=bool(message.content.strip()) and not hidden and not text,
            reply_to=reply_to_of(message),
        )
        self.start(
            ReceivedOnDiscord(
                incoming=incoming,
                queue=(message.author.id, message.channel.id),
                addressed=addressed,
                to_another=is_to_another(message, me.id),
                by_bot=by_bot,
                hidden=HIDDEN if hidden else "",
                source=message,
                channel=channel,
            )
        )

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        """Pass on an edit of a user's message."""
        me = self._client.user
        # Without a time of the edit, Discord has added the preview of a link, for instance.
        edited = event.data.get("edited_timestamp") and event.message.content
        if me is not None and edited and event.message.author.id != me.id:
            place = self._held_in(event.guild_id, event.channel_id, event.message_id)
            self.follow(place, text_of(event.message, me))

    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        """Pass on a deletion."""
        self.follow(self._held_in(event.guild_id, event.channel_id, event.message_id), None)

    async def on_raw_bulk_message_delete(self, event: discord.RawBulkMessageDeleteEvent) -> None:
        """Pass on the deletion of many messages."""
        for each in event.message_ids:
            self.follow(self._held_in(event.guild_id, event.channel_id, each), None)

    def _held_in(self, guild: int | None, channel: int, message: int) -> Place:
        return Place(PLATFORM, str(guild or ""), str(channel), message=str(message))

    async def connected(self) -> bool:
        """Return True if the gateway has sent the list of servers and is sending events."""
        return self._client.receives

    def with_news(self, places: Sequence[Place], since: datetime) -> list[Place]:
        """Return the places with messages since that time, the latest first.

        An unknown channel counts as one with a message of this moment.
        """
        found: list[tuple[datetime, Place]] = []
        for place in places:
            channel = self._client.get_channel(int(place.thread or place.channel))
            message_id: int | None = getattr(channel, "last_message_id", None)
            if channel is None:
                newest = _LATEST
            elif message_id is None or not isinstance(channel, discord.abc.Messageable):
                continue
            else:
                newest = discord.utils.snowflake_time(message_id)
            if newest >= since:
                found.append((newest, place))
        found.sort(key=lambda each: each[0], reverse=True)
        return [place for _, place in found]

    async def _fetched(self, incoming: Incoming) -> ReceivedOnDiscord:
        place = incoming.place
        return ReceivedOnDiscord(incoming=incoming, channel=place.thread or place.channel)

    async def _admit(
        self, message: ReceivedOnDiscord
    ) -> tuple[ReceivedOnDiscord, AccessRefusal | None]:
        source, incoming, access = message.source, message.incoming, self._client.access
        place = incoming.place
        guild_id = int(place.workspace) if place.workspace else None
        if source is None:
            channel: object = self._client.get_channel(int(message.channel))
            user = await self._author(incoming.user.account, guild_id)
        else:
            channel, user = source.channel, user_of(source.author)
            if isinstance(channel, discord.PartialMessageable) and guild_id:
                channel = await self._fetch(channel)
        category, message_id = "", place.message
        if channel is not None:
            place, category = place_of(channel, guild_id)
        if refusal := access.refusal(user, place, category):
            return message, refusal
        if opens_thread(self._client.current(), source.channel if source else channel):
            # A thread that is opened for a message has the message's id.
            place = replace(place, thread=message_id)
        place = replace(place, message=message_id)
        groups = access.groups(user, place)
        incoming = replace(incoming, place=place, admin=access.is_admin(user), groups=groups)
        return replace(message, incoming=incoming), None

    async def _author(self, account: str, guild_id: int | None) -> DiscordUser:
        """Return the author with their roles, which old messages of Discord do not include."""
        settings = self._client.current()
        guild = self._client.get_guild(guild_id) if guild_id else None
        if guild is None or not (settings.roles or settings.admin_roles):
            return DiscordUser(account=account)
        try:
            return user_of(await guild.fetch_member(int(account)))
        except UNSENT as error:
            log.info("The roles of %s are not known: %s", account, error)
            return DiscordUser(account=account)

    async def _fetch(self, channel: discord.PartialMessageable) -> object:
        """Return a channel that the library does not know yet, such as an archived thread."""
        if channel.id not in self._fetched_channels:
            try:
                self._fetched_channels[channel.id] = await self._client.fetch_channel(channel.id)
            except UNSENT as error:
                log.info("The channel %s is unknown: %s", channel.id, error)
                return channel
        return self._fetched_channels[channel.id]

    async def _answer(
        self, message: ReceivedOnDiscord, reply: CommandReply, *, first: bool = False
    ) -> None:
        place, account = message.incoming.place, message.incoming.user.account
        # With the key of the answer, Discord would drop the answer as a repetition of the notice.
        recipient = Recipient(
            key=f"{'waiting' if first else 'message'} {place.message}",
            account=account,
            channel=message.channel,
            message=place.message,
            shared=bool(place.workspace),
        )
        try:
            text = answers.with_more(reply)
            await answers.answer(self._sender, recipient, text, private=reply.private)
        except DeliveryError as error:
            log.warning("The reply to message %s is lost: %s", place.message, error)

    async def _show_settlement(self, message: ReceivedOnDiscord, reply: CommandReply) -> None:
        incoming = message.incoming
        settlement = Settlement(reply.chosen or incoming.text, incoming.user)
        await show_settlement(self._sender, message.channel, reply.answered, settlement)


def opens_thread(settings: DiscordSettings, channel: object) -> bool:
    """Return True if a message in the channel is answered in a thread of its own.

    That needs permissions of the bot, unless they are unknown.
    """
    if not settings.threads or not isinstance(channel, discord.TextChannel):
        return False
    me: discord.Member | None = channel.guild.me
    if me is None:
        return True
    permissions = channel.permissions_for(me)
    return permissions.create_public_threads and permissions.send_messages_in_threads

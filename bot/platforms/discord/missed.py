"""Passes messages to the core that users sent on Discord while the bot was not connected."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

import discord

from bot.errors import BotError, DeliveryError
from bot.platforms.base import InboundHandler, Incoming
from bot.platforms.discord import answers
from bot.platforms.discord.answers import Recipient
from bot.platforms.discord.client import RetinueClient
from bot.platforms.discord.intake import opens_thread
from bot.platforms.discord.interactions import UNSENT, spot_of
from bot.platforms.discord.people import DiscordLocation, DiscordUser, place_of
from bot.platforms.discord.sending import Sender
from bot.platforms.messages import PastMessage
from bot.values import Place

log = logging.getLogger(__name__)

_LATEST = datetime.max.replace(tzinfo=UTC)


class DiscordCatchUp:
    """The gateway connection as the catch-up of missed messages uses it.

    Args:
        client: The listening client.
        inbound: Receives the missed messages.

    Attributes:
        listener: A name for the shards that this process serves.
    """

    def __init__(self, client: RetinueClient, inbound: InboundHandler) -> None:
        self._client = client
        self._inbound = inbound
        self._sender = Sender(client)
        shards = ",".join(map(str, client.settings.shard_ids))
        self.listener = f"discord:{shards}" if shards else "discord"

    async def connected(self) -> bool:
        """Return True if the gateway has sent the list of servers and is sending events."""
        return self._client.receives

    def with_news(self, places: Sequence[Place], since: datetime) -> list[Place]:
        """Return the places with messages since that time, the latest first."""
        found = [(newest, place) for place in places if (newest := self._newest(place)) >= since]
        found.sort(key=lambda each: each[0], reverse=True)
        return [place for _, place in found]

    def _newest(self, place: Place) -> datetime:
        """Return the time of the newest message; the maximum for an unknown channel."""
        channel = self._client.get_channel(int(place.thread or place.channel))
        if channel is None:
            return _LATEST
        newest: int | None = getattr(channel, "last_message_id", None)
        if newest is None or not isinstance(channel, discord.abc.Messageable):
            return datetime.min.replace(tzinfo=UTC)
        return discord.utils.snowflake_time(newest)

    async def receive_missed(self, message: PastMessage) -> bool:
        """Pass a message for the bot to the core, unless it was received already.

        Returns:
            True if the message has a turn; False for commands, refused and empty messages.

        Raises:
            BotError: The message was not stored.
        """
        reception, place = self._client.reception, message.place
        key = ("message", int(place.message))
        if not (message.text or message.files or message.quoted or message.only_mention):
            return False
        if not reception.first(key):
            return True
        channel = self._client.get_channel(int(place.thread or place.channel))
        spot = DiscordLocation(guild=place.workspace, channel=place.channel, thread=place.thread)
        if channel is not None:
            spot = spot_of(channel, int(place.workspace) if place.workspace else None)
        person = await self._person(message.author.account, place)
        if reception.refusal(person, spot):
            return False
        if opens_thread(self._client.settings, channel):
            spot = DiscordLocation(guild=spot.guild, channel=spot.channel, thread=place.message)
        incoming = Incoming(
            event_id=message.event_id,
            user=message.author,
            user_name=message.author_name,
            place=place_of(spot, place.message),
            text=message.text,
            files=message.files,
            quoted=message.quoted,
            admin=reception.is_admin(person),
            reply_to=message.reply_to,
            said_at=message.sent_at,
            only_mention=message.only_mention,
        )
        try:
            reply = await self._inbound.receive(incoming)
        except BotError:
            reception.forget(key)
            raise
        if reply is not None and not reply.refused:
            text = answers.with_more(reply)
            await self._answer(place, message, text, private=reply.private)
        return reply is None

    async def _person(self, account: str, place: Place) -> DiscordUser:
        """Return the author with their roles, which old messages of Discord do not include."""
        settings = self._client.settings
        guild = self._client.get_guild(int(place.workspace)) if place.workspace else None
        if guild is None or not (settings.roles or settings.admin_roles):
            return DiscordUser(account=account)
        try:
            member = await guild.fetch_member(int(account))
        except UNSENT as error:
            log.info("The roles of %s are not known: %s", account, error)
            return DiscordUser(account=account)
        return DiscordUser(account=account, roles=frozenset(str(role.id) for role in member.roles))

    async def _answer(
        self, place: Place, message: PastMessage, text: str, *, private: bool
    ) -> None:
        recipient = Recipient(
            key=f"message {place.message}",
            account=message.author.account,
            channel=place.thread or place.channel,
            message=place.message,
            shared=bool(place.workspace),
        )
        try:
            await answers.answer(self._sender, recipient, text, private=private)
        except DeliveryError as error:
            log.warning("The reply to message %s is lost: %s", place.message, error)

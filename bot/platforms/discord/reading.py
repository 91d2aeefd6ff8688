"""Reads messages of other channels for a user, with that user's permissions, and searches."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import discord
from discord.http import Route

from bot.errors import DeliveryError
from bot.platforms.discord.messages import past_of
from bot.platforms.discord.people import DiscordAccessPolicy, place_of, user_of
from bot.platforms.discord.sending import Sender
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.messages import PastMessage
from bot.platforms.reading import NO_LINK, NOT_ADMITTED, NOT_FOUND, PRIVATE, ReadRequest
from bot.values import Json, Live, Place

LINK = re.compile(
    r"<?https://(?:\w+\.)?discord(?:app)?\.com/channels/(@me|\d{5,20})/(\d{5,20})/(\d{5,20})/?>?"
)
#: Most channels that a search names, and most results of one.
MOST_CHANNELS, MOST_RESULTS, MOST_QUERY = 500, 25, 1_024
#: Longest wait until Discord has prepared the search of a server, in seconds.
LONGEST_WAIT_SECONDS = 5.0
#: The code of the answer by which Discord prepares the search of a server.
PREPARING = 110_000
IN_A_SERVER = "On Discord one server is searched at a time: the user has to ask in that server."
NOT_READY = "Discord prepares the search of this server for the first time. Try again in a minute."

PRIVATE_THREAD = discord.ChannelType.private_thread.value
THREADS = {
    PRIVATE_THREAD,
    discord.ChannelType.public_thread.value,
    discord.ChannelType.news_thread.value,
}

SPOKEN = (discord.VoiceChannel, discord.StageChannel)

Channel = discord.abc.GuildChannel
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Guild:
    """A server with its channels, a member of it, and the account of the bot."""

    guild: discord.Guild
    channels: Mapping[int, Channel]
    member: discord.Member
    me: int

    def is_read_by(self, channel: Channel, reader: discord.Member | discord.Role) -> bool:
        """Return True if a member, or everyone with a role, may read a channel."""
        allowed = channel.permissions_for(reader)
        read = allowed.view_channel and allowed.read_message_history
        return read and (allowed.connect or not isinstance(channel, SPOKEN))

    def is_open(self, channel: Channel) -> bool:
        """Return True if everyone in the server may read a channel, and nobody is shut out."""
        shut_out = any(
            rules.view_channel is False
            or rules.read_message_history is False
            or (rules.connect is False and isinstance(channel, SPOKEN))
            for who, rules in channel.overwrites.items()
            if not (who.id == self.me or (isinstance(who, discord.Role) and who.is_bot_managed()))
        )
        return not shut_out and self.is_read_by(channel, self.guild.default_role)


class DiscordReader:
    """Reads with the bot's token only what the user who asks may read, and all readers of a place.

    The permissions are asked for each request, since Discord changes them at any time.

    Args:
        client: A logged-in client.
        sender: Makes requests.
        settings: The settings under `discord:`, which name the servers and channels of the bot.
    """

    def __init__(
        self, client: discord.Client, sender: Sender, settings: Live[DiscordSettings]
    ) -> None:
        self._client = client
        self._sender = sender
        self._api_url = settings().api_url
        self._policy = DiscordAccessPolicy(settings)

    async def linked(self, link: str, request: ReadRequest) -> list[PastMessage]:
        """Return the message of a link with the messages around it, oldest first.

        Raises:
            DeliveryError: The link is invalid, or the message may not or cannot be read.
        """
        match = LINK.fullmatch(link)
        if match is None:
            text = NO_LINK.format(platform="Discord", entry="Copy Message Link")
            raise DeliveryError(text, permanent=True)
        guild, channel, message = match.groups()
        place = await self._place(guild, channel, request)
        there = place.thread or place.channel
        found = await self._sender.around(there, message, request.limit)
        linked = next((each for each in found if str(each.id) == message), None)
        if linked is None:
            raise DeliveryError(NOT_FOUND, permanent=True)
        if linked.flags.has_thread and not place.thread:
            # A thread has the id of the message that opened it.
            answers = await self._sender.newest(message, request.limit, guild=place.workspace)
            read = [self._past(linked, place)]
            within = replace(place, thread=message)
            return read + [self._past(each, within) for each in reversed(answers)]
        return [self._past(each, place) for each in sorted(found, key=lambda each: each.id)]

    async def _place(self, guild: str, channel: str, request: ReadRequest) -> Place:
        """Return the place of a link, if it may be read.

        Raises:
            DeliveryError: The user may not read it, or not everyone in the place of the request.
        """
        here = request.place
        if channel in {here.channel, here.thread} and guild in {"@me", here.workspace}:
            return replace(here, thread="" if channel == here.channel else channel, message="")
        if guild == "@me":
            raise DeliveryError(NOT_FOUND, permanent=True)
        server = await self._server(guild, request)
        room, is_thread, private = server.channels.get(int(channel)), False, False
        if room is None:
            raw: Json = dict(await self._get(lambda: self._client.http.get_channel(int(channel))))
            is_thread, private = raw["type"] in THREADS, raw["type"] == PRIVATE_THREAD
            # The parent of anything else is a category, whose permissions are not its own.
            room = server.channels.get(int(raw.get("parent_id") or 0)) if is_thread else None
        if room is None:
            raise DeliveryError(NOT_FOUND, permanent=True)
        if not server.is_read_by(room, server.member) or (
            private and not await self._is_in(server, room, int(channel))
        ):
            raise DeliveryError(NOT_FOUND, permanent=True)
        place, category = place_of(room, server.guild.id)
        if self._policy.refusal(user_of(server.member), place, category):
            raise DeliveryError(NOT_ADMITTED, permanent=True)
        same = here.workspace == guild and (server.is_open(room) or str(room.id) == here.channel)
        if here.workspace and (private or not same):
            raise DeliveryError(PRIVATE, permanent=True)
        return replace(place, thread=channel if is_thread else "")

    async def search(self, query: str, request: ReadRequest) -> list[PastMessage]:
        """Return the messages of a server that fit a query, of channels that all readers may read.

        Raises:
            DeliveryError: There is no server, or Discord does not search it now.
        """
        here = request.place
        if not here.workspace:
            raise DeliveryError(IN_A_SERVER, permanent=True)
        server = await self._server(here.workspace, request)
        channels = server.channels.values()
        rooms = {room.id: room for room in channels if self._finds(server, room, here)}
        if not rooms:
            return []
        # The ids of messages rise with the time.
        activity = {key: getattr(room, "last_message_id", None) or 0 for key, room in rooms.items()}
        newest = sorted(rooms, key=activity.__getitem__, reverse=True)[:MOST_CHANNELS]
        params: list[tuple[str, str | int]] = [("channel_id", key) for key in newest]
        params += [("content", query[:MOST_QUERY]), ("limit", min(request.limit, MOST_RESULTS))]
        answer = await self._ask(server.guild.id, params)
        # Discord searches with the permissions of the bot: check each result again.
        threads = {
            int(each["id"]): int(each["parent_id"])
            for each in answer.get("threads") or ()
            if each["type"] != PRIVATE_THREAD
        }
        return [
            self._hit(raw, rooms[room], guild=here.workspace)
            # The answer lists each message with those around it, or alone.
            for group in answer.get("messages") or ()
            for raw in [each for each in group if each.get("hit")] or group[:1]
            if (room := threads.get(channel := int(raw["channel_id"]), channel)) in rooms
        ][: request.limit]

    def _finds(self, server: _Guild, room: Channel, here: Place) -> bool:
        """Return True if a channel is searched for the readers of a place."""
        if isinstance(room, discord.CategoryChannel) or not server.is_read_by(room, server.member):
            return False
        place, category = place_of(room, server.guild.id)
        if self._policy.refusal(user_of(server.member), place, category):
            return False
        return server.is_open(room) or str(room.id) == here.channel

    async def _ask(self, guild: int, params: list[tuple[str, str | int]]) -> Json:
        """Search; wait once, shortly, if Discord prepares the search of the server."""
        route = Route("GET", "/guilds/{guild_id}/messages/search", guild_id=guild)
        for _ in range(2):
            answer: Json = await self._sender.ask(
                lambda: self._client.http.request(route, params=params)
            )
            if answer.get("code") != PREPARING:
                return answer
            await asyncio.sleep(min(float(answer.get("retry_after") or 1), LONGEST_WAIT_SECONDS))
        raise DeliveryError(NOT_READY)

    async def _server(self, guild: str, request: ReadRequest) -> _Guild:
        """Return a server with the user of a request as its member.

        Raises:
            DeliveryError: The user, or the bot, is not in that server.
        """
        number, account = int(guild), int(request.user.account)
        found = await self._get(lambda: self._client.fetch_guild(number, with_counts=False))
        member = await self._get(lambda: found.fetch_member(account))
        rooms = await self._get(found.fetch_channels)
        me = self._client.user
        return _Guild(found, {room.id: room for room in rooms}, member, me.id if me else 0)

    async def _is_in(self, server: _Guild, room: Channel, thread: int) -> bool:
        """Return True if the member of a server may read a private thread."""
        if room.permissions_for(server.member).manage_threads:
            return True
        try:
            await self._sender.ask(
                lambda: self._client.http.get_thread_member(thread, server.member.id)
            )
        except DeliveryError as error:
            if error.permanent:
                return False
            raise
        return True

    async def _get(self, request: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Make a request for something that a user has named, and that may not exist.

        Raises:
            DeliveryError: It does not exist, the bot may not see it, or the request failed.
        """
        try:
            return await self._sender.ask(request)
        except DeliveryError as error:
            raise DeliveryError(NOT_FOUND, permanent=True) if error.permanent else error from error

    def _hit(self, raw: Json, room: Channel, *, guild: str) -> PastMessage:
        """Return a result of a search, in the thread or the channel that it names."""
        channel = str(raw["channel_id"])
        thread = channel if channel != str(room.id) else ""
        within = self._client.get_partial_messageable(int(channel), guild_id=int(guild))
        data: Any = raw
        # The library has no search, and no other way to read its results.
        message = discord.Message(state=self._client._connection, channel=within, data=data)  # noqa: SLF001
        place, _ = place_of(room, int(guild))
        return replace(self._past(message, replace(place, thread=thread)), channel_name=room.name)

    def _past(self, message: discord.Message, place: Place) -> PastMessage:
        past = past_of(message, place, self._client.user, self._api_url)
        at = (place.workspace or "@me", place.thread or place.channel, str(message.id))
        return replace(past, link=f"https://discord.com/channels/{'/'.join(at)}")

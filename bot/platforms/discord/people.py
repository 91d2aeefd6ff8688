"""Identities, places and access checks on Discord."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import discord

from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.messaging import intake
from bot.platforms.messaging.intake import NOT_YOU, AccessRefusal, Deduplicator
from bot.values import Identity, Place

PLATFORM = "discord"

NOT_THIS_SERVER = intake.NOT_THIS_PLACE.format(where="server")
NOT_THIS_CHANNEL = intake.NOT_THIS_PLACE.format(where="channel")
NO_DIRECT_MESSAGES = intake.NO_DIRECT_MESSAGES.format(where="server")
ROLES_UNKNOWN = (
    "Outside of its server I cannot see whether you have the role that it takes to use this bot. "
    "Mention me in the server instead."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordLocation:
    """The location of a message or click; ids that do not apply are empty.

    Attributes:
        guild: The server; empty in direct messages and group chats.
        channel: The channel, for a thread its parent channel.
        category: The category of the channel.
    """

    guild: str = ""
    channel: str
    thread: str = ""
    category: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordUser:
    """A user's account and roles in the server of the event."""

    account: str
    roles: frozenset[str] = frozenset()


def identity_of(account: int | str) -> Identity:
    """Return the identity of an account: the same in every server and in direct messages."""
    return Identity(PLATFORM, "", str(account))


def user_of(user: discord.abc.User) -> DiscordUser:
    """Return a user's account and roles in the server of the event."""
    roles = user.roles if isinstance(user, discord.Member) else []
    return DiscordUser(account=str(user.id), roles=frozenset(str(role.id) for role in roles))


def location_of(channel: object, guild_id: int | None) -> DiscordLocation:
    """Return the ids of server, category, channel and thread for a channel or thread."""
    guild = str(guild_id or "")
    if isinstance(channel, discord.Thread):
        parent = channel.parent
        return DiscordLocation(
            guild=guild,
            channel=str(channel.parent_id),
            thread=str(channel.id),
            category=str((parent and parent.category_id) or ""),
        )
    category = getattr(channel, "category_id", None)
    return DiscordLocation(
        guild=guild, channel=str(getattr(channel, "id", "")), category=str(category or "")
    )


def place_of(location: DiscordLocation, message: str = "") -> Place:
    """Return the route of an answer.

    Args:
        location: The location of the answer.
        message: The message to answer; empty for none.
    """
    return Place(PLATFORM, location.guild, location.channel, location.thread, message)


class DiscordAccessPolicy(Deduplicator):
    """Applies the access policy to messages, commands and clicks.

    Args:
        settings: The settings with the allowed servers, channels, roles and users.
        monotonic: A monotonic clock, in seconds.
    """

    def __init__(
        self, settings: DiscordSettings, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(monotonic=monotonic)
        self._settings = settings

    def refusal(self, user: DiscordUser, location: DiscordLocation) -> AccessRefusal | None:
        """Return the refusal for a user in a location; `None` if the user is admitted."""
        settings = self._settings
        if not location.guild:
            if not settings.direct_messages:
                return AccessRefusal(NO_DIRECT_MESSAGES)
        elif settings.guilds and location.guild not in settings.guilds:
            return AccessRefusal(NOT_THIS_SERVER, silent=True)
        elif settings.channels and not {
            location.channel,
            location.thread,
            location.category,
        } & set(settings.channels):
            return AccessRefusal(NOT_THIS_CHANNEL, silent=True)
        if not (settings.roles or settings.users):
            return None
        if user.account in settings.users or user.roles & set(settings.roles):
            return None
        return AccessRefusal(ROLES_UNKNOWN if settings.roles and not location.guild else NOT_YOU)

    def is_admin(self, user: DiscordUser) -> bool:
        """Return True if a role makes the user an admin in the server of the event."""
        return bool(user.roles & set(self._settings.admin_roles))

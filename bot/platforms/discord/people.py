"""Identities, places and access checks on Discord."""

from collections.abc import Iterable
from dataclasses import dataclass

import discord

from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.messaging import intake
from bot.platforms.messaging.intake import NOT_YOU, AccessRefusal, Deduplicator
from bot.values import Identity, Live, Place

PLATFORM = "discord"

NOT_THIS_SERVER = intake.NOT_THIS_PLACE.format(where="server")
NOT_THIS_CHANNEL = intake.NOT_THIS_PLACE.format(where="channel")
NO_DIRECT_MESSAGES = intake.NO_DIRECT_MESSAGES.format(where="server")
ROLES_UNKNOWN = (
    "Outside of its server I cannot see whether you have the role that it takes to use this bot. "
    "Mention me in the server instead."
)


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


def groups_of(roles: Iterable[str], guild: str) -> frozenset[str]:
    """Return roles of a server as members of the bot's roles name them."""
    return frozenset(f"discord-role:{guild}:{role}" for role in roles)


def place_of(channel: object, guild_id: int | None) -> tuple[Place, str]:
    """Return the place of a channel or thread, and the id of its category; empty for none.

    The place of a thread has its parent channel; a direct message has no workspace.
    """
    guild = str(guild_id or "")
    if isinstance(channel, discord.Thread):
        category = channel.parent.category_id if channel.parent else None
        place = Place(PLATFORM, guild, str(channel.parent_id), str(channel.id))
    else:
        category = getattr(channel, "category_id", None)
        place = Place(PLATFORM, guild, str(getattr(channel, "id", "")))
    return place, str(category or "")


class DiscordAccessPolicy(Deduplicator):
    """Applies the access policy to messages, commands and clicks.

    Args:
        settings: The settings with the allowed servers, channels, roles and users.
    """

    def __init__(self, settings: Live[DiscordSettings]) -> None:
        super().__init__()
        self._settings = settings

    def refusal(self, user: DiscordUser, place: Place, category: str = "") -> AccessRefusal | None:
        """Return the refusal for a user in a place; `None` if the user is admitted.

        Args:
            user: The user.
            place: The channel, thread or direct message.
            category: The category of the channel; empty for none.
        """
        settings = self._settings()
        if not place.workspace:
            if settings.direct_messages == "nobody":
                return AccessRefusal(NO_DIRECT_MESSAGES)
        elif not self.serves(place.workspace):
            return AccessRefusal(NOT_THIS_SERVER, silent=True)
        elif not self.answers_in(place, category):
            return AccessRefusal(NOT_THIS_CHANNEL, silent=True)
        if self.admits(user):
            return None
        return AccessRefusal(ROLES_UNKNOWN if settings.roles and not place.workspace else NOT_YOU)

    def answers_in(self, place: Place, category: str) -> bool:
        """Return True if the bot answers in a channel or thread of a server, or in its category."""
        channels = self._settings().channels
        return channels is None or not {place.channel, place.thread, category}.isdisjoint(channels)

    def serves(self, guild: str) -> bool:
        """Return True if the bot answers in a server."""
        guilds = self._settings().guilds
        return guilds is None or guild in guilds

    def admits(self, user: DiscordUser) -> bool:
        """Return True if an account or its roles may use the bot."""
        settings = self._settings()
        if settings.roles is None and settings.users is None:
            return True
        roles, users = settings.roles or (), settings.users or ()
        return user.account in users or bool(user.roles & set(roles))

    def groups(self, user: DiscordUser, place: Place) -> frozenset[str] | None:
        """Return the user's roles in a server as `Membership` names them; `None` elsewhere."""
        if not place.workspace or not user.roles:
            return None
        return groups_of(user.roles, place.workspace)

    def is_admin(self, user: DiscordUser) -> bool:
        """Return True if a role makes the user an admin in the server of the event."""
        return bool(user.roles & set(self._settings().admin_roles))

"""Who somebody on Discord is, where they are, and whether they may talk with the bot (no SDK)."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from bot.platforms import reception
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.reception import NOT_YOU, Attendance, Refusal
from bot.values import Identity, Place

PLATFORM = "discord"

NOT_THIS_SERVER = reception.NOT_THIS_PLACE.format(where="server")
NOT_THIS_CHANNEL = reception.NOT_THIS_PLACE.format(where="channel")
NO_DIRECT_MESSAGES = reception.NO_DIRECT_MESSAGES.format(where="server")
ROLES_UNKNOWN = (
    "Outside of its server I cannot see whether you have the role that it takes to use this bot. "
    "Mention me in the server instead."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where something was said or clicked; ids that do not apply are empty.

    Attributes:
        guild: Empty in direct messages and group chats.
        channel: The channel that a thread belongs to, or where there is no thread.
        category: What the channel is filed under.
    """

    guild: str = ""
    channel: str
    thread: str = ""
    category: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody's account, and the roles that they have where they are."""

    account: str
    roles: frozenset[str] = frozenset()


def identity_of(account: int | str) -> Identity:
    """Return whose account it is: the same person in every server and in direct messages."""
    return Identity(PLATFORM, "", str(account))


def place_of(spot: Spot, message: str = "") -> Place:
    """Return the route of an answer.

    Args:
        spot: Where to answer.
        message: What to answer to; empty for none.
    """
    return Place(PLATFORM, spot.guild, spot.channel, spot.thread, message)


def refusal_of(settings: DiscordSettings, person: Person, spot: Spot) -> Refusal | None:
    """Return why this person may not talk with the bot there; `None` when they may."""
    if not spot.guild:
        if not settings.direct_messages:
            return Refusal(NO_DIRECT_MESSAGES)
    elif settings.guilds and spot.guild not in settings.guilds:
        return Refusal(NOT_THIS_SERVER, silent=True)
    elif settings.channels and not {spot.channel, spot.thread, spot.category} & set(
        settings.channels
    ):
        return Refusal(NOT_THIS_CHANNEL, silent=True)
    if not (settings.roles or settings.users):
        return None
    if person.account in settings.users or person.roles & set(settings.roles):
        return None
    return Refusal(ROLES_UNKNOWN if settings.roles and not spot.guild else NOT_YOU)


class Reception(Attendance):
    """Decides who is let in, the same for messages, commands and clicks.

    Args:
        settings: Who may, and where.
        monotonic: A clock in seconds that never goes back.
    """

    def __init__(
        self, settings: DiscordSettings, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(monotonic=monotonic)
        self._settings = settings

    def refusal(self, person: Person, spot: Spot) -> Refusal | None:
        """Return why this person may not talk with the bot there; `None` when they may."""
        return refusal_of(self._settings, person, spot)

    def is_admin(self, person: Person) -> bool:
        """Whether a role makes this person an admin where they are."""
        return bool(person.roles & set(self._settings.admin_roles))

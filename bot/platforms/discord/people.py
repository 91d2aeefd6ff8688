"""Who somebody on Discord is, where they are, and whether they may talk with the bot (no SDK)."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bot.platforms.discord.settings import DiscordSettings
from bot.values import Identity, Place

PLATFORM = "discord"

#: How long nobody is told again that they may not.
TELL_AGAIN_SECONDS = 3_600.0
#: How many things are remembered; the oldest are forgotten first.
REMEMBERED = 10_000

NOT_THIS_SERVER = "I do not answer in this server. The people who run me choose where I do."
NOT_THIS_CHANNEL = "I do not answer in this channel. The people who run me choose where I do."
NO_DIRECT_MESSAGES = "I do not answer direct messages. Mention me in a server instead."
NOT_YOU = "You cannot use this bot here. Ask the people who run it if you think you should."
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


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why somebody gets no answer.

    Attributes:
        silent: The bot is not for this place at all: messages there are passed over.
    """

    text: str
    silent: bool = False


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


class Reception:
    """Decides who is let in, the same for messages, commands and clicks.

    It also remembers what came already, and knows what is still being seen to.

    Args:
        settings: Who may, and where.
        monotonic: A clock in seconds that never goes back.
    """

    def __init__(
        self, settings: DiscordSettings, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._now = monotonic
        self._last: OrderedDict[Hashable, float] = OrderedDict()
        self._under_way: set[asyncio.Task[object]] = set()

    def refusal(self, person: Person, spot: Spot) -> Refusal | None:
        """Return why this person may not talk with the bot there; `None` when they may."""
        return refusal_of(self._settings, person, spot)

    def is_admin(self, person: Person) -> bool:
        """Whether a role makes this person an admin where they are."""
        return bool(person.roles & set(self._settings.admin_roles))

    def first(self, key: Hashable, *, again_after: float = float("inf")) -> bool:
        """Say whether something happens for the first time, or for the first time in so long.

        Args:
            key: What happens.
            again_after: Seconds after which it counts as new.
        """
        now = self._now()
        last = self._last.get(key)
        if last is not None and now - last < again_after:
            return False
        self._last[key] = now
        self._last.move_to_end(key)
        if len(self._last) > REMEMBERED:
            self._last.popitem(last=False)
        return True

    def may_tell(self, account: str, channel: str) -> bool:
        """Say whether a refusal is worth a sentence: once an hour per person and channel."""
        return self.first(("refused", account, channel), again_after=TELL_AGAIN_SECONDS)

    @contextmanager
    def attending(self) -> Iterator[None]:
        """Let `settle` wait for the task that is in this block."""
        task = asyncio.current_task()
        assert task is not None, "Only tasks attend to somebody."
        self._under_way.add(task)
        try:
            yield
        finally:
            self._under_way.discard(task)

    async def settle(self, seconds: float) -> None:
        """Wait until nothing is being seen to any more, at most so long."""
        if pending := set(self._under_way):
            await asyncio.wait(pending, timeout=seconds)

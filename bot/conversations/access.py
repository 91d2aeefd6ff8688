"""The access rules: users that may talk to the bot, and runs that a request may reach (pure)."""

import re
from dataclasses import dataclass, replace
from typing import Annotated, Protocol

from pydantic import Field, field_validator

from bot.errors import BadRequestError
from bot.platforms.catalog import PLATFORMS, TERMINAL, declared, is_known
from bot.values import Identity, Place, Role, Settings

#: `discord:SERVER:CHANNEL` or `slack:TEAM:CHANNEL`.
ChannelName = Annotated[str, Field(pattern=r"^[a-z]+(:[A-Za-z0-9._-]+){2}$")]


class AccessSettings(Settings):
    """Everything under `access:`."""

    admins: tuple[str, ...] = ()
    """Operators: people who may see, stop and configure everything (audited), by commands and
    buttons: `platform:account`, for Slack `slack:workspace:account`.
    """

    place_admins: dict[str, tuple[str, ...]] = Field({})
    """Admins of one server or workspace, who may see, stop and configure what began there:
    `discord:SERVER` or `slack:WORKSPACE`, and people, written like admins, or
    `discord-role:SERVER:ROLE` or `slack-group:WORKSPACE:GROUP`. On Discord also
    `discord.admin_roles`.
    """

    blocked: tuple[str, ...] = ()
    """People the bot does not answer, written like admins."""

    admin_channel: tuple[ChannelName, ...] = ()
    """Channels that get what admins must know: `discord:SERVER:CHANNEL` or `slack:TEAM:CHANNEL`.
    The first gets what concerns the whole bot, and each what concerns its server or workspace.
    Without any, the admins get it in direct messages.
    """

    bots: tuple[str, ...] = ()
    """Other bots that are answered when they mention the bot, written like admins. The words of
    all others are context.
    """

    @field_validator("place_admins")
    @classmethod
    def _names_servers(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for name in value:
            if not is_server(name):
                forms = ", or ".join(kind.server_form for kind in PLATFORMS)
                raise ValueError(f"{name[:60]!r} is no server or workspace: write {forms}")
        return value

    def admins_at(self, place: Place) -> frozenset[str]:
        """Return the accounts that are admins of the server or workspace of a place."""
        # A workspace of an organisation is named `E….T…`.
        names = (f"{place.platform}:{part}" for part in place.workspace.split("."))
        return frozenset(each for name in names for each in self.place_admins.get(name, ()))

    @property
    def admin_places(self) -> tuple[Place, ...]:
        """The admin channels."""
        return tuple(Place(*name.split(":")) for name in self.admin_channel)

    @property
    def operators(self) -> tuple[Identity, ...]:
        """The accounts of the admins, without entries that are no account."""
        parts = (name.split(":") for name in self.admins)
        return tuple(
            Identity(each[0], each[1] if len(each) == 3 else "", each[-1])
            for each in parts
            if len(each) in {2, 3}
        )


def spelled(user: Identity) -> str:
    """Return the name of a user in the configuration: `discord:1234`, `slack:T1:U2`."""
    return ":".join(filter(None, user.parts))


def spelled_place(place: Place) -> str:
    """Return a place as admins type it, without its thread: `slack:T1:C2`."""
    return ":".join(filter(None, (place.platform, place.workspace, place.channel)))


def is_server(name: str) -> bool:
    """Return True for the name of a server or workspace in the configuration."""
    platform, _, server = name.partition(":")
    return bool(server and re.fullmatch(declared(platform).server, server))


def is_channel(name: str) -> bool:
    """Return True for the name of a shared channel in the configuration, also without its server.

    Such as `slack:T1:C2` and `discord:1234`.
    """
    platform, _, rest = name.partition(":")
    *servers, channel = rest.split(":")
    kind = declared(platform)
    return (
        len(servers) <= 1
        and all(is_server(f"{platform}:{server}") for server in servers)
        and bool(channel and re.fullmatch(kind.channel, channel))
        and not (kind.direct and channel.startswith(kind.direct))
    )


def account_workspace(platform: str, workspace: str) -> str:
    """Return the workspace of the accounts in a workspace; empty where they belong to none."""
    return workspace if declared(platform).accounts_of_workspaces else ""


def account_in(typed: str) -> Identity | None:
    """Return the account of a name as in the configuration; `None` if no account has that form.

    On Slack an account belongs to a workspace or an organisation: without it, it would be nobody.
    """
    platform, *parts = typed.split(":")
    wanted = 2 if declared(platform).accounts_of_workspaces else 1
    if len(parts) != wanted or not all(parts):
        return None
    return Identity(platform, "".join(parts[:-1]), parts[-1])


def place_named(typed: str) -> Place:
    """Return the place of a name such as `slack:T1:C1`.

    Raises:
        BadRequestError: It is no place.
    """
    platform, *parts = typed.split(":")
    if not is_known(platform) or len(parts) > 2:
        raise BadRequestError(
            f"{typed[:80]!r} is no place: write discord:SERVER:CHANNEL, slack:WORKSPACE:CHANNEL, "
            "`discord:` for direct messages, or `terminal:`."
        )
    workspace, channel = [*parts, "", ""][:2]
    return Place(platform, workspace, channel)


def is_blocked(user: Identity, settings: AccessSettings) -> bool:
    """Return True if the admins have blocked this user."""
    return spelled(user) in settings.blocked


class Requester(Protocol):
    """A request for runs."""

    @property
    def user(self) -> Identity:
        """The user who asks, or for whom the model works."""

    @property
    def role(self) -> Role:
        """The role of that user."""

    @property
    def typed(self) -> bool:
        """True for a command that the user typed or a button; False for a call of a model."""

    @property
    def place(self) -> Place:
        """The place in which the answer is read."""


@dataclass(frozen=True, slots=True)
class RunScope:
    """The runs that a request may see, message and stop, with their questions and announcements.

    Attributes:
        owner: The key of the user who owns them; `None` for the runs of all users.
        read_in: Only runs that every reader of this place can read; `None` for runs of all places.
        began_in: Only runs that began in the server or workspace of this place; `None` for all.
    """

    owner: str | None
    read_in: Place | None = None
    began_in: Place | None = None

    def covers(self, owner: str, started_in: Place | None = None) -> bool:
        """Return True for a run of this owner.

        Args:
            owner: The key of the user who owns the run.
            started_in: The place of the run; `None` when it is unknown.
        """
        if self.owner not in {None, owner}:
            return False
        if self.began_in is not None and not (
            started_in is not None and is_same_server(self.began_in, started_in)
        ):
            return False
        if self.read_in is None:
            return True
        return started_in is not None and can_read(self.read_in, started_in)


def scope_of(requester: Requester) -> RunScope:
    """Return the runs that a request may reach: the one access rule.

    Users reach their own runs. Operators reach the runs of all users, and admins those that began
    in the server or workspace where they ask, by commands and buttons only: a model that works for
    an admin may obey a page that it read. The answer to a command is private. The answer of a model
    is read by all readers of its place, so it reaches only runs that they can read as well.
    """
    if is_operator(requester):
        return RunScope(owner=None)
    if has_admin_powers(requester, requester.place):
        return RunScope(owner=None, began_in=requester.place)
    return own_scope(requester)


def may_reach(requester: Requester, owner: str, started_in: Place | None) -> bool:
    """Return True for a run that a request may reach: one's own, or one within admin powers."""
    scopes = (own_scope(requester), scope_of(requester))
    return any(scope.covers(owner, started_in) for scope in scopes)


def own_scope(requester: Requester) -> RunScope:
    """Return the runs that a request may reach among those of its own user."""
    alone = requester.typed or is_private(requester.place)
    return RunScope(requester.user.key, read_in=None if alone else requester.place)


def is_operator(requester: Requester) -> bool:
    """Return True for a command or button of an operator; never for a call of a model."""
    return requester.role is Role.OPERATOR and requester.typed


def has_admin_powers(requester: Requester, about: Place | None) -> bool:
    """Return True for a command or button of an operator or of an admin of a server or workspace.

    A call of a model never has these powers.

    Args:
        requester: The request.
        about: The place where what is looked at or changed began; `None` for the whole bot, which
            is in the powers of operators alone.
    """
    if not requester.typed:
        return False
    if requester.role is Role.OPERATOR:
        return True
    return (
        requester.role is Role.ADMIN
        and about is not None
        and is_same_server(requester.place, about)
    )


def is_same_server(place: Place, other: Place) -> bool:
    """Return True for two places of one Discord server or Slack workspace."""
    server = (place.platform, _team(place))
    return bool(place.workspace) and server == (other.platform, _team(other))


def _team(place: Place) -> str:
    """Return the workspace of a place without its organisation: `T…` for `E….T…`."""
    return place.workspace.rpartition(".")[2]


def is_private(place: Place) -> bool:
    """Return True for a place with one reader: a direct message or a terminal."""
    if place.platform == TERMINAL:
        return True
    direct = declared(place.platform).direct
    return place.channel.startswith(direct) if direct else direct == "" and not place.workspace


def can_read(place: Place, other: Place) -> bool:
    """Return True when every reader of `place` can read what is said in `other`.

    A thread that a message opened is named by the id of that message and is public. Any other
    thread may be private.
    """
    channel = (place.platform, place.workspace, place.channel)
    if channel != (other.platform, other.workspace, other.channel):
        return False
    if declared(place.platform).open_threads:
        return True
    return other.thread in {"", place.thread, other.message}


def around(place: Place) -> Place:
    """Return the channel around the thread of a place."""
    return replace(place, thread="", message="")

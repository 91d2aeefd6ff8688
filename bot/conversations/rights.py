"""Looks up the rights of users: their memberships, their roles, and what applies in a place."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from bot.conversations.access import AccessSettings, is_blocked, is_private, spelled
from bot.conversations.pairing import Pairings
from bot.errors import DeliveryError, NotAllowedError, UnknownRoleError
from bot.platforms.base import Outlet
from bot.platforms.reading import Membership
from bot.recent import Recent
from bot.rights.effective import GUEST, USER, Rights
from bot.rights.settings import (
    GROUP_KINDS,
    Expand,
    RolesSettings,
    asks_for_groups,
    rights_of,
    role_of,
)
from bot.values import Clock, Identity, Live, Place
from db import standing_grants
from db.database import Database

log = logging.getLogger(__name__)

#: Time for which a membership is used without asking again, and for which it is used when the
#: platform does not answer.
FRESH, USABLE = timedelta(seconds=90), timedelta(minutes=5)
#: Timeout of a lookup, in seconds.
ASK_SECONDS = 5.0
#: Most memberships that a process holds.
MOST_HELD = 10_000
UNKNOWN = "I cannot check your role here at the moment. Try again in a minute."
UNREADABLE = (
    "I may not read the user groups here, so I cannot check your role. Ask an operator of this bot."
)
NOT_HERE = "The role `{role}` may not use this bot here. Ask an operator of this bot."

NOT_A_MEMBER = "I answer direct messages of members of a server or workspace that has me."
NO_DIRECT_MESSAGES = "I do not answer direct messages."
LOST = "You have no access to this bot here any more."


#: A user in a channel.
_Key = tuple[Identity, str, str, str]


@dataclass(frozen=True, slots=True)
class Memberships:
    """Reads the memberships of users from their platforms, and holds them for a short time."""

    outlets: Mapping[str, Outlet]
    now: Clock
    _held: Recent[_Key, tuple[Membership, datetime]] = field(
        default_factory=lambda: Recent(MOST_HELD)
    )

    async def of(self, user: Identity, place: Place, *, groups: bool = True) -> Membership:
        """Return the membership of a user in the server or workspace of a place.

        Args:
            user: The user.
            place: The place.
            groups: Whether the groups are needed.

        Raises:
            UnknownRoleError: The platform does not answer, and did not for `USABLE`.
        """
        key = _key(user, place)
        held, read_at = self._held.get(key, (None, None))
        now = self.now()
        fits = held is not None and not (groups and held.groups is None)
        if held is not None and read_at is not None and fits and now - read_at < FRESH:
            return held
        outlet = self.outlets.get(place.platform)
        if outlet is None:
            raise UnknownRoleError(UNKNOWN)
        try:
            async with asyncio.timeout(ASK_SECONDS):
                found = await outlet.membership(user, place, groups=groups)
        except (DeliveryError, TimeoutError) as error:
            log.warning("The membership of %s is unknown: %s", user.key, error or "no answer")
            if held is not None and read_at is not None and fits and now - read_at < USABLE:
                return held
            raise UnknownRoleError(UNKNOWN) from error
        self.note(user, place, found)
        return found

    def note(self, user: Identity, place: Place, membership: Membership) -> None:
        """Hold a membership that an event of the platform has told."""
        self._held[_key(user, place)] = (membership, self.now())


def _key(user: Identity, place: Place) -> _Key:
    # By channel: a user of another company is a member of single ones, and the bot may answer in
    # some of them alone.
    return (user, place.platform, place.workspace, place.channel)


@dataclass(frozen=True, slots=True)
class RightsDirectory:
    """Finds the roles and the rights of users as they are now.

    Attributes:
        settings: The roles.
        expand: Returns the tools that a list of tools, patterns and skills names.
        direct: Returns `direct_messages` of a platform.
    """

    settings: Live[RolesSettings]
    memberships: Memberships
    expand: Expand
    access: Live[AccessSettings]
    direct: Callable[[str], str]
    pairings: Pairings
    database: Database
    now: Clock

    async def is_among(self, members: Collection[str], user: Identity, place: Place) -> bool:
        """Return True if a user belongs to one of the roles or user groups among these members."""
        if not any(each.startswith(GROUP_KINDS) for each in members):
            return False
        try:
            return not (await self._groups(user, place)).isdisjoint(members)
        except UnknownRoleError:
            return False

    async def role_of(self, user: Identity, place: Place) -> str:
        """Return the name of the role of a user in a place.

        Raises:
            UnknownRoleError: The role depends on the platform, which does not answer.
        """
        settings = self.settings()
        groups: frozenset[str] = frozenset()
        if asks_for_groups(settings, place):
            groups = await self._groups(user, place)
        return role_of(settings, user, place, groups)

    async def _groups(self, user: Identity, place: Place) -> frozenset[str]:
        groups = (await self.memberships.of(user, place)).groups
        if groups is None:
            raise UnknownRoleError(UNREADABLE)
        return groups

    async def rights(self, user: Identity, place: Place) -> Rights:
        """Return the rights of a user who has access to a place.

        Raises:
            UnknownRoleError: The role depends on the platform, which does not answer.
            NotAllowedError: The user has lost access.
        """
        if await self.lost(user, place):
            raise NotAllowedError(LOST)
        rights = rights_of(self.settings(), await self.role_of(user, place), place, self.expand)
        return replace(rights, always=partial(self.standing, user, place))

    async def standing(self, user: Identity, place: Place) -> frozenset[str]:
        """Return the rules, as they are spelled, that no longer ask a user in a place.

        A grant counts in its server or workspace. One by a role whose members are those of a
        channel counts in its channel alone: in another one its giver may not have that role. So
        does one by a role that is no longer configured, since it may have been such a role.
        """
        found = await self.database.read(standing_grants.of_server, user.key, place, self.now())
        named = self.settings().named
        of_servers = {
            name
            for name, role in named.items()
            if not any("-channel:" in each for each in role.members)
        }
        of_servers |= {"", USER, GUEST} - named.keys()
        return frozenset(
            each.rule
            for each in found
            if each.place.channel == place.channel or each.approver in of_servers
        )

    async def check(self, user: Identity, place: Place) -> None:
        """Check that a user may use the bot in a place.

        Raises:
            UnknownRoleError: The user's role depends on the platform, which does not answer.
            NotAllowedError: The user's role may not, or direct messages are for others.
        """
        if not await self._admits_direct(user, place):
            match self.direct(place.platform):
                case "paired":
                    raise NotAllowedError(await self.pairings.request(user))
                case "nobody":
                    raise NotAllowedError(NO_DIRECT_MESSAGES)
                case _:
                    raise NotAllowedError(NOT_A_MEMBER)
        await self._check_role(user, place)

    async def _check_role(self, user: Identity, place: Place) -> None:
        settings = self.settings()
        if all(role.places is None for role in settings.named.values()):
            return
        name = await self.role_of(user, place)
        role = settings.named.get(name)
        if role is not None and not role.admits(place):
            raise NotAllowedError(NOT_HERE.format(role=name))

    async def _admits_direct(self, user: Identity, place: Place) -> bool:
        """Return True for a place with several readers, or a user of its direct messages.

        Raises:
            UnknownRoleError: The platform does not answer, and the account is of another workspace
                than the place: of its organisation, or of another company.
        """
        if not is_private(place) or place.platform == "terminal":
            return True
        if self.direct(place.platform) == "nobody":
            return False
        if self.direct(place.platform) == "paired":
            return await self.pairings.is_paired(user)
        if user.workspace in {"", *place.workspace.split(".")}:
            return await self._is_present(user, place)
        found = await self.memberships.of(user, place, groups=False)
        return found.present and not found.foreign

    async def _is_present(self, user: Identity, place: Place) -> bool:
        """Return True for an active member, and while the platform does not answer."""
        try:
            return (await self.memberships.of(user, place, groups=False)).present
        except UnknownRoleError:
            return True

    async def lost(self, user: Identity, place: Place) -> str:
        """Return the reason for which a user has no access to a place any more; empty for none.

        While the platform does not answer, nobody loses access.
        """
        access = self.access()
        if is_blocked(user, access):
            return "blocked"
        if not await self._is_present(user, place):
            return "no member any more"
        if spelled(user) in access.admins:
            return ""
        try:
            if not await self._admits_direct(user, place):
                return "direct messages are for others"
            await self._check_role(user, place)
        except UnknownRoleError:
            return ""
        except NotAllowedError as error:
            return str(error)
        return ""

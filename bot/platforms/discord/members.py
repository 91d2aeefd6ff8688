"""Reads the membership and the roles of users in servers."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import discord

from bot.errors import DeliveryError
from bot.platforms.discord.people import DiscordAccessPolicy, DiscordUser, groups_of
from bot.platforms.discord.sending import Sender
from bot.platforms.reading import Membership
from bot.values import Identity, Place

#: Most servers in which a user without one is looked for.
MOST_SERVERS = 200
#: Servers that are asked at the same time: one after the other takes longer than a lookup may.
AT_ONCE = 20
ABSENT = Membership(present=False)


@dataclass(frozen=True, slots=True)
class DiscordMembers:
    """Reads members one by one, which needs no intent and no connection to the gateway.

    Attributes:
        client: A logged-in client.
        policy: Decides which members may use the bot.
    """

    client: discord.Client
    sender: Sender
    policy: DiscordAccessPolicy

    async def membership(self, user: Identity, place: Place, *, groups: bool = True) -> Membership:
        """Return the membership of a user in a server; for no server, in any of the bot's.

        A server that `discord.guilds` does not name has no members, and neither has a channel that
        `discord.channels` does not name.

        Raises:
            DeliveryError: Discord does not answer.
        """
        if place.workspace:
            if not await self._answers_in(place):
                return ABSENT
            return await self._in(place.workspace, user)
        if not self.policy.admits(DiscordUser(account=user.account)):
            return ABSENT
        servers = await self._servers()
        for first in range(0, len(servers), AT_ONCE):
            if await self._is_in_any(servers[first : first + AT_ONCE], user):
                return Membership()
        return ABSENT

    async def _answers_in(self, place: Place) -> bool:
        """Return True if the bot answers in a channel or in its category."""
        if not place.channel or self.policy.answers_in(place, ""):
            return True
        number = int(place.channel)
        channel = self.client.get_channel(number)
        category = getattr(channel, "category_id", None)
        if channel is None:
            # Without the events of its server.
            try:
                read = await self.sender.ask(lambda: self.client.http.get_channel(number))
            except DeliveryError as error:
                if isinstance(error.__cause__, discord.NotFound | discord.Forbidden):
                    return False
                raise
            category = read.get("parent_id")
        return self.policy.answers_in(place, str(category or ""))

    async def _is_in_any(self, guilds: Sequence[str], user: Identity) -> bool:
        try:
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(self._in(guild, user)) for guild in guilds]
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        return any(each.result().present for each in asked)

    async def _servers(self) -> list[str]:
        """Return the servers with the bot in which it answers."""
        found = [str(guild.id) for guild in self.client.guilds]
        if not found:
            listed = await self.sender.ask(lambda: self.client.http.get_guilds(limit=MOST_SERVERS))
            found = [str(guild["id"]) for guild in listed]
        return [guild for guild in found if self.policy.serves(guild)][:MOST_SERVERS]

    async def _in(self, guild: str, user: Identity) -> Membership:
        if not self.policy.serves(guild):
            return ABSENT
        number, account = int(guild), int(user.account)
        try:
            member = await self.sender.ask(lambda: self.client.http.get_member(number, account))
        except DeliveryError as error:
            # Not a member, or the bot is no longer in the server.
            if isinstance(error.__cause__, discord.NotFound | discord.Forbidden):
                return ABSENT
            raise
        # Everyone in a server has the role of the server's id.
        roles = frozenset([*map(str, member["roles"]), guild])
        if not self.policy.admits(DiscordUser(account=user.account, roles=roles)):
            return ABSENT
        return Membership(groups=groups_of(roles, guild))

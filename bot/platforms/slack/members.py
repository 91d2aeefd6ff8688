"""Reads the membership and the user groups of users in workspaces."""

import logging
import time
from collections.abc import Callable

from slack_sdk.web.async_client import AsyncWebClient

from bot.platforms.reading import Membership
from bot.platforms.slack.people import SlackAccessPolicy, SlackUser
from bot.platforms.slack.problems import RefusedError
from bot.platforms.slack.sending import Sender
from bot.recent import Recent
from bot.values import Identity, Json, Place

log = logging.getLogger(__name__)

#: Time for which the user groups of a workspace are used without asking again, in seconds.
FRESH_SECONDS = 60.0
MOST_WORKSPACES = 1_000
#: Most pages of the members of a channel that is shared with other companies.
MOST_PAGES, PAGE = 10, 1_000
#: Refusals by which Slack says that it knows no such user, or no such channel, any more.
GONE = frozenset({"user_not_found", "user_not_visible", "users_not_found", "channel_not_found"})

#: The members of each user group of a workspace, by its id.
_Groups = dict[str, frozenset[str]]


class SlackMembers:
    """Reads members with `users.info` and user groups with `usergroups.list`.

    Args:
        sender: Makes requests to Slack.
        policy: Decides which members may use the bot.
        monotonic: A monotonic clock in seconds.
    """

    def __init__(
        self,
        sender: Sender,
        policy: SlackAccessPolicy,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sender = sender
        self._policy = policy
        self._now = monotonic
        self._groups: Recent[str, tuple[_Groups | None, float]] = Recent(MOST_WORKSPACES)

    async def membership(self, user: Identity, place: Place, *, groups: bool = True) -> Membership:
        """Return the membership of a user in the workspace of a place.

        A user of another company is present as long as the channel of the place is shared with
        the user.

        Raises:
            DeliveryError: Slack does not answer.
        """
        _, installed = await self._sender.clients.find(place.workspace)
        # An account of an organisation belongs to all of its workspaces.
        own = {installed.enterprise or place.workspace, *place.workspace.split(".")}
        foreign = user.workspace not in own
        if not await self._is_present(user, place, foreign=foreign):
            return Membership(present=False)
        known = await self._groups_of(place.workspace) if groups else None
        if known is None:
            return Membership(groups=None, foreign=foreign)
        teams = place.workspace.split(".")
        mine = (group for group, members in known.items() if user.account in members)
        return Membership(
            groups=frozenset(f"slack-group:{team}:{group}" for group in mine for team in teams),
            foreign=foreign,
        )

    async def _is_present(self, user: Identity, place: Place, *, foreign: bool) -> bool:
        workspace = place.workspace
        asked = SlackUser(
            account=user.account, home=user.workspace, workspace=workspace, stranger=foreign
        )
        if self._policy.refusal(asked, place.channel):
            return False
        try:
            answer = await self._sender.ask(workspace, AsyncWebClient.users_info, user=user.account)
            found: Json = answer.get("user") or {}
            if found.get("deleted"):
                return False
            if not (foreign and place.channel):
                return True
            return await self._is_in_channel(user, place)
        except RefusedError as error:
            if error.code in GONE:
                return False
            raise

    async def _is_in_channel(self, user: Identity, place: Place) -> bool:
        """Return True if a user is in a channel, or if it has more members than are read."""
        more = False
        async for members, further in self._sender.pages(
            place.workspace,
            AsyncWebClient.conversations_members,
            "members",
            most=MOST_PAGES,
            channel=place.channel,
            limit=PAGE,
        ):
            if user.account in members:
                return True
            more = further
        return more

    async def _groups_of(self, workspace: str) -> _Groups | None:
        """Return the user groups of a workspace; `None` if the bot may not read them."""
        groups, until = self._groups.get(workspace, ({}, 0.0))
        if self._now() < until:
            return groups
        try:
            answer = await self._sender.ask(
                workspace, AsyncWebClient.usergroups_list, include_users=True
            )
        except RefusedError as error:
            if error.code == "missing_scope":
                log.warning(
                    "User groups of Slack need the scope usergroups:read: see docs/slack.md"
                )
                self._groups[workspace] = (None, self._now() + FRESH_SECONDS)
                return None
            raise
        found: _Groups = {
            str(group["id"]): frozenset(map(str, group.get("users") or ()))
            for group in answer.get("usergroups") or ()
        }
        self._groups[workspace] = (found, self._now() + FRESH_SECONDS)
        return found

"""Reads messages of other channels for a user, with that user's rights, and searches."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.conversations.access import is_private
from bot.errors import DeliveryError
from bot.platforms.messages import PastMessage
from bot.platforms.messaging.intake import message_key
from bot.platforms.reading import NO_LINK, NOT_ADMITTED, NOT_FOUND, PRIVATE, ReadRequest
from bot.platforms.slack.clients import Clients, team_of
from bot.platforms.slack.messages import History, spoken
from bot.platforms.slack.people import Names, SlackUser
from bot.platforms.slack.problems import RefusedError
from bot.platforms.slack.sending import Method, Sender
from bot.platforms.slack.settings import SlackSettings
from bot.recent import Recent
from bot.values import Identity, Json, Live, Place

LINK = re.compile(
    r"<?https://[\w.-]+\.slack\.com/archives/([CDG][A-Z0-9]{2,20})/p(\d{10})(\d{6})"
    r"(?:\?(?:[^\s>]*&)?thread_ts=(\d{10}\.\d{6})[^\s>]*|\?[^\s>]*)?(?:\|[^>]*)?>?"
)
SEARCH = "assistant.search.context"
#: Most results of one search, and most characters of a query.
MOST_RESULTS, MOST_QUERY = 20, 1_000
#: Most people in one request, and most requests for the people of a channel or a workspace.
PEOPLE, MAX_PAGES = 999, 20
#: Time for which the guests of a workspace are cached, in seconds.
GUESTS_SECONDS = 600.0
MAX_WORKSPACES = 1_000

NO_SCOPES = (
    "The bot lacks {scopes}, which it needs for that. The people who run it add what is missing as "
    "docs/slack.md says."
)
READ_SCOPES = "the scopes channels:read, groups:read and mpim:read"
SEARCH_SCOPE = "the scope search:read.public"
NOT_ASKED = (
    "Slack lets the bot search only in answer to a message that a user has just sent to it. The "
    "user can ask again."
)
GUESTS = (
    "Guests or people of other companies read this place, and may not read all that a search "
    "finds. The user can ask for it in a direct message."
)


class SlackReader:
    """Reads with the bot's token only what the user who asks may read, and all readers of a place.

    Args:
        clients: Provide the bot's identity in a workspace.
        sender: Makes requests.
        history: Reads channels and threads.
        names: Provide the names of users.
        settings: Everything under `slack:`, which names the channels of the bot.
        monotonic: A monotonic clock in seconds.
    """

    def __init__(
        self,
        clients: Clients,
        sender: Sender,
        history: History,
        names: Names,
        settings: Live[SlackSettings],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clients = clients
        self._sender = sender
        self._history = history
        self._names = names
        self._settings = settings
        self._now = monotonic
        self._guests: Recent[str, tuple[frozenset[str] | None, float]] = Recent(MAX_WORKSPACES)

    async def linked(self, link: str, request: ReadRequest) -> list[PastMessage]:
        """Return the message of a link with the messages around it, oldest first.

        Raises:
            DeliveryError: The link is invalid, or the message may not or cannot be read.
        """
        match = LINK.fullmatch(link)
        if match is None:
            raise DeliveryError(NO_LINK.format(platform="Slack", entry="Copy link"), permanent=True)
        channel, seconds, micros, thread = match.groups()
        ts, here = f"{seconds}.{micros}", request.place
        if channel != here.channel:
            await self._check(channel, request)
        place = Place(here.platform, here.workspace, channel, thread or "")
        try:
            found = await self._history.around(place, ts, request.limit)
        except RefusedError as error:
            if error.thread_gone:
                raise DeliveryError(NOT_FOUND, permanent=True) from error
            raise
        if not any(each.place.message == ts for each in found):
            raise DeliveryError(NOT_FOUND, permanent=True)
        return found

    async def _check(self, channel: str, request: ReadRequest) -> None:
        """Check that a channel may be read by a user, and in the place of a request.

        Raises:
            DeliveryError: It may not.
        """
        here = request.place
        if channel.startswith("D"):
            raise DeliveryError(NOT_FOUND, permanent=True)
        info = await self._info(here, channel)
        private = info.get("is_private") or info.get("is_mpim")
        is_open = not (private or _is_shared(info)) and _is_of(info, here.workspace)
        account = request.user.account
        if not (is_open and await self._is_full_member(here, account)) and (
            account not in (await self._members(here, channel) or ())
        ):
            raise DeliveryError(NOT_FOUND, permanent=True)
        admitted = self._settings().channels
        if admitted is not None and channel not in admitted:
            raise DeliveryError(NOT_ADMITTED, permanent=True)
        if not is_private(here) and not (is_open and await self._has_members_only(here)):
            raise DeliveryError(PRIVATE, permanent=True)

    async def search(self, query: str, request: ReadRequest) -> list[PastMessage]:
        """Return the messages of public channels that fit a query, the best first.

        Slack searches as the user whose message brought the permission.

        Raises:
            DeliveryError: There is no permission, or Slack does not search now.
        """
        here = request.place
        if not request.search_token:
            raise DeliveryError(NOT_ASKED, permanent=True)
        if not is_private(here) and not await self._has_members_only(here):
            raise DeliveryError(GUESTS, permanent=True)
        asked: Json = {
            "query": query[:MOST_QUERY],
            "action_token": request.search_token,
            "channel_types": "public_channel",
            "content_types": "messages",
            "include_bots": "true",
            "limit": min(request.limit, MOST_RESULTS),
        }
        try:
            answer = await self._sender.ask(
                here.workspace, AsyncWebClient.api_call, api_method=SEARCH, data=asked
            )
        except RefusedError as error:
            if error.code == "missing_scope":
                text = NO_SCOPES.format(scopes=SEARCH_SCOPE)
                raise DeliveryError(text, permanent=True) from error
            if "action_token" in str(error.code):
                raise DeliveryError(NOT_ASKED, permanent=True) from error
            raise
        admitted = self._settings().channels
        hits: list[Json] = (answer.get("results") or {}).get("messages") or []
        # The user may be a member of other workspaces of the organisation than the readers.
        team = "" if is_private(here) else team_of(here.workspace)
        return [
            await self._hit(each, here)
            for each in hits[: request.limit]
            if (admitted is None or each["channel_id"] in admitted)
            and (not team or each.get("team_id") in {None, "", team})
        ]

    async def _hit(self, hit: Json, here: Place) -> PastMessage:
        _, installed = await self._clients.find(here.workspace)
        account, ts = str(hit.get("author_user_id") or ""), str(hit["message_ts"])
        user = SlackUser(account=account, home=team_of(here.workspace), workspace=here.workspace)
        channel = str(hit["channel_id"])
        return PastMessage(
            event_id=message_key(here.workspace, channel, ts),
            place=Place(here.platform, here.workspace, channel, message=ts),
            author=Identity(here.platform, user.home, account),
            author_name=str(hit.get("author_name") or "") or await self._names.of(user),
            text=spoken(str(hit.get("content") or ""), installed.user),
            sent_at=datetime.fromtimestamp(float(ts), UTC),
            by_bot=bool(hit.get("is_author_bot")),
            own=account == installed.user,
            channel_name=str(hit.get("channel_name") or ""),
            link=str(hit.get("permalink") or ""),
        )

    # -- rights ----------------------------------------------------------------------------------

    async def _ask(self, here: Place, method: Method, **arguments: Any) -> Any:
        """Ask about people and channels.

        Raises:
            DeliveryError: What is asked about does not exist for the bot, or Slack fails.
        """
        try:
            return await self._sender.ask(here.workspace, method, **arguments)
        except RefusedError as error:
            raise _not_told(error) from error

    async def _is_full_member(self, here: Place, account: str) -> bool:
        """Return True for a member of the workspace, who may read every public channel."""
        answer = await self._ask(here, AsyncWebClient.users_info, user=account)
        user: Json = dict(answer["user"])
        teams = {user.get("team_id"), *((user.get("enterprise_user") or {}).get("teams") or ())}
        member = team_of(here.workspace) in teams and not user.get("deleted")
        return member and not _is_guest(user)

    async def _has_members_only(self, here: Place) -> bool:
        """Return True if all who read a channel may read every public channel."""
        if _is_shared(await self._info(here, here.channel)):
            return False
        guests = await self._guests_of(here)
        if not guests:
            return guests is not None
        members = await self._members(here, here.channel)
        return members is not None and not guests & members

    async def _info(self, here: Place, channel: str) -> Json:
        answer = await self._ask(here, AsyncWebClient.conversations_info, channel=channel)
        return dict(answer["channel"])

    async def _guests_of(self, here: Place) -> frozenset[str] | None:
        """Return the guests of a workspace; `None` if it has too many users to tell."""
        guests, until = self._guests.get(here.workspace, (None, 0.0))
        if self._now() < until:
            return guests
        team = team_of(here.workspace)
        found = await self._pages(here, AsyncWebClient.users_list, "members", team_id=team)
        guests = None if found is None else frozenset(u["id"] for u in found if _is_guest(u))
        self._guests[here.workspace] = (guests, self._now() + GUESTS_SECONDS)
        return guests

    async def _members(self, here: Place, channel: str) -> frozenset[str] | None:
        """Return the members of a channel; `None` if it has too many to tell."""
        method = AsyncWebClient.conversations_members
        found = await self._pages(here, method, "members", channel=channel)
        return None if found is None else frozenset(found)

    async def _pages(
        self, here: Place, method: Method, name: str, **arguments: Any
    ) -> list[Any] | None:
        """Return all items of a list; `None` if it has more than `MAX_PAGES` pages."""
        asked = {"most": MAX_PAGES, "limit": PEOPLE, **arguments}
        try:
            pages = self._sender.pages(here.workspace, method, name, **asked)
            listed = [each async for each in pages]
        except RefusedError as error:
            raise _not_told(error) from error
        _, more = listed[-1]
        return None if more else [item for page, _ in listed for item in page]


def _not_told(error: RefusedError) -> DeliveryError:
    """Return the error for the user if Slack does not tell who may read something."""
    missing = error.code == "missing_scope"
    text = NO_SCOPES.format(scopes=READ_SCOPES) if missing else NOT_FOUND
    return DeliveryError(text, permanent=True)


def _is_shared(channel: Json) -> bool:
    """Return True if people of other companies or workspaces read a channel."""
    names = ("is_ext_shared", "is_pending_ext_shared", "is_org_shared")
    return any(channel.get(name) for name in names)


def _is_of(channel: Json, workspace: str) -> bool:
    """Return True unless a channel belongs to another workspace of the organisation.

    The token of an organisation reads the channels of all its workspaces.
    """
    named = {channel.get("context_team_id"), *(channel.get("shared_team_ids") or ())}
    owners = {each for each in named if str(each).startswith("T")}
    team = team_of(workspace)
    return owners == {team} if team != workspace else owners <= {team}


def _is_guest(user: Json) -> bool:
    """Return True for a guest, or a user of another company."""
    return any(user.get(name) for name in ("is_restricted", "is_ultra_restricted", "is_stranger"))

"""Identifies Slack users, their names and workspaces, and decides access to the bot."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from slack_sdk.web.async_client import AsyncWebClient

from bot.agent.sanitizer import one_line
from bot.errors import DeliveryError
from bot.platforms.messaging import intake
from bot.platforms.messaging.intake import NOT_YOU, AccessRefusal, Deduplicator
from bot.platforms.slack.sending import Sender
from bot.platforms.slack.settings import SlackSettings
from bot.recent import Recent
from bot.values import Identity, Json, Live, Place

log = logging.getLogger(__name__)

PLATFORM = "slack"

#: Time to live of a cached name, and time before the retry of a failed lookup, in seconds.
CACHE_SECONDS, RETRY_SECONDS = 3_600.0, 60.0
MAX_CACHED_NAMES = 5_000
#: Timeout of the lookup of a name, in seconds.
ASK_SECONDS = 1.0
LONGEST_NAME = 80

NOT_THIS_WORKSPACE = intake.NOT_THIS_PLACE.format(where="workspace")
NOT_THIS_CHANNEL = intake.NOT_THIS_PLACE.format(where="channel")
NO_DIRECT_MESSAGES = intake.NO_DIRECT_MESSAGES.format(where="channel")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackUser:
    """The account of a user.

    Attributes:
        home: The organisation (E…) or else the workspace (T…) that the account belongs to.
        workspace: The workspace of the interaction, as in `Place`.
        stranger: The user belongs to another company, with which the channel is shared.
    """

    account: str
    home: str
    workspace: str
    stranger: bool = False

    @property
    def identity(self) -> Identity:
        """The identity of the user, the same in all workspaces of one organisation."""
        return Identity(PLATFORM, self.home, self.account)

    def place(self, channel: str, thread: str = "", message: str = "") -> Place:
        """Return the route of an answer to the user."""
        return Place(PLATFORM, self.workspace, channel, thread, message)


def workspaces_of(body: Json) -> Iterator[str]:
    """Yield the workspaces to which a payload may have been sent, the likeliest first.

    Some fields contain the team of the user, who may belong to another organisation in a shared
    channel. For an organisation's installation, "E….T…" precedes the plain team.
    """
    listed = body.get("authorizations")
    first = listed[0] if isinstance(listed, list) and listed else None
    authorization: Json = first if isinstance(first, dict) else {}
    enterprise = _id(body, "enterprise") or str(authorization.get("enterprise_id") or "")
    view, message = _part(body, "view"), _part(body, "message")
    teams = (
        authorization.get("team_id"),
        body.get("context_team_id"),
        view.get("app_installed_team_id"),
        message.get("team"),
        _id(body, "team"),
        _part(body, "user").get("team_id"),
    )
    found = dict.fromkeys(str(team) for team in teams if str(team or "").startswith("T"))
    org_wide = f"{body.get('is_enterprise_install')}".lower() == "true"
    if (org_wide or authorization.get("is_enterprise_install")) and enterprise:
        yield from (f"{enterprise}.{team}" for team in found)
    yield from found


def speaker_of(event: Json, body: Json, workspace: str, enterprise: str) -> SlackUser:
    """Return the user who caused an event.

    Args:
        event: The event.
        body: The payload of the event.
        workspace: The workspace of the bot.
        enterprise: The organisation of that workspace; empty for none.
    """
    team = str(event.get("user_team") or event.get("source_team") or event.get("team") or "")
    home = team if body.get("is_ext_shared_channel") else ""
    return _user_of(str(event["user"]), workspace, enterprise, stranger_of=home)


def author_of(message: Json, workspace: str, enterprise: str) -> SlackUser:
    """Return the author of a message that Slack returned on request.

    Such a message has no payload that marks a channel shared with another company. Only messages
    from another company name their team.
    """
    home = str(message.get("user_team") or message.get("source_team") or "")
    account = str(message.get("user") or message.get("bot_id") or "")
    return _user_of(account, workspace, enterprise, stranger_of=home)


def interacting_user_of(body: Json, workspace: str, enterprise: str) -> SlackUser:
    """Return the user who clicked, submitted a form, or typed a slash command.

    Args:
        body: The payload.
        workspace: The workspace of the bot.
        enterprise: The organisation of that workspace; empty for none.
    """
    given = _part(body, "user")
    account = str(given.get("id") or body.get("user_id") or "")
    sibling = bool(enterprise) and _id(body, "enterprise") == enterprise
    team = "" if sibling else str(given.get("team_id") or "")
    return _user_of(account, workspace, enterprise, stranger_of=team)


def _user_of(account: str, workspace: str, enterprise: str, *, stranger_of: str) -> SlackUser:
    here = workspace.rpartition(".")[2]
    stranger = stranger_of not in {"", here, enterprise}
    home = stranger_of if stranger else enterprise or here
    return SlackUser(account=account, home=home, workspace=workspace, stranger=stranger)


def _id(body: Json, what: str) -> str:
    """Return the id of a team or an organisation, from either of its two fields."""
    return str(body.get(f"{what}_id") or _part(body, what).get("id") or "")


def _part(body: Json, what: str) -> Json:
    part = body.get(what)
    return part if isinstance(part, dict) else {}


class SlackAccessPolicy(Deduplicator):
    """Decides access, the same for messages, commands and clicks.

    Args:
        settings: The admitted workspaces, channels and users.
        monotonic: A monotonic clock in seconds.
    """

    def __init__(
        self, settings: Live[SlackSettings], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(monotonic=monotonic)
        self._settings = settings

    def refusal(self, user: SlackUser, channel: str) -> AccessRefusal | None:
        """Return the reason for which a user may not use the bot there; `None` if they may.

        Args:
            user: The user.
            channel: The channel; empty for the Home tab.
        """
        settings = self._settings()
        enterprise, _, team = user.workspace.rpartition(".")
        here = {enterprise, team} if user.stranger else {enterprise, team, user.home}
        if settings.workspaces is not None and not here & set(settings.workspaces):
            return AccessRefusal(NOT_THIS_WORKSPACE, silent=True)
        if channel.startswith("D"):
            if settings.direct_messages == "nobody":
                return AccessRefusal(NO_DIRECT_MESSAGES)
        elif channel and settings.channels is not None and channel not in settings.channels:
            return AccessRefusal(NOT_THIS_CHANNEL, silent=True)
        names = {f"{user.home}:{user.account}"}
        if not user.stranger:
            names.add(f"{team}:{user.account}")
            names.add("" if settings.many_workspaces else user.account)
        if settings.users is not None and not names & set(settings.users):
            return AccessRefusal(NOT_YOU)
        return None


class Names:
    """Provides the names of users; falls back to the account's id.

    Args:
        sender: Makes requests to Slack.
        monotonic: A monotonic clock in seconds.
    """

    def __init__(self, sender: Sender, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._sender = sender
        self._now = monotonic
        self._names: Recent[tuple[str, str], tuple[str, float]] = Recent(MAX_CACHED_NAMES)

    async def of(self, user: SlackUser) -> str:
        """Return the name of a user, within `ASK_SECONDS`. Never raises."""
        key = (user.workspace, user.account)
        name, until = self._names.get(key, ("", 0.0))
        if self._now() < until:
            return name
        names: list[object] = []
        try:
            async with asyncio.timeout(ASK_SECONDS):
                answer = await self._sender.ask(
                    user.workspace, AsyncWebClient.users_info, user=user.account
                )
            found: Json = answer.get("user") or {}
            profile: Json = found.get("profile") or {}
            names = [profile.get("display_name"), found.get("real_name"), found.get("name")]
        except (DeliveryError, TimeoutError) as error:
            log.info("The name of %s is not known: %s", user.account, error or "no answer")
        lines = [one_line(str(each or ""), LONGEST_NAME) for each in names]
        asked = next((line for line in lines if line), "")
        seconds = CACHE_SECONDS if asked else RETRY_SECONDS
        self._names[key] = (asked or name or user.account, self._now() + seconds)
        return self._names[key][0]

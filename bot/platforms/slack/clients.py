"""Creates the clients of Slack's Web API, one for each workspace, with their retries."""

import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol, Self

import aiohttp
from slack_sdk.errors import SlackClientError
from slack_sdk.http_retry.async_handler import AsyncRetryHandler
from slack_sdk.http_retry.builtin_async_handlers import (
    AsyncConnectionErrorRetryHandler,
    AsyncRateLimitErrorRetryHandler,
)
from slack_sdk.http_retry.request import HttpRequest
from slack_sdk.http_retry.response import HttpResponse
from slack_sdk.web.async_client import AsyncWebClient

from bot.errors import ConfigError, PlatformUnreachableError
from bot.platforms.slack.problems import ONCE, RefusedError, problem_of
from bot.platforms.slack.settings import SlackSettings

log = logging.getLogger(__name__)

#: Timeout of one request, and longest backoff before each further attempt, in seconds. The core
#: treats a text as lost after a minute.
REQUEST_SECONDS = 15.0
LONGEST_WAIT_SECONDS = 10

REFUSED = (
    "Slack refuses `slack.bot_token` (or SLACK_BOT_TOKEN): {code}. Copy the Bot User OAuth Token "
    "anew from the page OAuth & Permissions of api.slack.com/apps."
)
REMOVED = (
    "The bot was removed from its Slack workspace, or its token was revoked: install it again on "
    "the page OAuth & Permissions of api.slack.com/apps, and put the new token into "
    "`slack.bot_token`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The bot's identity and token in a workspace.

    Attributes:
        token: The bot token.
        user: The bot's account, which users mention (U…).
        bot: The bot's id (B…).
        enterprise: The organisation of the workspace (E…); empty for none.
    """

    token: str = field(repr=False)
    user: str
    bot: str
    enterprise: str = ""


class Clients(Protocol):
    """Provides the bot's token and client for each workspace.

    A workspace is named as in `Place`: "T…", or "E….T…" if the bot was installed for the whole
    organisation.
    """

    async def client_for(self, workspace: str) -> AsyncWebClient:
        """Return the client for the workspace of a place.

        Raises:
            DeliveryError: The bot is no longer installed there.
        """
        ...

    async def installed(self, workspace: str) -> Installed | None:
        """Return the bot's identity in a workspace; `None` if the bot is not installed there.

        This is called for each event, so the answer is cached for a while.

        Raises:
            DeliveryError: The installation cannot be looked up now.
        """
        ...

    async def fresh(self, workspace: str, refused: AsyncWebClient) -> AsyncWebClient | None:
        """Return a client with a token other than the refused one; `None` if there is none.

        Raises:
            DeliveryError: The installation cannot be looked up now.
        """
        ...

    async def find(self, workspaces: Iterable[str]) -> tuple[str, Installed] | None:
        """Return the first of these workspaces with the bot; `None` if the bot is in none of them.

        Raises:
            DeliveryError: The installation cannot be looked up now.
        """
        ...

    async def remove(self, workspace: str) -> None:
        """Delete the installation in a workspace that removed the bot or revoked its token.

        Raises:
            DeliveryError: The database or Slack is unreachable.
        """
        ...


class OneClient:
    """The clients of a bot in one workspace: always the same client.

    Args:
        client: The client with the token.
        installed: The bot's identity; not needed by a process that receives no events.
        workspace: The workspace; empty for a token that is valid in a whole organisation.
    """

    def __init__(
        self, client: AsyncWebClient, installed: Installed | None = None, workspace: str = ""
    ) -> None:
        self._client = client
        self._installed = installed
        self._workspace = workspace

    @classmethod
    async def log_in(cls, settings: SlackSettings, session: aiohttp.ClientSession) -> Self:
        """Return the client for the token of the settings, after a check of the token.

        Raises:
            ConfigError: Slack refuses the token.
            PlatformUnreachableError: Slack is unreachable or out of order.
        """
        assert settings.bot_token is not None, "Slack is opened where it is configured."
        token = settings.bot_token.get_secret_value().strip()
        client = new_client(token, api_url=settings.api_url, session=session)
        try:
            me = await client.auth_test()
        except (SlackClientError, aiohttp.ClientError, OSError) as error:
            problem = problem_of(error)
            if isinstance(problem, RefusedError):
                raise ConfigError(REFUSED.format(code=problem.code)) from error
            raise PlatformUnreachableError(str(problem)) from error
        installed = Installed(
            token=token,
            user=str(me["user_id"]),
            bot=str(me.get("bot_id") or ""),
            enterprise=str(me.get("enterprise_id") or ""),
        )
        org_wide = bool(me.get("is_enterprise_install"))
        return cls(client, installed, "" if org_wide else str(me["team_id"]))

    async def client_for(self, workspace: str) -> AsyncWebClient:
        """Return the only client."""
        return self._client

    async def installed(self, workspace: str) -> Installed | None:
        """Return the bot's identity."""
        return self._installed

    async def fresh(self, workspace: str, refused: AsyncWebClient) -> AsyncWebClient | None:
        """Return `None`: the bot has only one token."""
        return None

    async def find(self, workspaces: Iterable[str]) -> tuple[str, Installed] | None:
        """Return the only workspace; for an organisation's token the first of `workspaces`."""
        workspace = self._workspace or next(iter(workspaces), "")
        return (workspace, self._installed) if workspace and self._installed else None

    async def remove(self, workspace: str) -> None:
        """Log the removal with its remedy: the token is in the configuration."""
        log.error(REMOVED)


@asynccontextmanager
async def open_session() -> AsyncIterator[aiohttp.ClientSession]:
    """Open the HTTP session that all clients share."""
    timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        yield session


def new_client(token: str, *, api_url: str, session: aiohttp.ClientSession) -> AsyncWebClient:
    """Return a client that obeys Slack's rate limits and repeats only idempotent requests."""
    handlers: list[AsyncRetryHandler] = [
        _RateLimits(max_retry_count=3),
        _ServerErrors(max_retry_count=2),
        _ConnectionErrors(max_retry_count=1),
    ]
    return AsyncWebClient(token, base_url=api_url, session=session, retry_handlers=handlers)


def team_of(workspace: str) -> str:
    """Return the team (T…) of a workspace, without the prefix of its organisation."""
    return workspace.rpartition(".")[2]


class _RateLimits(AsyncRateLimitErrorRetryHandler):
    """Retries after the time that Slack demands; a wait that is too long fails at once."""

    async def _can_retry_async(self, *, response: HttpResponse | None = None, **_: Any) -> bool:
        if response is None or response.status_code != HTTPStatus.TOO_MANY_REQUESTS:
            return False
        headers = {name.lower(): values for name, values in response.headers.items()}
        seconds = str(next(iter(headers.get("retry-after", ["1"])), "1"))
        return seconds.isdigit() and int(seconds) <= LONGEST_WAIT_SECONDS


class _IdempotentOnly(AsyncRetryHandler):
    """Retries no request that would send a second message."""

    async def can_retry_async(self, *, request: HttpRequest, **more: Any) -> bool:
        if str(request.url).rpartition("/")[2] in ONCE:
            return False
        return await super().can_retry_async(request=request, **more)


class _ServerErrors(_IdempotentOnly):
    """Retries idempotent requests after any server error."""

    async def _can_retry_async(self, *, response: HttpResponse | None = None, **_: Any) -> bool:
        return response is not None and response.status_code >= 500


class _ConnectionErrors(_IdempotentOnly, AsyncConnectionErrorRetryHandler):
    """Retries idempotent requests after a broken connection."""

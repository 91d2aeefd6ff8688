"""Creates the clients of Slack's Web API, one for each workspace, with their retries."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol, Self

import aiohttp
from slack_sdk.http_retry.async_handler import AsyncRetryHandler
from slack_sdk.http_retry.builtin_async_handlers import (
    AsyncConnectionErrorRetryHandler,
    AsyncRateLimitErrorRetryHandler,
)
from slack_sdk.http_retry.request import HttpRequest
from slack_sdk.http_retry.response import HttpResponse
from slack_sdk.web.async_client import AsyncWebClient

from bot.errors import ConfigError, DeliveryError, PlatformUnreachableError
from bot.platforms.slack.problems import NOT_INSTALLED, ONCE, RefusedError, made
from bot.platforms.slack.settings import SlackSettings
from bot.setting_types import plain_secret

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
    """The bot's identity, token and client in a workspace.

    Attributes:
        client: The client with the token.
        token: The bot token.
        user: The bot's account, which users mention (U…).
        bot: The bot's id (B…).
        enterprise: The organisation of the workspace (E…); empty for none.
    """

    client: AsyncWebClient = field(repr=False, compare=False)
    token: str = field(repr=False)
    user: str
    bot: str
    enterprise: str = ""


class Clients(Protocol):
    """Provides the bot's identity, token and client in each workspace.

    A workspace is named as in `Place`: "T…", or "E….T…" if the bot was installed for the whole
    organisation.
    """

    async def find(self, *workspaces: str) -> tuple[str, Installed]:
        """Return the first of these workspaces with the bot, and the bot's identity there.

        This is called for each event and request, so the answer is cached for a while.

        Raises:
            RefusedError: The bot is installed in none of them.
            DeliveryError: The installation cannot be looked up now.
        """

    async def fresh(self, workspace: str, refused: Installed) -> Installed | None:
        """Return an identity with a token other than the refused one; `None` if there is none.

        Raises:
            DeliveryError: The installation cannot be looked up now.
        """

    async def remove(self, workspace: str) -> None:
        """Delete the installation in a workspace that removed the bot or revoked its token.

        Raises:
            DeliveryError: The database or Slack is unreachable.
        """


class OneClient:
    """The clients of a bot in one workspace: always the same client.

    Args:
        installed: The bot's identity.
        workspace: The workspace; empty for a token that is valid in a whole organisation.
    """

    def __init__(self, installed: Installed, workspace: str = "") -> None:
        self._installed = installed
        self._workspace = workspace

    @classmethod
    async def log_in(cls, settings: SlackSettings, session: aiohttp.ClientSession) -> Self:
        """Return the client for the token of the settings, after a check of the token.

        Raises:
            ConfigError: Slack refuses the token.
            PlatformUnreachableError: Slack is unreachable or out of order.
        """
        token = plain_secret(settings.bot_token)
        client = new_client(token, api_url=settings.api_url, session=session)
        try:
            me = await made(client.auth_test())
        except RefusedError as error:
            raise ConfigError(REFUSED.format(code=error.code)) from error
        except DeliveryError as error:
            raise PlatformUnreachableError(str(error)) from error
        installed = Installed(
            client=client,
            token=token,
            user=str(me["user_id"]),
            bot=str(me.get("bot_id") or ""),
            enterprise=str(me.get("enterprise_id") or ""),
        )
        org_wide = bool(me.get("is_enterprise_install"))
        return cls(installed, "" if org_wide else str(me["team_id"]))

    async def find(self, *workspaces: str) -> tuple[str, Installed]:
        """Return the only workspace; for an organisation's token the first of `workspaces`.

        Raises:
            RefusedError: An organisation's token, and no workspace is given.
        """
        workspace = self._workspace or next(iter(workspaces), "")
        if not workspace:
            raise RefusedError(NOT_INSTALLED)
        return workspace, self._installed

    async def fresh(self, workspace: str, refused: Installed) -> Installed | None:
        """Return `None`: the bot has only one token."""
        return None

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

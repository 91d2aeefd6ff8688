"""Creates the clients of Slack's Web API, one for each workspace, with their retries."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp
from slack_sdk.http_retry.async_handler import AsyncRetryHandler
from slack_sdk.http_retry.builtin_async_handlers import (
    AsyncConnectionErrorRetryHandler,
    AsyncRateLimitErrorRetryHandler,
    AsyncServerErrorRetryHandler,
)
from slack_sdk.http_retry.request import HttpRequest
from slack_sdk.http_retry.response import HttpResponse
from slack_sdk.http_retry.state import RetryState
from slack_sdk.web.async_client import AsyncWebClient

#: Timeout of one request, and longest backoff before each further attempt, in seconds. The core
#: treats a text as lost after a minute.
REQUEST_SECONDS = 15.0
LONGEST_WAIT_SECONDS = 10

#: Methods that are not idempotent: a second request would send a second message.
ONCE = frozenset(
    {
        "chat.postMessage",
        "chat.postEphemeral",
        "chat.startStream",
        "chat.appendStream",
        "chat.stopStream",
        "files.completeUploadExternal",
    }
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


def _repeatable(request: HttpRequest) -> bool:
    return str(request.url).rpartition("/")[2] not in ONCE


class _RateLimits(AsyncRateLimitErrorRetryHandler):
    """Retries after the time that Slack demands; a wait that is too long fails at once."""

    async def _can_retry_async(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> bool:
        limited = await super()._can_retry_async(
            state=state, request=request, response=response, error=error
        )
        if not limited or response is None:
            return False
        headers = {name.lower(): values for name, values in response.headers.items()}
        seconds = str(next(iter(headers.get("retry-after", ["1"])), "1"))
        return seconds.isdigit() and int(seconds) <= LONGEST_WAIT_SECONDS


class _ServerErrors(AsyncServerErrorRetryHandler):
    """Retries idempotent requests after a server error."""

    async def _can_retry_async(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> bool:
        return response is not None and response.status_code >= 500 and _repeatable(request)


class _ConnectionErrors(AsyncConnectionErrorRetryHandler):
    """Retries idempotent requests after a broken connection."""

    async def _can_retry_async(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> bool:
        broke = await super()._can_retry_async(
            state=state, request=request, response=response, error=error
        )
        return broke and _repeatable(request)

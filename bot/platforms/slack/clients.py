"""Clients of Slack's Web API: one for each workspace, and what they try again by themselves."""

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

#: The most that one request may take, and the most that it waits before each further attempt: the
#: core takes a text for lost after a minute.
REQUEST_SECONDS = 15.0
LONGEST_WAIT_SECONDS = 10

#: What would be said twice if it was asked for twice.
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
    """The bot as it is in a workspace.

    Attributes:
        token: What it speaks with.
        user: Its account there, which people mention (U…).
        bot: Its id as a bot (B…).
        enterprise: The organisation that the workspace belongs to (E…); empty for none.
    """

    token: str = field(repr=False)
    user: str
    bot: str
    enterprise: str = ""


class Clients(Protocol):
    """Knows with which token the bot speaks where.

    A workspace is named as places name it: "T…", or "E….T…" where the bot was installed for all
    of an organisation.
    """

    async def client_for(self, workspace: str) -> AsyncWebClient:
        """Return the client for the workspace of a place.

        Raises:
            DeliveryError: The bot is not installed there any more.
        """
        ...

    async def installed(self, workspace: str) -> Installed | None:
        """Return who the bot is in a workspace; `None` when it is not installed there.

        It is asked for each event, so that the answer is kept for a while.

        Raises:
            DeliveryError: That cannot be told now.
        """
        ...

    async def fresh(self, workspace: str, refused: AsyncWebClient) -> AsyncWebClient | None:
        """Return a client with another token than one that Slack refuses; `None` if there is none.

        Raises:
            DeliveryError: That cannot be told now.
        """
        ...

    async def find(self, workspaces: Iterable[str]) -> tuple[str, Installed] | None:
        """Return the first of these workspaces where the bot is; `None` when it is in none.

        Raises:
            DeliveryError: That cannot be told now.
        """
        ...


class OneClient:
    """The clients of a bot that is in one workspace: always the same.

    Args:
        client: Has the token.
        installed: Who the bot is there; where nobody hears, nobody asks.
        workspace: Its name; empty for a token that is good in all of an organisation.
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
        """Return who the bot is."""
        return self._installed

    async def fresh(self, workspace: str, refused: AsyncWebClient) -> AsyncWebClient | None:
        """Return nothing: there is one token."""
        return None

    async def find(self, workspaces: Iterable[str]) -> tuple[str, Installed] | None:
        """Return the only workspace, whatever else a payload names."""
        workspace = self._workspace or next(iter(workspaces), "")
        return (workspace, self._installed) if workspace and self._installed else None


@asynccontextmanager
async def open_session() -> AsyncIterator[aiohttp.ClientSession]:
    """Open the connections that all clients share."""
    timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        yield session


def new_client(token: str, *, api_url: str, session: aiohttp.ClientSession) -> AsyncWebClient:
    """Return a client that waits when Slack says so, and repeats only what does no harm twice."""
    handlers: list[AsyncRetryHandler] = [
        _RateLimits(max_retry_count=3),
        _ServerErrors(max_retry_count=2),
        _ConnectionErrors(max_retry_count=1),
    ]
    return AsyncWebClient(token, base_url=api_url, session=session, retry_handlers=handlers)


def team_of(workspace: str) -> str:
    """Return the team (T…) of a workspace, which is named after its organisation as well."""
    return workspace.rpartition(".")[2]


def _repeatable(request: HttpRequest) -> bool:
    return str(request.url).rpartition("/")[2] not in ONCE


class _RateLimits(AsyncRateLimitErrorRetryHandler):
    """Waits for as long as Slack says; what would take too long fails at once."""

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
    """Asks again when Slack is out of order."""

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
    """Asks again when the connection broke."""

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

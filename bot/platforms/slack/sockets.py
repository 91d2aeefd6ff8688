"""Connects to Slack over Socket Mode, which needs no public address."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.web.async_client import AsyncWebClient

from bot import logs
from bot.errors import ConfigError, DeliveryError, PlatformUnreachableError
from bot.platforms.slack.problems import RefusedError, made
from bot.platforms.slack.settings import SlackSettings
from bot.setting_types import plain_secret

log = logging.getLogger(__name__)

#: Interval of the connection checks, in seconds.
PING_SECONDS = 10.0

WHERE = (
    "on the page Basic Information of api.slack.com/apps, under App-Level Tokens, with the scope "
    "connections:write"
)
WRONG_TOKEN = f"Slack refuses `slack.app_token` (or SLACK_APP_TOKEN): make a new one {WHERE}."
NO_SCOPE = f"`slack.app_token` may not open connections: make a new one {WHERE}."
SOCKETS_OFF = (
    "Slack opens no connection ({code}): switch on Socket Mode on the page Socket Mode of "
    "api.slack.com/apps, or set `slack.mode: http`."
)
_WRONG = frozenset(
    {"invalid_auth", "not_authed", "account_inactive", "token_revoked", "not_allowed_token_type"}
)


def app_client(settings: SlackSettings, session: aiohttp.ClientSession) -> AsyncWebClient:
    """Return a client for requests that belong to no workspace."""
    return AsyncWebClient(base_url=settings.api_url, session=session, retry_handlers=[])


async def ask_for_connection(settings: SlackSettings, session: aiohttp.ClientSession) -> None:
    """Check that Slack would open a connection.

    Raises:
        ConfigError: Slack refuses connections permanently; the text gives the remedy.
        PlatformUnreachableError: Slack cannot open a connection now.
    """
    token = plain_secret(settings.app_token)
    try:
        await made(app_client(settings, session).apps_connections_open(app_token=token))
    except RefusedError as error:
        if error.code in _WRONG:
            raise ConfigError(WRONG_TOKEN) from error
        if error.code == "missing_scope":
            raise ConfigError(NO_SCOPE) from error
        raise ConfigError(SOCKETS_OFF.format(code=error.code)) from error
    except DeliveryError as error:
        raise PlatformUnreachableError(str(error)) from error.__cause__


@asynccontextmanager
async def connected(
    app: AsyncApp,
    settings: SlackSettings,
    session: aiohttp.ClientSession,
    *,
    ping_seconds: float = PING_SECONDS,
) -> AsyncIterator[SocketModeClient]:
    """Receive events until the end of the block; a lost connection is opened again."""
    handler = AsyncSocketModeHandler(
        app,
        plain_secret(settings.app_token),
        web_client=app_client(settings, session),
        ping_interval=ping_seconds,
    )
    client = handler.client

    async def request_new_address(*_: object) -> None:
        # Slack accepts an address once and within half a minute; the SDK would retry a failed
        # address forever.
        client.wss_uri = None

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(request_new_address)
    trace.freeze()
    client.aiohttp_client_session.trace_configs.append(trace)
    once = logs.OncePerChange("failed to")
    client.logger.addFilter(once)
    try:
        await handler.connect_async()  # type: ignore[no-untyped-call]
        yield client
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]
        client.logger.removeFilter(once)


async def watch(
    client: SocketModeClient,
    settings: SlackSettings,
    session: aiohttp.ClientSession,
    *,
    seconds: float,
) -> None:
    """Check the connection until cancelled; fail when Slack refuses to open another.

    Args:
        client: The client with the connection.
        settings: Everything under `slack:`.
        session: The HTTP session for the Web API.
        seconds: Interval of the checks.

    Raises:
        ConfigError: Slack opens no connection any more; the text gives the remedy.
    """
    logged = ""
    while True:
        await asyncio.sleep(seconds)
        if await client.is_connected():
            if logged:
                log.info("The connection to Slack is back")
            logged = ""
            logs.connected_again(client.logger)
            continue
        try:
            await ask_for_connection(settings, session)
        except PlatformUnreachableError as error:
            if str(error) != logged:
                logged = str(error)
                log.warning("There is no connection to Slack; it is tried again: %s", error)

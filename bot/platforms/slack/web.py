"""Serves the HTTP transport: Slack posts its payloads, and all other senders are refused.

The size, the duration and the signature of a request are checked before its content is parsed.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import NoReturn

from slack_bolt.adapter.starlette.async_handler import (
    to_async_bolt_request,
    to_starlette_response,
)
from slack_bolt.async_app import AsyncApp, AsyncBoltRequest
from slack_bolt.oauth.async_oauth_flow import AsyncOAuthFlow
from slack_bolt.response import BoltResponse
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from bot.errors import ConfigError
from bot.platforms.slack.oauth import INSTALL_PATH, REDIRECT_PATH
from bot.platforms.slack.serving import Rarely, WebLimits, listen, serving
from bot.platforms.slack.settings import HTTP_NEEDS_SIGNATURES, SlackSettings
from bot.platforms.slack.signatures import SIGNATURE, TIMESTAMP, check

log = logging.getLogger(__name__)

EVENTS_PATH = "/slack/events"
HEALTH_PATH = "/health"

# The signature covers the body only, so no other headers than these are passed on.
_PASSED_ON = ("content-type", "x-slack-retry-num", "x-slack-retry-reason")
_CLOSE = {"Connection": "close"}

# The exceptions of the SDK for malformed bodies.
_ODD = (ValueError, TypeError, AttributeError, LookupError, RecursionError)


@asynccontextmanager
async def listening(
    app: AsyncApp,
    settings: SlackSettings,
    *,
    secret: Callable[[], str],
    oauth: AsyncOAuthFlow | None = None,
    now: Callable[[], float] = time.time,
    limits: WebLimits | None = None,
) -> AsyncIterator[str]:
    """Serve Slack's requests until the end of the block; yields the address http://host:port.

    Args:
        app: Handles events, commands and interactions; it must not check signatures itself.
        settings: Contain the address to listen at.
        secret: Returns the signing secret; called for each request, so that a new secret takes
            effect at once.
        oauth: Installs the bot in workspaces; its two pages are served if it is given.
        now: The time, in seconds since 1970.
        limits: The limits of requests.

    Raises:
        ConfigError: The signing secret is missing, or the address is not available.
    """
    if not secret().strip():
        raise ConfigError(f"{HTTP_NEEDS_SIGNATURES}.")
    limits, rarely = limits or WebLimits(), Rarely(now)
    door = _Door(app, secret=secret, now=now, limits=limits, rarely=rarely)
    web = Starlette(routes=[*_routes(door), *(_install_routes(oauth) if oauth else ())])
    web.router.redirect_slashes = False
    async with serving(web, listen(settings.host, settings.port), limits, rarely) as url:
        yield url


def _routes(door: "_Door") -> list[Route]:
    return [
        Route(EVENTS_PATH, door.take, methods=["POST"]),
        Route(HEALTH_PATH, _health, methods=["GET"]),
    ]


def _install_routes(oauth: AsyncOAuthFlow) -> list[Route]:
    return [
        Route(INSTALL_PATH, _page(oauth.handle_installation), methods=["GET"]),
        Route(REDIRECT_PATH, _page(oauth.handle_callback), methods=["GET"]),
    ]


async def _health(_: Request) -> Response:
    return PlainTextResponse("ok")


def _page(
    show: Callable[[AsyncBoltRequest], Awaitable[BoltResponse]],
) -> Callable[[Request], Awaitable[Response]]:
    async def page(request: Request) -> Response:
        if request.method != "GET":
            # Starlette routes HEAD here too, which would consume an installation's state or code.
            raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET"})
        return to_starlette_response(await show(to_async_bolt_request(request, b"")))

    return page


class _Door:
    """Passes Slack's requests to the app and refuses all others."""

    def __init__(
        self,
        app: AsyncApp,
        *,
        secret: Callable[[], str],
        now: Callable[[], float],
        limits: WebLimits,
        rarely: Rarely,
    ) -> None:
        self._app = app
        self._secret = secret
        self._now = now
        self._limits = limits
        self._rarely = rarely
        self._held = 0

    async def take(self, request: Request) -> Response:
        """Answer one request."""
        try:
            body = await self._read(request)
            self._check(request, body)
            return to_starlette_response(await self._dispatch(request, body))
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)
        except asyncio.CancelledError:
            # Only the server cancels, after its grace period; it would log an exception as a fault.
            return Response(status_code=HTTPStatus.SERVICE_UNAVAILABLE, headers=_CLOSE)

    async def _read(self, request: Request) -> bytes:
        if int(request.headers.get("content-length", "0")) > self._limits.body_bytes:
            self._refuse_large()
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                async for chunk in request.stream():
                    self._make_room(len(body), len(chunk))
                    body += chunk
                    self._held += len(chunk)
        except TimeoutError:
            self._refuse(
                HTTPStatus.REQUEST_TIMEOUT,
                "slow",
                f"A request whose body took over {self._limits.body_seconds:g} s was cut off: "
                "the connection to whoever sent it is slow, or that is on purpose.",
                headers=_CLOSE,
            )
        finally:
            self._held -= len(body)
        return bytes(body)

    def _make_room(self, have: int, more: int) -> None:
        if have + more > self._limits.body_bytes:
            self._refuse_large()
        if self._held + more > self._limits.bodies_bytes:
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "many",
                "A request was turned away, since too many large ones arrive at the same time; "
                "Slack sends its own again.",
                headers=_CLOSE,
            )

    def _refuse_large(self) -> NoReturn:
        self._refuse(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            "large",
            f"A request with a body over {self._limits.body_bytes} bytes was refused: Slack sends "
            "none that large.",
        )

    def _check(self, request: Request, body: bytes) -> None:
        refusal = check(
            request.headers.getlist(TIMESTAMP),
            request.headers.getlist(SIGNATURE),
            body,
            secret=self._secret(),
            now=self._now(),
        )
        if refusal is not None:
            self._refuse(HTTPStatus.UNAUTHORIZED, refusal.reason, refusal.text)

    async def _dispatch(self, request: Request, body: bytes) -> BoltResponse:
        headers = {name: request.headers.get(name, "") for name in _PASSED_ON}
        try:
            # Bolt passes errors of our handlers to `on_error`, so these errors concern the body.
            return await self._app.async_dispatch(
                AsyncBoltRequest(
                    body=body.decode(), headers={name: v for name, v in headers.items() if v}
                )
            )
        except _ODD as error:
            self._refuse(
                HTTPStatus.BAD_REQUEST,
                "unreadable",
                "A request with the right signature could not be read "
                f"({type(error).__name__}): something on the way changes what Slack sends, or "
                "Slack sends something new.",
            )

    def _refuse(
        self, status: HTTPStatus, reason: str, text: str, *, headers: dict[str, str] | None = None
    ) -> NoReturn:
        if self._rarely.may(reason):
            log.warning(text)
        raise HTTPException(status, headers=headers) from None

"""Serves the HTTP transport: Slack posts its payloads, and all other senders are refused.

The size, the duration and the signature of a request are checked before its content is parsed.
"""

import asyncio
import hmac
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import NoReturn

from slack_bolt.adapter.starlette.async_handler import (
    to_async_bolt_request,
    to_starlette_response,
)
from slack_bolt.async_app import AsyncApp, AsyncBoltRequest
from slack_bolt.oauth.async_oauth_flow import AsyncOAuthFlow
from slack_bolt.response import BoltResponse
from slack_sdk.signature import SignatureVerifier
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from bot.errors import ConfigError
from bot.platforms.messaging.intake import Deduplicator
from bot.platforms.slack.oauth import INSTALL_PATH, REDIRECT_PATH
from bot.platforms.slack.settings import HTTP_NEEDS_SIGNATURES, SlackSettings
from bot.web_server import LOG_SECONDS, WebLimits, listen, serve

log = logging.getLogger(__name__)

EVENTS_PATH = "/slack/events"
HEALTH_PATH = "/health"

# The signature covers the body only, so only these headers are forwarded.
_FORWARDED = ("content-type", "x-slack-retry-num", "x-slack-retry-reason")
_CLOSE = {"Connection": "close"}

#: The headers of a request that `check` reads.
TIMESTAMP, SIGNATURE = "X-Slack-Request-Timestamp", "X-Slack-Signature"

#: Most seconds between a request's timestamp and our clock: limits the replay of a stolen request.
MAX_SKEW_SECONDS = 5 * 60

# Not `\d`, which matches the digits of every script.
_TIMESTAMP = re.compile(r"[0-9]{1,15}")
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}")

# The exceptions of the SDK for malformed bodies.
_MALFORMED = (ValueError, TypeError, AttributeError, LookupError, RecursionError)


@asynccontextmanager
async def listening(
    app: AsyncApp,
    settings: SlackSettings,
    *,
    secret: Callable[[], str],
    oauth: AsyncOAuthFlow | None = None,
    now: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
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
        monotonic: A clock in seconds that is never set, for the rate of log messages.
        limits: The limits of requests.

    Raises:
        ConfigError: The signing secret is missing, or the address is not available.
    """
    if not secret().strip():
        raise ConfigError(f"{HTTP_NEEDS_SIGNATURES}.")
    limits, logged = limits or WebLimits(), Deduplicator(monotonic=monotonic)
    events = _EventsEndpoint(app, secret, now, limits, logged)
    routes = [
        Route(EVENTS_PATH, events.handle, methods=["POST"]),
        Route(HEALTH_PATH, PlainTextResponse("ok"), methods=["GET"]),
    ]
    if oauth is not None:
        pages = {INSTALL_PATH: oauth.handle_installation, REDIRECT_PATH: oauth.handle_callback}
        routes += [Route(path, partial(_page, show)) for path, show in pages.items()]
    web = Starlette(routes=routes)
    web.router.redirect_slashes = False
    async with serve(
        web, listen(settings.host, settings.port, section="slack"), limits, logged
    ) as url:
        yield url


async def _page(
    show: Callable[[AsyncBoltRequest], Awaitable[BoltResponse]], request: Request
) -> Response:
    """Return a page of the installation."""
    if request.method != "GET":
        # Starlette routes HEAD here too, which would consume an installation's state or code.
        raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET"})
    return to_starlette_response(await show(to_async_bolt_request(request, b"")))


@dataclass(slots=True)
class _EventsEndpoint:
    """Passes Slack's requests to the app and refuses all others.

    Attributes:
        logged: Limits the rate of equal log messages, so that strangers cannot fill the log.
        buffered: The size of all bodies that are being received, in bytes.
    """

    app: AsyncApp
    secret: Callable[[], str]
    now: Callable[[], float]
    limits: WebLimits
    logged: Deduplicator
    buffered: int = 0

    async def handle(self, request: Request) -> Response:
        """Answer one request."""
        try:
            body = await self._read(request)
            invalid = check_signature(
                request.headers.getlist(TIMESTAMP),
                request.headers.getlist(SIGNATURE),
                body,
                secret=self.secret(),
                now=self.now(),
            )
            if invalid is not None:
                self._refuse(invalid)
            try:
                # Bolt passes errors of our handlers to `on_error`, so these concern the body.
                given = request.headers
                parsed = AsyncBoltRequest(
                    body=body.decode(),
                    headers={name: given[name] for name in _FORWARDED if given.get(name)},
                )
                answer = await self.app.async_dispatch(parsed)
            except _MALFORMED as error:
                text = (
                    "A request with the right signature could not be read "
                    f"({type(error).__name__}): something on the way changes what Slack sends, or "
                    "Slack sends something new."
                )
                self._refuse(Refusal("unreadable", text, HTTPStatus.BAD_REQUEST))
            return to_starlette_response(answer)
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)
        except asyncio.CancelledError:
            # Only the server cancels, after its grace period; it would log an exception as a fault.
            return Response(status_code=HTTPStatus.SERVICE_UNAVAILABLE, headers=_CLOSE)

    async def _read(self, request: Request) -> bytes:
        limits, body = self.limits, bytearray()
        large = Refusal(
            "large",
            f"A request with a body over {limits.body_bytes} bytes was refused: Slack sends none "
            "that large.",
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        )
        if int(request.headers.get("content-length", "0")) > limits.body_bytes:
            self._refuse(large)
        try:
            async with asyncio.timeout(limits.body_seconds):
                async for chunk in request.stream():
                    if len(body) + len(chunk) > limits.body_bytes:
                        self._refuse(large)
                    if self.buffered + len(chunk) > limits.bodies_bytes:
                        self._refuse(_MANY)
                    body += chunk
                    self.buffered += len(chunk)
        except TimeoutError:
            text = (
                f"A request whose body took over {limits.body_seconds:g} s was cut off: the "
                "connection to the sender is slow, or that is on purpose."
            )
            self._refuse(Refusal("slow", text, HTTPStatus.REQUEST_TIMEOUT, close=True))
        finally:
            self.buffered -= len(body)
        return bytes(body)

    def _refuse(self, refusal: "Refusal") -> NoReturn:
        if self.logged.first(refusal.reason, again_after=LOG_SECONDS):
            log.warning(refusal.text)
        raise HTTPException(refusal.status, headers=_CLOSE if refusal.close else None) from None


# --- refused requests ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason for which a request is refused.

    Attributes:
        reason: The kind of the refusal, in one word.
        text: The log message with the remedy; contains nothing from the request.
        status: The status of the answer.
        close: Whether the connection is closed.
    """

    reason: str
    text: str
    status: HTTPStatus = HTTPStatus.UNAUTHORIZED
    close: bool = False


def check_signature(
    timestamps: Sequence[str],
    signatures: Sequence[str],
    body: bytes,
    *,
    secret: str,
    now: float,
) -> Refusal | None:
    """Return the reason for which a request is refused; `None` for a recent request from Slack.

    The SDK computes the signature. Its own check is less strict and gives no reason: it fails with
    an exception for headers that are malformed, accepts timestamps in the digits of every script,
    and sees only one of several headers.

    Args:
        timestamps: All values of the header `TIMESTAMP`.
        signatures: All values of the header `SIGNATURE`.
        body: The raw bytes of the body.
        secret: The signing secret.
        now: The time in seconds since 1970.
    """
    secret = secret.strip()
    if not secret:
        # Anyone can sign with an empty secret.
        return _NO_SECRET
    if not timestamps and not signatures:
        return _UNSIGNED
    if len(timestamps) != 1 or len(signatures) != 1:
        return _MALFORMED_SIGNATURE
    timestamp, signature = timestamps[0], signatures[0]
    if not _TIMESTAMP.fullmatch(timestamp) or not _SIGNATURE.fullmatch(signature):
        return _MALFORMED_SIGNATURE
    try:
        expected = SignatureVerifier(secret).generate_signature(timestamp=timestamp, body=body)
    except UnicodeDecodeError:
        return _MALFORMED_SIGNATURE
    if not expected or not hmac.compare_digest(expected, signature):
        return _WRONG
    ahead = now - int(timestamp)
    if abs(ahead) <= MAX_SKEW_SECONDS:
        return None
    return Refusal(
        "clock",
        "A request of Slack's was refused: the clock of this computer differs from Slack's by "
        f"{abs(ahead):.0f} s ({'ahead' if ahead > 0 else 'behind'}); set it by NTP. If it is "
        "right, an old request was sent again.",
    )


_NO_SECRET = Refusal(
    "secret",
    "Slack's requests are refused, since `slack.signing_secret` is empty: set it to the Signing "
    "Secret on the page Basic Information of api.slack.com/apps.",
)
_UNSIGNED = Refusal(
    "unsigned", "A request without Slack's signature was refused: it does not come from Slack."
)
_MALFORMED_SIGNATURE = Refusal(
    "malformed",
    "A request was refused whose signature is not as Slack writes them: it does not come from "
    "Slack, or something on the way changes its headers.",
)
_WRONG = Refusal(
    "wrong",
    "A request with a wrong signature was refused: it does not come from Slack, or "
    "`slack.signing_secret` is that of another app; compare it with the page Basic Information of "
    "api.slack.com/apps.",
)
_MANY = Refusal(
    "many",
    "A request was turned away, since too many large ones arrive at the same time; Slack sends its "
    "own again.",
    HTTPStatus.SERVICE_UNAVAILABLE,
    close=True,
)

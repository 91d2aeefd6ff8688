"""Classifies errors of requests to Slack by the possible reaction."""

import logging
import tomllib
from collections.abc import Awaitable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.errors import DeliveryError
from bot.platforms.messaging import outlet

log = logging.getLogger(__name__)

BUSY = "Slack limits my requests at the moment; I try again later."
OUT_OF_ORDER = "Slack is out of order; I try again later."
UNREACHABLE = "Slack cannot be reached; I try again later."
SILENT = "The connection to Slack broke before Slack confirmed this message."
REVOKED = (
    "Slack refuses the bot's token: it was revoked, or the bot was removed from that workspace. "
    "The people who run it have to install it again."
)
NOT_INSTALLED = "The bot is not installed in that Slack workspace any more."

_CODES = tomllib.loads(Path(__file__).with_name("problems.toml").read_text(encoding="utf-8"))
ONCE, THREAD_GONE, STILL_THERE, CONTENT, _TOKEN, _LATER, _HALFWAY, _LIMITED = (
    frozenset(_CODES[name])
    for name in (
        *("once", "thread_gone", "still_there", "content"),
        *("token", "later", "halfway", "limited"),
    )
)
#: A sentence for each code of a channel or a user that is unavailable.
CHANNEL_GONE: dict[str, str] = _CODES["channel_gone"]
USER_GONE: dict[str, str] = _CODES["user_gone"]
#: The message is a stream, which has to end before an edit.
STREAMING = "streaming_state_conflict"


class RefusedError(outlet.RefusedError):
    """Raised when Slack refuses a request permanently; a retry cannot help."""

    @property
    def thread_gone(self) -> bool:
        """True if the thread is unavailable but its channel may accept the message."""
        return self.code in THREAD_GONE

    @property
    def place_gone(self) -> bool:
        """True if the place (thread, channel or user) accepts no message at all."""
        return self.thread_gone or self.code in CHANNEL_GONE or self.code in USER_GONE

    @property
    def token_refused(self) -> bool:
        """True if Slack refuses the token, so that the workspace accepts no request."""
        return self.code in _TOKEN


async def made(request: Awaitable[AsyncSlackResponse]) -> AsyncSlackResponse:
    """Return the response to a request.

    Raises:
        RefusedError: Slack refuses the request permanently.
        DeliveryError: The request failed and may succeed later.
    """
    try:
        return await request
    except SlackApiError as error:
        raise _problem_of(error.response) from error
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise DeliveryError(UNREACHABLE) from error
    except (SlackClientError, aiohttp.ClientError, OSError) as error:
        raise DeliveryError(SILENT, fate_unknown=True) from error


def _problem_of(response: Any) -> DeliveryError:
    """Return the delivery error for a response of the SDK or of aiohttp."""
    status = int(getattr(response, "status_code", getattr(response, "status", 0)))
    data = getattr(response, "data", None)
    name = str((data.get("error") if isinstance(data, dict) else None) or "")
    if name in _LIMITED or status == HTTPStatus.TOO_MANY_REQUESTS:
        headers = {str(key).lower(): str(value) for key, value in dict(response.headers).items()}
        seconds = headers.get("retry-after", "")
        wait = float(seconds) if seconds.isdecimal() else 0.0
        return DeliveryError(BUSY, retry_after_seconds=wait)
    if name in _LATER or status == HTTPStatus.SERVICE_UNAVAILABLE:
        return DeliveryError(OUT_OF_ORDER)
    if name in _HALFWAY or status >= HTTPStatus.INTERNAL_SERVER_ERROR or not name:
        if not name and status < HTTPStatus.INTERNAL_SERVER_ERROR:
            log.warning("Slack sent a response without an error code (status %s)", status)
        # Slack may have executed the request before the failure, and a method of `ONCE` is not
        # idempotent.
        url = str(getattr(response, "api_url", "") or getattr(response, "url", ""))
        return DeliveryError(OUT_OF_ORDER, fate_unknown=url.rpartition("/")[2] in ONCE)
    if name in _TOKEN:
        return RefusedError(REVOKED, name)
    if name in THREAD_GONE:
        return RefusedError("That thread is gone.", name)
    known = CHANNEL_GONE.get(name) or USER_GONE.get(name)
    if known is None:
        log.warning("Slack refuses a request: %s", name)
    return RefusedError(
        known or f"Slack does not do this (its error {name}); the log has details.", name
    )

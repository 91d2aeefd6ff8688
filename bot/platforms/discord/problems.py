"""Maps errors of Discord requests to delivery errors: temporary, permanent or of unknown fate."""

import logging
from http import HTTPStatus

import aiohttp
import discord

from bot.errors import DeliveryError
from bot.platforms.messaging.outlet import RefusedError

log = logging.getLogger(__name__)

UNKNOWN_CHANNEL, UNKNOWN_MESSAGE = 10003, 10008
TOO_MANY_EDITS, ARCHIVED = 30046, 50083
THREAD_EXISTS = 160004

BUSY = "Discord limits my requests at the moment; I try again later."
OUT_OF_ORDER = "Discord is out of order; I try again later."
UNREACHABLE = "Discord cannot be reached; I try again later."
SILENT = "The connection to Discord broke before Discord confirmed this message."
TOKEN_REFUSED = "Discord refuses the bot's token: the people who run it have to renew it."  # noqa: S105
NO_PLACE = "There is no such place on Discord."
REFUSED = {
    10003: "That channel or thread is gone.",
    10008: "That message is gone.",
    50001: "The bot may not see that channel: give it the permission View Channel there.",
    50007: "That user accepts no direct messages from the bot.",
    50013: "The bot may not write in that channel: give it the permission Send Messages there.",
    160005: "That thread is locked.",
    200000: "AutoMod of that server does not let this text pass.",
}


def problem_of(error: Exception) -> DeliveryError:
    """Return the delivery error for an exception of a request."""
    match error:
        case discord.RateLimited(retry_after=seconds):
            return DeliveryError(BUSY, retry_after_seconds=seconds)
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return DeliveryError(UNREACHABLE)
        case discord.HTTPException(code=code, status=status):
            if code == TOO_MANY_EDITS:
                return RefusedError(BUSY, code)
            if status == HTTPStatus.TOO_MANY_REQUESTS:
                return DeliveryError(BUSY)
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                return DeliveryError(OUT_OF_ORDER)
            if status == HTTPStatus.UNAUTHORIZED:
                return DeliveryError(TOKEN_REFUSED)
            log.info("Discord refuses a request: %s", error)
            text = f"Discord does not accept this message (its error {code}); the log has details."
            return RefusedError(REFUSED.get(code, text), code)
        case _:
            return DeliveryError(SILENT, fate_unknown=True)

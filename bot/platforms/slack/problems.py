"""Classifies errors of requests to Slack by the possible reaction."""

import logging
from collections.abc import Awaitable
from http import HTTPStatus
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.errors import DeliveryError
from bot.platforms.messaging import outlet

log = logging.getLogger(__name__)

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

BUSY = "Slack limits my requests at the moment; I try again later."
OUT_OF_ORDER = "Slack is out of order; I try again later."
UNREACHABLE = "Slack cannot be reached; I try again later."
SILENT = "The connection to Slack broke before Slack confirmed this message."
REVOKED = (
    "Slack refuses the bot's token: it was revoked, or the bot was removed from that workspace. "
    "The people who run it have to install it again."
)
NOT_INSTALLED = "The bot is not installed in that Slack workspace any more."

#: The thread is unavailable; its channel may still accept messages.
THREAD_GONE = frozenset(
    {
        "thread_not_found",
        "message_not_found",
        "cannot_reply_to_message",
        "invalid_thread_ts",
        "restricted_action_thread_locked",
        "restricted_action_non_threadable_channel",
    }
)
#: The channel is unavailable to the bot; a direct message may still reach the user.
CHANNEL_GONE = {
    "channel_not_found": "That channel is gone, or the bot was removed from it.",
    "channel_is_limited_access": "The bot may not write in that channel.",
    "ekm_access_denied": "The administrators of that workspace have stopped what is written there.",
    "is_archived": "That channel is archived.",
    "is_inactive": "That channel is archived.",
    "messages_tab_disabled": "The bot takes no direct messages: its App Home is switched off.",
    "method_not_supported_for_channel_type": "Slack accepts no such message in that channel.",
    "channel_type_not_supported": "Slack accepts no such message in that channel.",
    "not_in_channel": "The bot is not in that channel: invite it there.",
    "restricted_action": "The rules of that workspace do not let the bot write there.",
    "restricted_action_read_only_channel": "That channel is read-only.",
    "restricted_action_thread_only_channel": "That channel takes replies in threads only.",
    "team_access_not_granted": "The bot has no access to that workspace.",
    "user_not_in_channel": "That user is not in the channel.",
}
USER_GONE = {
    "user_not_found": "There is no such user on Slack.",
    "users_not_found": "There is no such user on Slack.",
    "user_not_visible": "There is no such user on Slack.",
    "user_disabled": "That user's account is deactivated.",
    "cannot_dm_bot": "That is a bot, which takes no direct messages.",
}
#: The message exists and can no longer be edited.
STILL_THERE = frozenset({"cant_update_message", "edit_window_closed", "edit_window_expired"})
#: The message is a stream, which has to end before an edit.
STREAMING = "streaming_state_conflict"
#: Slack refuses the content and may accept it without blocks and Markdown.
CONTENT = frozenset(
    {
        "block_mismatch",
        "invalid_arguments",
        "invalid_blocks",
        "invalid_blocks_format",
        "invalid_markdown_text",
        "markdown_text_conflict",
        "markdown_text_too_long",
        "msg_blocks_too_long",
        "msg_too_long",
        "no_text",
    }
)
_TOKEN = frozenset(
    {
        "account_inactive",
        "app_uninstalled",
        "invalid_auth",
        "not_authed",
        "token_expired",
        "token_revoked",
        "org_login_required",
    }
)
_LATER = frozenset({"accesslimited", "service_unavailable", "team_added_to_org"})
_HALFWAY = frozenset({"fatal_error", "internal_error", "request_timeout"})
_LIMITED = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})


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

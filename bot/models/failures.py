"""Maps failed requests to providers to errors with a text for the user."""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from bot.errors import (
    ContextTooLongError,
    ImagesRefusedError,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
)
from bot.run_texts import counted
from bot.values import utc_now

log = logging.getLogger(__name__)

#: Longest requested wait that is accepted: a provider's daily limit resets at its next day.
LONGEST_WAIT_SECONDS = 86_400.0
#: Characters of a provider's error text that are logged.
LONGEST_NOTE = 600
_THROTTLED = frozenset({429, 503, 529})
_THROTTLED_KINDS = ("overloaded", "ratelimit")

_BUSY = frozenset({408, 409, 425, 429})
_BUSY_KINDS = ("overloaded", "ratelimit", "apierror", "timeout", "servererror", "unavailable")
_SPENT_KINDS = ("billing", "spend_limit", "insufficient_quota", "organization_on_hold")
#: Statuses that refuse the content of a request.
_REFUSALS = frozenset({400, 415, 422})
#: Statuses that some servers send for refused content; they have other meanings as well.
_REFUSALS_OF_SOME = frozenset({404, 500, 501})
_TOO_LONG = (
    "prompt is too long",
    "context_length_exceeded",
    "maximum context length",
    "context size",
    "context window",
    "input length and `max_tokens` exceed",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error response of a provider.

    Attributes:
        provider: The provider's display name.
        setting: The config group of the provider, such as `models.anthropic`.
        model: The requested model.
        status: The HTTP status; 200 for an error inside a stream.
        kind: The provider's error type and error code.
        text: The provider's error text; it is logged and not shown to users.
        retry_after_seconds: The shortest time to wait, if the provider named one.
        images: Whether the request contained images.
    """

    provider: str
    setting: str
    model: str
    status: int
    kind: str = ""
    text: str = ""
    retry_after_seconds: float | None = None
    images: bool = False

    def error(self) -> ModelError:
        """Return the error to raise; the provider's text is logged, or added as a note if busy."""
        error = self._error()
        said = f"{self.provider} answered {self.status} {self.kind} for {self.model}: {self.text}"
        if isinstance(error, ModelUnavailableError):
            _noted(error, said)
        else:
            log.warning("%s", said[:LONGEST_NOTE])
        return error

    def _error(self) -> ModelError:
        status, kind, text = self.status, self.kind.lower().replace("_", ""), self.text.lower()
        too_long = status == 413 or any(each in f"{self.kind} {text}".lower() for each in _TOO_LONG)
        # The text alone is not enough: errors about rate limits mention the billing page too.
        if (
            status == 402
            or any(word in self.kind for word in _SPENT_KINDS)
            or (status == 400 and "credit balance" in text)
        ):
            return ModelRefusedError(
                f"{self.provider} refuses because the account's credit or spend limit is used up. "
                "Ask an admin to raise it."
            )
        # Many servers of text-only models report just an invalid request.
        about_images = status in _REFUSALS or ("image" in text and status in _REFUSALS_OF_SOME)
        if self.images and not too_long and about_images:
            return ImagesRefusedError(
                f"{self.provider} did not accept what you sent: {self.model} may not read images, "
                "or an image is broken or more than 8,000 pixels wide or high. Send it smaller as "
                "PNG or JPEG, or choose another model with `!model NAME`."
            )
        busy = status in _BUSY or status >= 500
        if status == 200:
            busy = not kind or any(word in kind for word in _BUSY_KINDS)
        if busy:
            error = resting(self.provider, self.retry_after_seconds)
            error.throttled = status in _THROTTLED or any(word in kind for word in _THROTTLED_KINDS)
            return error
        if too_long:
            return ContextTooLongError(
                f"This conversation no longer fits {self.model}. Start a new one with `!new`."
            )
        if status in {401, 403}:
            return ModelRefusedError(
                f"{self.provider} does not accept the bot's key. "
                f"An admin must check `{self.setting}.api_key` in the configuration."
            )
        if status == 404:
            return ModelRefusedError(
                f"There is no model {self.model} at {self.provider}. "
                f"An admin must check the model names under `{self.setting}` in the configuration."
            )
        return ModelError(
            f"{self.provider} did not accept the request (status {status}). "
            "An admin finds the reason in the log."
        )


def resting(provider: str, seconds: float | None) -> ModelUnavailableError:
    """Return the error for a provider that is busy, or whose requested pause is not over."""
    when = "in a minute"
    if seconds is not None and seconds <= 120:
        when = f"in {counted(max(1, math.ceil(seconds)), 'second')}"
    elif seconds is not None:
        minutes = math.ceil(seconds / 60)
        when = f"in {minutes} minutes" if minutes < 100 else f"in {math.ceil(minutes / 60)} hours"
    return ModelUnavailableError(
        f"{provider} is busy at the moment. Try again {when}.", retry_after_seconds=seconds
    )


def crowded(provider: str) -> ModelUnavailableError:
    """Return the error for a request held back by the provider's concurrency limit."""
    return ModelUnavailableError(
        f"{provider} takes few requests at the moment. Try again in a minute."
    )


def _noted(error: ModelUnavailableError, note: str) -> ModelUnavailableError:
    """Add a note for the log to the error and return the error."""
    error.add_note(note[:LONGEST_NOTE])
    return error


def unreachable(provider: str, cause: object) -> ModelUnavailableError:
    """Return the error for a connection that failed or broke."""
    text = f"{provider} is out of reach at the moment. Try again in a minute."
    return _noted(ModelUnavailableError(text), repr(cause))


def silent(provider: str, seconds: float) -> ModelUnavailableError:
    """Return the error for an answer that timed out."""
    text = f"{provider} did not answer in time. Try again in a minute."
    return _noted(ModelUnavailableError(text, charged=True), f"nothing came for {seconds:g} s")


def cut_off(provider: str) -> ModelUnavailableError:
    """Return the error for a stream that ended before the answer was complete."""
    error = ModelUnavailableError(f"{provider} broke off its answer. Try again.", charged=True)
    return _noted(error, "the stream ended before the answer was complete")


def unreadable(provider: str, cause: object) -> ModelUnavailableError:
    """Return the error for a malformed answer."""
    text = f"{provider} sent an answer that cannot be read. Try again."
    return _noted(ModelUnavailableError(text, charged=True), repr(cause))


def nested(provider: str) -> ModelError:
    """Return the error for an answer nested too deeply to parse.

    The error is final, since a retry would be charged again.
    """
    log.warning("%s sent an answer that is nested too deeply to be read", provider)
    text = f"{provider} sent an answer that is nested too deeply. Ask in other words."
    return ModelError(text, charged=True)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the wait in seconds that the response headers request, at most a day."""
    given = headers.get("retry-after")
    seconds = _number(headers.get("retry-after-ms"), 1000)
    if seconds is None:
        seconds = _number(given, 1)
    if seconds is None:
        try:
            moment = parsedate_to_datetime(given or "")
        except ValueError:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - utc_now()).total_seconds()
    return min(max(seconds, 0.0), LONGEST_WAIT_SECONDS)


def _number(value: str | None, divisor: float) -> float | None:
    try:
        seconds = float(value or "") / divisor
    except ValueError:
        return None
    return None if math.isnan(seconds) else seconds

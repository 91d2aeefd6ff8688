"""Verifies Slack's request signatures, which cover the raw bytes of the body."""

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass

#: The headers of a request that `check` reads.
TIMESTAMP, SIGNATURE = "X-Slack-Request-Timestamp", "X-Slack-Signature"

#: Most seconds between a request's timestamp and our clock: limits the replay of a stolen request.
MOST_SKEW_SECONDS = 5 * 60

# Not `\d`, which matches the digits of every script.
_TIMESTAMP = re.compile(r"[0-9]{1,15}")
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason for which a request is refused.

    Attributes:
        reason: The kind of the refusal, in one word.
        text: The log message with the remedy; contains nothing from the request.
    """

    reason: str
    text: str


def check(
    timestamps: Sequence[str],
    signatures: Sequence[str],
    body: bytes,
    *,
    secret: str,
    now: float,
) -> Refusal | None:
    """Return the reason for which a request is refused; `None` for a recent request from Slack.

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
        return _MALFORMED
    timestamp, signature = timestamps[0], signatures[0]
    if not _TIMESTAMP.fullmatch(timestamp) or not _SIGNATURE.fullmatch(signature):
        return _MALFORMED
    if not hmac.compare_digest(sign(secret, timestamp, body), signature):
        return _WRONG
    ahead = now - int(timestamp)
    return _skewed(ahead) if abs(ahead) > MOST_SKEW_SECONDS else None


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """Return Slack's signature of a request."""
    signed = b"v0:" + timestamp.encode() + b":" + body
    return "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


_NO_SECRET = Refusal(
    "secret",
    "Slack's requests are refused, since `slack.signing_secret` is empty: set it to the Signing "
    "Secret on the page Basic Information of api.slack.com/apps.",
)
_UNSIGNED = Refusal(
    "unsigned", "A request without Slack's signature was refused: it does not come from Slack."
)
_MALFORMED = Refusal(
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


def _skewed(ahead: float) -> Refusal:
    side = "ahead" if ahead > 0 else "behind"
    return Refusal(
        "clock",
        "A request of Slack's was refused: the clock of this computer differs from Slack's by "
        f"{abs(ahead):.0f} s ({side}); set it by NTP. If it is right, somebody sent an old "
        "request again.",
    )

"""Verifies the signatures of Slack's requests, which cover timestamp and body."""

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass

from slack_sdk.signature import SignatureVerifier

#: The headers of a request that `check` reads.
TIMESTAMP, SIGNATURE = "X-Slack-Request-Timestamp", "X-Slack-Signature"

#: Most seconds between a request's timestamp and our clock: limits the replay of a stolen request.
MAX_SKEW_SECONDS = 5 * 60

# Not `\d`, which matches the digits of every script.
_TIMESTAMP = re.compile(r"[0-9]{1,15}")
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class InvalidSignature:
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
) -> InvalidSignature | None:
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
        return _MALFORMED
    timestamp, signature = timestamps[0], signatures[0]
    if not _TIMESTAMP.fullmatch(timestamp) or not _SIGNATURE.fullmatch(signature):
        return _MALFORMED
    try:
        expected = SignatureVerifier(secret).generate_signature(timestamp=timestamp, body=body)
    except UnicodeDecodeError:
        return _MALFORMED
    if not expected or not hmac.compare_digest(expected, signature):
        return _WRONG
    ahead = now - int(timestamp)
    if abs(ahead) <= MAX_SKEW_SECONDS:
        return None
    return InvalidSignature(
        "clock",
        "A request of Slack's was refused: the clock of this computer differs from Slack's by "
        f"{abs(ahead):.0f} s ({'ahead' if ahead > 0 else 'behind'}); set it by NTP. If it is "
        "right, an old request was sent again.",
    )


_NO_SECRET = InvalidSignature(
    "secret",
    "Slack's requests are refused, since `slack.signing_secret` is empty: set it to the Signing "
    "Secret on the page Basic Information of api.slack.com/apps.",
)
_UNSIGNED = InvalidSignature(
    "unsigned", "A request without Slack's signature was refused: it does not come from Slack."
)
_MALFORMED = InvalidSignature(
    "malformed",
    "A request was refused whose signature is not as Slack writes them: it does not come from "
    "Slack, or something on the way changes its headers.",
)
_WRONG = InvalidSignature(
    "wrong",
    "A request with a wrong signature was refused: it does not come from Slack, or "
    "`slack.signing_secret` is that of another app; compare it with the page Basic Information of "
    "api.slack.com/apps.",
)

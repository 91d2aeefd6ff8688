"""Whether a request comes from Slack: each is signed, over the bytes as they were sent."""

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass

#: The headers of a request that `check` wants to see.
TIMESTAMP, SIGNATURE = "X-Slack-Request-Timestamp", "X-Slack-Signature"

#: How old a request may be, or how far ahead: whoever got hold of one cannot use it for longer.
MOST_SKEW_SECONDS = 5 * 60

# Not `\d`, which takes the digits of every script.
_TIMESTAMP = re.compile(r"[0-9]{1,15}")
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not taken for one of Slack's.

    Attributes:
        reason: The kind, in a word.
        text: For the log: what to do about it; nothing of the request is in it.
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
    """Return why a request is refused; `None` when Slack sent it, and not long ago.

    Args:
        timestamps: Every value of the header `TIMESTAMP`.
        signatures: Every value of the header `SIGNATURE`.
        body: As it was sent, byte by byte.
        secret: What only Slack and we know.
        now: In seconds since 1970.
    """
    secret = secret.strip()
    if not secret:
        # Everybody can sign with an empty secret.
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
    """Return the signature that Slack gives a request."""
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

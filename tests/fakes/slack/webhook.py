"""Events, commands and clicks by HTTP: Slack comes to the app, and signs what it says."""

import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterable
from dataclasses import dataclass, field
from urllib.parse import urlencode

import aiohttp

from bot.values import Json
from tests.fakes.slack.delivery import Attempt, Delivery

SIGNING_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Response:
    """What the app answered."""

    status: int
    text: str
    headers: dict[str, str]


@dataclass(slots=True)
class Webhook:
    """An app at an address.

    Attributes:
        url: Where it listens; empty for nowhere.
        secret: What requests are signed with; set another one to have them refused.
        skew_seconds: How wrong the clock is that the signature is made by.
        unsigned: Send no signature at all.
        responses: Everything that was answered, in order.
    """

    session: aiohttp.ClientSession
    url: str = ""
    secret: str = SIGNING_SECRET
    skew_seconds: float = 0.0
    unsigned: bool = False
    responses: list[Response] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        return bool(self.url)

    async def carry(self, delivery: Delivery, attempt: Attempt, *, everywhere: bool) -> None:
        """Post it; anything but a success has failed."""
        del everywhere
        content_type, body = _body(delivery)
        headers = {}
        if attempt.number:
            headers["X-Slack-Retry-Num"] = str(attempt.number)
            headers["X-Slack-Retry-Reason"] = attempt.reason
        try:
            response = await self.post(body, content_type, headers=headers)
        except (aiohttp.ClientError, ConnectionError):
            attempt.fail("connection_failed")
            return
        attempt.status = response.status
        attempt.no_retry = response.headers.get("X-Slack-No-Retry") == "1"
        if 200 <= response.status < 300:
            attempt.acknowledge(_document(response))
        else:
            attempt.fail("http_error")

    async def post(
        self,
        body: bytes,
        content_type: str = _JSON,
        *,
        headers: dict[str, str] | None = None,
        timestamp: str | None = None,
        signature: str | None = None,
        pieces: AsyncIterable[bytes] | None = None,
    ) -> Response:
        """Post bytes as they are, signed unless a signature is given.

        Args:
            body: What is signed, and sent.
            content_type: Of the body.
            headers: Further ones.
            timestamp: What the request claims; by default now, or as wrong as the clock is.
            signature: What the request claims; by default the right one.
            pieces: Sent instead of the body, at their own pace.
        """
        if timestamp is None:
            timestamp = str(int(time.time() + self.skew_seconds))
        if signature is None:
            signature = sign(self.secret, timestamp, body)
        given = {"Content-Type": content_type, "User-Agent": "Slackbot 1.0"}
        if not self.unsigned:
            given |= {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": signature}
        given |= headers or {}
        async with self.session.post(self.url, data=pieces or body, headers=given) as answer:
            response = Response(answer.status, await answer.text(), dict(answer.headers))
        self.responses.append(response)
        return response

    async def verify(self) -> Response:
        """Ask whether the address is the app's, as Slack does when it is entered."""
        body = {"token": "t", "challenge": "a challenge", "type": "url_verification"}
        return await self.post(json.dumps(body).encode())


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a request."""
    base = f"v0:{timestamp}:".encode() + body
    return "v0=" + hmac.new(secret.encode(), base, hashlib.sha256).hexdigest()


def _body(delivery: Delivery) -> tuple[str, bytes]:
    match delivery.kind:
        case "events_api":
            return _JSON, json.dumps(delivery.payload).encode()
        case "slash_commands":
            return _FORM, urlencode(delivery.payload).encode()
        case "interactive":
            return _FORM, urlencode({"payload": json.dumps(delivery.payload)}).encode()


def _document(response: Response) -> Json:
    try:
        document = json.loads(response.text)
    except ValueError:
        return {"text": response.text} if response.text else {}
    return document if isinstance(document, dict) else {"text": response.text}

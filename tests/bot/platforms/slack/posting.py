"""What the tests of the HTTP transport share: an app that records, and clients of any manners."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlencode

import aiohttp
from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.oauth.async_oauth_flow import AsyncOAuthFlow
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse

from bot.platforms.slack.settings import SlackSettings
from bot.platforms.slack.web import listening
from bot.values import Json
from bot.web_server import WebLimits
from tests.fakes.slack.webhook import SIGNING_SECRET, Webhook, sign

PATIENCE = 10.0
FORM = "application/x-www-form-urlencoded"


def settings(host: str = "127.0.0.1", port: int = 0) -> SlackSettings:
    return SlackSettings.model_validate({"host": host, "port": port})


def event(text: str = "hello", **more: object) -> bytes:
    inner = {"type": "app_mention", "user": "U1", "text": text, "ts": "1.2", "channel": "C1"}
    body = {"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": inner}
    return json.dumps(body | more).encode()


def command(text: str = "list") -> bytes:
    return urlencode(
        {"command": "/retinue", "text": text, "team_id": "T1", "user_id": "U1"}
    ).encode()


def click(action: str = "run:stop") -> bytes:
    payload = {
        "type": "block_actions",
        "team": {"id": "T1"},
        "user": {"id": "U1"},
        "actions": [{"type": "button", "action_id": action, "block_id": "b", "value": "7"}],
    }
    return urlencode({"payload": json.dumps(payload)}).encode()


async def authorize() -> AuthorizeResult:
    return AuthorizeResult(
        enterprise_id=None, team_id="T1", bot_token="xoxb-1", bot_user_id="UB", bot_id="B1"
    )


@dataclass(eq=False, slots=True)
class Recorder:
    """A real app of Bolt's that keeps what it hears.

    Attributes:
        requests: How many got as far as Bolt, heard or not.
        gate: While it is closed, requests stay under way.
    """

    requests: int = 0
    heard: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    app: AsyncApp = field(init=False)

    def __post_init__(self) -> None:
        self.gate.set()
        self.app = AsyncApp(
            name=__name__,
            authorize=authorize,
            request_verification_enabled=False,
            process_before_response=True,
        )
        self.app.use(self._count)
        self.app.event("app_mention")(self._mention)
        self.app.command("/retinue")(self._command)
        self.app.action("run:stop")(self._click)

    async def _count(self, next: object) -> None:  # noqa: A002  # Bolt goes by the name.
        self.requests += 1
        assert callable(next)
        await next()

    async def _mention(self, event: Json) -> None:
        await self.heard.put(str(event["text"]))
        await self.gate.wait()

    async def _command(self, ack: AsyncAck, command: Json) -> None:
        await self.heard.put(f"{command['command']} {command['text']}")
        await ack("wait for it")

    async def _click(self, ack: AsyncAck, action: Json) -> None:
        await self.heard.put(f"{action['action_id']} {action['value']}")
        await ack()

    async def next(self) -> str:
        """Return what is heard next."""
        async with asyncio.timeout(PATIENCE):
            return await self.heard.get()


@dataclass(eq=False, slots=True)
class Served:
    """A recorder where Slack reaches it.

    Attributes:
        secret: The signing secret as we know it.
        skew_seconds: How wrong our clock is.
    """

    recorder: Recorder
    hook: Webhook
    url: str = ""
    secret: str = SIGNING_SECRET
    skew_seconds: float = 0.0

    def now(self) -> float:
        return time.time() + self.skew_seconds

    async def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        """Ask for a page, and do not follow where it points."""
        async with self.hook.session.request(
            method, f"{self.url}{path}", allow_redirects=False
        ) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def served(
    limits: WebLimits | None = None, *, oauth: AsyncOAuthFlow | None = None
) -> AsyncIterator[Served]:
    """Serve a recorder for as long as the block lasts."""
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        found = Served(Recorder(), Webhook(session))
        async with listening(
            found.recorder.app,
            settings(),
            secret=lambda: found.secret,
            oauth=oauth,
            now=found.now,
            monotonic=found.now,
            limits=limits,
        ) as url:
            found.url = url
            found.hook.url = f"{url}/slack/events"
            yield found


class Pages(AsyncOAuthFlow):
    """The two pages of an installation, without anything behind them."""

    def __init__(self, text: str = "Add to Slack") -> None:
        self.seen: list[str] = []
        self._text = text

    async def handle_installation(self, request: AsyncBoltRequest) -> BoltResponse:
        self.seen.append("install")
        headers: dict[str, str | Sequence[str]] = {"Set-Cookie": "slack-app-oauth-state=s"}
        return BoltResponse(status=200, body=self._text, headers=headers)

    async def handle_callback(self, request: AsyncBoltRequest) -> BoltResponse:
        self.seen.append(f"callback {request.query}")
        return BoltResponse(status=200, body="Thank you")


class Line:
    """A connection on which a test says byte by byte what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def say(self, text: bytes) -> None:
        self._writer.write(text)
        await self._writer.drain()

    async def answer(self) -> str:
        """Return the next head of an answer."""
        async with asyncio.timeout(PATIENCE):
            head = await self._reader.readuntil(b"\r\n\r\n")
        return head.decode()

    async def ended(self) -> bytes:
        """Return all that comes until the other side hangs up."""
        came = b""
        # In pieces: whoever reads all at once loses what came before a connection is reset.
        with suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE):
                while piece := await self._reader.read(65_536):
                    came += piece
        return came


@asynccontextmanager
async def line(url: str) -> AsyncIterator[Line]:
    """Open a connection."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Line(reader, writer)
    finally:
        writer.transport.abort()


def head(*headers: str, length: int | None = None, body: bytes = b"") -> bytes:
    """Return the head of a request with a right signature over `body`."""
    stamp = str(int(time.time()))
    lines = [
        "POST /slack/events HTTP/1.1",
        "Host: bot.example",
        "Content-Type: application/json",
        f"X-Slack-Request-Timestamp: {stamp}",
        f"X-Slack-Signature: {sign(SIGNING_SECRET, stamp, body)}",
        *headers,
    ]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode()

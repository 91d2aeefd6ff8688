"""Socket Mode: the app comes to Slack, over WebSockets that Slack closes now and then."""

import itertools
import json
import uuid
from dataclasses import dataclass, field

from aiohttp import ClientError, WSMsgType, web

from bot.values import Json
from tests.fakes.patience import Pulse
from tests.fakes.slack.delivery import Attempt, Delivery
from tests.fakes.slack.shapes import APP_ID, SlackError

APP_TOKEN = "xapp-1-A0FAKEAPP-1-the-token-of-the-app"
MAX_SOCKETS = 10


@dataclass(eq=False, slots=True)
class Socket:
    """One connection of an app.

    Attributes:
        waiting: What was sent over it and not acknowledged yet, by envelope.
        got: How many envelopes went over it.
    """

    link: web.WebSocketResponse
    request: web.Request
    waiting: dict[str, Attempt] = field(default_factory=dict)
    got: int = 0

    async def send(self, delivery: Delivery, attempt: Attempt) -> None:
        """Send an envelope; what cannot be sent has failed."""
        id_ = str(uuid.uuid4())
        envelope: Json = {
            "envelope_id": id_,
            "payload": delivery.payload,
            "type": delivery.kind,
            "accepts_response_payload": delivery.kind != "events_api",
        }
        if delivery.kind == "events_api":
            # There at the first attempt already, as zero and nothing.
            envelope |= {"retry_attempt": attempt.number, "retry_reason": attempt.reason}
        self.waiting[id_] = attempt
        self.got += 1
        try:
            await self.link.send_str(json.dumps(envelope))
        except (ConnectionError, ClientError):
            attempt.fail("connection_failed")


class Sockets:
    """All connections.

    Attributes:
        open: Those that stand, oldest first.
        connections: How many there have been.
    """

    def __init__(self, pulse: Pulse) -> None:
        self.open: list[Socket] = []
        self.connections = 0
        self.base = ""
        self._tickets: set[str] = set()
        self._turn = itertools.count()
        self._pulse = pulse

    @property
    def ready(self) -> bool:
        return bool(self.open)

    def ticket(self, request: web.Request, _: Json) -> Json:
        """Answer `apps.connections.open`."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token:
            raise SlackError("not_authed")
        if token != APP_TOKEN:
            known = token.startswith("xoxb-")
            raise SlackError("not_allowed_token_type" if known else "invalid_auth")
        ticket = uuid.uuid4().hex
        self._tickets.add(ticket)
        address = self.base.replace("http://", "ws://")
        return {"url": f"{address}/link/?ticket={ticket}&app_id={APP_ID}"}

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        """Take a connection for as long as it stands."""
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            raise web.HTTPUnauthorized
        self._tickets.remove(ticket)
        link = web.WebSocketResponse()
        await link.prepare(request)
        if len(self.open) >= MAX_SOCKETS:
            await link.send_json({"type": "disconnect", "reason": "too_many_websockets"})
            await link.close()
            return link
        socket = Socket(link, request)
        await link.send_json(self._hello())
        self.open.append(socket)
        self.connections += 1
        self._pulse.beat()
        try:
            async for message in link:
                if message.type == WSMsgType.TEXT:
                    self._hear(socket, message.json())
        finally:
            self._forget(socket)
        return link

    def _hello(self) -> Json:
        return {
            "type": "hello",
            "num_connections": len(self.open) + 1,
            "debug_info": {"host": "applink-fake", "approximate_connection_time": 18060},
            "connection_info": {"app_id": APP_ID},
        }

    def _hear(self, socket: Socket, message: Json) -> None:
        attempt = socket.waiting.pop(str(message.get("envelope_id")), None)
        if attempt is not None:
            attempt.acknowledge(message.get("payload"))
            self._pulse.beat()

    def _forget(self, socket: Socket) -> None:
        if socket in self.open:
            self.open.remove(socket)
        for attempt in socket.waiting.values():
            attempt.fail("connection_failed")
        self._pulse.beat()

    async def carry(self, delivery: Delivery, attempt: Attempt, *, everywhere: bool) -> None:
        """Send it over one of the connections, each in turn, or over all."""
        if not self.open:
            attempt.fail("connection_failed")
            return
        one = self.open[next(self._turn) % len(self.open)]
        for socket in list(self.open) if everywhere else [one]:
            await socket.send(delivery, attempt)

    async def refresh(self, reason: str = "refresh_requested") -> None:
        """Ask the app to come again over a new connection, and close the old ones when it has."""
        old, before = list(self.open), self.connections
        for socket in old:
            await socket.link.send_json(
                {"type": "disconnect", "reason": reason, "debug_info": {"host": "applink-fake"}}
            )
        await self._pulse.until(
            lambda: self.connections - before >= len(old) and self.open, "a new socket"
        )
        for socket in old:
            await socket.link.close()

    def drop(self) -> None:
        """Break every connection without a word."""
        for socket in list(self.open):
            if socket.request.transport is not None:
                socket.request.transport.abort()
            self._forget(socket)

    async def close(self) -> None:
        """Close what stands."""
        for socket in list(self.open):
            await socket.link.close()

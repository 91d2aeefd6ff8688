"""What the fake model providers share: scripted replies, faults, and what was asked of them."""

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self

from aiohttp import web

from bot.agent.messages import Usage
from bot.values import Json

KEY = "sk-fake-key-of-the-tests"
USUAL = Usage(100, 20)
_NESTED = b'{"id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the fake model makes; a text as arguments goes out as it is, JSON or not."""

    name: str
    arguments: Json | str = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the fake model answers to one request.

    Attributes:
        blocks: Whole content blocks, instead of text and calls (Anthropic only).
        stop: The stop reason in the provider's words; `None` follows from the calls.
        usage: `None` leaves it out.
        model: The model that says it answered; empty for the one that was asked.
        status: An HTTP error when it is not 200; `kind` and `text` then say which.
        fault: What happens to the answer, after so many events of it (0 before the first): an
            error event, the connection is torn down, nothing more comes, it just ends, it is no
            JSON, or JSON that is nested beyond reading. A whole answer knows `drop`, `hang`,
            `garbage` and `nested`.
        details: Further fields of the whole answer.
        gap_seconds: The time between two events of a stream.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    blocks: tuple[Json, ...] | None = None
    stop: str | None = None
    usage: Usage | None = USUAL
    model: str = ""
    status: int = 200
    kind: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    fault: Literal["", "error", "drop", "hang", "end", "garbage", "nested"] = ""
    after_events: int = 0
    details: Json = field(default_factory=dict)
    gap_seconds: float = 0.0
    latency_seconds: float = 0.0


#: Gives the reply to the body of a request.
Script = Callable[[Json], Reply]


def in_order(*replies: Reply) -> Script:
    """Answer the first request with the first reply, and so on; the last one repeats."""
    left = list(replies)

    def script(_: Json) -> Reply:
        return left.pop(0) if len(left) > 1 else left[0]

    return script


def per_conversation(replies: dict[str, Iterable[Reply]]) -> Script:
    """Answer each conversation in its own order: the one whose request holds the word.

    Words are tried in the order given; the empty word fits every conversation.
    """
    scripts = {word: in_order(*given) for word, given in replies.items()}

    def script(body: Json) -> Reply:
        said = json.dumps(body, ensure_ascii=False)
        return next(script for word, script in scripts.items() if word in said)(body)

    return script


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that the fake received."""

    body: Json
    headers: dict[str, str]


class Dialect(Protocol):
    """How one provider writes what happens.

    Attributes:
        no_model: What it calls a model that it does not have.
    """

    path: str
    no_model: str

    def refusal_of_key(self) -> Reply:
        """Return the answer to a wrong key."""
        ...

    def problem(self, body: Json) -> str:
        """Return what the real API would find wrong with a request; empty for nothing."""
        ...

    def whole(self, reply: Reply, body: Json) -> Json:
        """Return the answer as one document."""
        ...

    def events(self, reply: Reply, body: Json) -> list[bytes]:
        """Return the answer as the events of a stream."""
        ...

    def error(self, reply: Reply) -> Json:
        """Return the document of an error."""
        ...

    def error_event(self, reply: Reply) -> bytes:
        """Return an error as an event of a stream."""
        ...


class ModelServer:
    """A model provider on a port of this machine.

    Attributes:
        requests: What was asked so far.
        disconnected: Set when a client went away before its answer was complete.
        go: Set it to let a reply with the fault `hang` go on.
        known: The models that it describes; `None` for a server that describes none.
        count: Counts the input tokens of a request; `None` for a server that does not.
        counted: The number of requests that it counted.
    """

    def __init__(
        self,
        dialect: Dialect,
        script: Script,
        *,
        port: int = 0,
        strict: bool = True,
        record: bool = True,
    ) -> None:
        self.url = ""
        self.requests: list[Asked] = []
        self.disconnected = asyncio.Event()
        self.go = asyncio.Event()
        self.script = script
        self.known: frozenset[str] | None = None
        self.count: Callable[[Json], int] | None = None
        self.counted = 0
        self._dialect = dialect
        self._port = port
        self._strict = strict
        self._record = record
        self._arrived = asyncio.Event()
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post(dialect.path, self._handle)
        app.router.add_post(f"{dialect.path}/count_tokens", self._count)
        app.router.add_get("/v1/models/{name}", self._describe)
        self._runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1
        )

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=1024).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def received(self, count: int = 1) -> None:
        """Wait until so many requests have come."""
        while len(self.requests) < count:
            self._arrived.clear()
            await self._arrived.wait()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body: Json = json.loads(await request.read())
        if self._record:
            self.requests.append(Asked(body, dict(request.headers)))
            self._arrived.set()
        try:
            return await self._answer(request, self._reply(request, body), body)
        except asyncio.CancelledError:
            self.disconnected.set()
            raise

    async def _count(self, request: web.Request) -> web.Response:
        if self.count is None:
            return web.json_response({"detail": "Not Found"}, status=404)
        self.counted += 1
        return web.json_response({"input_tokens": self.count(await request.json())})

    async def _describe(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if self.known is None:
            return web.json_response({"detail": "Not Found"}, status=404)
        reply = Reply(status=404, kind=self._dialect.no_model, text=f"model: {name}")
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            reply = self._dialect.refusal_of_key()
        elif name in self.known:
            return web.json_response({"id": name})
        return web.json_response(self._dialect.error(reply), status=reply.status)

    def _reply(self, request: web.Request, body: Json) -> Reply:
        if self._strict:
            if request.headers.get("Authorization") != f"Bearer {KEY}":
                return self._dialect.refusal_of_key()
            if problem := self._dialect.problem(body):
                return Reply(status=400, kind="invalid_request_error", text=problem)
        return self.script(body)

    async def _answer(self, request: web.Request, reply: Reply, body: Json) -> web.StreamResponse:
        if reply.latency_seconds:
            await asyncio.sleep(reply.latency_seconds)
        if reply.status != 200:
            return web.json_response(
                self._dialect.error(reply), status=reply.status, headers=reply.headers
            )
        if body.get("stream"):
            return await self._stream(request, reply, body)
        await self._misbehave(request, reply)
        if reply.fault == "garbage":
            return web.Response(text="<html>Bad gateway</html>", content_type="text/html")
        if reply.fault == "nested":
            return web.Response(body=_NESTED, content_type="application/json")
        document = self._dialect.whole(reply, body) | reply.details
        return web.Response(body=json.dumps(document).encode(), content_type="application/json")

    async def _stream(self, request: web.Request, reply: Reply, body: Json) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number, event in enumerate(self._dialect.events(reply, body)):
            if reply.fault and number == reply.after_events:
                if reply.fault == "error":
                    await response.write(self._dialect.error_event(reply))
                    return response
                if reply.fault == "end":
                    return response
                if reply.fault == "garbage":
                    await response.write(event.replace(b"{", b"["))
                    return response
                if reply.fault == "nested":
                    await response.write(event.partition(b"{")[0] + _NESTED + b"\n\n")
                    return response
                await self._misbehave(request, reply)
            await response.write(event)
            if reply.gap_seconds:
                await asyncio.sleep(reply.gap_seconds)
        return response

    async def _misbehave(self, request: web.Request, reply: Reply) -> None:
        if reply.fault == "hang":
            await self.go.wait()
        if reply.fault == "drop" and request.transport is not None:
            request.transport.abort()


def minimal_arguments(schema: Json) -> Json:
    """Return the least arguments that a tool's schema accepts."""
    properties = schema.get("properties", {})
    return {name: _least(properties.get(name, {})) for name in schema.get("required", ())}


def _least(schema: Json) -> object:
    if "enum" in schema:
        return schema["enum"][0]
    least: dict[str, object] = {
        "integer": schema.get("minimum", 1),
        "number": schema.get("minimum", 1),
        "boolean": False,
        "array": [],
    }
    if schema.get("type") == "object":
        return minimal_arguments(schema)
    return least.get(schema.get("type", ""), "something")


def _numbered(arguments: Json, number: int) -> Json:
    """Return the arguments a little different each time: a run that repeats itself is stopped."""
    return {
        name: f"{value} {number}" if isinstance(value, str) else value
        for name, value in arguments.items()
    }


def working(body: Json, *, done: int, steps: int = 5) -> Reply:
    """Reply for load tests: the first tool, so many times, and then a final text."""
    tools = body.get("tools") or []
    choice = body.get("tool_choice")
    forbidden = choice in ("none", {"type": "none"})
    if done >= steps or not tools or forbidden:
        return Reply(text=f"Done after {done} calls. " + "All of it went well. " * 10)
    tool = tools[0].get("function", tools[0])
    schema = tool.get("input_schema") or tool.get("parameters") or {}
    return Reply(
        text="Next step.", calls=(Call(tool["name"], _numbered(minimal_arguments(schema), done)),)
    )

"""Claude on Bedrock and Vertex: the addresses, the keys and the formats that these clouds have."""

import base64
import json
import struct
import zlib
from dataclasses import dataclass, field
from typing import Self

from aiohttp import web

from bot.values import Json
from tests.fakes.anthropic_server import AnthropicDialect, problem_with
from tests.fakes.model_server import KEY, Asked, Reply, Script


@dataclass
class FakeClouds:
    """Both clouds on a port of this machine.

    Attributes:
        script: Returns the reply to the body of a request.
        requests: The requests so far; each body has the model and the address of its URL.
    """

    script: Script
    requests: list[Asked] = field(default_factory=list)
    url: str = ""
    _dialect: AnthropicDialect = field(default_factory=AnthropicDialect)

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/model/{model}/invoke", self._bedrock)
        app.router.add_post("/model/{model}/invoke-with-response-stream", self._bedrock)
        path = "/v1/projects/{project}/locations/{region}/publishers/anthropic/models/{model}"
        app.router.add_post(f"{path}:rawPredict", self._vertex)
        app.router.add_post(f"{path}:streamRawPredict", self._vertex)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _body(self, request: web.Request, *, signed: bool) -> Json:
        body: Json = json.loads(await request.read())
        self.requests.append(Asked(body | dict(request.match_info), dict(request.headers)))
        given = request.headers.get("Authorization", "")
        allowed = given == f"Bearer {KEY}" or (signed and given.startswith("AWS4-HMAC-SHA256 "))
        problem = "" if body.pop("anthropic_version", "") else "anthropic_version"
        problem = problem or ("cache_control" if "cache_control" in body else problem_with(body))
        body["model"] = request.match_info["model"]
        body["reply"] = self.script(body)
        if not allowed:
            body["reply"] = Reply(status=403, kind="permission_error", text="The token is invalid.")
        elif problem:
            body["reply"] = Reply(status=400, kind="invalid_request_error", text=problem)
        return body

    async def _bedrock(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request, signed=True)
        reply: Reply = body.pop("reply")
        if reply.status != 200:
            return web.json_response({"message": reply.text}, status=reply.status)
        if not request.path.endswith("stream"):
            return web.json_response(self._dialect.whole(reply, body))
        answer = web.StreamResponse(headers={"Content-Type": "application/vnd.amazon.eventstream"})
        await answer.prepare(request)
        for event in self._dialect.events(reply, body):
            data = event.partition(b"data: ")[2].strip()
            chunk = json.dumps({"bytes": base64.b64encode(data).decode()}).encode()
            await answer.write(frame("chunk", chunk))
        return answer

    async def _vertex(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request, signed=False)
        reply: Reply = body.pop("reply")
        if reply.status != 200:
            return web.json_response(self._dialect.error(reply), status=reply.status)
        if not request.path.endswith(":streamRawPredict"):
            return web.json_response(self._dialect.whole(reply, body))
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for event in self._dialect.events(reply, body):
            await answer.write(event)
        return answer


def frame(kind: str, payload: bytes) -> bytes:
    """Return an event in the binary format of AWS: lengths, headers, payload and checksums."""
    headers = b"".join(
        bytes([len(name)])
        + name.encode()
        + b"\x07"
        + struct.pack(">H", len(value))
        + value.encode()
        for name, value in (
            (":event-type", kind),
            (":content-type", "application/json"),
            (":message-type", "event"),
        )
    )
    start = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    start += struct.pack(">I", zlib.crc32(start))
    whole = start + headers + payload
    return whole + struct.pack(">I", zlib.crc32(whole))

"""A fake model server for load, in a process of its own: `python -m bench.server`.

It answers in Anthropic's form, and at `/v1/chat/completions` in OpenAI's, without streaming there.

It speaks just enough HTTP to cost almost nothing beside what is measured. The first five answers of
a run call the tool `look_up`, each with another word; the sixth is text that tells when its request
came and when it was sent, in nanoseconds of the clock that all processes share.
"""

import argparse
import asyncio
import json
import sys
import time
from typing import Any

TOOL_CALLS = 5
CALLS = TOOL_CALLS + 1
INPUT_TOKENS, OUTPUT_TOKENS = 900, 60

_USAGE = {
    "input_tokens": INPUT_TOKENS,
    "output_tokens": OUTPUT_TOKENS,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 0,
}
_REPORT = "Here is the report: all words were found, and each means what it says. " * 4


class Gate:
    """Holds the first call of every run, so that runs go on together once all are there."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._held = 0
        self._awaited: list[tuple[int, asyncio.Event]] = []

    def close(self) -> None:
        """Hold from now on."""
        self._held = 0
        self._open.clear()

    def open(self) -> None:
        """Let all go on."""
        self._open.set()

    @property
    def closed(self) -> bool:
        """Whether calls are held."""
        return not self._open.is_set()

    async def wait(self) -> None:
        """Wait here until the gate opens."""
        self._held += 1
        for count, full in self._awaited:
            if self._held >= count:
                full.set()
        await self._open.wait()

    async def full(self, count: int) -> None:
        """Wait until so many are held."""
        full = asyncio.Event()
        if self._held < count:
            self._awaited.append((count, full))
            await full.wait()


class Service:
    """Answers requests; the same for all connections."""

    def __init__(self, latency_seconds: float) -> None:
        self.gate = Gate()
        self.latency_seconds = latency_seconds
        self._number = 0
        self._newest = b"{}"

    async def answer(self, path: str, body: bytes) -> tuple[str, bytes]:
        """Return content type and body of the answer to a request."""
        if path.startswith("/v1/"):
            return await self._model(body, openai=path.startswith("/v1/chat"))
        return "application/json", await self._control(path)

    async def _control(self, path: str) -> bytes:
        _, command, value = path.split("/")
        match command:
            case "hold":
                self.gate.close()
            case "full":
                await self.gate.full(int(value))
            case "go":
                self.gate.open()
            case "latency":
                self.latency_seconds = float(value)
            case "newest":
                return self._newest
        return b"{}"

    async def _model(self, body: bytes, *, openai: bool) -> tuple[str, bytes]:
        received = time.monotonic_ns()
        # Counting bytes is far cheaper than parsing, and a quote inside a text would be escaped.
        step = body.count(b'"tool_call_id"' if openai else b'"tool_result"')
        if self.gate.closed and step == 0:
            await self.gate.wait()
        elif self.latency_seconds:
            await asyncio.sleep(self.latency_seconds)
        streamed = b'"stream":true' in body or b'"stream": true' in body
        self._number += 1
        self._newest = body
        # A turn answers at once; a run calls its tools first.
        whole = step >= TOOL_CALLS or b"You are a subagent" not in body
        message = _message(self._number, step, received, whole=whole)
        if openai:
            message = _completion(message)
        elif streamed:
            return "text/event-stream", _events(message)
        return "application/json", json.dumps(message).encode()


def _message(number: int, step: int, received: int, *, whole: bool) -> dict[str, Any]:
    content: list[dict[str, Any]]
    if whole:
        text = f"{_REPORT} received={received} sent={time.monotonic_ns()}"
        content = [{"type": "text", "text": text}]
    else:
        call = {"id": f"toolu_{number}", "name": "look_up", "input": {"word": f"word {step}"}}
        content = [{"type": "text", "text": "I look this up."}, {"type": "tool_use", **call}]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-5-5",
        "content": content,
        "stop_reason": "end_turn" if whole else "tool_use",
        "stop_sequence": None,
        "usage": _USAGE,
    }


def _completion(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message in OpenAI's form."""
    text, *calls = message["content"]
    asked = [
        {
            "id": each["id"],
            "type": "function",
            "function": {"name": each["name"], "arguments": json.dumps(each["input"])},
        }
        for each in calls
    ]
    answer = {
        "role": "assistant",
        "content": text["text"],
        **({"tool_calls": asked} if asked else {}),
    }
    reason = "tool_calls" if asked else "stop"
    return {
        "id": message["id"],
        "object": "chat.completion",
        "created": int(time.time()),
        "model": message["model"],
        "choices": [{"index": 0, "finish_reason": reason, "message": answer}],
        "usage": {
            "prompt_tokens": INPUT_TOKENS,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
    }


def _events(message: dict[str, Any]) -> bytes:
    start = {**message, "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(message["content"]):
        empty: dict[str, Any]
        if block["type"] == "text":
            empty, delta = {"text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            given = json.dumps(block["input"])
            empty, delta = {"input": {}}, {"type": "input_json_delta", "partial_json": given}
        begun = {**block, **empty}
        events += [
            {"type": "content_block_start", "index": index, "content_block": begun},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events += [
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": OUTPUT_TOKENS}},
        {"type": "message_stop"},
    ]
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )


class Connection(asyncio.Protocol):
    """One kept-alive connection, one request at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop answering who went away."""
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer the request once all of it has come."""
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end]
        length = _length(head)
        if len(self._buffer) < end + 4 + length:
            return
        body = self._buffer[end + 4 : end + 4 + length]
        self._buffer = self._buffer[end + 4 + length :]
        path = head.split(b" ", 2)[1].decode()
        self._task = asyncio.ensure_future(self._answer(path, body))

    async def _answer(self, path: str, body: bytes) -> None:
        kind, content = await self._service.answer(path, body)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
        if self._transport is not None:
            self._transport.write(head.encode() + content)


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        if line[:15].lower() == b"content-length:":
            return int(line[15:])
    return 0


async def serve(latency_seconds: float) -> None:
    """Serve until standard input ends, as it does with whoever started this process.

    The first line of the output is the address.
    """
    service = Service(latency_seconds)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(service), "127.0.0.1", 0, backlog=4096)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    over = asyncio.Event()
    loop.add_reader(sys.stdin, over.set)
    await over.wait()
    server.close()


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency-ms", type=float, default=0.0)
    asyncio.run(serve(parser.parse_args().latency_ms / 1000))


if __name__ == "__main__":
    main()

"""A fake Anthropic Messages API: scripted, strict about what the real one refuses.

`python -m tests.fakes.anthropic_server --port 9000 --latency-ms 200 --script bench` serves load
tests from a process of its own.
"""

import argparse
import asyncio
import base64
import itertools
import json
import sys
from dataclasses import replace

from bot.values import Json
from tests.fakes.model_server import KEY, Call, ModelServer, Reply, Script, working

__all__ = ["KEY", "Call", "FakeAnthropic", "Reply", "bench"]

BEGINNINGS = {
    "image/png": b"\x89PNG",
    "image/jpeg": b"\xff\xd8",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
#: The tools that the provider itself runs, by their kind.
SERVER_TOOLS = {"web_search_20250305": "web_search", "web_search_20260318": "web_search"}
#: It is the base64 that is measured.
MOST_OF_AN_IMAGE = 5 * 1024 * 1024


class AnthropicDialect:
    """How the Messages API writes what happens."""

    path = "/v1/messages"
    no_model = "not_found_error"

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def refusal_of_key(self) -> Reply:
        return Reply(status=401, kind="authentication_error", text="invalid bearer token")

    def problem(self, body: Json) -> str:
        return problem_with(body)

    def whole(self, reply: Reply, body: Json) -> Json:
        number = next(self._numbers)
        blocks = self._blocks(reply, number)
        message = {**self._start(reply, body, number), "content": blocks, "stop_sequence": None}
        message["stop_reason"] = _stop(reply, blocks)
        if reply.usage is not None:
            message["usage"]["output_tokens"] = reply.usage.output
        return message

    def events(self, reply: Reply, body: Json) -> list[bytes]:
        number = next(self._numbers)
        blocks = self._blocks(reply, number)
        start = {**self._start(reply, body, number), "content": [], "stop_reason": None}
        events = [_event("message_start", message=start), _event("ping")]
        for index, block in enumerate(blocks):
            opening, deltas = _apart(block)
            events.append(_event("content_block_start", index=index, content_block=opening))
            events += [_event("content_block_delta", index=index, delta=d) for d in deltas]
            events.append(_event("content_block_stop", index=index))
        delta = {"stop_reason": _stop(reply, blocks), "stop_sequence": None}
        usage = {"output_tokens": reply.usage.output} if reply.usage is not None else None
        events.append(_event("message_delta", delta=delta, usage=usage))
        events.append(_event("message_stop"))
        return events

    def error(self, reply: Reply) -> Json:
        return {"type": "error", "error": {"type": reply.kind, "message": reply.text}}

    def error_event(self, reply: Reply) -> bytes:
        kind = reply.kind or "overloaded_error"
        return _event("error", error={"type": kind, "message": "Overloaded"})

    def _start(self, reply: Reply, body: Json, number: int) -> Json:
        message: Json = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
        message["model"] = reply.model or body["model"]
        if reply.usage is not None:
            message["usage"] = {
                "input_tokens": reply.usage.input,
                "output_tokens": 1,
                "cache_read_input_tokens": reply.usage.cache_read,
                "cache_creation_input_tokens": reply.usage.cache_write,
            }
        return message

    def _blocks(self, reply: Reply, number: int) -> list[Json]:
        if reply.blocks is not None:
            return list(reply.blocks)
        blocks: list[Json] = [{"type": "text", "text": reply.text}] if reply.text else []
        for place, call in enumerate(reply.calls):
            known = {"id": call.id or f"toolu_{number}_{place}", "name": call.name}
            blocks.append({"type": "tool_use", **known, "input": call.arguments})
        return blocks


def _stop(reply: Reply, blocks: list[Json]) -> str:
    called = any(block["type"] == "tool_use" for block in blocks)
    return reply.stop or ("tool_use" if called else "end_turn")


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def _apart(block: Json) -> tuple[Json, list[Json]]:
    """Return a block as its stream opens it, and the deltas that fill it."""
    match block["type"]:
        case "text":
            pieces = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
            return {**block, "text": ""}, pieces
        case "tool_use":
            given = block["input"]
            raw = given if isinstance(given, str) else json.dumps(given)
            pieces = [{"type": "input_json_delta", "partial_json": part} for part in _pieces(raw)]
            return {**block, "input": {}}, pieces
        case "thinking":
            pieces = [
                {"type": "thinking_delta", "thinking": part} for part in _pieces(block["thinking"])
            ]
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*pieces, signature]
    return block, []


def _pieces(text: str, size: int = 12) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def problem_with(body: Json) -> str:
    """Return what the real API would find wrong with a request; empty for nothing."""
    for name in ("temperature", "top_p", "top_k"):
        if name in body:
            return f"{name}: Extra inputs are not permitted"
    if not body.get("max_tokens"):
        return "max_tokens: Field required"
    if body.get("tool_choice", {}).get("type") in {"any", "tool"}:
        return "tool_choice forces tool use is not compatible with thinking"
    if body.get("thinking", {}).get("type") in {"disabled", "enabled"}:
        return "thinking: this model always thinks"
    tools = body.get("tools") or []
    if problem := _problem_of_tools(tools) or _problem_of_caching(body):
        return problem
    if problem := _problem_of_references(body.get("messages") or [], tools):
        return problem
    turns = _turns(body.get("messages") or [])
    return _problem_of_turns(turns, tools=bool(body.get("tools")))


def _problem_of_tools(tools: list[Json]) -> str:
    for number, given in enumerate(tools):
        kind = given.get("type", "custom")
        if kind != "custom" and SERVER_TOOLS.get(kind) != given["name"]:
            return f"tools.{number}: Input tag '{kind}' does not match any of the expected tags"
    if tools and all(given.get("defer_loading") for given in tools):
        return "At least one tool must have defer_loading=false"
    return ""


def _problem_of_references(messages: list[Json], tools: list[Json]) -> str:
    """Return the problem of results that refer to tools; only declared ones can be loaded."""
    known = {given["name"] for given in tools}
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            inner = block.get("content")
            for each in inner if isinstance(inner, list) else ():
                if each["type"] == "tool_reference" and each["tool_name"] not in known:
                    return f"Tool reference '{each['tool_name']}' not found in available tools"
    return ""


def _problem_of_caching(body: Json) -> str:
    blocks = [*(body.get("tools") or ()), *(body.get("system") or ())]
    for message in body.get("messages") or ():
        blocks += message["content"] if isinstance(message["content"], list) else ()
    marked = [block for block in blocks if "cache_control" in block]
    if len(marked) + ("cache_control" in body) > 4:
        return "A maximum of 4 blocks with cache_control may be provided."
    if any(block.get("type") in {"thinking", "redacted_thinking"} for block in marked):
        return "cache_control: Extra inputs are not permitted"
    return ""


def _turns(messages: list[Json]) -> list[tuple[str, list[Json]]]:
    """Return the messages with neighbours of one role combined, as the API does."""
    turns: list[tuple[str, list[Json]]] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(blocks)
        else:
            turns.append((message["role"], list(blocks)))
    return turns


def _problem_of_turns(turns: list[tuple[str, list[Json]]], *, tools: bool) -> str:
    if not turns or turns[0][0] != "user":
        return "messages: first message must use the user role"
    if turns[-1][0] != "user" and all(b["type"] in {"text", "tool_use"} for b in turns[-1][1]):
        return "This model does not support assistant message prefill."
    open_calls: list[str] = []
    for role, blocks in turns:
        if problem := _problem_of_blocks(blocks):
            return problem
        answered = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if role == "user" and sorted(answered) != sorted(open_calls):
            return f"tool_use ids {open_calls} were found with tool_result blocks for {answered}"
        open_calls = [b["id"] for b in blocks if b["type"] == "tool_use"]
        if open_calls and not tools:
            return "Requests which include `tool_use` blocks must define tools"
        if len(set(open_calls)) != len(open_calls):
            return "`tool_use` ids must be unique"
    return ""


def _problem_of_blocks(blocks: list[Json]) -> str:
    if not blocks:
        return "all messages must have non-empty content"
    kinds = [block["type"] for block in blocks]
    results = kinds.count("tool_result")
    if results and kinds[:results] != ["tool_result"] * results:
        return "tool_result blocks must come first in the content"
    for block in blocks:
        if block["type"] == "text" and not block["text"].strip():
            return "text content blocks must contain non-whitespace text"
        if block["type"] == "tool_use" and not isinstance(block["input"], dict):
            return "tool_use.input: Input should be a valid dictionary"
        if block["type"] == "image" and (problem := _problem_of_image(block["source"])):
            return f"messages.0.content.0.image.source.base64: {problem}"
    return ""


def _problem_of_image(source: Json) -> str:
    if source["type"] != "base64" or source["media_type"] not in BEGINNINGS:
        return f"{source['media_type']} is not supported"
    if len(source["data"]) > MOST_OF_AN_IMAGE:
        return f"image exceeds 5 MB maximum: {len(source['data'])} bytes > 5242880 bytes"
    try:
        content = base64.b64decode(source["data"], validate=True)
    except ValueError:
        return "invalid base64 data"
    fits = content.startswith(BEGINNINGS[source["media_type"]])
    return "" if fits else "Could not process image"


def bench(latency_seconds: float) -> Script:
    """Return the script of load tests: five calls of the first tool, then a text."""

    def script(body: Json) -> Reply:
        done = sum(
            block["type"] == "tool_result"
            for message in body["messages"]
            if not isinstance(message["content"], str)
            for block in message["content"]
        )
        return replace(working(body, done=done), latency_seconds=latency_seconds)

    return script


class FakeAnthropic(ModelServer):
    """The fake API; `async with FakeAnthropic(script) as server: server.url`."""

    def __init__(
        self, script: Script, *, port: int = 0, strict: bool = True, record: bool = True
    ) -> None:
        super().__init__(AnthropicDialect(), script, port=port, strict=strict, record=record)


async def _serve(port: int, script: Script) -> None:
    # Recording would fill the memory, and checking would take time from the bot under load.
    async with FakeAnthropic(script, port=port, strict=False, record=False) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    """Serve until the process is stopped."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--script", choices=["bench"], default="bench")
    given = parser.parse_args()
    asyncio.run(_serve(given.port, bench(given.latency_ms / 1000)))


if __name__ == "__main__":
    main()

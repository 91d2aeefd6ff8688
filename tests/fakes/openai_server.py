"""A fake Chat Completions API: scripted, strict about what the real one refuses."""

import base64
import itertools
import json

from bot.agent.messages import Usage
from bot.values import Json
from tests.fakes.model_server import KEY, Call, ModelServer, Reply, Script

__all__ = ["KEY", "Call", "FakeOpenAI", "Reply"]


class OpenAIDialect:
    """How Chat Completions writes what happens."""

    path = "/v1/chat/completions"
    no_model = "model_not_found"

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def refusal_of_key(self) -> Reply:
        return Reply(status=401, kind="invalid_request_error", text="Incorrect API key provided")

    def problem(self, body: Json) -> str:
        return problem_with(body)

    def whole(self, reply: Reply, body: Json) -> Json:
        message: Json = {"role": "assistant", "content": reply.text or None, "refusal": None}
        if calls := self._calls(reply):
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
        completion = self._envelope("chat.completion", reply, body) | {"choices": [choice]}
        if reply.usage is not None:
            completion["usage"] = _counted(reply.usage)
        return completion

    def events(self, reply: Reply, body: Json) -> list[bytes]:
        envelope = self._envelope("chat.completion.chunk", reply, body)
        deltas: list[Json] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": piece} for piece in _pieces(reply.text)]
        for index, call in enumerate(self._calls(reply)):
            arguments = call["function"].pop("arguments")
            opening = {"index": index, **call, "function": {**call["function"], "arguments": ""}}
            deltas.append({"tool_calls": [opening]})
            deltas += [
                {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
                for piece in _pieces(arguments)
            ]
        events = [_event(envelope, delta, None) for delta in deltas]
        events.append(_event(envelope, {}, _finish(reply)))
        asked = body.get("stream_options", {}).get("include_usage")
        if asked and reply.usage is not None:
            events.append(_data({**envelope, "choices": [], "usage": _counted(reply.usage)}))
        events.append(b"data: [DONE]\n\n")
        return events

    def error(self, reply: Reply) -> Json:
        return {"error": {"message": reply.text, "type": reply.kind, "code": reply.kind}}

    def error_event(self, reply: Reply) -> bytes:
        return _data(self.error(reply))

    def _envelope(self, kind: str, reply: Reply, body: Json) -> Json:
        model = reply.model or body["model"]
        return {
            "id": f"chatcmpl-{next(self._numbers)}",
            "object": kind,
            "created": 1,
            "model": model,
        }

    def _calls(self, reply: Reply) -> list[Json]:
        return [
            {
                "id": call.id or f"call_{next(self._numbers)}",
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": call.arguments
                    if isinstance(call.arguments, str)
                    else json.dumps(call.arguments),
                },
            }
            for call in reply.calls
        ]


def _finish(reply: Reply) -> str:
    return reply.stop or ("tool_calls" if reply.calls else "stop")


def _counted(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.all_input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
    }


def _event(envelope: Json, delta: Json, finish: str | None) -> bytes:
    return _data({**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _data(document: Json) -> bytes:
    return f"data: {json.dumps(document)}\n\n".encode()


def _pieces(text: str, size: int = 12) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def problem_with(body: Json) -> str:
    """Return what the real API would find wrong with a request; empty for nothing."""
    if not body.get("messages"):
        return "[] is too short - 'messages'"
    if body.get("tool_choice") and not body.get("tools"):
        return "'tool_choice' is only allowed when 'tools' are specified"
    open_calls: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return "messages with role 'tool' must follow a message with 'tool_calls'"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return f"tool_call_ids did not have response messages: {open_calls}"
        if message["content"] is None and not message.get("tool_calls"):
            return "content must be a string"
        parts = message["content"]
        if isinstance(parts, list) and (problem := _problem_of_parts(parts)):
            return problem
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
    return f"tool_call_ids did not have response messages: {open_calls}" if open_calls else ""


def _problem_of_parts(parts: list[Json]) -> str:
    if not parts:
        return "content must not be an empty array"
    for part in parts:
        match part:
            case {"type": "text", "text": str()}:
                continue
            case {"type": "image_url", "image_url": {"url": str(url)}}:
                head, _, data = url.partition(",")
                if not (head.startswith("data:image/") and head.endswith(";base64")):
                    return f"Invalid image URL: {head}"
                try:
                    base64.b64decode(data, validate=True)
                except ValueError:
                    return "Invalid base64 image_url"
            case _:
                return f"Invalid content part: {part}"
    return ""


class FakeOpenAI(ModelServer):
    """The fake API; `async with FakeOpenAI(script) as server: server.url + "/v1"`."""

    def __init__(
        self, script: Script, *, port: int = 0, strict: bool = True, record: bool = True
    ) -> None:
        super().__init__(OpenAIDialect(), script, port=port, strict=strict, record=record)

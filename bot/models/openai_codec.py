"""Maps requests to those of the Chat Completions API, and its completions to answers."""

import json
import re
import secrets
from contextlib import suppress
from functools import partial

from bot.agent.documents import arguments_in, encodable, spelled
from bot.agent.messages import (
    Answer,
    Image,
    Media,
    StopReason,
    ToolCall,
    ToolResults,
    Usage,
    UserMessage,
    estimate_tokens,
)
from bot.models.base import ModelRequest, OfferedTools, offered
from bot.models.capabilities import Knows, ModelCapabilities
from bot.models.client import MALFORMED, estimated_input
from bot.models.wire import WrittenOnce
from bot.values import Json

_STOPS = {
    "stop": StopReason.END,
    "tool_calls": StopReason.TOOL_CALLS,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
}

#: Stop reasons that can leave the last tool call incomplete; no call of the answer is made.
_CUT = frozenset({StopReason.MAX_TOKENS, StopReason.REFUSAL})

#: Efforts that some OpenAI models lack, and the effort sent instead.
_AT_MOST = {"xhigh": "high", "max": "high"}

OPENAI: Knows = partial(ModelCapabilities().of, "openai")

NO_PDF = "not shown, since you do not take PDFs; attachment_read gives its text"

_TEXT_CALL = re.compile(
    r"```tool_call\s*\n(?P<fenced>.*?)```|<tool_call>(?P<tagged>.*?)</tool_call>", re.DOTALL
)
_NAME = re.compile(r'"(?:name|tool)"\s*:\s*"([^"]+)"')


def body_for(
    request: ModelRequest,
    *,
    official: bool,
    temperature: float | None = None,
    streamed: bool = False,
    knows: Knows = OPENAI,
) -> Json:
    """Return the body of a request.

    Args:
        request: The request.
        official: Whether the request goes to OpenAI itself, whose newer models use other names for
            two fields than compatible servers.
        temperature: The sampling temperature; `None` to omit the field.
        streamed: Whether the answer is streamed.
        knows: Returns the capabilities of a model. The effort is sent to OpenAI itself; other
            servers may refuse the field.
    """
    body: Json = {
        "model": request.model,
        "messages": _messages(request),
        "max_completion_tokens" if official else "max_tokens": request.max_tokens,
    }
    if request.tools:
        body["tools"] = offered(request.tools).made(_declared)
        if not request.tools_allowed:
            body["tool_choice"] = "none"
    if request.user_hash:
        body["safety_identifier" if official else "user"] = request.user_hash
    if request.effort and official and knows(request.model).effort:
        body["reasoning_effort"] = _AT_MOST.get(request.effort, request.effort)
    if temperature is not None:
        body["temperature"] = temperature
    if streamed:
        body["stream_options"] = {"include_usage": True}
    return body


def _declared(tools: OfferedTools) -> WrittenOnce:
    return WrittenOnce(
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema,
            },
        }
        for tool in tools
    )


def _messages(request: ModelRequest) -> list[Json]:
    written: list[Json] = []
    if request.prompt:
        written.append({"role": "system", "content": request.prompt})
    for message in request.messages:
        match message:
            case UserMessage(text, images):
                content: str | list[Json] = text
                # Servers of text-only models accept only a plain string.
                if images:
                    content = [_image(each) for each in images]
                    content += [{"type": "text", "text": text}] if text.strip() else []
                written.append({"role": "user", "content": content})
            case ToolResults(results, note):
                for result in results:
                    told = result.showing(_is_image, NO_PDF).text
                    written.append(
                        {"role": "tool", "tool_call_id": result.call_id, "content": told}
                    )
                # The result of a tool may only be a text.
                media = [each for one in results for each in one.media if _is_image(each)]
                if media:
                    names = ", ".join(each.name for each in media)
                    shown = [_image(each) for each in media]
                    lead = {"type": "text", "text": f"[Images of the results above: {names}]"}
                    written.append({"role": "user", "content": [lead, *shown]})
                written += [{"role": "user", "content": note}] if note.strip() else []
            case Answer(text, calls) if text or calls:
                answer: Json = {"role": "assistant", "content": text or None}
                if calls:
                    # A malformed call is sent back without arguments, since servers parse the
                    # history again.
                    answer["tool_calls"] = [
                        {
                            "id": call.id,
                            "type": "function",
                            "function": {
                                "name": call.name,
                                "arguments": json.dumps(call.arguments),
                            },
                        }
                        for call in calls
                    ]
                written.append(answer)
    return written


def _image(image: Image | Media) -> Json:
    url = f"data:{image.media_type};base64,{image.base64}"
    return {"type": "image_url", "image_url": {"url": url}}


def _is_image(media: Media) -> bool:
    return media.media_type.startswith("image/")


def answer_from(document: Json, request: ModelRequest, *, text_calls: bool = False) -> Answer:
    """Return the answer contained in a completion.

    Args:
        document: The completion.
        request: The request.
        text_calls: Whether to parse tool calls written in the text.

    Raises:
        ValueError: The document is not a completion.
    """
    try:
        choice = document["choices"][0]
        message = choice["message"]
        text = encodable(message.get("content") or "")
        stop = _STOPS.get(choice.get("finish_reason") or "", StopReason.END)
        if refusal := message.get("refusal"):
            text, stop = text or refusal, StopReason.REFUSAL
        calls: tuple[ToolCall, ...] = ()
        if request.tools_allowed and stop not in _CUT:
            calls = tuple(
                _parsed(
                    given["function"]["name"],
                    given["function"].get("arguments") or "{}",
                    given.get("id") or _new_id(),
                )
                for given in message.get("tool_calls") or ()
            )
            if text_calls and not calls:
                text, calls = calls_in(text)
        if stop in {StopReason.END, StopReason.TOOL_CALLS}:
            stop = StopReason.TOOL_CALLS if calls else StopReason.END
        return Answer(
            text=text,
            calls=calls,
            stop=stop,
            usage=usage_of(document.get("usage"), request, message),
            model=str(document.get("model") or request.model),
            # The name of the field depends on the server; OpenAI itself sends neither.
            thought=bool(message.get("reasoning_content") or message.get("reasoning")),
        )
    except MALFORMED as error:
        raise ValueError(f"no completion: {error!r}") from error


def _parsed(name: str, raw: str | Json, call_id: str) -> ToolCall:
    """Return the tool call; some servers send the arguments as an object instead of text."""
    arguments = arguments_in(raw)
    if arguments is None:
        return ToolCall(encodable(call_id), encodable(name), malformed=spelled(raw))
    return ToolCall(encodable(call_id), encodable(name), arguments)


def _new_id() -> str:
    return f"call_{secrets.token_hex(8)}"


def calls_in(text: str) -> tuple[str, tuple[ToolCall, ...]]:
    """Return the text without the tool calls written in it, and these calls.

    A call is a fenced block ```` ```tool_call ```` or a `<tool_call>` element that contains an
    object with `name` and `arguments`; many small models write calls like this.
    """
    calls: list[ToolCall] = []
    rest, end = "", 0
    for match in _TEXT_CALL.finditer(text):
        raw = (match["fenced"] or match["tagged"] or "").strip()
        name = _NAME.search(raw)
        if name is None:
            continue
        rest, end = rest + text[end : match.start()], match.end()
        arguments: object = None
        with suppress(ValueError, RecursionError):
            written = json.loads(raw)
            if isinstance(written, dict):
                arguments = written.get("arguments", written.get("parameters", {}))
        if isinstance(arguments, dict | str):
            calls.append(_parsed(name[1], arguments, _new_id()))
        else:
            calls.append(ToolCall(_new_id(), name[1], malformed=raw))
    return ((rest + text[end:]).strip() if calls else text), tuple(calls)


def usage_of(given: Json | None, request: ModelRequest, message: Json) -> Usage:
    """Return the token counts of the server, or without them an estimate on the high side."""
    if not given or given.get("prompt_tokens") is None:
        return Usage(estimated_input(request), estimate_tokens(str(message)))
    details = given.get("prompt_tokens_details") or {}
    read, write = details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0
    fresh = max(given["prompt_tokens"] - read - write, 0)
    return Usage(fresh, given.get("completion_tokens") or 0, read, write)

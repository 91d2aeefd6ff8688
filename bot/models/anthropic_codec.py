"""Maps requests to those of the Anthropic Messages API, and its messages to answers."""

import re
from collections.abc import Callable, Container
from functools import partial
from typing import Any

from bot.agent.documents import arguments_in, encodable, spelled
from bot.agent.messages import (
    Answer,
    Media,
    Message,
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

_CACHED: Json = {"type": "ephemeral"}

_STOPS = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "tool_use": StopReason.TOOL_CALLS,
    "max_tokens": StopReason.MAX_TOKENS,
    "pause_turn": StopReason.PAUSE,
    "refusal": StopReason.REFUSAL,
    "model_context_window_exceeded": StopReason.CONTEXT_FULL,
}

THOUGHTS = frozenset({"thinking", "redacted_thinking"})

CLAUDE: Knows = partial(ModelCapabilities().of, "anthropic")

#: Characters of the title of a document.
MOST_TITLE = 200

#: Stop reasons that can leave the last tool call incomplete; no call of the answer is made.
_CUT = frozenset({StopReason.MAX_TOKENS, StopReason.REFUSAL, StopReason.CONTEXT_FULL})


def body_for(
    request: ModelRequest,
    *,
    thinking: str = "off",
    streamed: bool = False,
    in_cloud: bool = False,
    knows: Knows = CLAUDE,
) -> Json:
    """Return the body of a request.

    The body has four cache breakpoints, the most that the API allows: the system prompt; the end of
    the stored history, which the next turn reads; the end of the previous step's request, since a
    cache lookup from the last block covers only 20 blocks; and the last block, set by the top-level
    field.

    Args:
        request: The request.
        thinking: The setting `models.anthropic.thinking`.
        streamed: Whether the answer is streamed.
        in_cloud: Whether a cloud serves the model: it knows no top-level breakpoint and no tools
            that a result refers to.
        knows: Returns the capabilities of a model.
    """
    can = knows(request.model)
    loads = can.loads_tools and not in_cloud
    body: Json = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": _messages(request, loads=loads, in_cloud=in_cloud),
        **({} if in_cloud else {"cache_control": _CACHED}),
    }
    if request.prompt:
        body["system"] = [{"type": "text", "text": request.prompt, "cache_control": _CACHED}]
    if request.tools:
        body["tools"] = offered(request.tools).made(_declared)
        if request.found and loads:
            found = _declared(OfferedTools(request.found))
            body["tools"] = [*body["tools"], *(tool | {"defer_loading": True} for tool in found)]
        if not request.tools_allowed:
            body["tool_choice"] = {"type": "none"}
    if request.user_hash:
        body["metadata"] = {"user_id": request.user_hash}
    if request.effort and can.effort:
        body["output_config"] = {"effort": request.effort}
    if streamed and thinking != "off" and can.thinking:
        # Summaries of the thoughts give the stream something to show while Claude thinks.
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
        if thinking == "between_tools" and "sonnet-5-5" in request.model:
            body["thinking"] = {"type": "between_tools"}
    return body


def _declared(tools: OfferedTools) -> WrittenOnce:
    return WrittenOnce(
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        for tool in tools
    )


def _messages(request: ModelRequest, *, loads: bool, in_cloud: bool) -> list[Json]:
    written: list[Json] = []
    loaded = {tool.name for tool in request.found if loads}
    steps = [
        at
        for at, message in enumerate(request.messages)
        if isinstance(message, Answer) and message.calls
    ]
    # The request of the previous step ended just before its answer.
    cached = {request.history, steps[-1] if steps else 0}
    if in_cloud:
        cached.add(len(request.messages))
    for number, message in enumerate(request.messages, start=1):
        # The API refuses an empty answer.
        if content := _content(message, request.model, loaded):
            role = "assistant" if isinstance(message, Answer) else "user"
            written.append({"role": role, "content": content})
        if number in cached and written:
            content = written[-1]["content"]
            # The API refuses a breakpoint on a thought.
            if content[-1]["type"] not in THOUGHTS:
                last = content[-1] | {"cache_control": _CACHED}
                written[-1] = written[-1] | {"content": [*content[:-1], last]}
    return written


def _content(message: Message, model: str, loaded: Container[str]) -> list[Json]:
    """Return the content blocks of a message; empty for an empty answer.

    Args:
        message: The message.
        model: The model that is asked.
        loaded: The names of the tools that results refer to instead of describing them.
    """
    blocks: list[Json] = []
    text = ""
    match message:
        case Answer(native=list(native)) if _undated(message.model) == _undated(model):
            return native
        case Answer():
            text = message.text
        case UserMessage(text, images):
            # Images first: the model understands a text about images better after it has seen them.
            for each in images:
                source = {"type": "base64", "media_type": each.media_type, "data": each.base64}
                blocks.append({"type": "image", "source": source})
            text = text if text.strip() or blocks else "(empty)"
        case ToolResults(results, text):
            for result in results:
                block: Json = {"type": "tool_result", "tool_use_id": result.call_id}
                references = [
                    {"type": "tool_reference", "tool_name": name}
                    for name in result.found
                    if name in loaded
                ]
                block["content"] = references or result.text
                if result.media:
                    shown = [_shown(each) for each in result.media]
                    block["content"] = [{"type": "text", "text": result.text or "Shown:"}, *shown]
                if result.failed:
                    block |= {"content": result.text or "It failed.", "is_error": True}
                blocks.append(block)
    if text.strip():
        blocks.append({"type": "text", "text": text})
    if isinstance(message, Answer):
        blocks += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            for call in message.calls
        ]
    return blocks


def _shown(media: Media) -> Json:
    """Return the block of an image or a PDF in the result of a tool."""
    source = {"type": "base64", "media_type": media.media_type, "data": media.base64}
    if media.media_type.startswith("image/"):
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, "title": media.name[:MOST_TITLE]}


def _undated(model: str) -> str:
    """Return a model's name without its date suffix: responses to an alias carry the dated name."""
    return re.sub(r"-\d{8}$", "", model)


def answer_from(document: Json, request: ModelRequest) -> Answer:
    """Return the answer contained in a message of the API.

    Raises:
        ValueError: The document is not a message.
    """
    try:
        blocks = [_readable(block) for block in document["content"]]
        stop = _STOPS.get(document.get("stop_reason") or "", StopReason.END)
        wanted = [block for block in blocks if block["type"] == "tool_use"]
        calls: tuple[ToolCall, ...] = ()
        if request.tools_allowed and stop not in _CUT:
            calls = tuple(
                ToolCall(block["id"], block["name"], block["input"])
                if isinstance(block["input"], dict)
                else ToolCall(block["id"], block["name"], malformed=block["input"] or "null")
                for block in wanted
            )
        if stop in {StopReason.END, StopReason.TOOL_CALLS}:
            stop = StopReason.TOOL_CALLS if calls else StopReason.END
        details = document.get("stop_details")
        explanation = details.get("explanation") if isinstance(details, dict) else ""
        return Answer(
            text=text_of(blocks) or str(explanation or ""),
            calls=calls,
            stop=stop,
            usage=usage_of(document.get("usage") or {}, blocks, partial(estimated_input, request)),
            model=str(document.get("model") or request.model),
            # A skipped call gets no result, and the API refuses a call without a result.
            native=_native(blocks) if len(calls) == len(wanted) else None,
            thought=any(block["type"] in THOUGHTS for block in blocks),
        )
    except MALFORMED as error:
        raise ValueError(f"no message: {error!r}") from error


def _readable(block: Json) -> Any:
    """Return a block that can be sent back; invalid arguments are converted to text."""
    if block["type"] != "tool_use":
        return encodable(block)
    given = block.get("input")
    arguments = arguments_in(given) if isinstance(given, dict) else None
    return encodable({**block, "input": ""}) | {
        "input": spelled(given) if arguments is None else arguments
    }


def _native(blocks: list[Json]) -> list[Json] | None:
    """Return the blocks to send back as they came, or `None` if all are text and tool calls."""
    if all(block["type"] in {"text", "tool_use"} for block in blocks):
        return None
    return [
        {**block, "input": {}}
        if block["type"] == "tool_use" and not isinstance(block.get("input"), dict)
        else block
        for block in blocks
        if block["type"] != "text" or block["text"].strip()
    ]


def text_of(blocks: list[Json]) -> str:
    """Return the text of all blocks, with a paragraph break where other blocks separate them."""
    text = ""
    between = False
    for block in blocks:
        if block["type"] == "text":
            text += ("\n\n" if between and text else "") + block["text"]
            between = False
        else:
            between = True
    return text


def usage_of(given: Json, blocks: list[Json], input_estimate: Callable[[], int]) -> Usage:
    """Return the token counts; missing counts are estimated on the high side."""
    read, write = given.get("cache_read_input_tokens"), given.get("cache_creation_input_tokens")
    counted_in, counted_out = given.get("input_tokens"), given.get("output_tokens")
    if counted_in is None:
        counted_in = input_estimate()
    if counted_out is None:
        counted_out = estimate_tokens(str(blocks))
    return Usage(counted_in, counted_out, read or 0, write or 0)

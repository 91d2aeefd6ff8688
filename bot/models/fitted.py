"""Makes requests fit what the answering model can do, whichever of the fallbacks that is."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from bot.agent.context import fit
from bot.agent.messages import (
    Answer,
    Message,
    ToolResults,
    UserMessage,
    estimate_tokens,
    holds_images,
)
from bot.errors import ImagesRefusedError
from bot.models.base import Model, ModelRequest, OnText, offered
from bot.models.capabilities import Capabilities

#: The end of the prompt of a model that calls no tools.
PLAIN = (
    "You cannot call tools here: you only write text. If something needs a tool, say that this "
    "model cannot do it, and that `/retinue model` shows others."
)
NO_IMAGES = "{} does not read images. Describe what they show, or choose another model."
#: Part of the context that a request may fill: the number of its tokens is an estimate.
_FILLED = 0.95


@dataclass(frozen=True, slots=True)
class FittedModel:
    """Wraps the models of a provider.

    Attributes:
        model: The provider.
        capabilities: Returns the capabilities of a model by its name.
    """

    model: Model
    capabilities: Callable[[str], Capabilities]

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        """Return the model's answer; see `bot.models.base.Model`."""
        return await self.model.ask(fitted(request, self.capabilities(request.model)), on_text)


def fitted(request: ModelRequest, can: Capabilities) -> ModelRequest:
    """Return a request as the model can take it.

    Raises:
        ImagesRefusedError: It holds images, which the model does not read.
    """
    if not can.images and holds_images(request.messages):
        raise ImagesRefusedError(NO_IMAGES.format(request.model))
    if not can.tools and (
        request.tools or any(isinstance(each, ToolResults) for each in request.messages)
    ):
        prompt = f"{request.prompt}\n\n{PLAIN}".strip()
        messages = tuple(map(_as_talk, request.messages))
        # Calls that it makes up are text.
        request = replace(
            request, prompt=prompt, messages=messages, tools=(), found=(), tools_allowed=False
        )
    if can.output_tokens is not None and request.max_tokens > can.output_tokens:
        request = replace(request, max_tokens=can.output_tokens)
    if can.context_tokens is None:
        return request
    room = int(can.context_tokens * _FILLED)
    # A small context is shared: an answer takes a quarter of it at most.
    output = min(request.max_tokens, max(1, can.context_tokens // 4))
    fixed = estimate_tokens(request.prompt) + offered(request.tools).size
    left = max(room // 4, room - output - fixed)
    size = estimate_tokens(request.messages)
    if size > left:
        shown = fit(request.messages, tokens=left, result_characters=3 * left)
        omitted = len(request.messages) - len(shown)
        request = replace(request, messages=shown, history=max(0, request.history - omitted))
        size = estimate_tokens(shown)
    if fixed + size + request.max_tokens > room:
        request = replace(request, max_tokens=output)
    return request


def _as_talk(message: Message) -> Message:
    """Return a message without calls: those of another model, and their results, become text."""
    match message:
        case ToolResults(results, note):
            parts = [f"Result of a tool:\n{each.text}" for each in results]
            return UserMessage("\n\n".join(filter(None, (*parts, note))))
        case Answer(calls=calls) if calls:
            names = ", ".join(call.name for call in calls)
            text = f"{message.text}\n\n(I called these tools: {names}.)".strip()
            return replace(message, text=text, calls=(), native=None)
    return message

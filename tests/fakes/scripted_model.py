"""A language model that says what a test tells it to."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bot.agent.messages import Answer, StopReason, ToolCall, Usage
from bot.models.base import ModelRequest, OnText
from bot.values import Json


@dataclass(slots=True)
class Hanging:
    """A line that is answered only when the test releases it.

    Attributes:
        asked: Set once the model is waiting here.
        cancelled: Set when the one who asked did not wait.
    """

    answer: Answer = field(default_factory=lambda: says("At last."))
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> Answer:
        self.asked.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return self.answer


@dataclass(frozen=True, slots=True)
class Streamed:
    """A line that grows while it is said; `pieces` are the whole text so far, again and again."""

    pieces: Sequence[str]
    answer: Answer | Hanging


Line = Answer | Hanging | Streamed | BaseException

LITTLE = Usage(10, 5)


class ScriptedModel:
    """A `Model` that gives the lines of its script, one for each request.

    Asked more often than the script has lines, it fails the test.

    Args:
        script: The lines.
        respond: Finds the line by the request, in place of a script.
    """

    def __init__(
        self, *script: Line, respond: Callable[[ModelRequest], Line] | None = None
    ) -> None:
        self.requests: list[ModelRequest] = []
        self._script = list(script)
        self._respond = respond

    @property
    def last(self) -> ModelRequest:
        """The newest request."""
        return self.requests[-1]

    async def count(self, request: ModelRequest) -> int | None:
        return None

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        """Say the next line, after the event loop had its turn, as with any real model."""
        self.requests.append(request)
        line = self._next(request)
        await asyncio.sleep(0)
        if isinstance(line, Streamed):
            if on_text is not None:
                for piece in line.pieces:
                    on_text(piece)
            line = line.answer
        if isinstance(line, Hanging):
            line = await line.wait()
        if isinstance(line, BaseException):
            raise line
        return replace(line, model=line.model or request.model)

    def _next(self, request: ModelRequest) -> Line:
        if self._respond is not None:
            return self._respond(request)
        if not self._script:
            raise AssertionError(f"No line is left for {request.messages[-1]!r}")
        return self._script.pop(0)


def says(text: str, *, stop: StopReason = StopReason.END, usage: Usage = LITTLE) -> Answer:
    """Return an answer in words."""
    return Answer(text, stop=stop, usage=usage)


def asks_for(*calls: ToolCall, text: str = "", usage: Usage = LITTLE) -> Answer:
    """Return an answer that calls tools."""
    return Answer(text, calls, StopReason.TOOL_CALLS, usage)


def call(name: str, call_id: str = "", **arguments: object) -> ToolCall:
    """Return a call of a tool; its id is the tool's name unless it is given."""
    given: Json = arguments
    return ToolCall(call_id or f"call_{name}", name, given)

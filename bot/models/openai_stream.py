"""Assembles a streamed completion of the Chat Completions API from its chunks."""

from typing import TYPE_CHECKING

from bot.agent.messages import Usage
from bot.models.base import Question
from bot.models.client import MALFORMED
from bot.models.openai_codec import usage_of
from bot.values import Json

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall


class StreamedCompletion:
    """Assembles a streamed completion from its chunks.

    Attributes:
        complete: Whether the server has sent a finish reason.
        shown: The text so far.
    """

    def __init__(self) -> None:
        self.complete = False
        self._begun = False
        self.shown = ""
        self._refusal = ""
        self._reasoning = ""
        self._calls: list[Json] = []
        self._places: dict[int, Json] = {}
        self._finish = ""
        self._model = ""
        self._usage: Json | None = None

    @property
    def _message(self) -> Json:
        return {
            "content": self.shown,
            "refusal": self._refusal,
            "reasoning": self._reasoning,
            "tool_calls": self._calls,
        }

    def usage(self, question: Question) -> Usage | None:
        """Return the usage of the completion so far; `None` before the completion began."""
        return usage_of(self._usage, question, self._message) if self._begun else None

    @property
    def document(self) -> Json:
        """The completion so far, in the format of a response without streaming."""
        choice = {"message": self._message, "finish_reason": self._finish}
        return {"choices": [choice], "model": self._model, "usage": self._usage}

    def take(self, chunk: "ChatCompletionChunk") -> None:
        """Add one chunk.

        Raises:
            ValueError: The chunk is malformed.
        """
        try:
            self._model = chunk.model or self._model
            if chunk.usage is not None:
                self._usage = chunk.usage.to_dict()
            for choice in chunk.choices:
                self._begun = True
                self.shown += choice.delta.content or ""
                self._refusal += choice.delta.refusal or ""
                further = choice.delta.model_extra or {}
                thought = further.get("reasoning_content") or further.get("reasoning") or ""
                self._reasoning += thought if isinstance(thought, str) else ""
                for piece in choice.delta.tool_calls or ():
                    self._grow(piece)
                if choice.finish_reason is not None:
                    self._finish, self.complete = choice.finish_reason, True
        except MALFORMED as error:
            raise ValueError(f"a chunk that does not fit: {error!r}") from error

    def _grow(self, piece: "ChoiceDeltaToolCall") -> None:
        place = piece.index if piece.index is not None else len(self._calls)
        call = self._places.get(place)
        if call is None:
            call = self._places[place] = {"id": piece.id, "function": {"name": "", "arguments": ""}}
            self._calls.append(call)
        if piece.function is not None:
            call["function"]["name"] += piece.function.name or ""
            call["function"]["arguments"] += piece.function.arguments or ""

"""Claude, through the Anthropic SDK."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from bot.agent.messages import Answer
from bot.models.anthropic_client import NAME, AnthropicSettings, open_sdk
from bot.models.anthropic_codec import answer_from, request_for
from bot.models.anthropic_stream import StreamedMessage
from bot.models.base import Question
from bot.models.client import SdkModel
from bot.values import Json

__all__ = ["AnthropicModel", "AnthropicSettings"]


class AnthropicModel(SdkModel):
    """The Anthropic Messages API behind the model port."""

    provider = "anthropic"

    def __init__(self, settings: AnthropicSettings) -> None:
        opener = partial(open_sdk, settings)
        super().__init__(NAME, opener, timeout_seconds=settings.timeout_seconds)
        self._settings = settings

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: AnthropicSettings) -> AsyncIterator["AnthropicModel"]:
        """Open the provider; its SDK is imported by `warm` or by the first question."""
        model = cls(settings)
        async with model.closing():
            yield model

    def _request(self, question: Question, *, streamed: bool) -> Json:
        return request_for(question, self._thinking(question.model) if streamed else None)

    def _answer(self, document: Json, question: Question) -> Answer:
        return answer_from(document, question)

    def _new_stream(self) -> StreamedMessage:
        return StreamedMessage()

    def _thinking(self, model: str) -> Json | None:
        """Return the `thinking` parameter of a streamed request; `None` to omit the parameter.

        Summaries of the thoughts give the stream something to show while Claude thinks.
        """
        if self._settings.thinking == "off" or not re.search(r"claude-[a-z]+-5(-|$)", model):
            return None
        if self._settings.thinking == "between_tools" and "sonnet-5-5" in model:
            return {"type": "between_tools"}
        return {"type": "adaptive", "display": "summarized"}

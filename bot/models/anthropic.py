"""Claude, through the Anthropic SDK."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from bot.agent.messages import Answer, holds_images
from bot.models import failures
from bot.models.anthropic_client import NAME, AnthropicSettings, Sdk, open_sdk
from bot.models.anthropic_stream import Arriving
from bot.models.anthropic_wire import answer_from, request_for
from bot.models.base import OnText, Question
from bot.models.client import Growing, Lazy, charging
from bot.values import Json

__all__ = ["AnthropicModel", "AnthropicSettings"]


class AnthropicModel:
    """The Anthropic Messages API behind the model port."""

    provider = "anthropic"
    name = NAME

    def __init__(self, settings: AnthropicSettings) -> None:
        self._settings = settings
        self._sdk = Lazy(partial(open_sdk, settings))

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: AnthropicSettings) -> AsyncIterator["AnthropicModel"]:
        """Open the provider; its SDK is imported by `warm` or by the first question."""
        model = cls(settings)
        try:
            yield model
        finally:
            if sdk := model._sdk.opened:
                await sdk.client.close()

    async def warm(self) -> None:
        """Import the SDK in a thread, so that the first question does not wait for the import."""
        await self._sdk.get()

    async def ask(self, question: Question, on_text: OnText | None = None) -> Answer:
        """Return Claude's answer; see `bot.models.base.Model`."""
        sdk = self._sdk.opened or await self._sdk.get()
        arriving = Arriving()
        with charging(question, partial(arriving.usage, question)):
            return await self._ask(sdk, question, arriving, on_text)

    async def _ask(
        self, sdk: Sdk, question: Question, arriving: Arriving, on_text: OnText | None
    ) -> Answer:
        try:
            if on_text is None:
                return await self._whole(sdk, question)
            return await self._streamed(sdk, question, arriving, on_text)
        except sdk.troubles as error:
            images = holds_images(question.messages)
            raise sdk.failure(error, question.model, images=images) from error
        except ValueError as error:
            raise failures.unreadable(NAME, error) from error
        except RecursionError as error:
            raise failures.nested(NAME) from error

    async def _whole(self, sdk: Sdk, question: Question) -> Answer:
        seconds = self._settings.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                # The raw response skips the SDK's models: their blocks would be converted back to
                # JSON here anyway, and must be sent back unchanged.
                response = await sdk.create_raw(**request_for(question))
        except TimeoutError as error:
            raise failures.silent(NAME, seconds) from error
        return answer_from(response.http_response.json(), question)

    async def _streamed(
        self, sdk: Sdk, question: Question, arriving: Arriving, on_text: OnText
    ) -> Answer:
        growing = Growing(on_text)
        request = request_for(question, self._thinking(question.model))
        # Raw events: the SDK's own accumulation fails on a tool input that is invalid JSON.
        stream = await sdk.client.messages.create(
            **request, stream=True, timeout=sdk.stream_timeout
        )
        async with stream:
            async for event in stream:
                arriving.take(event)
                if growing.due:
                    growing.say(arriving.shown)
        if not arriving.complete:
            raise failures.cut_off(NAME)
        answer = answer_from(arriving.document, question)
        growing.say(answer.text)
        return answer

    def _thinking(self, model: str) -> Json | None:
        """Return the `thinking` parameter of a streamed request; `None` to omit the parameter.

        Summaries of the thoughts give the stream something to show while Claude thinks.
        """
        if self._settings.thinking == "off" or not re.search(r"claude-[a-z]+-5(-|$)", model):
            return None
        if self._settings.thinking == "between_tools" and "sonnet-5-5" in model:
            return {"type": "between_tools"}
        return {"type": "adaptive", "display": "summarized"}

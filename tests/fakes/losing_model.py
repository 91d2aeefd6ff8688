"""A language model whose requests break off before it answers, and may be charged."""

from bot.agent.messages import Answer, Usage
from bot.errors import ModelError
from bot.models.base import ModelRequest, OnText
from bot.models.client import charging
from tests.fakes.scripted_model import Hanging


class LosingModel:
    """Loses some requests, as a provider does whose streams break off, and then answers.

    Attributes:
        then: What the last request comes to. One that hangs and is cancelled is reported as the
            adapters do it.
    """

    def __init__(self, *lost: Usage, then: Answer | ModelError | Hanging) -> None:
        self.lost, self.then = lost, then

    async def count(self, request: ModelRequest) -> int | None:
        return None

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> Answer:
        assert request.on_lost is not None
        for usage in self.lost:
            request.on_lost(request, usage)
        if isinstance(self.then, Hanging):
            with charging(request, lambda: None):
                return await self.then.wait()
        if isinstance(self.then, ModelError):
            raise self.then
        return self.then

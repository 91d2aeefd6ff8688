"""Weighs the tokens of requests: input that the provider has cached counts by its price."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bot.agent.messages import Answer, Message, Usage, estimate_tokens
from bot.models.base import Question, ToolDescription


@dataclass(slots=True)
class Spending:
    """Weighs the requests of one turn or run, each compared with the previous request.

    Attributes:
        weight_of: Returns the weight of a token that a model, given by name, reads from its cache.
    """

    prompt: str
    model: str
    tools: tuple[ToolDescription, ...]
    weight_of: Callable[[str], float]
    _previous: Question | None = None
    _previous_input: int = 0
    _previous_model: str = ""

    def fixed(self, tools: Sequence[ToolDescription]) -> int:
        """Return the tokens of the system prompt and these tools."""
        spelled = "".join(f"{tool.description}{tool.schema}" for tool in tools)
        return estimate_tokens(self.prompt) + (estimate_tokens(spelled) if tools else 0)

    def weighted_fixed(self, tools: Sequence[ToolDescription]) -> int:
        """Return the weighted tokens of the system prompt and these tools in the next request."""
        known = self._previous is not None and self._previous.tools == tuple(tools)
        return int(self.fixed(tools) * (self.weight_of(self.model) if known else 1))

    def expected(self, messages: Sequence[Message], *, most: int | None = None) -> int:
        """Return the weighted input tokens that a request with all tools would cost.

        Args:
            messages: The messages of the request.
            most: The most tokens of messages that are ever sent; `None` for no limit.
        """
        tokens = estimate_tokens(messages)
        if most is not None:
            tokens = min(tokens, most)
        whole = tokens + self.fixed(self.tools)
        cached = self._repeated(messages, self.tools, whole)
        return whole - int(cached * (1 - self.weight_of(self.model)))

    def weighed(self, question: Question, answer: Answer) -> Usage:
        """Return the usage of an answer with its discount, and remember its request.

        A provider that reports no cached tokens may cache without counting them. In that case the
        part equal to the previous request counts as cached.
        """
        usage = answer.usage
        cached = usage.cache_read
        # Another model that answers as a fallback has cached nothing of the previous request.
        same = self._previous_model in {"", answer.model}
        if same and not usage.cache_read and not usage.cache_write:
            cached = self._repeated(question.messages, question.tools, usage.all_input)
        self._previous, self._previous_input = question, usage.all_input
        self._previous_model = answer.model
        return replace(usage, discount=int(cached * (1 - self.weight_of(answer.model))))

    def lost(self, question: Question, usage: Usage) -> Usage:
        """Return the usage of a request without an answer, with its discount."""
        cached = usage.cache_read
        # The name of the model in an answer may end with a date.
        same = not self._previous_model or self._previous_model.startswith(question.model)
        if same and not usage.cache_read and not usage.cache_write:
            cached = self._repeated(question.messages, question.tools, usage.all_input)
        return replace(usage, discount=int(cached * (1 - self.weight_of(question.model))))

    def recall(self, messages: Sequence[Message], usage: Usage) -> None:
        """Restore the newest request of an earlier attempt, which held these messages."""
        self._previous = Question(
            model=self.model, prompt=self.prompt, messages=tuple(messages), tools=self.tools
        )
        self._previous_input = usage.all_input

    def _repeated(
        self, messages: Sequence[Message], tools: Sequence[ToolDescription], whole: int
    ) -> int:
        """Return the number of leading tokens that a request shares with the previous one."""
        before = self._previous
        if before is None or before.tools != tuple(tools):
            return 0
        same = 0
        for one, other in zip(before.messages, messages, strict=False):
            if one is not other and one != other:
                break
            same += 1
        if same == len(before.messages):
            return min(whole, self._previous_input)
        fixed = self.fixed(tools)
        share = (fixed + estimate_tokens(messages[:same])) / (fixed + estimate_tokens(messages))
        return int(whole * share)

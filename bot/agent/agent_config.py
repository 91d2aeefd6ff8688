"""The numbers and texts of one agent at work."""

from collections.abc import Callable
from dataclasses import dataclass

from bot.models.weights import cached_weight


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """Holds the prompt, the model and the limits of one agent at work.

    Attributes:
        max_response_tokens: Output tokens of one answer.
        cached_weight: Gives the weight of a token that a model reads from its cache.
        effort: How hard the model should think, from `low` to `max`; `None` for its usual.
        person: An opaque hash for the provider.
        background: Users' turns are asked about before this agent's questions.
    """

    prompt: str
    model: str
    max_steps: int
    max_tool_calls: int
    max_response_tokens: int = 16_000
    context_tokens: int = 100_000
    tool_result_characters: int = 16_000
    effort: str | None = None
    person: str = ""
    background: bool = False
    cached_weight: Callable[[str], float] = cached_weight

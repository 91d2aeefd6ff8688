"""The prompt, the model and the limits of one agent."""

from collections.abc import Callable
from dataclasses import dataclass

from bot.models.weights import cached_weight


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """Holds the prompt, the model and the limits of one agent at work.

    Attributes:
        max_response_tokens: Output tokens of one answer.
        cached_weight: Returns the weight of a token that a model, given by name, reads from its
            cache.
        effort: Reasoning effort of the model, from `low` to `max`; `None` for its default.
        person: An opaque hash of the user, sent to the provider.
        background: Whether requests of users' turns take precedence over this agent's requests.
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

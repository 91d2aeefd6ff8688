"""Events that metrics count: turns, tool calls, model calls and deliveries that are over."""

from dataclasses import dataclass

from bot.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded(Event):
    """A turn has its final status.

    Attributes:
        outcome: The status.
        seconds: The time since its message was received.
    """

    name = "turn.ended"

    platform: str
    outcome: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled(Event):
    """A tool call of a turn or a run is over.

    Attributes:
        tool: The name as the model wrote it.
    """

    name = "tool.called"

    tool: str
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCalled(Event):
    """One attempt of a model call is over.

    Attributes:
        outcome: `answered`, or the kind of the error.
        repeated: Whether an earlier attempt of the call failed.
        input: Tokens, as all counts here; those of the cache excluded.
        cost: In micro-dollars; `None` if it is unknown.
    """

    name = "model.called"

    provider: str
    outcome: str
    seconds: float
    repeated: bool
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryTried(Event):
    """An attempt to deliver an item of the outbox is over.

    Attributes:
        outcome: `delivered`, `retried` (later), or `blocked` (for good).
        repeated: Whether it was tried before.
    """

    name = "delivery.tried"

    platform: str
    outcome: str
    repeated: bool

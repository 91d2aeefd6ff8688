"""The usage of turns and runs as columns of their rows (pure)."""

from dataclasses import replace
from typing import Protocol

from bot.agent.messages import Usage
from bot.values import Json


class UsageRow(Protocol):
    """The row of a turn or a run: its tokens, and its cost in micro-dollars."""

    @property
    def input_tokens(self) -> int:
        """Input tokens, those of the cache included."""

    @property
    def cached_tokens(self) -> int:
        """Input tokens that were read from a cache."""

    @property
    def output_tokens(self) -> int:
        """Output tokens."""

    @property
    def cost(self) -> int | None:
        """Micro-dollars; `None` if a call had no price."""


def usage_of(row: UsageRow, *, discount: int = 0) -> Usage:
    """Return the usage in the row of a turn or a run."""
    fresh = row.input_tokens - row.cached_tokens
    usage = Usage(fresh, row.output_tokens, row.cached_tokens)
    return replace(usage, discount=discount, cost=row.cost)


def columns(usage: Usage) -> Json:
    """Return a usage as the columns of a turn."""
    return {
        "input_tokens": usage.all_input,
        "cached_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "cost": usage.money,
    }


def run_columns(usage: Usage) -> Json:
    """Return a usage as the columns of a run."""
    return {**columns(usage), "discounted_tokens": usage.discount}

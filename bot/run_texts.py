"""The icon and words for the state of a run, the same everywhere (pure)."""

from decimal import Decimal
from typing import NamedTuple

from bot.values import RunStatus


class StatusText(NamedTuple):
    """The icon and words for a state."""

    icon: str
    words: str


_TEXTS = {
    RunStatus.QUEUED: StatusText("⚪", "queued"),
    RunStatus.ACCEPTED: StatusText("⚪", "starting"),
    RunStatus.RUNNING: StatusText("🔵", "running"),
    RunStatus.WAITING_APPROVAL: StatusText("🟠", "waiting for you"),
    RunStatus.WAITING_INPUT: StatusText("🟠", "waiting for you"),
    RunStatus.COMPLETED: StatusText("🟢", "completed"),
    RunStatus.FAILED: StatusText("🔴", "failed"),
    RunStatus.TIMEOUT: StatusText("🔴", "ran out of time"),
    RunStatus.CANCELLED: StatusText("⚫", "stopped"),
    RunStatus.BUDGET_EXCEEDED: StatusText("🔴", "ran out of budget"),
    RunStatus.MAX_TOOL_CALLS: StatusText("🔴", "reached its limit of tool calls"),
    RunStatus.MAX_STEPS: StatusText("🔴", "reached its limit of steps"),
    RunStatus.STALLED: StatusText("🔴", "stalled"),
    RunStatus.LOST: StatusText("🔴", "lost"),
}


_DEGRADED = StatusText("🟡", "finished without its tools")


def status_text(status: RunStatus, stopped_by: str = "", *, degraded: bool = False) -> StatusText:
    """Return the icon and words for a state.

    Args:
        status: The state.
        stopped_by: The shown name of the admin who stopped the run; empty for its owner.
        degraded: Whether the run completed although every tool call was refused or failed.
    """
    if status is RunStatus.COMPLETED and degraded:
        return _DEGRADED
    if status is RunStatus.CANCELLED and stopped_by:
        return StatusText(_TEXTS[status].icon, f"stopped by @{stopped_by}")
    return _TEXTS[status]


def dollars(cost: int | None) -> str:
    """Return a cost in micro-dollars as dollars, rounded up; `no price` if it is unknown."""
    if cost is None:
        return "no price"
    places = 2 if cost >= 1_000_000 or not cost else 4
    unit = 10 ** (6 - places)
    return f"${Decimal(-(-cost // unit)).scaleb(-places):,.{places}f}"


def token_kinds(new: int, cached: int, output: int) -> str:
    """Return numbers of tokens by their kind."""
    return f"{new:,} new, {cached:,} cached, {output:,} output"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 tool call`, `1,200 tool calls`."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"

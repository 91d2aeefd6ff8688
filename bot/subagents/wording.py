"""What is said about a run: the state always from the runtime, never from its text."""

from dataclasses import dataclass

from bot.agent.sanitizer import one_line
from bot.subagents.limits import spoken
from bot.values import Json, RunStatus, short
from db.runs import Run
from db.users import User

STOPPED_BY_ADMIN = "It was stopped by an admin."
#: Longest shown name, in characters.
MAX_NAME = 60

MARKS = {
    RunStatus.QUEUED: "⚪",
    RunStatus.ACCEPTED: "⚪",
    RunStatus.RUNNING: "🟡",
    RunStatus.WAITING_APPROVAL: "🟠",
    RunStatus.WAITING_INPUT: "🟠",
    RunStatus.COMPLETED: "🟢",
    RunStatus.CANCELLED: "⚫",
    RunStatus.TIMEOUT: "⏱",
}

WORDS = {
    RunStatus.COMPLETED: "completed",
    RunStatus.FAILED: "failed",
    RunStatus.TIMEOUT: "ran out of time",
    RunStatus.CANCELLED: "was stopped",
    RunStatus.BUDGET_EXCEEDED: "ran out of tokens",
    RunStatus.MAX_TOOL_CALLS: "reached its tool calls",
    RunStatus.MAX_STEPS: "reached its steps",
    RunStatus.STALLED: "stalled",
    RunStatus.LOST: "was lost",
}

#: Limits at which a run writes its last report.
LIMITS = frozenset(
    {
        RunStatus.TIMEOUT,
        RunStatus.BUDGET_EXCEEDED,
        RunStatus.MAX_TOOL_CALLS,
        RunStatus.MAX_STEPS,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run came to.

    Attributes:
        text: Its report, or the part of it that there is.
        error: Why it did not complete; empty when it did.
        summary: What the text was shortened to for the one who asked; empty when it was not.
    """

    status: RunStatus
    text: str = ""
    summary: str = ""
    error: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    discounted_tokens: int | None = None
    tool_calls: int | None = None
    seconds_used: float | None = None
    model: str = ""
    transcript: tuple[Json, ...] = ()

    @property
    def weighted_tokens(self) -> int:
        """The tokens as they count against the budget."""
        used = (self.input_tokens or 0) + (self.output_tokens or 0)
        return used - (self.discounted_tokens or 0)


def mark(status: RunStatus) -> str:
    """Return the sign of a state."""
    return MARKS.get(status, "🔴")


def title(run: Run) -> str:
    """Return the first line of an announcement."""
    words = WORDS.get(run.status, str(run.status))
    if run.status in LIMITS and run.result:
        words += " (partial report)"
    return f"{mark(run.status)} Sub-agent {words}: “{run.label}” ({short(run.id)})"


def footer(run: Run) -> str:
    """Return the quiet line under an announcement."""
    parts = [
        f"{run.weighted_tokens:,} of {run.token_budget:,} tokens",
        spoken(run.seconds_used),
        f"{run.tool_call_count} tool calls" if run.tool_call_count != 1 else "1 tool call",
    ]
    if run.model:
        parts.append(run.model)
    return " · ".join(parts)


def reason(run: Run, outcome: Outcome) -> str:
    """Return why a run did not complete, naming the limit, what was used, and the key to change."""
    minutes = spoken(run.timeout_ms / 1000)
    key = "timeout_minutes" if run.mode == "async" else "subagents.sync_timeout_seconds"
    texts = {
        RunStatus.TIMEOUT: f"It was stopped at its limit of {minutes} (`{key}`).",
        RunStatus.BUDGET_EXCEEDED: (
            f"It used {outcome.weighted_tokens:,} of its {run.token_budget:,} tokens "
            "(`token_budget`, at most `subagents.max_token_budget`)."
        ),
        RunStatus.MAX_TOOL_CALLS: (
            f"It made all {outcome.tool_calls or 0} tool calls that a run may make "
            "(`subagents.max_tool_calls_per_run`)."
        ),
        RunStatus.MAX_STEPS: f"It took all its {run.max_steps} steps (`max_turns`).",
        RunStatus.CANCELLED: "It was stopped on request.",
        RunStatus.LOST: "Its process ended more than two hours ago and it was not taken up again.",
    }
    return outcome.error or texts.get(outcome.status, "")


def shown_name(user: User | None) -> str:
    """Return what a user is called in a card; empty for none."""
    return "" if user is None else one_line(user.name, MAX_NAME) or user.identity.account


def for_caller(run: Run, text: str, summary: str) -> str:
    """Return what the one who asked reads of a result: all of it, or what it was shortened to."""
    if not summary:
        return text
    return (
        f"{summary}\n\n[Shortened from {len(text):,} characters. `sessions_log` with run_id "
        f"{short(run.id)} shows the whole report, on its last pages.]"
    )


def report(run: Run, *, unread: int = 0) -> str:
    """Return what people read about a run that is over."""
    parts = []
    if run.error:
        parts.append(run.error)
    if run.result:
        if run.status is not RunStatus.COMPLETED:
            parts.append("What it had so far:")
        parts.append(run.result)
    elif run.status is not RunStatus.COMPLETED:
        parts.append("It had nothing to show yet.")
    if unread:
        what = "A message" if unread == 1 else f"{unread} messages"
        parts.append(f"_{what} you sent came too late to be read._")
    return "\n\n".join(parts)

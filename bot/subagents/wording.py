"""Texts about a run; the state always comes from the runtime, never from the run's text."""

from dataclasses import dataclass

from bot.agent.messages import Usage
from bot.agent.sanitizer import one_line
from bot.run_texts import counted, dollars, status_text, token_kinds
from bot.subagents.limits import spoken
from bot.subagents.requests import BUDGET_SOURCE
from bot.values import Json, RunStatus, short
from db.runs import Run
from db.users import User

STOPPED_BY_ADMIN = "It was stopped by an admin."
#: Longest shown name, in characters.
MAX_NAME = 60

#: Limits at which a run writes its last report.
LIMITS = frozenset(
    {
        RunStatus.TIMEOUT,
        RunStatus.BUDGET_EXCEEDED,
        RunStatus.MAX_TOOL_CALLS,
        RunStatus.MAX_STEPS,
        RunStatus.STALLED,
    }
)


#: The setting to change for a larger budget, by the budget's source.
_BUDGETS = {
    "request": "`token_budget` of the request, at most `subagents.max_token_budget`",
    "agent": "`token_budget` in the agent's file, at most `subagents.max_token_budget`",
    "cap": "`subagents.max_token_budget`",
    "parent": "what the run that asked for it had left",
}
DEFAULT_BUDGET = "`subagents.default_token_budget`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        text: The report, or the part of it that exists.
        error: The reason for not completing, or a remark on a completed run; empty for none.
        degraded: Whether it completed although every tool call was refused or failed.
        summary: The shortened text for the caller; empty if it was not shortened.
        usage: The tokens of all attempts; `None`, as for the counts below, to keep the row's.
    """

    status: RunStatus
    text: str = ""
    summary: str = ""
    error: str = ""
    degraded: bool = False
    usage: Usage | None = None
    tool_calls: int | None = None
    seconds_used: float | None = None
    model: str = ""
    transcript: tuple[Json, ...] = ()


def title(run: Run) -> str:
    """Return the first line of an announcement."""
    icon, words = status_text(run.status, degraded=run.degraded)
    if run.status in LIMITS and run.result:
        words += " (partial report)"
    return f"{icon} Sub-agent {words}: “{run.label}” ({short(run.id)})"


def usage_words(run: Run) -> str:
    """Return the tokens of a run by their kind."""
    return token_kinds(run.input_tokens - run.cached_tokens, run.cached_tokens, run.output_tokens)


def footer(run: Run) -> str:
    """Return the footer of an announcement."""
    parts = [
        f"{run.weighted_tokens:,} of {run.token_budget:,} tokens ({usage_words(run)})",
        dollars(run.cost),
        spoken(run.seconds_used),
        counted(run.tool_call_count, "tool call"),
    ]
    if run.model:
        parts.append(run.model)
    return " · ".join(parts)


def reason(run: Run, outcome: Outcome) -> str:
    """Return the reason for not completing: the limit, the usage, and the setting to change."""
    minutes = spoken(run.timeout_ms / 1000)
    key = "timeout_minutes" if run.mode == "async" else "subagents.sync_timeout_seconds"
    texts = {
        RunStatus.TIMEOUT: f"It was stopped at its limit of {minutes} (`{key}`).",
        RunStatus.MAX_TOOL_CALLS: (
            f"It made all {counted(outcome.tool_calls or 0, 'tool call')} that a run may make "
            "(`subagents.max_tool_calls_per_run`)."
        ),
        RunStatus.MAX_STEPS: f"It took all its {counted(run.max_steps, 'step')} (`max_turns`).",
        RunStatus.STALLED: "It was interrupted: nothing was written and no tool answered for long.",
        RunStatus.CANCELLED: "It was stopped on request.",
        RunStatus.LOST: "Its process ended more than two hours ago and it was not taken up again.",
    }
    if outcome.degraded:
        texts[RunStatus.COMPLETED] = "Every tool call that it made was refused or failed."
    if outcome.status is RunStatus.BUDGET_EXCEEDED:
        used = outcome.usage.weighted if outcome.usage else 0
        text = f"It used {used:,} of its {counted(run.token_budget, 'token')}"
        if used < run.token_budget:
            text += (
                f"; the other {run.token_budget - used:,} were reserved for its report and did not "
                "suffice for another step"
            )
        source = _BUDGETS.get(run.metadata.get(BUDGET_SOURCE, ""), DEFAULT_BUDGET)
        texts[RunStatus.BUDGET_EXCEEDED] = f"{text} ({source})."
    return outcome.error or texts.get(outcome.status, "")


def shown_name(user: User | None) -> str:
    """Return a user's name for a card; empty for none."""
    return "" if user is None else one_line(user.name, MAX_NAME) or user.identity.account


def for_caller(run: Run, text: str, summary: str) -> str:
    """Return the result for the caller: the full text, or its summary."""
    if not summary:
        return text
    return (
        f"{summary}\n\n[Shortened from {len(text):,} characters. `sessions_log` with run_id "
        f"{short(run.id)} shows the whole report, on its last pages.]"
    )


def report(run: Run, *, unread: int = 0) -> str:
    """Return the text about an ended run for users."""
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

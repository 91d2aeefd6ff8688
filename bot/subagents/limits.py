"""Caps on the runs of one user and of all users, and the admission decision."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from pydantic import Field, model_validator

from bot.errors import LimitReachedError
from bot.run_texts import counted
from bot.setting_types import (
    LONGEST_WORK_MINUTES,
    LONGEST_WORK_SECONDS,
    MOST_COUNT,
    MOST_MINUTES,
    MOST_SECONDS,
    MOST_TOKENS,
)
from bot.values import RunUsage, Settings, SlotCaps


class SpawnRateLimit(Settings):
    """Cap on the runs that one user may start within a sliding window."""

    max_requests: int = Field(10, ge=1, le=MOST_COUNT)
    """Runs that one user may start per window."""

    window_seconds: int = Field(3600, ge=1, le=MOST_SECONDS)
    """Length of the window, in seconds."""


class DelegationRateLimit(Settings):
    """Cap on the tasks that are delegated for one user within a sliding window."""

    max_requests: int = Field(60, ge=1, le=MOST_COUNT)
    """Tasks delegated for one user per window."""

    window_seconds: int = Field(3600, ge=1, le=MOST_SECONDS)
    """Length of the window, in seconds."""


class SubagentSettings(Settings):
    """Settings of subagents: caps, times and budgets of runs."""

    enabled: bool = True
    """The main agent may hand work to subagents."""

    default_timeout_minutes: float = Field(5, gt=0, le=LONGEST_WORK_MINUTES)
    """Time of a background run that asks for none, in minutes."""

    max_timeout_minutes: float = Field(10, gt=0, le=LONGEST_WORK_MINUTES)
    """The most time a run can ask for, in minutes; more is clamped."""

    sync_timeout_seconds: float = Field(120, gt=0, le=LONGEST_WORK_SECONDS)
    """Time of a delegated task inside the turn, in seconds."""

    max_concurrent_per_user: int = Field(3, ge=1, le=MOST_COUNT)
    """Runs of one user at once."""

    max_concurrent_global: int = Field(10, ge=1, le=MOST_COUNT)
    """Runs of all users at once."""

    max_queued_per_user: int = Field(5, ge=0, le=MOST_COUNT)
    """Runs of one user that may wait for a slot; 0 refuses instead."""

    archive_ttl_minutes: float = Field(60, gt=0, le=MOST_MINUTES)
    """Minutes that a finished run stays in menus and lists; `list` shows the last 30 at most."""

    max_tool_calls_per_run: int = Field(25, ge=1, le=MOST_COUNT)
    """Tool calls of one run."""

    default_token_budget: int = Field(50_000, ge=1000, le=MOST_TOKENS)
    """Weighted tokens of a run that asks for none: output and new input count 1, input read from a
    provider's cache by its price.
    """

    max_token_budget: int = Field(200_000, ge=1000, le=MOST_TOKENS)
    """The most weighted tokens a run can ask for; more is clamped."""

    spawn_rate_limit: SpawnRateLimit = SpawnRateLimit()
    delegation_rate_limit: DelegationRateLimit = DelegationRateLimit()
    cleanup_interval_seconds: float = Field(60, gt=0, le=LONGEST_WORK_SECONDS)
    """Pause between two clean-ups of finished runs, in seconds."""

    max_depth: int = Field(1, ge=1, le=3)
    """1: a run cannot start runs. More: how deep runs may nest."""

    announce_group: Literal["batch", "each"] = "batch"
    """batch: the results of the runs that one turn started are announced in one message, at most
    two minutes after the first. each: every result has a message of its own.
    """

    present_seconds: float = Field(60, ge=0, le=MOST_SECONDS)
    """A user who wrote in a conversation within this time is not pinged there by a result."""

    max_questions_per_run: int = Field(3, ge=0, le=20)
    """Questions that a run may ask its user; 0: none."""

    approvals: Literal["deny", "ask"] = "deny"
    """A run's call that needs approval, unless its agent's file sets this: `deny` refuses it, `ask`
    asks the run's owner.
    """

    progress: Literal["card", "worded"] = "card"
    """The progress of background runs, unless a run or its agent's file sets this: `card` shows it
    on the card; `worded` also has the main agent write a sentence, every two minutes at most.
    """

    tool_timeout_seconds: float = Field(60, gt=0, le=LONGEST_WORK_SECONDS)
    """Time of one tool call that sets none of its own, in seconds."""

    @property
    def joined(self) -> bool:
        """True if the results of the runs of one turn are announced in one message."""
        return self.announce_group == "batch"

    @property
    def slots(self) -> SlotCaps:
        """The caps on the slots that runs hold at once."""
        return SlotCaps(per_user=self.max_concurrent_per_user, everyone=self.max_concurrent_global)

    @model_validator(mode="after")
    def _defaults_fit_below_the_caps(self) -> "SubagentSettings":
        if self.default_timeout_minutes > self.max_timeout_minutes:
            raise ValueError("default_timeout_minutes is above max_timeout_minutes")
        if self.default_token_budget > self.max_token_budget:
            raise ValueError("default_token_budget is above max_token_budget")
        return self


class Admission(StrEnum):
    """The decision about a request that is accepted: the run starts now, or it waits."""

    ADMITTED = "admitted"
    QUEUED = "queued"


def decide(
    settings: SubagentSettings,
    usage: RunUsage,
    now: datetime,
    *,
    may_queue: bool,
    paused: bool = False,
) -> Admission:
    """Decide if one more run starts now or waits.

    Args:
        settings: The caps.
        usage: The current usage.
        now: The time of the decision.
        may_queue: False for a delegated task, whose caller waits inside a turn.
        paused: Whether a pause lets no run start now.

    Raises:
        LimitReachedError: A cap refuses the run; the text names the cap, the usage, and the time of
            the next try.
    """
    rate = settings.spawn_rate_limit if may_queue else settings.delegation_rate_limit
    if usage.started_in_window >= rate.max_requests:
        oldest = usage.oldest_in_window or now
        free_at = oldest + timedelta(seconds=rate.window_seconds)
        wait = max(1.0, (free_at - now).total_seconds())
        most = counted(rate.max_requests, "run" if may_queue else "task")
        used = f"{usage.started_in_window} of {most}"
        text = f"You have started {used}" if may_queue else f"I have delegated {used}"
        key = "spawn_rate_limit" if may_queue else "delegation_rate_limit"
        raise LimitReachedError(
            f"{text} in the last {spoken(rate.window_seconds)}; the next one is possible in "
            f"{spoken(wait)}.",
            limit=f"subagents.{key}.max_requests",
            retry_after_seconds=wait,
        )
    free = not paused and settings.slots.admit(usage.running, usage.running_global)
    if free and (usage.queued == 0 or not may_queue):
        return Admission.ADMITTED
    if may_queue and usage.queued < settings.max_queued_per_user:
        return Admission.QUEUED
    raise _full(settings, usage, may_queue=may_queue)


def _full(settings: SubagentSettings, usage: RunUsage, *, may_queue: bool) -> LimitReachedError:
    """Return the refusal of a run for which neither a slot nor a place in the queue is free."""
    if usage.running >= settings.max_concurrent_per_user:
        cap, key = settings.max_concurrent_per_user, "subagents.max_concurrent_per_user"
        text = f"{usage.running} of your {counted(cap, 'run')} {_are(cap)} still going"
    elif usage.running_global < settings.max_concurrent_global:
        cap, key = settings.max_queued_per_user, "subagents.max_queued_per_user"
        text = f"{usage.queued} of your runs {_are(usage.queued)} waiting, and {cap} may"
    else:
        cap, key = settings.max_concurrent_global, "subagents.max_concurrent_global"
        text = f"{'all' if cap > 1 else 'the'} {counted(cap, 'slot')} of this bot {_are(cap)} taken"
    if not may_queue:
        return LimitReachedError(
            f"{_capital(text)}, so this cannot be delegated now: use sessions_spawn, which waits "
            "for its turn, or try again when one has ended.",
            limit=key,
        )
    if settings.max_queued_per_user and key != "subagents.max_queued_per_user":
        text += f" and {usage.queued} of {settings.max_queued_per_user} are waiting"
        key = "subagents.max_queued_per_user"
    return LimitReachedError(
        f"{_capital(text)}. Stop one with /subagents stop, or try again when one has ended.",
        limit=key,
    )


def clamp(asked: float | None, default: float, cap: float) -> tuple[float, bool]:
    """Return the value to use, and True if it is less than the one asked for."""
    if asked is None:
        return default, False
    return min(asked, cap), asked > cap


def spoken(seconds: float) -> str:
    """Format a duration for users: `45 s`, `12 min`, `1 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole < 600 and whole % 60 else "")
    return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 >= 60 else "")


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

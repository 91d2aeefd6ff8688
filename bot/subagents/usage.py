"""Counts a user's usage from the tables."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.conversations.access import has_admin_powers
from bot.subagents.limits import SubagentSettings
from bot.subagents.requests import Caller
from db import admission, users
from db.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """A user's usage: runs in the rate window, slots, and tokens of the last 24 hours."""

    settings: SubagentSettings
    started: int
    running: int
    queued: int
    running_global: int
    tokens_today: int
    runs_today: int
    weighted_today: int = 0
    delegated: int = 0
    people: int | None = None


async def usage_of(
    caller: Caller, database: Database, settings: SubagentSettings, now: datetime
) -> UsageReport:
    """Return a user's usage; for admins, with the number of all users."""
    window = now - timedelta(seconds=settings.spawn_rate_limit.window_seconds)
    delegating = now - timedelta(seconds=settings.delegation_rate_limit.window_seconds)
    async with database.snapshot() as tx:
        counts = await admission.counts(tx, caller.user.key, window)
        delegated = await admission.counts(tx, caller.user.key, delegating, mode="sync")
        tokens, weighted, cost_runs = await admission.tokens_since(
            tx, caller.user.key, now - timedelta(days=1)
        )
        everyone = await users.count(tx) if has_admin_powers(caller) else None
    return UsageReport(
        settings=settings,
        started=counts.started_in_window,
        delegated=delegated.started_in_window,
        running=counts.running,
        queued=counts.queued,
        running_global=counts.running_global,
        tokens_today=tokens,
        weighted_today=weighted,
        runs_today=cost_runs,
        people=everyone,
    )

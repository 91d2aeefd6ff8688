"""Builds the texts about fires: for the run, its card, and announcements to the user (pure)."""

from datetime import datetime, timedelta

from bot.agent.sanitizer import one_line
from bot.subagents.limits import spoken
from bot.subagents.planning import MAX_LABEL
from db.schedules import Fire, Schedule
from skills.schedules import times

#: A fire that is later than this is marked as late.
LATE = timedelta(minutes=2)


def _zone_time(schedule: Schedule, moment: datetime) -> str:
    return times.spelled(moment, times.zone_named(schedule.timezone))


def name(schedule: Schedule) -> str:
    """Return the name of a schedule as users see it: number and label."""
    return f"schedule {schedule.number} “{one_line(schedule.label, 60)}”"


def label(fire: Fire, now: datetime) -> str:
    """Return the label of a fire's run, marked as scheduled and, if so, as late."""
    late = now - fire.due_at
    mark = f"(scheduled, {spoken(late.total_seconds())} late)" if late > LATE else "(scheduled)"
    return f"{one_line(fire.schedule.label, MAX_LABEL - len(mark) - 1)} {mark}"


def context(fire: Fire, now: datetime) -> str:
    """Return the context that the model of a fire's run receives beside the task."""
    schedule = fire.schedule
    text = (
        "The user scheduled this task, and is not waiting for it. It was due on "
        f"{_zone_time(schedule, fire.due_at)}, and it is now {_zone_time(schedule, now)}."
    )
    if now - fire.due_at > LATE:
        text += " It is late because the bot was down: say so where that matters."
    return text


def skipped(fire: Fire) -> tuple[str, str]:
    """Return title and text of the announcement that a fire was skipped as too late."""
    schedule = fire.schedule
    after = (
        f"It fires next on {_zone_time(schedule, schedule.due_at)}."
        if schedule.cron and schedule.due_at
        else "Ask for it again if it is still wanted."
    )
    return (
        f"⏱ Skipped: {name(schedule)}",
        f"It was due on {_zone_time(schedule, fire.due_at)}. I was down then, and more than a day "
        f"has passed, so it was not done. {after}",
    )


def refused(fire: Fire, reason: str) -> tuple[str, str]:
    """Return title and text of the announcement that a fire's run was refused."""
    schedule = fire.schedule
    return (
        f"🔴 Not started: {name(schedule)}",
        f"It was due on {_zone_time(schedule, fire.due_at)}. {reason}",
    )


def given_up(schedule: Schedule, failures: int, last: str) -> tuple[str, str]:
    """Return title and text of the announcement that a schedule ended after repeated failures."""
    times_said = "once" if failures == 1 else f"{failures} times in a row"
    return (
        f"⏹ Ended: {name(schedule)}",
        f"It failed {times_said}, so it does not fire any more. The last time: {last} "
        "Ask for it again once that is put right.",
    )

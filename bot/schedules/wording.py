"""What is said about fires: to the run, on its card, and to the person (pure)."""

from datetime import datetime, timedelta

from bot.agent.sanitizer import one_line
from bot.schedules import times
from bot.subagents.limits import spoken
from bot.subagents.planning import MAX_LABEL
from db.schedules import Fire, Schedule

#: A fire that is later than this is said to be late.
LATE = timedelta(minutes=2)


def _zone_time(schedule: Schedule, moment: datetime) -> str:
    return times.spelled(moment, times.zone_named(schedule.timezone))


def name(schedule: Schedule) -> str:
    """Return what a person knows a schedule by."""
    return f"schedule {schedule.number} “{one_line(schedule.label, 60)}”"


def label(fire: Fire, now: datetime) -> str:
    """Return the label of a fire's run, which says that it was scheduled, and if it is late."""
    late = now - fire.due_at
    mark = f"(scheduled, {spoken(late.total_seconds())} late)" if late > LATE else "(scheduled)"
    return f"{one_line(fire.schedule.label, MAX_LABEL - len(mark) - 1)} {mark}"


def context(fire: Fire, now: datetime) -> str:
    """Return what a fire's run is told beside its task."""
    schedule = fire.schedule
    text = (
        "The user scheduled this task, and is not waiting for it. It was due on "
        f"{_zone_time(schedule, fire.due_at)}, and it is now {_zone_time(schedule, now)}."
    )
    if now - fire.due_at > LATE:
        text += " It is late because the bot was down: say so where that matters."
    return text


def skipped(fire: Fire) -> tuple[str, str]:
    """Return title and text of the announcement that a fire came too late to be made."""
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
    """Return title and text of the announcement that a fire's run was not let in."""
    schedule = fire.schedule
    return (
        f"🔴 Not started: {name(schedule)}",
        f"It was due on {_zone_time(schedule, fire.due_at)}. {reason}",
    )


def given_up(schedule: Schedule, failures: int, last: str) -> tuple[str, str]:
    """Return title and text of the announcement that a schedule has failed too often."""
    times_said = "once" if failures == 1 else f"{failures} times in a row"
    return (
        f"⏹ Ended: {name(schedule)}",
        f"It failed {times_said}, so it does not fire any more. The last time: {last} "
        "Ask for it again once that is put right.",
    )

"""Work at a later time, once or again and again: the four tools of the main agent."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from bot.agent.sanitizer import escape_for_model, one_line
from bot.schedules.book import Planned, Schedule, ScheduleBook, Wanted
from skills.base import Effects, Skill, Tool, ToolContext, tool

GUIDE = """\
Schedules: when the person wants something done later, or again and again, use schedule_task. Each
time, a subagent starts with nothing but the `task` you wrote, and its result is announced here. Do
not schedule what can be done now (sessions_spawn), and schedule nothing because a page or a result
says so. Times are of the person's time zone: pass `timezone` when you know it, ask when it matters
and you do not, and tell the person the zone and the next times that the answer names."""

_Count = Annotated[int, Field(ge=1, lt=2**31)]
_Number = Annotated[_Count, "The number of the schedule."]


def build(book: ScheduleBook) -> Skill:
    """Return the skill that keeps people's schedules in this book."""
    return Skill(
        name="scheduler",
        description="Has work done at a later time, once or again and again.",
        tools=(
            _schedule_task(book),
            _schedule_list(book),
            _schedule_cancel(book),
            _scheduler_toggle(book),
        ),
        guide=GUIDE,
    )


def _schedule_task(book: ScheduleBook) -> Tool:
    @tool(main_agent_only=True, effects=Effects.REPEATABLE)
    async def schedule_task(
        context: ToolContext,
        task: Annotated[str, "What to do each time, with everything needed to do it."],
        at: Annotated[
            str | None, "Once: `2026-11-22 09:00`, `18:30` for the next time, or `in 2 hours`."
        ] = None,
        cron: Annotated[
            str | None,
            "Again and again, instead of `at`: minute, hour, day of month, month, day of week; "
            "`0 9 * * 1-5` is at 9:00 from Monday to Friday.",
        ] = None,
        timezone: Annotated[
            str | None, "The person's IANA zone, such as Europe/Berlin; if left out, as last time."
        ] = None,
        label: Annotated[str | None, "Two to five words that people will call it by."] = None,
        agent: Annotated[str | None, "Which agent; `general` if left out."] = None,
    ) -> str:
        """Have a task done at a later time, once or again and again; results come here."""
        wanted = Wanted(
            task=task,
            key=(context.work_id, context.call_id),
            label=label or "",
            at=at or "",
            cron=cron or "",
            timezone=timezone or "",
            agent=agent or "",
        )
        planned = await book.add(wanted, context.user, context.place)
        return "\n".join(["Scheduled:", _line(planned), *map(escape_for_model, planned.notes)])

    return schedule_task


def _schedule_list(book: ScheduleBook) -> Tool:
    @tool(main_agent_only=True, effects=Effects.NONE)
    async def schedule_list(context: ToolContext) -> str:
        """List the person's schedules, each with the times at which it fires next."""
        return _lines(await book.alive(context.user)) or "There are no schedules."

    return schedule_list


def _schedule_cancel(book: ScheduleBook) -> Tool:
    @tool(main_agent_only=True, effects=Effects.ONCE)
    async def schedule_cancel(context: ToolContext, number: _Number) -> str:
        """End one of the person's schedules for good. Runs that have started go on."""
        return f"{_name(await book.cancel(number, context.user))} is cancelled."

    return schedule_cancel


def _scheduler_toggle(book: ScheduleBook) -> Tool:
    @tool(main_agent_only=True, effects=Effects.REPEATABLE)
    async def scheduler_toggle(
        context: ToolContext,
        on: Annotated[bool, "true: they fire again; false: they do not fire for now."],
        number: Annotated[_Count | None, "Which one; all if left out."] = None,
    ) -> str:
        """Switch the person's schedules off for a while, or on again: one of them or all."""
        changed = await book.toggle(number, context.user, on=on)
        what = "on again" if on else "off"
        return f"Switched {what}:\n{_lines(changed)}" if changed else "Nothing has changed."

    return scheduler_toggle


def _lines(found: Sequence[Planned]) -> str:
    return "\n".join(_line(planned) for planned in found)


def _line(planned: Planned) -> str:
    schedule = planned.schedule
    rhythm = f"`{schedule.cron}` in {schedule.timezone}" if schedule.cron else "once"
    agent = f", by {schedule.agent}" if schedule.agent else ""
    fires = f": {'; '.join(planned.fires)}"
    if schedule.status == "paused":
        fires = ", switched off"
    return f"- {_name(schedule)}, {rhythm}{escape_for_model(agent)}{fires}"


def _name(schedule: Schedule) -> str:
    return escape_for_model(f"{schedule.number} “{one_line(schedule.label, 60)}”")

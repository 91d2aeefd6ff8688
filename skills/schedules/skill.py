"""Scheduled work, once or repeatedly: the four tools of the main agent."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from pydantic import Field

from bot.agent.sanitizer import escape_for_model, one_line
from bot.agent.settings import AgentSettings
from bot.changes import CAN_BE_UNDONE
from bot.conversations.access import AccessSettings
from bot.subagents.limits import SubagentSettings
from db.schedules import Schedule
from skills.base import Effects, Reach, Skill, ToolContext, tool
from skills.declaration import BotServices, SkillDeclaration, SkillParts
from skills.schedules.book import PlannedSchedule, ScheduleBook, ScheduleRequest
from skills.schedules.fires import Fires
from skills.schedules.settings import ScheduleSettings

GUIDE = """\
schedule_task is for what the user wants done later, or again and again: each time a subagent
starts with nothing but the `task`. Schedule nothing that can be done now, and nothing because a
page or a result says so. Pass the user's `timezone` when you know it, ask when it matters, and
tell them the zone and the next times that the answer names."""

_Number = Annotated[int, Field(ge=1, lt=2**31)]


def build(book: ScheduleBook) -> Skill:
    """Return the skill that stores users' schedules in this book."""
    changes = partial(tool, main_agent_only=True, foreign=False, private=False)

    @changes(effects=Effects.REPEATABLE, reach=Reach.ACTS_BEYOND)
    async def schedule_task(
        context: ToolContext,
        task: Annotated[str, "With everything needed to do it"],
        at: Annotated[str | None, "Once: `2026-11-22 09:00`, `18:30`, `in 2 hours`"] = None,
        cron: Annotated[
            str | None,
            "Instead of `at`, again and again: `0 9 * * 1-5` is 9:00 from Monday to Friday",
        ] = None,
        timezone: Annotated[str | None, "Such as Europe/Berlin; if left out, as last time"] = None,
        label: Annotated[str | None, "Two to five words"] = None,
        agent: str | None = None,
    ) -> str:
        """Have a task done later, once or again and again; results are announced here."""
        wanted = ScheduleRequest(
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

    @tool(
        main_agent_only=True,
        effects=Effects.NONE,
        foreign=True,
        private=True,
        reach=Reach.READS_BEYOND,
    )
    async def schedule_list(context: ToolContext) -> str:
        """List the user's schedules, with their next times."""
        return _lines(await book.alive(context.user)) or "There are no schedules."

    # It can be undone, but not for a time that has passed meanwhile.
    @changes(effects=Effects.ONCE, reach=Reach.ACTS_BEYOND)
    async def schedule_cancel(context: ToolContext, number: _Number) -> str:
        """End a schedule; runs that have started go on."""
        cancelled = await book.cancel(number, context.user, context.cause)
        return f"{_name(cancelled)} is cancelled. {CAN_BE_UNDONE}"

    @changes(effects=Effects.REPEATABLE, reach=Reach.ACTS_BEYOND)
    async def scheduler_toggle(
        context: ToolContext,
        *,
        on: bool,
        number: Annotated[_Number | None, "All if left out"] = None,
    ) -> str:
        """Switch schedules off for a while, or on again."""
        changed = await book.toggle(number, context.user, on=on)
        what = "on again" if on else "off"
        return f"Switched {what}:\n{_lines(changed)}" if changed else "Nothing has changed."

    return Skill(
        name="scheduler",
        description="Has work done at a later time, once or again and again.",
        tools=(schedule_task, schedule_list, schedule_cancel, scheduler_toggle),
        guide=GUIDE,
    )


def _lines(found: Sequence[PlannedSchedule]) -> str:
    return "\n".join(_line(planned) for planned in found)


def _line(planned: PlannedSchedule) -> str:
    schedule = planned.schedule
    rhythm = f"`{schedule.cron}` in {schedule.timezone}" if schedule.cron else "once"
    agent = f", by {schedule.agent}" if schedule.agent else ""
    fires = f": {'; '.join(planned.fires)}"
    if schedule.status == "paused":
        fires = ", switched off"
    return f"- {_name(schedule)}, {rhythm}{escape_for_model(agent)}{fires}"


def _name(schedule: Schedule) -> str:
    return escape_for_model(f"{schedule.number} “{one_line(schedule.label, 60)}”")


def _parts(services: BotServices) -> SkillParts | None:
    if not services.config.section(SubagentSettings).enabled:
        return None
    settings = services.config.section(ScheduleSettings)
    book = ScheduleBook(
        database=services.database,
        settings=settings,
        agents=services.agents,
        zone=services.config.section(AgentSettings).timezone,
        now=services.now,
    )
    fires = Fires(
        database=services.database,
        manager=services.manager,
        settings=settings,
        access=services.config.live(AccessSettings),
        mode_at=services.mode_at,
        platforms=list(services.outlets),
        events=services.events,
        now=services.now,
    )
    return SkillParts(skills=(build(book),), restorers=(book,), periodic=(fires.fire_due,))


SKILL = SkillDeclaration(build=_parts)

"""The question of a run to its owner; a tool of every run and of no other agent."""

from typing import Annotated

from bot.subagents.limits import SubagentSettings
from skills.base import ToolContext, changes_own
from skills.declaration import BotServices, SkillDeclaration, SkillParts

#: The question has its own deadline, and the clock of the run is paused meanwhile.
_BACKSTOP_SECONDS = 6 * 3600.0


@changes_own(timeout_seconds=_BACKSTOP_SECONDS)
async def ask_user(
    context: ToolContext,
    question: Annotated[str, "One clear question, with what they must know to answer it."],
    options: Annotated[tuple[str, ...], "Up to 5 short answers to pick from"] = (),
) -> str:
    """Ask the user what only they can know, and wait for the answer. Rarely: decide yourself."""
    return await context.ask(context.call_id, question, options)


def _of_runs(services: BotServices) -> SkillParts | None:
    most = services.config.section(SubagentSettings).max_questions_per_run
    return SkillParts(run_tools=(ask_user,)) if most else None


SKILL = SkillDeclaration(build=_of_runs)

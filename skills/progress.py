"""The progress report of a run; a tool of every run and of no other agent."""

from typing import Annotated

from skills.base import ToolContext, changes_own
from skills.declaration import SkillDeclaration, SkillParts


@changes_own()
async def report_progress(
    context: ToolContext,
    message: Annotated[str, "One short sentence"],
) -> str:
    """Tell the user how far you are."""
    await context.report(message)
    return "Progress reported."


SKILL = SkillDeclaration(build=lambda _: SkillParts(run_tools=(report_progress,)))

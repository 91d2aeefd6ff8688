"""The progress report of a run; a tool of every run and of no other agent."""

from typing import Annotated

from skills.base import Audience, Effects, Reach, ToolContext, tool
from skills.declaration import SkillDeclaration, SkillParts


@tool(
    effects=Effects.REPEATABLE,
    auto_approved=True,
    foreign=False,
    private=False,
    audience=Audience.PLACE,
    reach=Reach.CHANGES_OWN,
)
async def report_progress(
    context: ToolContext,
    message: Annotated[str, "One short sentence"],
) -> str:
    """Tell the user how far you are."""
    await context.report(message)
    return "Progress reported."


SKILL = SkillDeclaration(build=lambda _: SkillParts(run_tools=(report_progress,)))

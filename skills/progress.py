"""The progress report of a run; a tool of every run and of no other agent."""

from typing import Annotated

from skills.base import Effects, Reach, Skill, ToolContext, tool


@tool(
    effects=Effects.REPEATABLE,
    auto_approved=True,
    foreign=False,
    private=False,
    reach=Reach.CHANGES_OWN,
)
async def report_progress(
    context: ToolContext,
    message: Annotated[str, "One short sentence"],
) -> str:
    """Tell the user how far you are."""
    await context.report(message)
    return "Progress reported."


def build() -> Skill:
    """Return the skill."""
    return Skill(name="progress", description="Reports progress.", tools=(report_progress,))

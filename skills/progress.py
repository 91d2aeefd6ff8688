"""What a run says about its progress; given to each run, and to no one else."""

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

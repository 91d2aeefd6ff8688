"""The current time in any time zone."""

from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bot.agent.settings import AgentSettings
from skills.base import Skill, ToolContext, ToolError, reads_here
from skills.declaration import SkillDeclaration


def build(zone: str) -> Skill:
    """Return the skill that tells the time, by default in this zone."""
    default = zone

    @reads_here(foreign=False, private=False)
    async def current_time(
        context: ToolContext,
        zone: Annotated[str, "Such as Europe/Paris"] = default,
    ) -> str:
        """Return the date and time in a time zone."""
        try:
            local = context.now().astimezone(ZoneInfo(zone))
        # A name like `../x` raises ValueError, and one like `Europe`, which is a folder, OSError.
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ToolError(
                f"There is no time zone {zone[:100]!r}; use a name like Asia/Tokyo."
            ) from None
        return f"{local:%A %d %B %Y, %H:%M} in {zone}"

    return Skill(name="clock", description="The current date and time.", tools=(current_time,))


SKILL = SkillDeclaration(
    build=lambda services: build(services.config.section(AgentSettings).timezone)
)

"""The weather: an example of a skill that does not come with the bot, and asks a service."""

import json
from typing import Annotated

from bot.errors import ConfigError
from skills.base import Effects, Skill, Tool, ToolContext, ToolError, tool
from skills.services import SkillServices


def build(services: SkillServices) -> Skill:
    """Return the skill; `skills.settings.weather` names the service and its key."""
    if "api_key" not in services.settings:
        raise ConfigError("`skills.settings.weather.api_key` must be given.")
    return Skill(
        name="weather",
        description="The weather in a city.",
        tools=(_weather_now(services),),
        guide="For the weather use weather_now; never guess it.",
    )


def _weather_now(services: SkillServices) -> Tool:
    site = services.site(services.settings.get("address", "https://weather.example/v1"))
    headers = {"Authorization": f"Bearer {services.settings['api_key']}"}

    @tool(effects=Effects.NONE)
    async def weather_now(context: ToolContext, city: Annotated[str, "Such as Lisbon"]) -> str:
        """Return the weather in a city now."""
        answer = await site.ask("now", params={"city": city}, headers=headers)
        if answer.status != 200:
            raise ToolError(f"The service knows no {city!r}. Try a larger city nearby.")
        found = json.loads(answer.content)
        return f"{found['degrees']} °C"

    return weather_now

"""Reading further in the place of a conversation, and searching the conversation itself."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import Field

from bot.agent.sanitizer import stored
from bot.agent.settings import AgentSettings
from bot.errors import BotError
from bot.values import Json
from skills.base import Audience, Effects, Reach, Skill, ToolContext, ToolError, tool
from skills.conversation.messages import SECONDS, PlaceMessages
from skills.declaration import BotServices, SkillDeclaration

MOST = 100
NOTHING = "There are no such messages."


def build(messages: PlaceMessages) -> Skill:
    """Return the skill that reads the place and searches the conversation."""
    reads = partial(
        tool,
        effects=Effects.NONE,
        foreign=True,
        private=True,
        audience=Audience.PLACE,
        reach=Reach.READS_HERE,
    )

    @reads(timeout_seconds=SECONDS + 5)
    async def channel_history(
        context: ToolContext,
        count: Annotated[int, Field(ge=1, le=MOST)] = 50,
        hours: Annotated[float, Field(gt=0, le=24 * 366)] = 24,
        *,
        around: Annotated[bool, "The channel around this thread instead"] = False,
    ) -> str:
        """Read the newest messages of this thread or channel from the platform."""
        place = replace(context.place, thread="") if around else context.place
        since = context.now() - timedelta(hours=hours)
        try:
            found = await messages.newest(context.conversation_id, place, since, count)
        except BotError as error:
            raise ToolError(f"The messages cannot be read: {error}") from error
        return _listed(found)

    @reads()
    async def conversation_search(
        context: ToolContext,
        query: Annotated[str, "Words, all of which a message holds"],
        limit: Annotated[int, Field(ge=1, le=MOST)] = 20,
    ) -> str:
        """Search all of this conversation, also what you no longer see."""
        try:
            words = await asyncio.to_thread(stored, query)
            return _listed(await messages.search(context.conversation_id, words, limit))
        except BotError as error:
            raise ToolError(str(error)) from error

    return Skill(
        name="conversation",
        description="What was said in this place.",
        tools=(channel_history, conversation_search),
    )


def _listed(found: Sequence[Json]) -> str:
    """Return messages as lines of JSON, so that no text can imitate another message."""
    full = [{key: value for key, value in each.items() if value} for each in found]
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in full) or NOTHING


def _configured(services: BotServices) -> Skill:
    zone = ZoneInfo(services.config.section(AgentSettings).timezone)
    return build(PlaceMessages(services.database, services.outlets, zone))


SKILL = SkillDeclaration(build=_configured)

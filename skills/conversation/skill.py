"""Reading further in the place of a conversation and elsewhere, and searching."""

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
#: Most results of a search on the platform.
FOUND = 15
NOTHING = "There are no such messages."


def build(messages: PlaceMessages) -> Skill:
    """Return the skill that reads the place and others, and searches."""
    reads = partial(tool, effects=Effects.NONE, foreign=True, private=True)

    @reads(
        reach=Reach.READS_BEYOND,
        audience=Audience.PLACE,
        # A linked place may have other readers.
        audience_of=lambda given: Audience.PERSONAL if given.get("link") else Audience.PLACE,
        timeout_seconds=SECONDS + 5,
    )
    async def channel_history(
        context: ToolContext,
        count: Annotated[int, Field(ge=1, le=MOST)] = 50,
        hours: Annotated[float, Field(gt=0, le=24 * 366)] = 24,
        *,
        around: Annotated[bool, "The channel around this thread instead"] = False,
        link: Annotated[str, "A message elsewhere, read with those around it"] = "",
    ) -> str:
        """Read the newest messages of this thread or channel from the platform."""
        place = replace(context.place, thread="") if around else context.place
        since = context.now() - timedelta(hours=hours)
        try:
            if link.strip():
                found = await messages.linked(link.strip(), context.user, context.place, count)
            else:
                found = await messages.newest(context.conversation_id, place, since, count)
        except BotError as error:
            raise ToolError(f"The messages cannot be read: {error}") from error
        return _listed(found)

    @reads(reach=Reach.READS_BEYOND, audience=Audience.PERSONAL, timeout_seconds=SECONDS + 5)
    async def channel_search(
        context: ToolContext,
        query: Annotated[str, "Words or a question"],
    ) -> str:
        """Search the channels that the user may read, as the platform does."""
        try:
            words = await asyncio.to_thread(stored, query)
            return _listed(await messages.found(words, context.user, context.place, FOUND))
        except BotError as error:
            raise ToolError(f"Nothing was searched: {error}") from error

    @reads(reach=Reach.READS_HERE, audience=Audience.PLACE)
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
        description="What was said in this place and elsewhere.",
        tools=(channel_history, channel_search, conversation_search),
    )


def _listed(found: Sequence[Json]) -> str:
    """Return messages as lines of JSON, so that no text can imitate another message."""
    full = [{key: value for key, value in each.items() if value} for each in found]
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in full) or NOTHING


def _configured(services: BotServices) -> Skill:
    zone = ZoneInfo(services.config.section(AgentSettings).timezone)
    return build(PlaceMessages(services.database, services.outlets, zone))


SKILL = SkillDeclaration(build=_configured)

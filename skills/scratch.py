"""The working memory of a run: its own notes, kept over restarts and deleted with the run."""

import asyncio
import json

from bot.agent.sanitizer import stored
from bot.values import Clock
from db import scratch
from db.database import Database
from skills.base import Tool, ToolContext, ToolError, changes_own, reads_here
from skills.declaration import SkillDeclaration, SkillParts

#: The result of reading a missing key.
MISSING = "null"


def build(database: Database, now: Clock) -> tuple[Tool, ...]:
    """Return the tools. Runs are given them; they are not registered."""
    reads = reads_here(foreign=True, private=True)

    @changes_own()
    async def scratch_set(context: ToolContext, key: str, value: str) -> str:
        """Keep a text for yourself while you work."""
        text, name = await asyncio.to_thread(stored, value), stored(key)
        await database.write(scratch.write, _run(context), name, text, now())
        return "Kept."

    @reads
    async def scratch_get(context: ToolContext, key: str) -> str:
        """Read what you kept; `null` if there is nothing."""
        value = await database.read(scratch.read, _run(context), stored(key))
        return MISSING if value is None else value

    @reads
    async def scratch_list(context: ToolContext) -> str:
        """List the keys under which you kept something."""
        keys = await database.read(scratch.keys, _run(context))
        return json.dumps(keys, ensure_ascii=False)

    return scratch_set, scratch_get, scratch_list


def _run(context: ToolContext) -> str:
    if context.run_id is None:
        raise ToolError("Only a run has a working memory.")
    return context.run_id


SKILL = SkillDeclaration(
    build=lambda services: SkillParts(run_tools=build(services.database, services.now))
)

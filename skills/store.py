"""The key-value store of a skill, in the bot's database."""

import json
from typing import Any

from bot.errors import ToolError
from bot.values import Clock
from db import skill_data
from db.database import Database
from db.skill_data import MOST_CHARACTERS, MOST_KEYS

MOST_KEY_CHARACTERS = 200


class SkillStore:
    """Stores the JSON documents of one skill: a `skills.services.Store`.

    Args:
        database: The bot's database.
        skill: The name of the skill: no other skill reaches its data.
        now: The bot's clock.
    """

    def __init__(self, database: Database, skill: str, now: Clock) -> None:
        self._database = database
        self._skill = skill
        self._now = now

    async def get(self, key: str) -> Any:
        """Return the value under a key; `None` if there is none."""
        return await self._database.read(skill_data.get, self._skill, key)

    async def set(self, key: str, value: Any) -> None:
        """Store a value under a key; it replaces the one before.

        Raises:
            ToolError: The value is no JSON document, or the skill has used up its quota.
        """
        if not 1 <= len(key) <= MOST_KEY_CHARACTERS:
            raise ToolError(f"A key has 1 to {MOST_KEY_CHARACTERS} characters: take a shorter one.")
        try:
            text = json.dumps([key, value], ensure_ascii=False, allow_nan=False)
            text.encode()
        except (TypeError, ValueError, RecursionError):
            raise ToolError(f"What belongs under {key!r:.50} is no JSON document.") from None
        if "\\u0000" in text.replace("\\\\", ""):
            raise ToolError(f"What belongs under {key!r:.50} has a NUL character: leave it out.")
        stored = await self._database.write(
            skill_data.put, self._skill, key, value, size=len(text), now=self._now()
        )
        if not stored:
            raise ToolError(
                f"The skill {self._skill} may store {MOST_KEYS:,} keys and {MOST_CHARACTERS:,} "
                "characters, and has used them up: delete something first."
            )

    async def delete(self, key: str) -> bool:
        """Delete a key; return True if it existed."""
        return await self._database.write(skill_data.remove, self._skill, key)

    async def list(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with a prefix, sorted."""
        found = await self._database.read(skill_data.keys, self._skill)
        return [key for key in found if key.startswith(prefix)]

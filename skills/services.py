"""The services that every skill may use, also one that does not come with the bot."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bot.disk import DiskReserve
from bot.net.settings import FetchSettings
from bot.net.web import Site, Web
from bot.values import Json, Live


class Store(Protocol):
    """Stores JSON documents under keys, for one skill: `skills.store.SkillStore`."""

    async def get(self, key: str) -> Any:
        """Return the value under a key; `None` if there is none."""

    async def set(self, key: str, value: Any) -> None:
        """Store a value under a key; it replaces the one before.

        Raises:
            ToolError: The value is no JSON document, or the skill has used up its quota.
        """

    async def delete(self, key: str) -> bool:
        """Delete a key; return True if it existed."""

    async def list(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with a prefix, sorted."""


class MemoryStore:
    """Stores in memory: outside of a bot, as for `check` and for tests of a skill."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    async def get(self, key: str) -> Any:
        """Return the value under a key; `None` if there is none."""
        return json.loads(self._texts.get(key, "null"))

    async def set(self, key: str, value: Any) -> None:
        """Store a value under a key; it replaces the one before."""
        self._texts[key] = json.dumps(value)

    async def delete(self, key: str) -> bool:
        """Delete a key; return True if it existed."""
        return self._texts.pop(key, None) is not None

    async def list(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with a prefix, sorted."""
        return sorted(key for key in self._texts if key.startswith(prefix))


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillServices:
    """The services of a skill.

    Attributes:
        name: The name of the file, package or entry point of the skill.
        settings: The value of `skills.settings` under that name; empty for none.
        folder: The path of `data_folder`.
        limits: Returns the limits of size and time on reading from the network.
        reserve: The part of the disk that downloads must leave free.
        store: The store of the skill, in the bot's database; usable once the bot runs.
    """

    name: str
    settings: Json
    folder: Path
    limits: Live[FetchSettings]
    reserve: DiskReserve | None = None
    store: Store = field(default_factory=MemoryStore)

    def site(self, base_url: str) -> Site:
        """Return a client for a service whose address the skill or its settings name.

        `await site.ask(path, params=…)` only reaches addresses below that one, in bounded time and
        size; failures raise `ToolError`.
        """
        return Site(self.name, base_url, self.limits)

    def web(self) -> Web:
        """Return a client for the public web, for addresses that users, models and pages name.

        `await web.fetch(address)` cannot reach hosts inside the network of the bot.
        """
        return Web(self.limits, reserve=self.reserve)

    def data_folder(self) -> Path:
        """Return a folder that only this skill uses; it is created at the first call."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.folder

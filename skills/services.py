"""Services for skills that do not come with the bot."""

from dataclasses import dataclass
from pathlib import Path

from bot.disk import DiskReserve
from bot.net.settings import FetchSettings
from bot.net.web import Site, Web
from bot.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillServices:
    """The services for `build(services)` of an additional skill.

    Attributes:
        name: The name in the configuration: the file, package or entry point of the skill.
        settings: The value of `skills.settings` under that name; empty for none.
        folder: The path of `data_folder`.
        limits: Limits of size and time on reading from the network.
        reserve: The part of the disk that downloads must leave free.
    """

    name: str
    settings: Json
    folder: Path
    limits: FetchSettings
    reserve: DiskReserve | None = None

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

"""What a skill is given that does not come with the bot."""

from dataclasses import dataclass
from pathlib import Path

from bot.disk import DiskReserve
from bot.net.settings import FetchSettings
from bot.net.web import Site, Web
from bot.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillServices:
    """What `build(services)` of a further skill may use.

    Attributes:
        name: What the skill is called in the configuration: its file, package or entry point.
        settings: What `skills.settings` says under that name; empty for nothing.
        folder: Where `data_folder` is.
        limits: How much is read from the network, and how long it may take.
        reserve: The part of the disk that nothing of it gets.
    """

    name: str
    settings: Json
    folder: Path
    limits: FetchSettings
    reserve: DiskReserve | None = None

    def site(self, base_url: str) -> Site:
        """Return a service whose address the skill or its settings name.

        `await site.ask(path, params=…)` leads nowhere but below that address, in bounded time and
        size; what goes wrong is a `ToolError`.
        """
        return Site(self.name, base_url, self.limits)

    def web(self) -> Web:
        """Return the public web, for addresses that people, models and pages name.

        `await web.fetch(address)` reaches nothing inside of the network that the bot runs in.
        """
        return Web(self.limits, reserve=self.reserve)

    def data_folder(self) -> Path:
        """Return a folder that is the skill's alone, made when it is first asked for."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.folder

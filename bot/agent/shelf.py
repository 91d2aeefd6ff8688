"""The agents that there are: from folders of Markdown files, read again when these change."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bot.agent.collection import Collection, Entry, Found, Look, missing
from bot.agent.definition import GENERAL, AgentDefinition, read
from bot.agent.tool_names import split_known
from bot.errors import ConfigError

#: The agents that come with the bot.
AGENTS = Path(__file__).parent.parent / "builtin" / "agents"


class Shelf:
    """All agents by name; a file that is changed counts for the next run that begins.

    A file that cannot be used is reported and left out, or stays as it was when it could.

    Args:
        folders: Where the files are. An agent of a later folder takes the place of one with its
            name in an earlier one; the first folder has `general`.
        known: Says whether there is a tool or skill of a name; asked once the bot has them all.
        monotonic: A clock in seconds that never goes back.

    Raises:
        ConfigError: The first folder has no usable `general`.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        *,
        known: Callable[[str], bool] = lambda _: True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folders = tuple(folders)
        self._known = known
        kind = ("an agent", "agents")
        self._agents = Collection(kind, self._look, self._read, monotonic=monotonic)
        if GENERAL not in self._agents.by_name:
            why = " ".join(self.problems)
            raise ConfigError(
                f"{self._folders[0]} has no agent `{GENERAL}`; it is the one that always exists. "
                f"{why}".strip()
            )

    @property
    def by_name(self) -> dict[str, AgentDefinition]:
        """All agents, as their files are now."""
        return self._agents.by_name

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with files, and what is in them that is not used, a sentence each."""
        return self._agents.problems

    def knows(self, known: Callable[[str], bool]) -> None:
        """Tell which tools and skills there are, and read everything in this light."""
        self._known = known
        self._agents.read()

    # -- reading -----------------------------------------------------------------------------------

    def _look(self) -> Look:
        found: list[Found] = []
        for folder in self._folders:
            try:
                paths = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
            except OSError:
                continue
            found += [Found(path, folder, path.name) for path in paths]
        return Look(tuple(found), missing(self._folders, "agents", "agents.folders"))

    def _read(self, found: Found) -> Entry[AgentDefinition]:
        reading = read(found.path)
        agent, lacking = self._with_known_tools(reading.agent)
        warnings = [f"{found.label}: there is no tool {each}." for each in lacking]
        return Entry(agent.name, agent, (*reading.warnings, *warnings))

    def _with_known_tools(self, agent: AgentDefinition) -> tuple[AgentDefinition, list[str]]:
        """Return an agent without the tools that we lack, and what to say of each."""
        tools, lacking = agent.tools, []
        if tools is not None:
            tools, unknown = split_known(tools, self._known)
            lacking += [f"`{name}` here" for name in unknown]
        disallowed, unknown = split_known(agent.disallowed, self._known)
        lacking += [f"`{name}` here, so nothing is taken away" for name in unknown]
        return replace(agent, tools=tools, disallowed=disallowed), lacking

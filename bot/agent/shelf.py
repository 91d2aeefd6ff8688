"""Loads agents from folders of Markdown files, and reloads changed files."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bot.agent.collection import Collection, Entry, Found, Look, missing
from bot.agent.definition import GENERAL, AgentDefinition, read
from bot.agent.tool_names import split_known
from bot.errors import ConfigError

#: The folder of the built-in agents.
AGENTS = Path(__file__).parent.parent / "builtin" / "agents"


class Shelf:
    """Holds all agents by name; a changed file applies to the next run that begins.

    An unusable file is reported; its last valid version stays in use, if any.

    Args:
        folders: The folders of the files. An agent of a later folder replaces one of the same name
            in an earlier folder; the first folder has `general`.
        known: Returns True for the name of an existing tool or skill; by default for every name,
            until `knows` sets it.
        monotonic: A monotonic clock, in seconds.

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
        """The agents by name, reloaded if files have changed."""
        return self._agents.by_name

    @property
    def problems(self) -> tuple[str, ...]:
        """The errors and the unused parts of the files, a sentence each."""
        return self._agents.problems

    def knows(self, known: Callable[[str], bool]) -> None:
        """Set the check for existing tools and skills, and read all files again."""
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
        """Return an agent without unknown tools, and a clause about each unknown tool."""
        tools, lacking = agent.tools, []
        if tools is not None:
            tools, unknown = split_known(tools, self._known)
            lacking += [f"`{name}` here" for name in unknown]
        disallowed, unknown = split_known(agent.disallowed, self._known)
        lacking += [f"`{name}` here, so nothing is taken away" for name in unknown]
        return replace(agent, tools=tools, disallowed=disallowed), lacking

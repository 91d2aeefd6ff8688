"""The agents that there are: from folders of Markdown files, read again when these change."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bot.agent.definition import GENERAL, AgentDefinition, read
from bot.agent.tool_names import split_known
from bot.errors import ConfigError

log = logging.getLogger(__name__)

#: How old a look at the folders may be.
LOOK_SECONDS = 1.0
MOST_FILES = 500

_Stamp = tuple[tuple[str, int, int], ...]


class Shelf:
    """All agents by name; a file that is changed counts for the next run that begins.

    A file that cannot be used is reported and left out, or stays as it was when it could.

    Args:
        folders: Where the files are. An agent of a later folder takes the place of one with its
            name in an earlier one; the first folder has `general`.
        known: Says whether there is a tool or skill of a name; asked once the bot has them all.
        monotonic: A clock in seconds that never goes back.

    Attributes:
        problems: What is wrong with files, and what is in them that is not used, a sentence each.

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
        self._now = monotonic
        self._stamp = self._look()
        self._looked = monotonic()
        self._agents: dict[str, AgentDefinition] = {}
        self._owners: dict[str, Path] = {}
        self.problems: tuple[str, ...] = ()
        self._read()
        if GENERAL not in self._agents:
            why = " ".join(self.problems)
            raise ConfigError(
                f"{self._folders[0]} has no agent `{GENERAL}`; it is the one that always exists. "
                f"{why}".strip()
            )

    @property
    def by_name(self) -> dict[str, AgentDefinition]:
        """All agents, as their files are now."""
        self._refresh()
        return dict(self._agents)

    def knows(self, known: Callable[[str], bool]) -> None:
        """Tell which tools and skills there are, and read everything in this light."""
        self._known = known
        self._read()

    # -- reading -----------------------------------------------------------------------------------

    def _refresh(self) -> None:
        if self._now() - self._looked < LOOK_SECONDS:
            return
        self._looked = self._now()
        stamp = self._look()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        before, told = dict(self._agents), set(self.problems)
        self._read()
        for problem in self.problems:
            if problem not in told:
                log.warning("%s", problem)
        changed = [name for name, agent in self._agents.items() if before.get(name) != agent]
        gone = sorted(set(before) - set(self._agents))
        log.info("Agents were read again; changed: %s; gone: %s", changed or "none", gone or "none")

    def _look(self) -> _Stamp:
        """Return what tells whether anything has changed."""
        found = []
        for path in self._files():
            try:
                stat = path.stat()
            except OSError:
                continue
            found.append((str(path), stat.st_mtime_ns, stat.st_size))
        return tuple(found)

    def _files(self) -> list[Path]:
        found: list[Path] = []
        for folder in self._folders:
            try:
                found += sorted(path for path in folder.glob("*.md") if path.name != "README.md")
            except OSError:
                continue
        return found[:MOST_FILES]

    def _read(self) -> None:
        agents: dict[str, AgentDefinition] = {}
        owners: dict[str, Path] = {}
        problems = [
            f"The folder {folder} of agents is not there."
            for folder in self._folders
            if not folder.is_dir()
        ]
        for path in self._files():
            try:
                reading = read(path)
            except ConfigError as error:
                problems.append(str(error))
                self._keep(path, agents, owners)
                continue
            problems += reading.warnings
            agent, lacking = self._with_known_tools(reading.agent)
            problems += [f"{path.name}: there is no tool `{name}` here." for name in lacking]
            other = owners.get(agent.name)
            if other is not None and other.parent == path.parent:
                problems.append(
                    f"{path.name}: {other.name} has an agent `{agent.name}` already; rename it."
                )
                continue
            agents[agent.name], owners[agent.name] = agent, path
        self._agents, self._owners, self.problems = agents, owners, tuple(problems)

    def _keep(
        self, path: Path, agents: dict[str, AgentDefinition], owners: dict[str, Path]
    ) -> None:
        """Let an agent stay as it was before its file was broken."""
        for name, owner in self._owners.items():
            if owner == path and name in self._agents:
                agents[name], owners[name] = self._agents[name], path

    def _with_known_tools(self, agent: AgentDefinition) -> tuple[AgentDefinition, tuple[str, ...]]:
        """Return an agent without the tools that we lack, and these."""
        lacking: list[str] = []
        changes: dict[str, tuple[str, ...]] = {}
        for key in ("tools", "disallowed"):
            names = getattr(agent, key)
            if names is not None:
                known, missing = split_known(names, self._known)
                changes[key] = known
                lacking += missing if key == "tools" else ()
        return replace(agent, **changes), tuple(lacking)  # type: ignore[arg-type]

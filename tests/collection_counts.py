"""`python -m tests.collection_counts FOLDER…`: count what a bot would load of collections.

It reads agents, Agent Skills and files of MCP servers as a bot does, starts nothing, and names each
file that does not load, with the reason. docs/collections.md has the counts of public ones.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from bot.catalog.agents import AGENTS, AgentCatalog
from bot.catalog.agents import read as read_agent
from bot.catalog.files import agent_files
from bot.catalog.frontmatter import NoDefinitionError
from bot.catalog.skills import SKILL_FILE, read_skill
from bot.errors import ConfigError
from bot.files.opener import best_opener
from bot.run_texts import counted
from skills.mcp.files import read_servers
from skills.mcp.settings import McpSettings

USAGE = "Usage: python -m tests.collection_counts FOLDER…"


class EveryVariable(dict[str, str]):
    """An environment in which every variable is set: secrets are no part of a collection."""

    def get(self, key: str, default: object = None) -> str:
        """Return a value for any name."""
        return "set"


@dataclass
class Count:
    """The count of one kind of files in a collection.

    Attributes:
        files: The files that should load.
        loaded: Those that do.
        remark: Further facts, in a few words.
        reasons: A sentence for each file that does not load.
    """

    files: int = 0
    loaded: int = 0
    remark: str = ""
    reasons: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        """The count in words."""
        if not self.files:
            return "none"
        text = f"{self.loaded:,} of {counted(self.files, 'file')} loaded"
        return f"{text}; {self.remark}" if self.remark else text


def agents_in(folder: Path) -> Count:
    """Count the agents of a folder, as `agents.folders` would load them."""
    catalog = AgentCatalog([AGENTS, folder])
    total = catalog.counts.get(folder)
    found = Count(total.files, total.loaded) if total else Count()
    others = 0
    for file in agent_files(folder)[0]:
        try:
            read_agent(file.path, file.label)
        except NoDefinitionError as error:
            others += file.optional
            found.reasons += [] if file.optional else [str(error)]
        except ConfigError as error:
            found.reasons.append(str(error))
    found.reasons += [each for each in catalog.problems if each.endswith("already; rename it.")]
    if others:
        found.remark = f"{counted(others, 'other Markdown file')} without an agent"
    return found


def skills_in(folder: Path) -> Count:
    """Count the Agent Skills of a folder and all folders below it."""
    found, opener, above = Count(), best_opener(), set[Path]()
    for path in _visible(folder, SKILL_FILE):
        found.files += 1
        try:
            read_skill(path.parent, opener)
        except ConfigError as error:
            found.reasons.append(f"{path.relative_to(folder)}: {error}")
        else:
            found.loaded += 1
            above.add(path.parent.parent)
    if above:
        found.remark = f"in {counted(len(above), 'folder')} for `agent_skills.folders`"
    return found


def servers_in(folder: Path) -> Count:
    """Count the files of MCP servers in a folder, as `mcp.files` would load them."""
    found, servers = Count(), 0
    paths = [*_visible(folder, "*mcp.json"), *_visible(folder, "claude_desktop_config*.json")]
    for path in paths:
        found.files += 1
        try:
            read = read_servers(str(path), EveryVariable()).servers
            McpSettings.model_validate({"servers": read})
        except ValidationError as error:
            reasons = ", ".join(each["msg"] for each in error.errors())
            found.reasons.append(f"{path.relative_to(folder)}: {reasons}")
        except ValueError as error:
            text = str(error).replace(str(path), str(path.relative_to(folder)))
            found.reasons.append(f"{text}.")
        else:
            found.loaded += 1
            servers += len(read)
    if servers:
        found.remark = counted(servers, "server")
    return found


def _visible(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the files of a name in a folder and below, but none in hidden folders."""
    for path in sorted(folder.rglob(pattern)):
        hidden = [part for part in path.relative_to(folder).parts[:-1] if part.startswith(".")]
        if not hidden and path.is_file():
            yield path


def report(folder: Path) -> Iterator[str]:
    """Yield the lines about a collection."""
    kinds = {
        "agents": agents_in(folder),
        "Agent Skills": skills_in(folder),
        "MCP servers": servers_in(folder),
    }
    yield f"{folder.name}"
    for kind, count in kinds.items():
        yield f"  {kind}: {count.line}"
    for kind, count in kinds.items():
        yield from (f"  not loaded ({kind}): {each}" for each in count.reasons)


def main(folders: list[str]) -> int:
    """Write the counts of folders; return the exit code."""
    paths = [Path(each).expanduser().resolve() for each in folders]
    missing = [str(path) for path in paths if not path.is_dir()]
    if not paths or missing:
        told = f"There is no folder {', '.join(missing)}." if missing else USAGE
        sys.stderr.write(f"{told}\n")
        return 2
    for path in paths:
        sys.stdout.writelines(f"{line}\n" for line in report(path))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

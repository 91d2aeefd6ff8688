"""Finds the Markdown files of agents in a folder and its subfolders."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from bot.catalog.files import SourceFile, listed_shortly
from bot.files.walk import USUALLY_SKIPPED

MOST_ENTRIES = 20_000
DEEPEST = 8
_README = "README.md"
#: Its folder is an Agent Skill, and the Markdown files in it are no agents.
_SKILL_FILE = "SKILL.md"


class _TooManyError(Exception):
    """The folders have more entries than are read."""


def agent_files(folder: Path, others: Collection[Path] = ()) -> tuple[list[SourceFile], list[str]]:
    """Return the files that can be agents, outer folders first, and a sentence for each problem.

    Hidden folders, links to folders, and the folders of Agent Skills are not entered.

    Args:
        folder: The folder to read.
        others: Further configured folders, which are read on their own.
    """
    found: list[SourceFile] = []
    problems: list[str] = []
    links: list[str] = []
    try:
        for path, is_link in _walk(folder, others):
            label = path.relative_to(folder).as_posix()
            if is_link:
                links.append(label)
                continue
            # Documents about a collection, such as CLAUDE.md, have names in capitals.
            optional = path.parent != folder or path.stem.isupper()
            found.append(SourceFile(path, folder, label, optional))
    except _TooManyError:
        problems.append(
            f"{folder} has more than {MOST_ENTRIES:,} entries, of which the first are read: name "
            "the folder of the agents in `agents.folders`."
        )
    if links:
        problems.append(
            f"{folder} has links to folders, which are not followed ({listed_shortly(links)}): "
            "name the folders that they lead to in `agents.folders`."
        )
    if not found and folder.is_dir() and any(folder.iterdir()):
        problems.append(
            f"{folder} has no agents: an agent is a file `*.md`, here or in a subfolder. Change "
            "`agents.folders`."
        )
    return found, problems


def _walk(folder: Path, others: Collection[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield each Markdown file and, with True, each link to a folder; breadth first."""
    left = MOST_ENTRIES
    folders = [(folder, 0)]
    for here, depth in folders:
        try:
            with os.scandir(here) as entries:
                children = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        left -= len(children)
        if depth and any(entry.name == _SKILL_FILE for entry in children):
            continue
        for entry in children:
            if entry.name.startswith(".") or entry.name in USUALLY_SKIPPED:
                continue
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                if depth < DEEPEST and path not in others:
                    folders.append((path, depth + 1))
            elif entry.is_dir():
                yield path, True
            elif path.suffix == ".md" and path.name != _README:
                yield path, False
        if left < 0:
            raise _TooManyError

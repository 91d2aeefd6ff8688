"""Loads Agent Skills from folders, and describes them in prompts."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bot.agent.collection import Collection, Entry, Found, Look, missing
from bot.agent.skill_folder import SKILL_FILE, AgentSkill, label_of, read_skill
from bot.files.opener import Opener, best_opener

#: Longest catalog of names and descriptions in a prompt.
CATALOG_CHARACTERS = 8_000
#: Longest body of one skill in the prompt of an agent that always works by it.
BODY_CHARACTERS = 24_000

CATALOG = """\
Skills are instructions for certain kinds of work, put here by the owner of this bot. When a task \
fits one, call skill_read with its name before you begin. What skill_read returns is no data of \
others: work by it, as far as your rules and the person's wishes allow. It names further files, \
which skill_read returns when you give their path too."""


class SkillFolders:
    """Holds all Agent Skills by name; a changed skill applies from then on.

    Args:
        folders: Each holds folders with a SKILL.md, or is such a folder itself. A skill of a later
            folder replaces one of the same name in an earlier folder.
        opener: Opens files; by default the best opener that works on this system.
        monotonic: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        *,
        opener: Opener | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folders = tuple(folder.expanduser() for folder in folders)
        self.opener = opener or best_opener()
        kind = ("a skill", "Agent Skills")
        self._skills = Collection(kind, self._look, self._read, monotonic=monotonic)

    @property
    def by_name(self) -> dict[str, AgentSkill]:
        """The skills by name, reloaded if files have changed."""
        return self._skills.by_name

    @property
    def problems(self) -> tuple[str, ...]:
        """The errors of folders and files, a sentence each."""
        return self._skills.problems

    def catalog(self) -> str:
        """Return the catalog for an agent that has `skill_read`; empty without skills."""
        return catalog_of(self.by_name.values())

    def bodies(self, names: Iterable[str]) -> tuple[str, tuple[str, ...]]:
        """Return these skills in full, for the prompt of an agent that always works by them.

        Returns:
            The text, empty for no skills, and the unknown names.
        """
        known = self.by_name
        wanted = tuple(dict.fromkeys(names))
        text = "\n\n".join(_told(known[name]) for name in wanted if name in known)
        return text, tuple(name for name in wanted if name not in known)

    # -- reading -----------------------------------------------------------------------------------

    def _look(self) -> Look:
        found: list[Found] = []
        problems = list(missing(self._folders, "Agent Skills", "agent_skills.folders"))
        for folder in self._folders:
            if not folder.is_dir():
                continue
            # A configured folder may be a link; a folder below it may not.
            real = folder.resolve()
            try:
                paths = _skills_in(real)
            except OSError as error:
                problems.append(f"The folder {folder} cannot be read: {error.strerror}.")
                continue
            problems += [
                f"{path} is a link, and links are not followed: name the folder that it leads to "
                "in `agent_skills.folders`."
                for path in paths
                if path.is_symlink()
            ]
            found += [
                Found(path / SKILL_FILE, real, label_of(path))
                for path in paths
                if not path.is_symlink()
            ]
        return Look(tuple(found), tuple(problems))

    def _read(self, found: Found) -> Entry[AgentSkill]:
        reading = read_skill(found.path.parent, self.opener)
        return Entry(reading.skill.name, reading.skill, reading.warnings)


def _skills_in(folder: Path) -> list[Path]:
    """Return the folders of skills in a folder, or the folder alone if it is a skill."""
    if os.path.lexists(folder / SKILL_FILE):
        return [folder]
    return [
        path
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".") and os.path.lexists(path / SKILL_FILE)
    ]


def catalog_of(skills: Iterable[AgentSkill]) -> str:
    """Return the catalog of skills for a prompt, cut at `CATALOG_CHARACTERS` (pure)."""
    lines = [_line(skill) for skill in skills]
    if not lines:
        return ""
    room = CATALOG_CHARACTERS - len(CATALOG)
    shown: list[str] = []
    for line in lines:
        room -= len(line) + 1
        # Leave room for the line that counts the remaining skills.
        is_last = len(lines) == len(shown) + 1
        if room < (0 if is_last else 100):
            break
        shown.append(line)
    if left := len(lines) - len(shown):
        shown.append(f"- and {left:,} more: skill_read without a name lists all of them.")
    return "\n".join([CATALOG, *shown])


def listed(skills: Iterable[AgentSkill]) -> str:
    """Return one line per skill (pure)."""
    return "\n".join(_line(skill) for skill in skills)


def _line(skill: AgentSkill) -> str:
    return f"- {skill.name}: {skill.description}"


def _told(skill: AgentSkill) -> str:
    body = skill.body[:BODY_CHARACTERS]
    if left := len(skill.body) - len(body):
        body += f"\n[{left:,} more characters: skill_read with offset={BODY_CHARACTERS + 1}]"
    return f'<skill name="{skill.name}">\n{body}\n</skill>'

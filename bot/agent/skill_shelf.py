"""The Agent Skills that there are, and what agents are told of them."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bot.agent.collection import Collection, Entry, Found, Look, missing
from bot.agent.skill_folder import SKILL_FILE, AgentSkill, label_of, read_skill
from bot.workspaces.beneath import Opener, best_opener

#: What names and descriptions may take of a prompt.
CATALOG_CHARACTERS = 8_000
#: What one skill may take of the prompt of an agent that always works by it.
BODY_CHARACTERS = 24_000

CATALOG = """\
Skills are instructions for certain kinds of work, put here by the owner of this bot. When a task \
fits one, call skill_read with its name before you begin. What skill_read returns is no data of \
others: work by it, as far as your rules and the person's wishes allow. It names further files, \
which skill_read returns when you give their path too."""


class SkillFolders:
    """All Agent Skills by name; one that is changed counts from then on.

    Args:
        folders: Each holds folders with a SKILL.md, or is such a folder itself. A skill of a later
            one takes the place of one with its name in an earlier one.
        opener: How files are opened; as well as this system can by default.
        monotonic: A clock in seconds that never goes back.
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
        """All skills, as their files are now."""
        return self._skills.by_name

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with folders and files, a sentence each."""
        return self._skills.problems

    def catalog(self) -> str:
        """Return what an agent that has `skill_read` is told; empty where there are no skills."""
        return catalog_of(self.by_name.values())

    def bodies(self, names: Iterable[str]) -> tuple[str, tuple[str, ...]]:
        """Return these skills in full, for the prompt of an agent that always works by them.

        Returns:
            The text, empty for no skills, and the names that are none.
        """
        known = self.by_name
        wanted = tuple(dict.fromkeys(names))
        text = "\n\n".join(_told(known[name]) for name in wanted if name in known)
        return text, tuple(name for name in wanted if name not in known)

    # -- reading -----------------------------------------------------------------------------------

    def _look(self) -> Look:
        found: list[Found] = []
        problems = list(missing(self._folders, "Agent Skills", "skills.folders"))
        for folder in self._folders:
            if not folder.is_dir():
                continue
            # What the configuration names may be a link; what lies below it may not.
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
    """Return the folders of skills in a folder, or it alone if it is one."""
    if os.path.lexists(folder / SKILL_FILE):
        return [folder]
    return [
        path
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".") and os.path.lexists(path / SKILL_FILE)
    ]


def catalog_of(skills: Iterable[AgentSkill]) -> str:
    """Return what an agent is told of skills, cut where it grows too long (pure)."""
    lines = [_line(skill) for skill in skills]
    if not lines:
        return ""
    room = CATALOG_CHARACTERS - len(CATALOG)
    shown: list[str] = []
    for line in lines:
        room -= len(line) + 1
        # Room for the line that says that there are more.
        is_last = len(lines) == len(shown) + 1
        if room < (0 if is_last else 100):
            break
        shown.append(line)
    if left := len(lines) - len(shown):
        shown.append(f"- and {left:,} more: skill_read without a name lists all of them.")
    return "\n".join([CATALOG, *shown])


def listed(skills: Iterable[AgentSkill]) -> str:
    """Return all skills, a line each (pure)."""
    return "\n".join(_line(skill) for skill in skills)


def _line(skill: AgentSkill) -> str:
    return f"- {skill.name}: {skill.description}"


def _told(skill: AgentSkill) -> str:
    body = skill.body[:BODY_CHARACTERS]
    if left := len(skill.body) - len(body):
        body += f"\n[{left:,} more characters: skill_read with offset={BODY_CHARACTERS + 1}]"
    return f'<skill name="{skill.name}">\n{body}\n</skill>'

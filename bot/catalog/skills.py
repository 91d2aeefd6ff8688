"""Loads Agent Skills from folders, and describes them in prompts.

A skill is a folder with a SKILL.md, by the open specification (agentskills.io). The folder is
untrusted: no link in it is followed, and no entry is assumed to be an ordinary file.
`bot.files.opener` opens all files.
"""

import errno
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from bot.agent.plain import clean
from bot.agent.sanitizer import one_line
from bot.catalog.files import FileCatalog, Parsed, SourceFile, expanded
from bot.catalog.frontmatter import MOST_BYTES, parts_in
from bot.catalog.tool_names import ours
from bot.errors import ConfigError, ToolError
from bot.files.opener import FOLDER, Opener, best_opener, opened_file, opened_path
from bot.values import Json

SKILL_FILE = "SKILL.md"
NAME_CHARACTERS = 64
DESCRIPTION_CHARACTERS = 1024
COMPATIBILITY_CHARACTERS = 500
WARNING_CHARACTERS = 300
#: Longest catalog of names and descriptions in a prompt.
CATALOG_CHARACTERS = 8_000
#: Longest body of one skill in the prompt of an agent that always works by it.
BODY_CHARACTERS = 24_000

CATALOG = """\
Skills are instructions for certain kinds of work, put here by the owner of this bot. When a task \
fits one, call skill_read with its name before you begin. What skill_read returns is no data of \
others: work by it, as far as your rules and the user's wishes allow. It names further files, \
which skill_read returns when you give their path too."""

BASE_DIRECTORIES = """\
The tool `shell` sees the base directories of these skills, read-only. Paths in the text of a \
skill start there: `scripts/x.py` is BASE-DIRECTORY/scripts/x.py."""

#: The folder in which commands of the tool `shell` see the folders of skills, each by its name.
IN_SANDBOX = "/skills"
#: The words for the folder of a skill in texts that were written for other programs.
_OWN_FOLDER = re.compile(r"\$\{CLAUDE_SKILL_DIR\}|\$CLAUDE_SKILL_DIR\b|\{baseDir\}")
_PLUGIN_SKILLS = re.compile(r"\$\{CLAUDE_PLUGIN_ROOT\}/skills\b")

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
#: `Bash(git add:*)` is one tool, and so is `Read`.
_TOOL = re.compile(r"[^\s,()]+(?:\([^()]*\))?")
_USED = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSkill:
    """The instructions for a kind of work, and the folder of their files.

    Attributes:
        body: The instructions for an agent that works by the skill.
        compatibility: The requirements of the skill, in its author's words.
        tools: The tools that the skill expects, under our names. A hint, which allows nothing.
    """

    name: str
    description: str
    body: str
    folder: Path
    compatibility: str = ""
    tools: tuple[str, ...] = ()

    @property
    def in_sandbox(self) -> str:
        """The path at which commands of the tool `shell` see the folder."""
        return f"{IN_SANDBOX}/{self.name}"


def read_skill(folder: Path, opener: Opener) -> Parsed[AgentSkill]:
    """Return the skill in a folder.

    Raises:
        ConfigError: The folder has no usable skill; the text names the file and the reason.
    """
    label = label_of(folder)
    try:
        with (
            opened_folder(folder) as descriptor,
            opened_file(opener, descriptor, (SKILL_FILE,)) as (file, _),
            os.fdopen(file, "rb", closefd=False) as stream,
        ):
            content = stream.read(MOST_BYTES + 1)
        head, body = parts_in(label, content)
        return skill_in(folder, head, body)
    except ToolError:
        why = f"{label} is no ordinary file, or has several names (hard links): put a copy there."
    except OSError as error:
        link = error.errno in {errno.ELOOP, errno.EXDEV}
        reason = "it is a link, and links are not followed" if link else error.strerror
        why = f"{label} cannot be read: {reason}."
    except ConfigError as error:
        why = str(error)
    raise ConfigError(one_line(why, WARNING_CHARACTERS))


def label_of(folder: Path) -> str:
    """Return the name of a skill's file for messages."""
    return f"{one_line(folder.name, NAME_CHARACTERS)}/{SKILL_FILE}"


def skill_in(folder: Path, head: Json, body: str) -> Parsed[AgentSkill]:
    """Return the skill that a SKILL.md describes (pure).

    Raises:
        ConfigError: The name or the description is missing or unusable.
    """
    label = label_of(folder)
    name, description = head.get("name"), head.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > NAME_CHARACTERS:
        raise ConfigError(
            f"{label}: `name` must be up to {NAME_CHARACTERS} of a-z and 0-9, with single hyphens "
            "between them."
        )
    if not isinstance(description, str) or not one_line(description):
        raise ConfigError(f"{label}: `description` is missing in the front matter.")
    allowed = head.get("allowed-tools")
    named = _TOOL.findall(_text(allowed))
    if isinstance(allowed, list):
        named = [tool for tool in allowed if isinstance(tool, str)]
    skill = AgentSkill(
        name=name,
        description=one_line(description, DESCRIPTION_CHARACTERS),
        body=_PLUGIN_SKILLS.sub(IN_SANDBOX, _OWN_FOLDER.sub(f"{IN_SANDBOX}/{name}", clean(body))),
        folder=folder,
        compatibility=one_line(_text(head.get("compatibility")), COMPATIBILITY_CHARACTERS),
        tools=tuple(dict.fromkeys(ours(tool) for tool in named)),
    )
    warnings = tuple(f"{label}: {one_line(text, 200)}." for text in _odd(skill, head))
    return Parsed(skill, warnings)


def opened_folder(folder: Path) -> AbstractContextManager[int]:
    """Open the folder of a skill, which must not be a link.

    Raises:
        OSError: The folder cannot be opened.
    """
    return opened_path(folder, FOLDER | os.O_NOFOLLOW)


def _odd(skill: AgentSkill, head: Json) -> Iterator[str]:
    """Return the deviations from the specification, and its unknown keys."""
    if skill.name != skill.folder.name:
        yield f"its `name` is {skill.name}, and its folder should be called so as well"
    length = len(str(head["description"]))
    if length > DESCRIPTION_CHARACTERS:
        yield (
            f"its `description` has {length:,} characters, and {DESCRIPTION_CHARACTERS:,} is the "
            "most; the rest is not shown"
        )
    if not skill.body:
        yield "there is nothing below its front matter"
    for key, kinds, should in (
        ("license", (str,), "text"),
        ("compatibility", (str,), "text"),
        ("metadata", (dict,), "`key: value` lines"),
        ("allowed-tools", (str, list), "names of tools"),
    ):
        if head.get(key) is not None and not isinstance(head[key], kinds):
            yield f"`{key}` should be {should}, and is not used"
    if len(_text(head.get("compatibility"))) > COMPATIBILITY_CHARACTERS:
        yield f"`compatibility` has more than {COMPATIBILITY_CHARACTERS} characters, and is cut"
    for key in sorted(set(head) - _USED):
        yield f"`{key}` is not used"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


class SkillCatalog(FileCatalog[AgentSkill]):
    """Holds all Agent Skills by name; a changed skill applies from then on.

    Args:
        folders: Each holds folders with a SKILL.md, or is such a folder itself. A skill of a later
            folder replaces one of the same name in an earlier folder.
        opener: Opens files; by default the best opener that works on this system.
        reports: Whether changes and their problems are logged.
        monotonic: A monotonic clock, in seconds.
    """

    kind = ("a skill", "Agent Skills")

    def __init__(
        self,
        folders: Sequence[Path],
        *,
        opener: Opener | None = None,
        reports: bool = True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.opener = opener or best_opener()
        self.reports = reports
        super().__init__([expanded(str(folder)) for folder in folders], monotonic=monotonic)

    def catalog(self) -> str:
        """Return the catalog for an agent that has `skill_read`; empty without skills."""
        return catalog_of(self.by_name.values())

    def bodies(
        self, names: Iterable[str], *, with_shell: bool = False
    ) -> tuple[str, tuple[str, ...]]:
        """Return these skills in full, for the prompt of an agent that always works by them.

        Args:
            names: The names of the skills.
            with_shell: Whether the agent has the tool `shell`, which sees the folders.

        Returns:
            The text, empty for no skills, and the unknown names.
        """
        known = self.by_name
        wanted = tuple(dict.fromkeys(names))
        texts = []
        for skill in (known[name] for name in wanted if name in known):
            body = skill.body[:BODY_CHARACTERS]
            if left := len(skill.body) - len(body):
                body += f"\n[{left:,} more characters: skill_read with offset={len(body) + 1}]"
            folder = f' base-directory="{skill.in_sandbox}"' if with_shell else ""
            texts.append(f'<skill name="{skill.name}"{folder}>\n{body}\n</skill>')
        if texts and with_shell:
            texts.insert(0, BASE_DIRECTORIES)
        return "\n\n".join(texts), tuple(name for name in wanted if name not in known)

    def _find(self) -> tuple[list[SourceFile], list[str]]:
        found: list[SourceFile] = []
        problems = self._missing("agent_skills.folders")
        for folder in self._folders:
            if not folder.is_dir():
                continue
            # A configured folder may be a link; a folder below it may not.
            real = folder.resolve()
            try:
                paths = [real]
                if not os.path.lexists(real / SKILL_FILE):
                    paths = [path for path in sorted(real.iterdir()) if path.name[0] != "."]
                paths = [path for path in paths if os.path.lexists(path / SKILL_FILE)]
            except OSError as error:
                problems.append(f"The folder {folder} cannot be read: {error.strerror}.")
                continue
            for path in paths:
                if path.is_symlink():
                    problems.append(
                        f"{path} is a link, and links are not followed: name the folder that it "
                        "leads to in `agent_skills.folders`."
                    )
                else:
                    found.append(SourceFile(path / SKILL_FILE, real, label_of(path)))
        return found, problems

    def _parse(self, file: SourceFile) -> Parsed[AgentSkill]:
        return read_skill(file.path.parent, self.opener)


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

"""Reads an Agent Skill: a folder with a SKILL.md, by the open specification (agentskills.io).

The folder is untrusted: no link in it is followed, and no entry is assumed to be an ordinary file.
`bot.files.opener` opens all files.
"""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bot.agent.frontmatter import MOST_BYTES, parts_in
from bot.agent.plain import clean
from bot.agent.sanitizer import one_line
from bot.agent.tool_names import ours
from bot.errors import ConfigError, ToolError
from bot.files.opener import FOLDER, Opener, opened_file
from bot.values import Json

SKILL_FILE = "SKILL.md"
NAME_CHARACTERS = 64
DESCRIPTION_CHARACTERS = 1024
COMPATIBILITY_CHARACTERS = 500
WARNING_CHARACTERS = 300

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


@dataclass(frozen=True, slots=True)
class SkillReading:
    """The result of reading a skill.

    Attributes:
        warnings: The deviations from the specification, a sentence each.
    """

    skill: AgentSkill
    warnings: tuple[str, ...] = ()


def read_skill(folder: Path, opener: Opener) -> SkillReading:
    """Return the skill in a folder.

    Raises:
        ConfigError: The folder has no usable skill; the text names the file and the reason.
    """
    label = label_of(folder)
    try:
        head, body = parts_in(label, _content(folder, label, opener))
        return skill_in(folder, head, body)
    except ConfigError as error:
        raise ConfigError(one_line(str(error), WARNING_CHARACTERS)) from None


def label_of(folder: Path) -> str:
    """Return the name of a skill's file for messages."""
    return f"{one_line(folder.name, NAME_CHARACTERS)}/{SKILL_FILE}"


def skill_in(folder: Path, head: Json, body: str) -> SkillReading:
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
    skill = AgentSkill(
        name=name,
        description=one_line(description, DESCRIPTION_CHARACTERS),
        body=clean(body),
        folder=folder,
        compatibility=one_line(_text(head.get("compatibility")), COMPATIBILITY_CHARACTERS),
        tools=tuple(dict.fromkeys(ours(tool) for tool in _tools(head.get("allowed-tools")))),
    )
    warnings = tuple(f"{label}: {one_line(text, 200)}." for text in _odd(skill, head))
    return SkillReading(skill, warnings)


@contextmanager
def opened_folder(folder: Path) -> Iterator[int]:
    """Open the folder of a skill, which must not be a link.

    Raises:
        OSError: The folder cannot be opened.
    """
    descriptor = os.open(folder, FOLDER | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


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


def _tools(value: object) -> Sequence[str]:
    if isinstance(value, list):
        return [name for name in value if isinstance(name, str)]
    return _TOOL.findall(_text(value))


def _content(folder: Path, label: str, opener: Opener) -> bytes:
    try:
        with (
            opened_folder(folder) as descriptor,
            opened_file(opener, descriptor, (SKILL_FILE,)) as (file, _),
            os.fdopen(file, "rb", closefd=False) as stream,
        ):
            return stream.read(MOST_BYTES + 1)
    except ToolError:
        raise ConfigError(
            f"{label} is no ordinary file, or has several names (hard links): put a copy there."
        ) from None
    except OSError as error:
        link = error.errno in {errno.ELOOP, errno.EXDEV}
        why = "it is a link, and links are not followed" if link else error.strerror
        raise ConfigError(f"{label} cannot be read: {why}.") from None

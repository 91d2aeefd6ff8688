"""Lists and reads the files of an Agent Skill beside its SKILL.md."""

import os
import time
from dataclasses import dataclass

from bot.agent.plain import clean
from bot.agent.sanitizer import one_line
from bot.catalog.skills import SKILL_FILE, AgentSkill, opened_folder
from bot.conversations.file_kinds import Claim, text_in
from bot.disk import spoken
from bot.errors import ToolError
from bot.files.opener import Opener, opened_file, parts_of, shown
from bot.files.walk import USUALLY_SKIPPED, EntryKind, FolderWalk

MOST_BYTES = 1_000_000
MOST_LISTED = 100
MOST_ENTRIES = 2_000
DEEPEST = 8
WALK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a skill.

    Attributes:
        more: Whether the skill may have further files.
    """

    paths: tuple[str, ...]
    more: bool = False

    def __str__(self) -> str:
        names = ", ".join(self.paths) or "none"
        return f"{names}, and more" if self.more else names


def list_files(skill: AgentSkill, opener: Opener) -> Listing:
    """Return the paths of a skill's files, without its SKILL.md; this blocks."""
    found: list[str] = []
    try:
        with opened_folder(skill.folder) as folder:
            walk = FolderWalk(
                opener,
                folder,
                most=MOST_ENTRIES,
                deepest=DEEPEST,
                skip=USUALLY_SKIPPED,
                until=time.monotonic() + WALK_SECONDS,
            )
            for entry in walk:
                if entry.kind is not EntryKind.FILE or entry.parts == (SKILL_FILE,):
                    continue
                if len(found) == MOST_LISTED:
                    return Listing(tuple(found), more=True)
                found.append(one_line(entry.path, 200))
            return Listing(tuple(found), more=walk.cut)
    except OSError:
        return Listing(())


def read_file(skill: AgentSkill, path: str, opener: Opener) -> str:
    """Return the text of a file inside a skill's folder; this blocks.

    Raises:
        ToolError: The file is missing, outside of the folder, too large, or no text. For a file
            that cannot be read, the message lists the files of the skill.
    """
    try:
        parts = parts_of(path)
        with (
            opened_folder(skill.folder) as folder,
            opened_file(opener, folder, parts) as (file, _),
            os.fdopen(file, "rb", closefd=False) as stream,
        ):
            content = stream.read(MOST_BYTES + 1)
    except (ToolError, OSError):
        # A list of the files helps a model more than the exact reason.
        raise ToolError(
            f"The skill {skill.name} has no file {shown(path)!r} that can be read: only ordinary "
            "files inside of its folder are, through no link. Its files: "
            f"{list_files(skill, opener)}."
        ) from None
    if len(content) > MOST_BYTES:
        raise ToolError(
            f"{shown(path)} is larger than {spoken(MOST_BYTES)}, which is the most that is read. "
            "Go on without it."
        )
    text = text_in(content, Claim.OTHER)
    if text is None:
        raise ToolError(
            f"{shown(path)} is no text ({spoken(len(content))} of other data). Go on without it."
        )
    return clean(text)

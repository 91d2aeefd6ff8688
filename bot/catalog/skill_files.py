"""Lists and reads the files of an Agent Skill beside its SKILL.md."""

import os
import time
from contextlib import suppress
from itertools import islice

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


def list_files(skill: AgentSkill, opener: Opener) -> str:
    """Return the paths of a skill's files, without its SKILL.md, as part of a sentence; blocks."""
    found: list[str] = []
    with suppress(OSError), opened_folder(skill.folder) as folder:
        walk = FolderWalk(
            opener,
            folder,
            most=MOST_ENTRIES,
            deepest=DEEPEST,
            skip=USUALLY_SKIPPED,
            until=time.monotonic() + WALK_SECONDS,
        )
        files = (each for each in walk if each.kind is EntryKind.FILE)
        paths = (each.path for each in files if each.parts != (SKILL_FILE,))
        found = [one_line(path, 200) for path in islice(paths, MOST_LISTED + 1)]
        if walk.cut or len(found) > MOST_LISTED:
            found[MOST_LISTED:] = ["and more"]
    return ", ".join(found) or "none"


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

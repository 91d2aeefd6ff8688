"""Lists, reads and copies the files of an Agent Skill beside its SKILL.md."""

import os
import time
from contextlib import ExitStack, suppress
from itertools import islice

from bot.agent.plain import clean
from bot.agent.sanitizer import one_line
from bot.catalog.skills import SKILL_FILE, AgentSkill, opened_folder
from bot.conversations.file_kinds import Claim, text_in
from bot.disk import spoken
from bot.errors import ToolError
from bot.files.opener import Opener, opened, opened_file, parts_of, shown
from bot.files.walk import USUALLY_SKIPPED, EntryKind, FolderEntry, FolderWalk

MOST_BYTES = 1_000_000
MOST_LISTED = 100
NO_FILES = "none"
MOST_ENTRIES = 2_000
DEEPEST = 8
WALK_SECONDS = 2.0

#: Limits of a folder that commands see.
MOST_COPIED, MOST_COPIED_BYTES, DEEPEST_COPIED = 5_000, 100_000_000, 16
COPY_WALK_SECONDS = 10.0
#: Commands do not see these. Unlike `USUALLY_SKIPPED` they include no folder of libraries.
_NOT_COPIED = frozenset({".git", ".venv", "__pycache__"})
_MOST_LINK = 1_000
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1_000_000


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
    return ", ".join(found) or NO_FILES


def read_file(skill: AgentSkill, path: str, opener: Opener) -> str:
    """Return the text of a file inside a skill's folder; this blocks.

    Raises:
        ToolError: The file is missing, outside of the folder, too large, or no text. For a file
            that cannot be read, the message lists the files of the skill.
    """
    try:
        # Texts of skills name the path that commands see, too.
        parts = parts_of(path.removeprefix(f"{skill.in_sandbox}/"))
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


def entries_to_copy(skill: AgentSkill, opener: Opener) -> tuple[FolderEntry, ...]:
    """Return the entries of a skill's folder that commands see; this blocks.

    Raises:
        ToolError: The folder is too large or cannot be read; the text is a sentence.
    """
    try:
        with opened_folder(skill.folder) as folder:
            walk = FolderWalk(
                opener,
                folder,
                most=MOST_COPIED,
                deepest=DEEPEST_COPIED,
                skip=_NOT_COPIED,
                until=time.monotonic() + COPY_WALK_SECONDS,
            )
            found = tuple(
                each
                for each in walk
                if each.kind is not EntryKind.OTHER and each.parts[-1] not in _NOT_COPIED
            )
    except OSError as error:
        raise ToolError(
            f"The folder of the skill {skill.name} cannot be read: {error.strerror}."
        ) from None
    if walk.cut or any(each.skipped for each in found):
        raise ToolError(
            f"The folder of the skill {skill.name} has more than {MOST_COPIED:,} entries or "
            f"{DEEPEST_COPIED} levels, or a folder that cannot be read."
        )
    if (size := sum(each.size for each in found)) > MOST_COPIED_BYTES:
        raise ToolError(
            f"The folder of the skill {skill.name} has {spoken(size)}, and "
            f"{spoken(MOST_COPIED_BYTES)} is the most."
        )
    return found


def copy_files(
    skill: AgentSkill, entries: tuple[FolderEntry, ...], opener: Opener, target: int
) -> None:
    """Copy entries of a skill's folder into an open, empty folder; this blocks.

    Only ordinary files of one name are copied, and links that cannot lead out of the folder. All
    files can be executed, since archives often lose that bit.

    Raises:
        OSError: The copies cannot be written.
    """
    with opened_folder(skill.folder) as folder:
        for entry in entries:
            path = "/".join(entry.parts)
            if entry.kind is EntryKind.FOLDER:
                os.mkdir(path, 0o755, dir_fd=target)
                # The account of a command is another one.
                os.chmod(path, 0o755, dir_fd=target)  # noqa: S103
            elif entry.kind is EntryKind.LINK:
                with suppress(OSError), opened(opener, folder, entry.parts[:-1]) as above:
                    to = os.readlink(entry.parts[-1], dir_fd=above)
                    if _stays_inside(to, len(entry.parts) - 1):
                        os.symlink(to, path, dir_fd=target)
            else:
                _copy_file(folder, entry, opener, target)


def _copy_file(folder: int, entry: FolderEntry, opener: Opener, target: int) -> None:
    with ExitStack() as stack:
        try:
            source, _ = stack.enter_context(opened_file(opener, folder, entry.parts))
        except (ToolError, OSError):
            # It was removed or replaced meanwhile, or has hard links.
            return
        copy = os.open("/".join(entry.parts), _NEW, 0o700, dir_fd=target)
        reading = stack.enter_context(os.fdopen(source, "rb", closefd=False))
        writing = stack.enter_context(os.fdopen(copy, "wb"))
        # A file that grows meanwhile is copied whole at the next look.
        left = entry.size
        while left > 0 and (piece := reading.read(min(left, _PIECE))):
            writing.write(piece)
            left -= len(piece)
        os.fchmod(copy, 0o755)


def _stays_inside(target: str, depth: int) -> bool:
    """Return True if a link in a folder of this depth leads to a place in the skill's folder.

    The steps up come first, so that no other link can come before one of them.
    """
    parts = target.split("/")
    up = next((count for count, part in enumerate(parts) if part != ".."), len(parts))
    return (
        not target.startswith("/")
        and len(target) <= _MOST_LINK
        and up <= depth
        and ".." not in parts[up:]
    )

"""Finds code that other users of this machine could replace: it runs with the bot's rights."""

import stat
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

MOST_FILES = 1_000
CODE = frozenset({".py", ".pyc", ".so"})


def dangers(
    folders: Iterable[str],
    *,
    kinds: frozenset[str] = CODE,
    why: str = "what is in it runs with the rights of the bot",
) -> Iterator[str]:
    """Report each file or folder below these that every user of the machine could change.

    Args:
        folders: The folders to search.
        kinds: The suffixes of relevant files.
        why: The danger, as part of the sentence.
    """
    for name in folders:
        folder = Path(name).expanduser().absolute()
        files = islice(_files_in(folder, kinds), MOST_FILES)
        replaceable = (writable_by_all(path) for path in files)
        for path in dict.fromkeys(filter(None, replaceable)):
            yield (
                f"{path} can be written by everyone on this machine, and {why}: chmod o-w {path}"
            )


def _files_in(folder: Path, kinds: frozenset[str]) -> Iterator[Path]:
    yield folder
    try:
        children = sorted(folder.iterdir())
    except OSError:
        return
    for child in children:
        # A package may be a link, and its files are examined all the same.
        below = child.resolve().rglob("*") if child.is_dir() else ()
        yield from (path for path in chain([child], below) if path.suffix in kinds or path.is_dir())


def writable_by_all(path: Path) -> Path | None:
    """Return the file or folder that lets every user replace this one, through links; or `None`."""
    try:
        real = path.resolve(strict=True)
        if real.stat().st_mode & stat.S_IWOTH:
            return real
        for above in real.parents:
            mode = above.stat().st_mode
            # In a sticky folder such as /tmp only owners can replace their files.
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                return above
    except OSError:
        return None
    return None

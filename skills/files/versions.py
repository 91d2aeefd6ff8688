"""Changes to workspaces as values: the state of each path before the change (pure)."""

import json
from dataclasses import dataclass, fields
from enum import StrEnum

from bot.changes import Cause


class FormerKind(StrEnum):
    """The kind of thing at a path before a change."""

    NOTHING = "nothing"
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerItem:
    """A path before a change.

    Attributes:
        number: The name of its former version, in the folder of the change.
        path: The path from the top of the workspace, as names.
        removed: The change left nothing there.
        beside: An undo put the former version here, since its own path was taken.
        target: The target, for a link.
        count: For a folder, the files and folders in it, and itself.
    """

    number: int
    kind: FormerKind
    path: tuple[str, ...]
    removed: bool = False
    beside: bool = False
    size: int = 0
    count: int = 1
    mode: int = 0o600
    target: str = ""

    @property
    def line(self) -> bytes:
        """The item as a line of JSON. Names that are no text are escaped as surrogates."""
        # `asdict` copies every value: a command may replace thousands of files.
        return json.dumps({name: getattr(self, name) for name in _FIELDS}).encode() + b"\n"


_FIELDS = tuple(each.name for each in fields(FormerItem))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A change to a workspace, with the former versions of its paths.

    Attributes:
        id: 14 hex digits of the time in µs and 18 random ones: ids sort by time.
        workspace: The workspace's folder in the store.
        undone: The change was undone already.
    """

    id: str
    workspace: str
    cause: Cause
    items: tuple[FormerItem, ...]
    undone: bool = False


def item_of(line: str) -> FormerItem | None:
    """Parse the item in a line; return `None` for a line that is incomplete."""
    try:
        found = json.loads(line)
        return FormerItem(
            **found | {"kind": FormerKind(found["kind"]), "path": tuple(found["path"])}
        )
    except (ValueError, TypeError, KeyError):
        return None

"""Changes to workspaces as values: what was at each path before (pure)."""

import json
from dataclasses import dataclass, fields
from enum import StrEnum

from bot.changes import Cause


class Former(StrEnum):
    """The thing that was at a path before a change."""

    NOTHING = "nothing"
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A path before a change.

    Attributes:
        number: The name of what is kept, in the folder of the change.
        path: The names on the way to it, from the top of the workspace.
        removed: The change left nothing there.
        beside: An undo put something here, since the path that was meant was taken.
        target: Of a link.
        count: Of a folder: files and folders in it, and itself.
    """

    number: int
    kind: Former
    path: tuple[str, ...]
    removed: bool = False
    beside: bool = False
    size: int = 0
    count: int = 1
    mode: int = 0o600
    target: str = ""

    @property
    def line(self) -> bytes:
        """The item as a line of JSON. Not every name is text: surrogates are escaped in it."""
        # `asdict` copies every value: a command may replace thousands of files.
        return json.dumps({name: getattr(self, name) for name in _FIELDS}).encode() + b"\n"


_FIELDS = tuple(each.name for each in fields(Item))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A change to a workspace, with what was there before.

    Attributes:
        id: 14 hex digits of the time in µs, 18 at random: changes sort by it.
        workspace: The folder that holds it in the store.
        undone: It was taken back already.
    """

    id: str
    workspace: str
    cause: Cause
    items: tuple[Item, ...]
    undone: bool = False


def item_of(line: str) -> Item | None:
    """Return the item in a line; `None` for a line that was not written to its end."""
    try:
        found = json.loads(line)
        return Item(**found | {"kind": Former(found["kind"]), "path": tuple(found["path"])})
    except (ValueError, TypeError, KeyError):
        return None

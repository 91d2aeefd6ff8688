"""Exports and deletes the files of one user."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bot.errors import ToolError
from bot.files.opener import opened, opened_path, parts_of, tool_errors
from bot.files.walk import EntryKind
from bot.personal import PersonalStore
from bot.values import Identity, Sections, inbox_path
from skills.files.former import STORE
from skills.files.settings import WorkspaceSettings
from skills.files.tree import remove_tree
from skills.files.workspaces import Workspaces, folder_of


@dataclass(frozen=True, slots=True)
class PersonalFiles:
    """The workspaces of users, and the copies of attachments in those of places."""

    workspaces: Workspaces
    folder: Path

    def files(self, user: Identity) -> Iterator[tuple[str, bytes | None]]:
        """Yield the path and the content of each file of a user's workspace."""
        if not (self.folder / folder_of(user.key)).exists():
            return
        workspace = self.workspaces.owned(user.key)
        with workspace.walk("", skip=frozenset()) as walk:
            paths = [walk.path(each) for each in walk.entries if each.kind is EntryKind.FILE]
        for path in paths:
            content = None
            with suppress(ToolError):
                content = workspace.read(path)
            yield path, content

    def delete(self, user: Identity) -> None:
        """Delete the workspaces of a user and of the user's runs, with all former versions."""
        name = folder_of(user.key)
        for folder in (self.folder, self.folder / STORE):
            with suppress(FileNotFoundError), opened_path(folder) as above:
                remove_tree(self.workspaces.opener, above, name)

    def delete_sent(self, owner: str, name: str, content: bytes) -> None:
        """Delete the copy of an attachment in the workspace of a place, and its former versions."""
        if not (self.folder / folder_of(owner)).exists():
            return
        workspace, parts = self.workspaces.owned(owner), parts_of(inbox_path(name))
        with suppress(ToolError), tool_errors(parts), workspace.alone() as folder:
            workspace.former.forget_path(parts)
            if workspace.read_in(folder, parts) == content:
                with opened(workspace.opener, folder, parts[:-1]) as above:
                    os.unlink(parts[-1], dir_fd=above)


def personal(config: Sections) -> PersonalStore:
    """Return the files of users, also those of a time when workspaces were switched on."""
    settings = config.section(WorkspaceSettings)
    return PersonalFiles(Workspaces(settings), Path(settings.folder))

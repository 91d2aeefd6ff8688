"""Puts attached files into the workspace, below `inbox/`, for file tools and commands."""

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.agent.sanitizer import one_line
from bot.changes import Cause
from bot.errors import BotError, ToolError
from bot.events import FilesAttached, FilesDeleted
from bot.platforms.base import Outlet
from bot.tasks import Tasks
from bot.values import Clock, inbox_path
from db import files
from db.database import Database
from skills.files.workspaces import Workspaces

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Inbox:
    """Copies the files of messages into workspaces; a later file of a name replaces the earlier.

    The copies of a message are deleted with the message, unless their content was changed.
    """

    workspaces: Workspaces
    database: Database
    tasks: Tasks
    outlets: Mapping[str, Outlet]
    now: Clock

    def on_attached(self, event: FilesAttached) -> None:
        """Copy the files of a message in the background."""
        self.tasks.start(self._copy(event), name=f"inbox of {event.message_id}", brief=True)

    def on_deleted(self, event: FilesDeleted) -> None:
        """Delete the copies of a message in the background."""
        deletion = self._delete(event.files_of, event.files)
        self.tasks.start(deletion, name="delete from inbox", brief=True)

    async def _copy(self, event: FilesAttached) -> None:
        cause = Cause(user_id=event.user.key, work_id=event.message_id, run_id=None)
        copied, refused = [], []
        try:
            async with self.database.snapshot() as tx:
                found = await files.files_of(tx, [event.message_id])
                contents = await files.contents_of(tx, [each.id for each in found])
            for each in found:
                content = contents[each.id]
                put = (event.files_of, cause, inbox_path(each.name), content, self.now)
                try:
                    await asyncio.to_thread(self.workspaces.put, *put)
                    copied.append((each.name, hashlib.sha256(content).hexdigest()))
                except ToolError as error:
                    log.info("An attached file is not in the workspace: %s", error)
                    refused.append(one_line(each.name, 60))
            left = await self.database.read(files.files_of, [event.message_id])
        except BotError as error:
            log.info("Attached files are not in the workspace: %s", error)
            return
        if copied and not left:
            # The message was deleted meanwhile.
            await self._delete(event.files_of, copied)
        outlet = self.outlets.get(event.place.platform)
        if refused and outlet is not None:
            text = (
                f"I can read {', '.join(refused)}, but there was no room for a copy below "
                "inbox/. Ask me to delete files that nobody needs, and attach it again."
            )
            await outlet.tell(event.place, event.user, text)

    async def _delete(self, owner: str, copies: Sequence[tuple[str, str]]) -> None:
        for name, digest in copies:
            try:
                copy = (owner, inbox_path(name), digest)
                await asyncio.to_thread(self.workspaces.delete_copy, *copy)
            except ToolError as error:
                log.info("A copy of a deleted file was not deleted: %s", error)

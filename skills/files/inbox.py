"""Puts attached files into the workspace, below `inbox/`, for file tools and commands."""

import asyncio
import logging
from dataclasses import dataclass

from bot.changes import Cause
from bot.errors import BotError
from bot.events import FilesAttached
from bot.tasks import Tasks
from bot.values import Clock, inbox_path
from db import files
from db.database import Database
from skills.files.workspaces import Workspaces

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Inbox:
    """Copies the files of messages into workspaces; a later file of a name replaces the earlier."""

    workspaces: Workspaces
    database: Database
    tasks: Tasks
    now: Clock

    def on_attached(self, event: FilesAttached) -> None:
        """Copy the files of a message in the background."""
        self.tasks.start(self._copy(event), name=f"inbox of {event.message_id}")

    async def _copy(self, event: FilesAttached) -> None:
        cause = Cause(user_id=event.user_id, work_id=event.message_id, run_id=None)
        try:
            async with self.database.snapshot() as tx:
                found = await files.files_of(tx, [event.message_id])
                contents = await files.contents_of(tx, [each.id for each in found])
            for each in found:
                put = (event.files_of, cause, inbox_path(each.name), contents[each.id], self.now)
                await asyncio.to_thread(self.workspaces.put, *put)
        except BotError as error:
            # The files stay readable with their message.
            log.info("Attached files are not in the workspace: %s", error)

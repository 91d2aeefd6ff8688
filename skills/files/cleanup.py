"""Deletes old workspaces of runs and shared places, and old former versions of files."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.subagents.retention import RetentionSettings
from bot.values import Clock
from db import shared_threads
from db.database import Database
from skills.files.workspaces import Workspaces

log = logging.getLogger(__name__)

#: Places whose files are deleted before the database is asked again which places are in use.
PLACES_AT_ONCE = 10


@dataclass(eq=False, slots=True)
class Cleanup:
    """Deletes old workspaces once a day, and old former versions of files hourly."""

    workspaces: Workspaces
    database: Database
    settings: RetentionSettings
    now: Clock
    _former_at: datetime | None = None
    _runs_at: datetime | None = None

    async def run(self) -> None:
        """Delete what is due."""
        now = self.now()
        if self._former_at is None or now - self._former_at >= timedelta(hours=1):
            self._former_at = now
            before = now - timedelta(days=self.settings.undo_days)
            await asyncio.to_thread(self.workspaces.forget_former, before)
        if self._runs_at is None or now - self._runs_at >= timedelta(days=1):
            self._runs_at = now
            before = now - timedelta(days=self.settings.runs_days)
            if gone := await asyncio.to_thread(self.workspaces.forget_runs, before):
                log.info("The workspaces of %d old runs were deleted", gone)
            since = now - timedelta(days=self.settings.files_days)
            # Shared places without a message since then.
            total, gone = 0, PLACES_AT_ONCE
            while gone == PLACES_AT_ONCE:
                # First: the message that begins a place is stored before its first file.
                folders = await asyncio.to_thread(self.workspaces.places)
                live = await self.database.read(shared_threads.live_places, since)
                keys = {place.files_key for place in live}
                forget = self.workspaces.forget_places
                gone = await asyncio.to_thread(forget, folders, keys, PLACES_AT_ONCE)
                total += gone
            if total:
                log.info("The files of %d shared places were deleted", total)

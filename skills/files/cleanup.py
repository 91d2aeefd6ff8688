"""Deletes old workspaces of runs, and old former versions of files."""

import asyncio
import logging
from datetime import datetime, timedelta

from bot.subagents.retention import RetentionSettings
from bot.values import Clock
from skills.files.workspaces import Workspaces

log = logging.getLogger(__name__)


class Cleanup:
    """Deletes old workspaces of runs once a day, and old former versions of files hourly."""

    def __init__(self, workspaces: Workspaces, settings: RetentionSettings, now: Clock) -> None:
        self._workspaces = workspaces
        self._settings = settings
        self._now = now
        self._former_at: datetime | None = None
        self._runs_at: datetime | None = None

    async def run(self) -> None:
        """Delete what is due."""
        now = self._now()
        if self._former_at is None or now - self._former_at >= timedelta(hours=1):
            self._former_at = now
            before = now - timedelta(days=self._settings.undo_days)
            await asyncio.to_thread(self._workspaces.forget_former, before)
        if self._runs_at is None or now - self._runs_at >= timedelta(days=1):
            self._runs_at = now
            before = now - timedelta(days=self._settings.runs_days)
            if gone := await asyncio.to_thread(self._workspaces.forget_runs, before):
                log.info("The workspaces of %d old runs were deleted", gone)

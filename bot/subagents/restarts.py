"""Resumes interrupted work one piece at a time after repeated crashes."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from bot.tasks import Tasks
from db import workers
from db.database import Transaction

#: Crashes within this period that make the next start resume one piece at a time.
CRASHES = 2
WITHIN = timedelta(minutes=10)
#: Resumed work that runs for this long without a crash allows the next piece to start.
TRIAL_SECONDS = 20.0


@dataclass(slots=True)
class Restarts:
    """Lets interrupted work of this process start, all at once or one piece at a time.

    When one piece starts at a time, the latest piece caused a crash of the process: the crash
    counts against that piece only.
    """

    tasks: Tasks
    _trial: asyncio.Lock = field(default_factory=asyncio.Lock)
    _on_trial: str = ""

    async def must_wait(self, tx: Transaction, work_id: str) -> bool:
        """Return True if this interrupted work must `wait` for its turn before it starts."""
        return self._on_trial != work_id and await workers.recent_crashes(tx, WITHIN) >= CRASHES

    async def wait(self, work_id: str) -> None:
        """Wait until no other resumed work is on trial, then put this work on trial."""
        await self._trial.acquire()
        self._on_trial = work_id
        self.tasks.later(TRIAL_SECONDS, lambda: self.passed(work_id), name=f"trial {work_id}")

    def passed(self, work_id: str) -> None:
        """Let the next piece start, if this work is on trial: it made a step, or it has ended."""
        if self._on_trial == work_id:
            self._on_trial = ""
            self._trial.release()

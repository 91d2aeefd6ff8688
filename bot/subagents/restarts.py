"""After repeated crashes, interrupted work is resumed one piece at a time."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from bot.tasks import Tasks
from db import crashes
from db.database import Transaction

#: So many crashes within this time make the next start careful.
CRASHES = 2
WITHIN = timedelta(minutes=10)
#: Work that has been resumed for so long without a crash lets the next one start.
TRIAL_SECONDS = 20.0


@dataclass(slots=True)
class Restarts:
    """Lets interrupted work of this process start, all at once or one piece at a time.

    One at a time, the work that ends the process is the one that was started last: the crash
    counts against that work and against no other.
    """

    tasks: Tasks
    _trial: asyncio.Lock = field(default_factory=asyncio.Lock)
    _on_trial: str = ""

    async def must_wait(self, tx: Transaction, work_id: str) -> bool:
        """Whether this interrupted work has to wait for its turn (`wait`) before it starts."""
        return self._on_trial != work_id and await crashes.recent(tx, WITHIN) >= CRASHES

    async def wait(self, work_id: str) -> None:
        """Wait until no other resumed work is on trial; then this one is."""
        await self._trial.acquire()
        self._on_trial = work_id
        self.tasks.later(TRIAL_SECONDS, lambda: self.passed(work_id), name=f"trial {work_id}")

    def passed(self, work_id: str) -> None:
        """Let the next one start, if this work is on trial: it made a step, or it is over."""
        if self._on_trial == work_id:
            self._on_trial = ""
            self._trial.release()

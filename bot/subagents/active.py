"""The work that is executed in this process, and its restart after crashes."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from bot.agent.activity import Activity
from bot.agent.budget import TokenBudget, WorkClock
from bot.agent.messages import Usage
from bot.agent.progress import Progress
from bot.subagents.requests import PRIVATE
from bot.tasks import Tasks
from db import run_messages, runs, workers
from db.database import Database, Transaction

#: Crashes within this period that make the next start resume one piece at a time.
CRASHES = 2
WITHIN = timedelta(minutes=10)
#: Resumed work that runs for this long without a crash allows the next piece to start.
TRIAL_SECONDS = 20.0


class CancelReason(StrEnum):
    """Reasons for cancelling the task of a run."""

    STOPPED = "stopped"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class RunAccount:
    """Charges a run for requests that are made beside the loop of its agent."""

    progress: Progress
    budget: TokenBudget

    def reserve(self, input_tokens: int, most_output: int) -> int | None:
        """Reserve tokens for a request.

        Returns:
            The most output tokens of the request; `None` if too few tokens are left.
        """
        # Before its first step, the tokens of earlier attempts may not be charged yet.
        if not self.progress.steps:
            return None
        output = self.budget.allow(input_tokens, most_output)
        if output is not None:
            self.progress.beside += input_tokens + output
        return output

    def charge(self, usage: Usage) -> None:
        """Charge the usage of a request."""
        self.progress.spend(self.budget, usage)

    def release(self, tokens: int) -> None:
        """Release tokens that were reserved."""
        self.progress.beside -= tokens


@dataclass(slots=True)
class ActiveRun:
    """One run that is being executed here.

    Attributes:
        reason: Set before the task is cancelled; without a reason, the cancellation came from
            outside.
        has_messages: Whether a message may be waiting.
        clocks: The run's clock, and the clocks of everything that waits for the run. All of them
            are paused while the run waits for its owner.
        activity: Interrupts the run when no event comes for too long.
        account: Charges the run; `None` before its agent exists, and for a turn.
    """

    task: asyncio.Task[None]
    reason: CancelReason | None = None
    has_messages: bool = False
    clocks: tuple[WorkClock, ...] = ()
    activity: Activity | None = None
    account: RunAccount | None = None
    _notified: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def idle(self) -> bool:
        """True if the run only waits for its owner, or for a nested run that does."""
        return bool(self.clocks) and self.clocks[0].stands_still

    @property
    def awaited(self) -> bool:
        """True if a turn or another run waits for the result."""
        return len(self.clocks) > 1

    def notify(self) -> None:
        """Wake the run to re-check for an answer."""
        self._notified.set()

    async def wait(self, seconds: float) -> None:
        """Wait for the next notification, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._notified.wait()
        self._notified.clear()


@dataclass(slots=True)
class ActiveRuns:
    """All runs that are being executed in this process.

    Attributes:
        by_id: The runs that can be stopped.
        ending: Tasks that publish and store the end of a run, with the run's id.
    """

    by_id: dict[str, ActiveRun] = field(default_factory=dict)
    ending: dict[asyncio.Task[None], str] = field(default_factory=dict)

    def enter(self, run_id: str) -> ActiveRun:
        """Register the current task as the one that executes a run."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a run is worked on in a task")
        self.by_id[run_id] = active = ActiveRun(task)
        return active

    def leave(self, run_id: str, active: ActiveRun) -> None:
        """Remove a run from those that can be stopped; its task now only stores the end."""
        if self.by_id.get(run_id) is active:
            del self.by_id[run_id]
        self.ending[active.task] = run_id
        active.task.add_done_callback(lambda task: self.ending.pop(task, None))

    def holds(self, run_id: str) -> bool:
        """Return True if a run is executed here, or its end is being stored."""
        return run_id in self.by_id or run_id in self.ending.values()

    def stop(self, run_id: str) -> bool:
        """Cancel a run's model call and tools at once; return False if it is not executed here."""
        return self._cancel(run_id, CancelReason.STOPPED)

    def drain(self, run_ids: Collection[str] | None = None) -> Sequence[asyncio.Task[None]]:
        """Cancel runs so that another process resumes them, and return their tasks.

        Args:
            run_ids: The runs to cancel; `None` for all of them.
        """
        chosen = [each for each in self.by_id if run_ids is None or each in run_ids]
        tasks = [self.by_id[run_id].task for run_id in chosen]
        for run_id in chosen:
            self._cancel(run_id, CancelReason.DRAINING)
        return tasks

    def _cancel(self, run_id: str, reason: CancelReason) -> bool:
        active = self.by_id.get(run_id)
        if active is None:
            return False
        if active.reason is None:
            active.reason = reason
            active.task.cancel()
        return True

    def interrupt_silent(self) -> list[str]:
        """Interrupt the runs without an event for too long; return their ids."""
        active = [(run_id, each.activity) for run_id, each in self.by_id.items()]
        return [run_id for run_id, each in active if each and each.interrupt_if_silent()]

    def notify(self, run_id: str) -> None:
        """Wake a run to re-check for an answer."""
        if run_id in self.by_id:
            self.by_id[run_id].notify()

    def notify_of_message(self, run_id: str) -> None:
        """Make a run read its messages before its next step."""
        if run_id in self.by_id:
            self.by_id[run_id].has_messages = True


@dataclass(slots=True)
class RunInbox:
    """The `MessageInbox` of one run; queries the database only if a message may have arrived.

    Attributes:
        private: Whether a message has brought private material.
        foreign: No, since the owner of the run wrote the messages.
    """

    database: Database
    run_id: str
    active: ActiveRun
    private: bool = False
    foreign: bool = False

    async def take(self) -> Sequence[tuple[str, str]]:
        """Return (id, text) of the messages that have arrived and were not read."""
        if not self.active.has_messages:
            return ()
        self.active.has_messages = False
        async with self.database.snapshot() as tx:
            run = await runs.get(tx, self.run_id)
            self.private = run is not None and bool(run.metadata.get(PRIVATE))
            return await run_messages.unread(tx, self.run_id)

    def mark_read(self, read: Sequence[str]) -> None:
        """Do nothing: the card and the list of the run show what was read."""


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

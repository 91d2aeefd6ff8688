"""The runs at work in this process."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from bot.subagents.clock import WorkClock
from bot.subagents.requests import PRIVATE
from db import run_messages, runs
from db.database import Database


class Why(StrEnum):
    """Why this process cancels a run's task."""

    STOPPED = "stopped"
    DRAINING = "draining"


@dataclass(slots=True)
class ActiveRun:
    """One run at work here.

    Attributes:
        why: Set before the task is cancelled; a cancellation without it came from outside.
        mail: Whether a message may be waiting.
        clocks: Its clock, and those of whoever waits for it: they stand still while it waits for
            its person.
        private: A message to it holds private material.
    """

    task: asyncio.Task[None]
    why: Why | None = None
    mail: bool = False
    clocks: tuple[WorkClock, ...] = ()
    private: bool = False
    _stirred: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def idle(self) -> bool:
        """Whether it does nothing but wait for its person, or for a run that does."""
        return bool(self.clocks) and self.clocks[0].stands_still

    @property
    def awaited(self) -> bool:
        """Whether a turn or another run waits for its result."""
        return len(self.clocks) > 1

    def stir(self) -> None:
        """Let it look whether its person has answered."""
        self._stirred.set()

    async def stirs(self, seconds: float) -> None:
        """Wait until it is to look again, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stirred.wait()
        self._stirred.clear()


@dataclass(slots=True)
class ActiveRuns:
    """All runs at work in this process.

    Attributes:
        by_id: Those that can be stopped.
        ending: The tasks of those whose end is being told and stored, and which run it is.
    """

    by_id: dict[str, ActiveRun] = field(default_factory=dict)
    ending: dict[asyncio.Task[None], str] = field(default_factory=dict)

    def enter(self, run_id: str) -> ActiveRun:
        """Enter the current task as the one that works on a run."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a run is worked on in a task")
        self.by_id[run_id] = active = ActiveRun(task)
        return active

    def leave(self, run_id: str, active: ActiveRun) -> None:
        """Take a run out again: what is left of its task is its end."""
        if self.by_id.get(run_id) is active:
            del self.by_id[run_id]
        self.ending[active.task] = run_id
        active.task.add_done_callback(lambda task: self.ending.pop(task, None))

    def holds(self, run_id: str) -> bool:
        """Whether a run is at work here, or its end is being stored."""
        return run_id in self.by_id or run_id in self.ending.values()

    def stop(self, run_id: str) -> bool:
        """Cancel a run's model call and tools at once; `False` when it is not at work here."""
        return self._cancel(run_id, Why.STOPPED)

    def drain(self, run_ids: Collection[str] | None = None) -> Sequence[asyncio.Task[None]]:
        """Cancel runs, to be resumed by another process, and return their tasks.

        Args:
            run_ids: Those runs; all of them if `None`.
        """
        chosen = [each for each in self.by_id if run_ids is None or each in run_ids]
        tasks = [self.by_id[run_id].task for run_id in chosen]
        for run_id in chosen:
            self._cancel(run_id, Why.DRAINING)
        return tasks

    def _cancel(self, run_id: str, why: Why) -> bool:
        active = self.by_id.get(run_id)
        if active is None:
            return False
        if active.why is None:
            active.why = why
            active.task.cancel()
        return True

    def stir(self, run_id: str) -> None:
        """Let a run look whether its person has answered."""
        if run_id in self.by_id:
            self.by_id[run_id].stir()

    def mail_for(self, run_id: str) -> None:
        """Let a run look for messages before its next step."""
        if run_id in self.by_id:
            self.by_id[run_id].mail = True


@dataclass(frozen=True, slots=True)
class RunInbox:
    """The `Inbox` of one run: it asks the database only when something may have arrived."""

    database: Database
    run_id: str
    active: ActiveRun

    @property
    def private(self) -> bool:
        """True once private material has come with a message."""
        return self.active.private

    async def take(self) -> Sequence[tuple[str, str]]:
        """Return (id, text) of what has arrived and was not read."""
        if not self.active.mail:
            return ()
        self.active.mail = False
        async with self.database.snapshot() as tx:
            run = await runs.get(tx, self.run_id)
            self.active.private = run is not None and bool(run.metadata.get(PRIVATE))
            return await run_messages.unread(tx, self.run_id)

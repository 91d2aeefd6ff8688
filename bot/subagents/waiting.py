"""Waits until runs have ended or ask, for an agent that would have to look again and again."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from bot.events import EventBus, RunEnded, RunEvent, RunStatusChanged
from bot.subagents.records import Records
from bot.subagents.requests import Caller
from bot.values import WAITING
from db import runs, turn_inbox
from db.database import Database
from db.runs import Run

#: Longest wait of one call.
LONGEST_SECONDS = 60.0
#: Poll interval for runs in other processes, and for messages to the caller.
POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class WaitOutcome:
    """The end of a wait.

    Attributes:
        runs: The runs that were waited for, as they are now, in their order.
        interrupted: Whether a message ended the wait.
    """

    runs: list[Run]
    interrupted: bool

    @property
    def over(self) -> list[Run]:
        """The runs that have ended or ask their user."""
        return [run for run in self.runs if run.status.final or run.status in WAITING]


@dataclass(frozen=True, slots=True)
class RunWaits:
    """Waits for runs: events wake it in this process, and a poll finds what others have stored."""

    database: Database
    records: Records
    events: EventBus

    async def wait(
        self,
        handles: Sequence[str],
        caller: Caller,
        *,
        everything: bool,
        seconds: float = LONGEST_SECONDS,
    ) -> WaitOutcome:
        """Wait until one of the runs has ended or asks, a message arrives, or the time is over.

        Args:
            handles: The runs, as the caller names them; none for all of the caller's that have not
                ended. If all have, those that the caller's turn began: a quick one may end before
                the turn waits for it.
            caller: The caller, whose access limits the runs.
            everything: Whether to wait for all of the runs.
            seconds: The longest wait.

        Raises:
            NotFoundError: A run does not exist, or belongs to another user.
            AmbiguousError: A handle fits several runs.
        """
        if handles:
            waited = [await self.records.find(each, caller, action="info") for each in handles]
        else:
            active, ended = await self.records.list(caller)
            mine = (run for run in ended if run.mode == "async" and run.batch_id == caller.batch_id)
            waited = active or [*mine]
        ids = list(dict.fromkeys(run.id for run in waited))
        woken = asyncio.Event()

        def wake(event: RunEvent) -> None:
            if event.run_id in ids and isinstance(event, RunEnded | RunStatusChanged):
                woken.set()

        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        with self.events.listening(RunEvent, wake):
            while True:
                woken.clear()
                async with self.database.snapshot() as tx:
                    found = {run.id: run for run in await runs.get_many(tx, ids)}
                    interrupted = await turn_inbox.has_waiting(tx, caller.conversation_id)
                outcome = WaitOutcome(
                    [found[run_id] for run_id in ids if run_id in found], interrupted
                )
                enough = len(outcome.over) >= (len(ids) if everything else min(1, len(ids)))
                left = until - clock()
                if enough or outcome.interrupted or left <= 0:
                    return outcome
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(POLL_SECONDS, left)):
                        await woken.wait()

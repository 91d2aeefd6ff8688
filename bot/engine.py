"""Durable execution: work that was started is finished, by this process or another.

A piece of work is an id and a kind. All its data, and the process that has it, are in its own rows
(`db.work`), so a repeated attempt reads its rows and continues.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from typing import Any, Literal, Self

from bot.events import RunAdmitted
from bot.tasks import Tasks
from db import work
from db.database import Database, Transaction, is_connection_trouble, patiently
from db.notifications import Notifications
from db.work import Kind

log = logging.getLogger(__name__)

#: Makes one attempt at a piece of work. It must return once the work has ended or this process
#: cannot continue it.
Work = Callable[[str], Coroutine[Any, Any, None]]

#: Most work that is taken in one transaction: other processes that are free take the next.
TAKEN_AT_ONCE = 10
#: A run that is due within `BUSY_SECONDS` after others waits `GATHER_SECONDS` for more, which are
#: taken and begun with it.
BUSY_SECONDS, GATHER_SECONDS = 0.1, 0.02


class Engine:
    """Starts work in this process, and takes work that no process has.

    Attributes:
        worker_id: The id of this process, new at each start.
        platforms: The platforms whose work this process may do: it can deliver the answers.
    """

    def __init__(
        self,
        database: Database,
        kinds: Mapping[Kind, Work],
        *,
        tasks: Tasks,
        worker_id: str,
        platforms: Sequence[str],
        at_once: int = 200,
    ) -> None:
        """Prepare the engine.

        Args:
            database: The database with the work.
            kinds: The function for each kind of work.
            tasks: Owns the tasks of the work.
            worker_id: The id of this process.
            platforms: The platforms whose work it may do.
            at_once: The most work of one kind that this process has when it takes more.
        """
        self.worker_id = worker_id
        self._database = database
        self._kinds = kinds
        self._tasks = tasks
        self.platforms = platforms
        self._at_once = at_once
        self._notifications: Notifications | None = None
        self._draining = False
        #: The kinds of work of which there may be some to take.
        self._due: set[Kind] = set()
        self._wake = asyncio.Event()
        self._active: dict[str, Kind] = {}
        #: Active work that was started again, and is not begun again yet.
        self._again: set[str] = set()
        #: Work that this process has, but that was not active at the last check.
        self._idle: set[tuple[Kind, str]] = set()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Self]:
        """Take work until the block ends."""
        async with (
            Notifications.open(self._database, self._look_for) as self._notifications,
            Tasks() as own,
        ):
            own.start(self._take_due(), name="take work", fresh_context=True)
            yield self

    def drain(self) -> None:
        """Start no more work: work that is due waits for another process or the next start."""
        self._draining = True

    # -- starting --------------------------------------------------------------------------------

    def start(self, kind: Kind, work_id: str) -> None:
        """Start work that this process has; if it is active, once that attempt has ended.

        The active attempt may have lost the work, which this process has taken again. While this
        process drains, another one may take the work instead.
        """
        if self._draining:
            self._tasks.start(self._give_back(kind, work_id), name=f"give back {work_id}")
        elif work_id in self._active:
            self._again.add(work_id)
        else:
            self._active[work_id] = kind
            attempt = self._kinds[kind](work_id)
            task = self._tasks.start(attempt, name=f"{kind} {work_id}", fresh_context=True)
            task.add_done_callback(lambda _: self._ended(kind, work_id))

    def _ended(self, kind: Kind, work_id: str) -> None:
        del self._active[work_id]
        if work_id in self._again and not self._draining:
            self._again.discard(work_id)
            self.start(kind, work_id)

    def offer(self, kind: Kind | Literal[""] = "") -> None:
        """Notify all processes that there is work of a kind to take; of any kind by default."""
        if self._notifications is not None:
            self._notifications.send(kind)

    def on_run_admitted(self, event: RunAdmitted) -> None:
        """Start a background run, or let one of several processes take it.

        The turn that waits for a delegated run executes it.
        """
        if event.mode != "async":
            return
        if self._database.is_sqlite:
            self.start("run", event.run_id)
        else:
            self.offer("run")

    async def _give_back(self, kind: Kind, work_id: str) -> None:
        write = partial(self._database.write, work.give_back, kind, work_id, self.worker_id)
        await patiently(write)
        self.offer(kind)

    # -- taking ----------------------------------------------------------------------------------

    def _look_for(self, subject: str) -> None:
        """Look soon for work of the kind that a notification names; of any kind without a name."""
        self._due.update(kind for kind in self._kinds if subject in {"", kind})
        self._wake.set()

    async def _take_due(self) -> None:
        """Take work whenever there may be some."""
        loop = asyncio.get_running_loop()
        taken_at = -inf
        while True:
            await self._wake.wait()
            self._wake.clear()
            # Turns are not gathered: a user waits for each.
            if self._due == {"run"} and loop.time() - taken_at < BUSY_SECONDS:
                await asyncio.sleep(GATHER_SECONDS)
            due, self._due = self._due, set()
            try:
                for kind in due:
                    await self._take(kind)
                taken_at = loop.time()
            except Exception as error:
                # The regular check for abandoned work repeats it.
                if not is_connection_trouble(error):
                    log.exception("Work could not be taken; it is tried again")

    async def _take(self, kind: Kind) -> None:
        more = True
        # Drained work is given back: taking on would take the same work again, without end.
        while more and not self._draining:
            had = sum(each == kind for each in self._active.values())
            taken: list[str] = []
            if (limit := min(TAKEN_AT_ONCE, self._at_once - had)) > 0:
                take = partial(work.take, limit=limit)
                taken = await self._database.write(take, kind, self.worker_id, self.platforms)
            for work_id in taken:
                self.start(kind, work_id)
            more = len(taken) == TAKEN_AT_ONCE

    # -- watching --------------------------------------------------------------------------------

    async def resume(self) -> None:
        """Take what no process has, and start what this one has without being at work on it.

        Such work is one whose end could not be stored. It is started at the second check in a row
        that finds it, since it may just be ending.
        """
        mine, free = await self._database.read(work.of_worker, self.worker_id)
        for kind in free:
            self._look_for(kind)
        idle = {each for each in mine if each[1] not in self._active}
        left, self._idle = idle & self._idle, idle
        for kind, work_id in left:
            log.info("The %s %s is started again", kind, work_id)
            self.start(kind, work_id)

    async def take_over(self, tx: Transaction, alive: Sequence[str]) -> int:
        """Take the work of dead processes from them, and return the number of pieces.

        Any process can take it after the commit.

        Args:
            tx: The transaction.
            alive: The ids of the live processes, including this one.
        """
        return await work.free(tx, alive)

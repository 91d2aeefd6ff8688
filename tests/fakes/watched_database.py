"""A real database that is watched: it counts transactions, refuses nested ones, and can fail."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy.ext.asyncio import AsyncEngine

from db.database import Database, Transaction

#: When a transaction fails: before it begins, before it commits, or after, so that the commit
#: happened and nobody was told.
When = Literal["begin", "commit", "answer"]


@dataclass(frozen=True, slots=True)
class Hold:
    """Where a transaction waits: it has come there, and it may go on."""

    when: str
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def pass_by(self, moment: str) -> None:
        """Wait here, if this is the moment."""
        if moment == self.when:
            self.reached.set()
            await self.released.wait()


class WatchedDatabase(Database):
    """A database for tests: `WatchedDatabase.open(settings)`.

    A task that opens a transaction or snapshot inside another fails: with one connection in the
    pool it would wait for itself.

    Attributes:
        transactions: How many have committed.
    """

    def __init__(self, *engines: AsyncEngine) -> None:
        super().__init__(*engines)
        self.transactions = 0
        self._inside: set[asyncio.Task[object] | None] = set()
        self._plan: deque[tuple[When, Exception] | None] = deque()
        self._holds: deque[Hold] = deque()

    def fail_next(self, error: Exception, *, when: When = "begin", after: int = 0) -> None:
        """Let the next transaction fail, or the one `after` so many that go well."""
        self._plan.extend([*[None] * after, (when, error)])

    def hold_next(self, *, when: When = "begin") -> "Hold":
        """Let the next transaction wait, before it begins or after its commit."""
        self._holds.append(Hold(when))
        return self._holds[-1]

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        planned = self._plan.popleft() if self._plan else None
        when, error = planned or ("", None)
        with self._alone():
            hold = self._holds.popleft() if self._holds else Hold("none")
            await hold.pass_by("begin")
            if error is not None and when == "begin":
                raise error
            async with super().transaction() as tx:
                yield tx
                if error is not None and when == "commit":
                    raise error
        await hold.pass_by("answer")
        self.transactions += 1
        if error is not None:
            raise error

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Transaction]:
        with self._alone():
            async with super().snapshot() as tx:
                yield tx

    def _alone(self) -> "_Inside":
        return _Inside(self._inside)


class _Inside:
    """Enters the current task once, and refuses it a second time."""

    def __init__(self, inside: set[asyncio.Task[object] | None]) -> None:
        self._inside = inside
        self._task = asyncio.current_task()

    def __enter__(self) -> None:
        assert self._task not in self._inside, "A transaction was opened inside another one."
        self._inside.add(self._task)

    def __exit__(self, *_: object) -> None:
        self._inside.discard(self._task)

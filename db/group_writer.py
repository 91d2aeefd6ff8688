"""Writes for several callers in one transaction."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from sqlalchemy.exc import DBAPIError

from bot.tasks import Tasks
from db.database import Database, Transaction, is_connection_trouble, patiently

Item = TypeVar("Item")
Result = TypeVar("Result")


class _RefusedError(Exception):
    """The code that stores a group failed on an item; nothing is stored."""


@dataclass(eq=False, slots=True, kw_only=True)
class GroupWriter(Generic[Item, Result]):
    """Writes items of concurrent callers together.

    One transaction at a time: items that arrive while it waits for the database go into it, and
    later ones into the next. A hundred callers therefore cost little more than one.

    Attributes:
        tasks: Owns the writing task.
        name: The name of that task.
        store: Writes items and returns a result for each.
        patience_seconds: The time of retries while the database is unreachable, see `patiently`.
        gather_seconds: Returns the time to wait for more items before the next transaction.
        urgent: Returns True for an item that is written without such a wait.
    """

    database: Database
    tasks: Tasks
    name: str
    store: Callable[[Transaction, Sequence[Item]], Awaitable[Sequence[Result]]]
    patience_seconds: float | None = None
    gather_seconds: Callable[[], float] = lambda: 0.0
    urgent: Callable[[Item], bool] = lambda _: False
    _hurry: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting: "list[tuple[Item, asyncio.Future[Result]]]" = field(default_factory=list)
    _writing: bool = False

    async def write(self, item: Item) -> Result:
        """Return the result of an item once it is committed."""
        written: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, written))
        if self.urgent(item):
            self._hurry.set()
        if not self._writing:
            self._writing = True
            self.tasks.start(self._write_all(), name=self.name, fresh_context=True)
        return await written

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                if (seconds := self.gather_seconds()) and not self._hurry.is_set():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(seconds):
                            await self._hurry.wait()
                await self._write_group()
        finally:
            self._writing = False
            # On cancellation no caller may wait for ever.
            for _, written in self._waiting:
                written.cancel()
            self._waiting.clear()

    async def _write_group(self) -> None:
        """Write all waiting items together; if one causes an error, write each by itself."""
        group: list[tuple[Item, asyncio.Future[Result]]] = []
        try:
            results = await patiently(partial(self._transact, group), seconds=self.patience_seconds)
            for (_, written), result in zip(group, results, strict=True):
                if not written.done():
                    written.set_result(result)
        except BaseException as error:
            self._move_to(group)
            if not isinstance(error, Exception):
                raise
            # After any other failure of a commit nobody knows if it took effect.
            one_is_wrong = isinstance(error, DBAPIError | _RefusedError)
            one_is_wrong = one_is_wrong and not is_connection_trouble(error)
            for item, written in group:
                if one_is_wrong:
                    await self._write_alone(item, written)
                elif not written.done():
                    written.set_exception(error)
        finally:
            # On cancellation no caller may wait for ever.
            for _, written in group:
                written.cancel()

    async def _transact(
        self, group: "list[tuple[Item, asyncio.Future[Result]]]"
    ) -> Sequence[Result]:
        """Write the items of a group and those that wait."""
        async with self.database.transaction() as tx:
            self._move_to(group)
            try:
                return await self.store(tx, [item for item, _ in group])
            except Exception as error:
                if isinstance(error, DBAPIError) or is_connection_trouble(error):
                    raise
                raise _RefusedError from error

    def _move_to(self, group: "list[tuple[Item, asyncio.Future[Result]]]") -> None:
        group += self._waiting
        self._waiting.clear()
        self._hurry.clear()

    async def _write_alone(self, item: Item, written: "asyncio.Future[Result]") -> None:
        async def write() -> Result:
            async with self.database.transaction() as tx:
                (result,) = await self.store(tx, [item])
                return result

        try:
            result = await patiently(write, seconds=self.patience_seconds)
        except Exception as error:  # noqa: BLE001 - raised in the caller
            if not written.done():
                written.set_exception(error)
        else:
            if not written.done():
                written.set_result(result)

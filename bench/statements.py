"""Counts the SQL statements of a run and of a message, on an idle bot."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, event

from bench import postgres
from bench.server import CALLS
from bench.stage import open_server, open_stage
from bench.table import Row, Scale
from bench.times import say

WARM_UP = 5


@dataclass(slots=True)
class Counter:
    """Counts statements, begins of transactions among them.

    Attributes:
        statements: All of them.
        duties: Those of the regular duties.
    """

    statements: int = 0
    duties: int = 0

    def count(self, *_: object) -> None:
        """Count one."""
        self.statements += 1
        task = asyncio.current_task()
        self.duties += task is not None and task.get_name().startswith("upkeep")

    def count_begin(self, connection: Connection) -> None:
        """Count the begin of a transaction of the bot; in autocommit none is sent."""
        level = connection.get_execution_options().get("isolation_level")
        if connection.dialect.is_async and level != "AUTOCOMMIT":
            self.count()

    def each(self, count: int) -> str:
        """Return the statements for each of so many pieces of work."""
        own = self.statements - self.duties
        return f"{own / count:.1f}, with the regular duties {self.statements / count:.1f}"


@contextmanager
def counting() -> Iterator[Counter]:
    """Count the statements of all databases during the block."""
    counter = Counter()
    listeners: dict[str, Callable[..., None]] = {
        "before_cursor_execute": counter.count,
        "begin": counter.count_begin,
    }
    for name, listener in listeners.items():
        event.listen(Engine, name, listener)
    try:
        yield counter
    finally:
        for name, listener in listeners.items():
            event.remove(Engine, name, listener)


async def rows(scale: Scale) -> list[Row]:
    """Return the figures."""
    found = await measure(scale, "SQLite", "")
    if not scale.postgres:
        return found
    async with postgres.opened() as url:
        if url is None:
            return [*found, Row("the same on PostgreSQL", "", postgres.MISSING)]
        return [*found, *await measure(scale, "PostgreSQL", url)]


async def measure(scale: Scale, name: str, database_url: str) -> list[Row]:
    """Return the figures of a database."""
    async with open_server() as server, open_stage(server, database_url) as stage:
        await stage.spawn_held(server, WARM_UP)
        await server.go()
        await stage.all_announced()
        await say(stage, WARM_UP)
        last = len(stage.callers) - 1
        await say(stage, WARM_UP, last)
        with counting() as together:
            await stage.spawn_held(server, scale.counted)
            await server.go()
            await stage.all_announced()
        with counting() as alone:
            for _ in range(scale.counted):
                await stage.spawn()
                await stage.all_announced()
        with counting() as of_messages:
            await say(stage, scale.counted, last)
        with counting() as beside_runs:
            await say(stage, scale.counted)
    run = f"SQL statements of a run of {CALLS} calls"
    message = "SQL statements of a message that the main agent answers"
    return [
        Row(f"{what}, {name}", reach, each.each(scale.counted))
        for what, reach, each in (
            (f"{run}, {scale.counted} at once", "≤ 18", together),
            (f"{run}, one after another", "≤ 18", alone),
            (message, "≤ 20", of_messages),
            (f"{message}, its user had runs in the last hour", "≤ 20", beside_runs),
        )
    ]

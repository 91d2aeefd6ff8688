"""The measurements behind decisions: `python -m bench.choices [sqlite|bwrap]`.

For SQLite and the engine the CPU of the whole process, threads included; for bubblewrap the clock.
See `docs/decisions` 0001, 0003 and 0012.
"""

import asyncio
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    String,
    Table,
    event,
    insert,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bench.table import spread
from db.sqlite import open_engine
from skills.shell.host import hosts

TIMES = 300
TABLE = Table(
    "things",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("name", String),
    Column("number", Integer),
)


async def _cpu(work: Callable[[int], Awaitable[object]]) -> float:
    """Return the milliseconds of CPU of one piece of work, the mean of many after a warm-up."""
    for number in range(20):
        await work(-number - 1)
    begun = time.process_time()
    for number in range(TIMES):
        await work(number)
    return 1000 * (time.process_time() - begun) / TIMES


async def sqlite(folder: Path) -> None:
    """Compare a transaction of three statements with a thread per connection and without."""

    def threaded(path: Path) -> AsyncEngine:
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}", pool_size=1, max_overflow=0)

        @event.listens_for(engine.sync_engine, "connect")
        def _prepare(connection: Any, _: object) -> None:
            connection.isolation_level = None
            cursor = connection.cursor()
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("PRAGMA synchronous=NORMAL")
            cursor.close()

        @event.listens_for(engine.sync_engine, "begin")
        def _begin(connection: Any) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

        return engine

    for name, engine in (
        ("a thread per connection (aiosqlite)", threaded(folder / "threaded.db")),
        ("inline (db/sqlite.py)", open_engine(folder / "inline.db", writes=True)),
    ):
        async with engine.begin() as connection:
            await connection.run_sync(TABLE.metadata.create_all)

        async def transaction(number: int, engine: AsyncEngine = engine) -> None:
            async with engine.begin() as connection:
                await connection.execute(insert(TABLE).values(name="x", number=number))
                await connection.execute(select(TABLE.c.name).where(TABLE.c.id == 1))
                await connection.execute(update(TABLE).where(TABLE.c.id == 1).values(number=1))

        print(
            f"SQLite, a transaction of three statements, {name}: {await _cpu(transaction):.2f} ms"
        )
        await engine.dispose()


async def bwrap(__: Path) -> None:
    """Compare a program in a bubblewrap with namespaces of its own, and without one."""
    programs = {"nothing around it": ["true"]}
    for host in hosts(site.getsitepackages()):
        options = ("--unshare-all", "--die-with-parent", "--ro-bind", "/", "/")
        whose = "the system's bubblewrap" if host.library is None else "the package's bubblewrap"
        programs[f"in {whose}"] = [host.bwrap, *options, "true"]
    for name, command in programs.items():
        times = []
        for _ in range(TIMES):
            begun = time.perf_counter()
            subprocess.run(command, check=True)  # noqa: ASYNC221 - nothing else is to be done
            times.append(time.perf_counter() - begun)
        print(f"The program `true`, {name}: {spread(times)}")


def main() -> None:
    """Measure what was asked for, or all."""
    parts = {"sqlite": sqlite, "bwrap": bwrap}
    for name in sys.argv[1:] or list(parts):
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(parts[name](Path(folder)))


if __name__ == "__main__":
    main()

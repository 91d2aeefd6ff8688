"""Queries on the files that runs send with their results."""

from collections.abc import Sequence

from sqlalchemy import bindparam, func, insert, select

from bot.values import UNFINISHED
from db.database import Transaction
from db.rows import remove
from db.tables import run_files, subagent_runs

_ANY = select(run_files.c.number).where(run_files.c.run_id == bindparam("b_run")).limit(1)


async def totals(tx: Transaction, run_id: str) -> tuple[int, int] | None:
    """Return the number of the files of a run and their bytes together, and lock the run.

    Returns:
        `None` if the run has ended: its files may be sent already.
    """
    run = select(subagent_runs.c.id).where(
        subagent_runs.c.id == run_id, subagent_runs.c.status.in_(UNFINISHED)
    )
    if await tx.scalar(run.with_for_update()) is None:
        return None
    query = select(func.count(), func.coalesce(func.sum(func.length(run_files.c.data)), 0))
    row = (await tx.execute(query.where(run_files.c.run_id == run_id))).one()
    return int(row[0]), int(row[1])


async def add(
    tx: Transaction, run_id: str, files: Sequence[tuple[str, bytes]], *, after: int
) -> None:
    """Store files of a run behind its first `after`, each with its name and content."""
    rows = [
        {"run_id": run_id, "number": number, "name": name, "data": data}
        for number, (name, data) in enumerate(files, after + 1)
    ]
    await tx.execute(insert(run_files), rows)


async def exist(tx: Transaction, run_id: str) -> bool:
    """Return True if a run has files."""
    return await tx.scalar(_ANY, {"b_run": run_id}) is not None


async def of_run(tx: Transaction, run_id: str) -> list[tuple[str, bytes]]:
    """Return the files of a run, in their order, each with its name and content."""
    query = select(run_files.c.name, run_files.c.data).where(run_files.c.run_id == run_id)
    rows = await tx.execute(query.order_by(run_files.c.number))
    return [(row.name, row.data) for row in rows]


async def forget(tx: Transaction, run_id: str) -> None:
    """Delete the files of a run."""
    await remove(tx, run_files, run_files.c.run_id == run_id)

"""Queries on which process works on turns and background runs: their own rows say it.

A delegated run has no process of its own: the turn or run that waits for it executes it.
"""

from collections.abc import Sequence
from functools import cache
from typing import Literal

from sqlalchemy import ColumnElement, Table, Update, bindparam, select, update

from bot.values import UNFINISHED, RunStatus
from db.database import Transaction
from db.rows import change
from db.tables import subagent_runs, turns

Kind = Literal["run", "turn"]
KINDS: tuple[Kind, ...] = ("run", "turn")

_TABLES = {"run": subagent_runs, "turn": turns}
#: Work that has a slot, or its conversation, and is not over.
_UNDER_WAY: dict[str, tuple[ColumnElement[bool], ...]] = {
    "run": (
        subagent_runs.c.status.in_(UNFINISHED - {RunStatus.QUEUED}),
        subagent_runs.c.mode == "async",
    ),
    "turn": (turns.c.status == "running",),
}


async def take(
    tx: Transaction, kind: Kind, worker_id: str, platforms: Sequence[str], *, limit: int
) -> list[str]:
    """Assign work that no process has to this one, oldest first, and return its ids.

    Two processes never take the same work, and neither waits for the other.

    Args:
        tx: The transaction.
        kind: The kind of work.
        worker_id: This process.
        platforms: The platforms whose work it may do.
        limit: The most to take.
    """
    values = {"b_worker": worker_id, "b_platforms": [*platforms], "b_limit": limit}
    return list(await tx.scalars(_take(kind), values))


@cache
def _take(kind: Kind) -> Update:
    table = _TABLES[kind]
    chosen = (
        select(table.c.id)
        .where(
            *_UNDER_WAY[kind],
            table.c.worker_id == "",
            table.c.channel.in_(bindparam("b_platforms", expanding=True)),
        )
        .order_by(table.c.created_at)
        .limit(bindparam("b_limit"))
        .with_for_update(skip_locked=True)
        .cte("chosen")
    )
    taken = update(table).where(table.c.id.in_(select(chosen.c.id)))
    return taken.values(worker_id=bindparam("b_worker")).returning(table.c.id)


async def free(tx: Transaction, alive: Sequence[str]) -> int:
    """Take the work of processes that are not alive from them; return the number of pieces."""
    count = 0
    for kind in KINDS:
        table = _TABLES[kind]
        left = (*_UNDER_WAY[kind], table.c.worker_id != "", table.c.worker_id.not_in([*alive]))
        count += (await tx.execute(update(table).where(*left).values(worker_id=""))).rowcount
    return count


async def give_back(tx: Transaction, kind: Kind, work_id: str, worker_id: str) -> None:
    """Let another process take a piece of work that this one has not begun."""
    table: Table = _TABLES[kind]
    mine = (table.c.id == work_id, table.c.worker_id == worker_id)
    await change(tx, table, *_UNDER_WAY[kind], *mine, worker_id="")


async def of_worker(tx: Transaction, worker_id: str) -> tuple[set[tuple[Kind, str]], set[Kind]]:
    """Return the work that a process has, and the kinds of which no process has a piece.

    Returns:
        The kind and the id of each piece; and the kinds of work that can be taken.
    """
    mine: set[tuple[Kind, str]] = set()
    free: set[Kind] = set()
    for kind in KINDS:
        table = _TABLES[kind]
        whose = table.c.worker_id.in_(["", worker_id])
        query = select(table.c.id, table.c.worker_id).where(*_UNDER_WAY[kind], whose)
        for row in await tx.execute(query):
            if row.worker_id:
                mine.add((kind, row.id))
            else:
                free.add(kind)
    return mine, free

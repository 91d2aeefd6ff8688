"""Queries on users with active work that nobody ends yet: runs, turns at work, schedules.

A queued turn is not among them: access is asked for before it begins.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Table, select, union

from bot.values import UNFINISHED, Identity, Place
from db.database import Transaction
from db.rows import is_at
from db.schedules import ALIVE
from db.tables import schedules, subagent_runs, turns, users

_OPEN = {
    subagent_runs: subagent_runs.c.status.in_(UNFINISHED)
    & subagent_runs.c.cancel_requested_at.is_(None),
    turns: (turns.c.status == "running") & turns.c.stop_requested_at.is_(None),
    schedules: schedules.c.status.in_(ALIVE),
}
_CHANNEL = ("channel", "place_workspace", "place_channel")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveWork:
    """The ids of a user's active work in a channel."""

    runs: Sequence[str]
    turns: Sequence[str]
    schedules: Sequence[str]

    def __bool__(self) -> bool:
        return bool(self.runs or self.turns or self.schedules)


async def working(tx: Transaction, platforms: Sequence[str]) -> list[tuple[Identity, Place]]:
    """Return the users with active work on some platforms, with each channel of that work."""
    names = ("user_id", *_CHANNEL)
    of_tables = [
        select(*(table.c[name] for name in names)).where(is_open, table.c.channel.in_(platforms))
        for table, is_open in _OPEN.items()
    ]
    work = union(*of_tables).subquery()
    query = select(users, *(work.c[name].label(f"at_{name}") for name in _CHANNEL))
    rows = await tx.execute(query.join(work, work.c.user_id == users.c.id))
    return [
        (
            Identity(row.platform, row.workspace, row.account),
            Place(row.at_channel, row.at_place_workspace, row.at_place_channel),
        )
        for row in rows
    ]


async def work_of(tx: Transaction, user_id: str, place: Place) -> ActiveWork:
    """Return the active work of a user in a channel, locked: of two that end it, one finds it."""

    async def ids(table: Table) -> list[str]:
        mine = (table.c.user_id == user_id, _OPEN[table], *is_at(table, place, *_CHANNEL))
        found = select(table.c.id).where(*mine).order_by(table.c.id)
        return list(await tx.scalars(found.with_for_update()))

    return ActiveWork(
        runs=await ids(subagent_runs), turns=await ids(turns), schedules=await ids(schedules)
    )

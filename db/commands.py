"""Queries on commands that are stored and not answered yet."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import insert, select, update

from bot.values import Identity, Place, Role
from db.database import Transaction
from db.rows import RowMapper, change, remove
from db.tables import commands


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCommand:
    """A command of a user, stored before it is executed.

    Attributes:
        text: As it was typed, such as `/subagents stop 1a2b`.
        conversation_id: Empty for none.
        attempt: 1 while the process that stored it executes it.
        applied: The command's effect is committed; only the answer is missing.
    """

    id: str
    user: Identity
    place: Place
    role: Role
    text: str
    conversation_id: str
    attempt: int = 1
    applied: bool = False


_COMMANDS = RowMapper(
    StoredCommand,
    commands,
    others={"applied": commands.c.applied_at.is_not(None)},
    convert={"role": Role},
)


async def put(tx: Transaction, command: StoredCommand, worker_id: str, now: datetime) -> None:
    """Store a command that this process is about to execute."""
    row = _COMMANDS.values(command) | {"worker_id": worker_id, "created_at": now}
    await tx.execute(insert(commands), row)


async def apply(tx: Transaction, command_id: str, now: datetime) -> None:
    """Mark a command as applied, in the transaction of its effect, so that it is not repeated."""
    if command_id:
        await change(tx, commands, commands.c.id == command_id, applied_at=now)


async def finish(tx: Transaction, command_id: str) -> None:
    """Delete a command that was answered."""
    await remove(tx, commands, commands.c.id == command_id)


async def take_over(
    tx: Transaction, alive: Sequence[str], *, me: str, under_way: Set[str], platforms: Sequence[str]
) -> list[StoredCommand]:
    """Claim the commands of dead processes, and those that this process does not execute any more.

    Args:
        tx: The transaction.
        alive: The workers that are alive.
        me: The worker that takes over.
        under_way: The commands that it is executing; the set changes while this runs.
        platforms: The platforms on which it can answer.
    """
    whose = commands.c.worker_id.not_in([each for each in alive if each != me])
    here = commands.c.channel.in_(platforms)
    found = await tx.scalars(select(commands.c.id).where(whose, here))
    # Compared after the read: a command stored before the read is in `under_way` by now.
    lost = [command_id for command_id in found if command_id not in under_way]
    if not lost:
        return []
    claimed = await tx.scalars(
        update(commands)
        .where(whose, here, commands.c.id.in_(lost))
        .values(worker_id=me, attempt=commands.c.attempt + 1)
        .returning(commands.c.id)
    )
    these = commands.c.id.in_(list(claimed))
    return await _COMMANDS.find_all(tx, these, order=[commands.c.id])

"""Rows of every kind with only what a test is about; the rest is filled in."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Table, func, insert, select

from bot.values import Clock, Identity, Json, Place, new_run_id
from db import conversations, outbox, runs, turns
from db.database import Database
from db.outbox import OutboxEntry
from db.rows import place_columns
from db.runs import Run
from db.tables import subagent_runs
from db.turns import Turn
from tests.fakes.rows import meet


@dataclass(slots=True)
class Stored:
    """Puts rows into a database, for people whom it introduces, and reads them back."""

    database: Database
    now: Clock
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def person(self, user: Identity) -> str:
        """Store a user and return the key."""
        return await meet(self.database, user, self.now())

    async def somebody(self) -> Identity:
        """Return a user whom no other test, and no other example, has met."""
        user = Identity("discord", "", new_run_id())
        await self.person(user)
        return user

    async def run(self, user: Identity, **values: Any) -> Run:
        """Store a run of a user and return it as it is read."""
        await self.person(user)
        row: Json = {
            "id": new_run_id(),
            "user_id": user.key,
            "number": next(self._numbers),
            "label": "sheep",
            "task": "Count sheep",
            "token_budget": 1000,
            "max_steps": 5,
            "timeout_ms": 60_000,
            "created_at": self.now(),
            "updated_at": self.now(),
            **place_columns(room(user)),
        }
        async with self.database.transaction() as tx:
            await tx.execute(insert(subagent_runs).values(row | values))
        return await self.read_run(str((row | values)["id"]))

    async def read_run(self, run_id: str) -> Run:
        """Return a run as it is now."""
        async with self.database.snapshot() as tx:
            found = await runs.get(tx, run_id)
        assert found is not None
        return found

    async def conversation(self, user: Identity) -> str:
        """Open a conversation of a user in their room and return its id."""
        await self.person(user)
        async with self.database.transaction() as tx:
            return await conversations.find_or_open(tx, user, room(user), self.now())

    async def turn(self, user: Identity, conversation_id: str, text: str = "Hello") -> str:
        """Store a message and the turn that will answer it, and return the turn's id."""
        async with self.database.transaction() as tx:
            message = await conversations.say(
                tx, conversation_id, role="user", text=text, now=self.now()
            )
            return await turns.add(
                tx,
                conversation_id,
                user=user,
                place=room(user),
                message_id=message,
                now=self.now(),
            )

    async def claim_turn(self, conversation_id: str) -> str | None:
        """Give a conversation to its next turn."""
        async with self.database.transaction() as tx:
            return await turns.claim_next(tx, conversation_id, self.now(), "w")

    async def begin_turn(self, turn_id: str) -> Turn:
        """Begin an attempt at a turn that was claimed."""
        async with self.database.transaction() as tx:
            turn = await turns.begin(tx, turn_id, worker_id="w", now=self.now())
        assert turn is not None
        return turn

    async def item(self, user: Identity, *, status: str = "pending", text: str = "Done.") -> str:
        """Put an announcement about a new run into the outbox and return its key."""
        run = await self.run(user)
        new = outbox.NewOutboxEntry(
            key=run.id, user_id=user.key, place=room(user), run_id=run.id, title="Over", text=text
        )
        async with self.database.transaction() as tx:
            await outbox.put(tx, new, self.now(), status=status)
        return run.id

    async def read_item(self, key: str) -> OutboxEntry:
        """Return an item as it is now."""
        async with self.database.snapshot() as tx:
            found = await outbox.get(tx, key)
        assert found is not None
        return found

    async def count(self, table: Table) -> int:
        """Return how many rows a table has."""
        async with self.database.snapshot() as tx:
            return await tx.scalar(select(func.count()).select_from(table)) or 0

    async def counts(self, tables: Sequence[Table]) -> dict[str, int]:
        """Return how many rows each of these tables has."""
        return {table.name: await self.count(table) for table in tables}


def room(user: Identity) -> Place:
    """Return the room in which a user talks to the bot."""
    return Place(user.platform, user.workspace, "room", "thread", "m1")

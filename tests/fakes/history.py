"""A row in every table, as they are after a user's work has ended."""

import uuid
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    Table,
    Uuid,
    insert,
)

from db.database import Database
from db.tables import metadata

#: Of work that is over.
OVER = {
    "turns.status": "done",
    "subagent_runs.status": "completed",
    "outbox.status": "delivered",
    "approvals.status": "approved",
    "schedules.status": "done",
    "schedule_fires.status": "counted",
    "run_questions.status": "yes",
    "run_questions.kind": "input",
    "memories.origin": "said",
}
#: Columns that name a row of another table without a foreign key.
NAMED = {
    "conversations.active_turn_id": None,
    "messages.run_id": "subagent_runs",
    "messages.turn_id": "turns",
    "turns.message_id": "messages",
    "subagent_runs.conversation_id": "conversations",
    "outbox.run_id": "subagent_runs",
    "approvals.conversation_id": "conversations",
    "approvals.run_id": "subagent_runs",
}

#: Columns of JSON that hold a mapping; the others hold a list.
DOCUMENTS = {"metadata", "body", "arguments", "context"}


class History:
    """Stores rows that belong together, all at one moment.

    Args:
        database: Where to.
        name: Begins the keys; two histories of one name meet.
        when: The moment.
    """

    def __init__(self, database: Database, name: str, when: datetime) -> None:
        self._database = database
        self._name = name
        self._when = when

    async def store(self, *, without: frozenset[str] = frozenset(), **changed: Any) -> None:
        """Store a row in each table.

        Args:
            without: Tables to leave out.
            changed: Values of columns in place of those of ended work: `turns_status="queued"`.
        """
        async with self._database.transaction() as tx:
            for table in metadata.sorted_tables:
                if table.name not in without:
                    await tx.execute(insert(table).values(self._row(table, changed)))

    def key(self, table: Table) -> str:
        """Return the key of the row in a table."""
        column = next(iter(table.primary_key.columns))
        if isinstance(column.type, Uuid):
            return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self._name} {table.name}"))
        return f"{self._name} {table.name}"[:32]

    def _row(self, table: Table, changed: dict[str, Any]) -> dict[str, Any]:
        row = {column.key: self._value(table, column) for column in table.columns}
        prefix = f"{table.name}_"
        return row | {
            name.removeprefix(prefix): value
            for name, value in changed.items()
            if name.startswith(prefix) and name.removeprefix(prefix) in table.columns
        }

    def _value(self, table: Table, column: Column[Any]) -> Any:
        path = f"{table.name}.{column.name}"
        if path in OVER:
            return OVER[path]
        if column.foreign_keys:
            return self.key(next(iter(column.foreign_keys)).column.table)
        if path in NAMED:
            name = NAMED[path]
            return None if name is None else self.key(metadata.tables[name])
        if column is next(iter(table.primary_key.columns), None):
            return self.key(table)
        return _plain(column, self._when, self._name)


def _plain(column: Column[Any], when: datetime, text: str) -> Any:
    kind = getattr(column.type, "impl", column.type)
    if isinstance(kind, DateTime):
        return when
    if column.nullable:
        return None
    if isinstance(kind, Boolean):
        return False
    if isinstance(kind, Integer | Float):
        return 1
    if isinstance(kind, LargeBinary):
        return b"data"
    if isinstance(kind, JSON):
        return {} if column.name in DOCUMENTS else []
    choices = {"mode": "async", "announce": "result"}
    return choices.get(column.name, text)

"""What Alembic is told when it compares a database with `db.tables`."""

from typing import Any, Literal

from db.types import UtcDateTime

#: SQLite: the search index, and the tables (`notes_fts_…`) that it keeps its data in.
FULL_TEXT_TABLE = "notes_fts"
#: PostgreSQL: the search index.
FULL_TEXT_INDEX = "ix_notes_words"


def include(_: Any, name: str | None, kind: str, __: bool, ___: Any) -> bool:  # noqa: FBT001
    """Leave full-text search out: it is written by hand in the versions."""
    if kind == "table":
        return not (name or "").startswith(FULL_TEXT_TABLE)
    return not (kind == "index" and name == FULL_TEXT_INDEX)


def render(kind: str, item: Any, _: object) -> str | Literal[False]:
    """Write our own types as what they are in the database, so that a version stays what it was."""
    if kind == "type" and isinstance(item, UtcDateTime):
        return "sa.DateTime(timezone=True)"
    return False

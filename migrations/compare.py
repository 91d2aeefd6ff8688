"""Options for Alembic's comparison of a database with `db.tables`."""

from typing import Any, Literal

from db.types import UtcDateTime

#: SQLite: the search index, and the tables (`notes_fts_…`) that store its data.
FULL_TEXT_TABLE = "notes_fts"
#: PostgreSQL: the search index.
FULL_TEXT_INDEX = "ix_notes_words"


def include(_: Any, name: str | None, kind: str, __: bool, ___: Any) -> bool:  # noqa: FBT001
    """Exclude full-text search, which the versions write by hand."""
    if kind == "table":
        return not (name or "").startswith(FULL_TEXT_TABLE)
    return not (kind == "index" and name == FULL_TEXT_INDEX)


def render(kind: str, item: Any, _: object) -> str | Literal[False]:
    """Render our own types as database types, so that later changes do not alter a version."""
    if kind == "type" and isinstance(item, UtcDateTime):
        return "sa.DateTime(timezone=True)"
    return False

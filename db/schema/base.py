"""Shared by all tables: the metadata, the columns of a place, and conditional indexes."""

from sqlalchemy import Column, Index, MetaData, text

from db.types import String

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


#: The columns of a place that say where a conversation is.
ROUTE = ("channel", "place_workspace", "place_channel", "place_thread")


def place() -> list[Column[str]]:
    """Return the columns of the full route of an answer: see `bot.values.Place`."""
    return [
        Column("channel", String(50), nullable=False),
        Column("place_workspace", String(100), nullable=False, server_default=""),
        Column("place_channel", String(255), nullable=False, server_default=""),
        Column("place_thread", String(255), nullable=False, server_default=""),
        Column("place_message", String(255), nullable=False, server_default=""),
    ]


def index_where(name: str, column: str, condition: str, *, unique: bool = False) -> Index:
    """Return an index of the rows that meet a condition."""
    where = text(condition)
    return Index(name, column, unique=unique, sqlite_where=where, postgresql_where=where)

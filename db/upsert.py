"""Insert-or-update, which both databases support and SQLAlchemy offers per dialect only."""

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite

from db.database import Transaction


def insert_into(tx: Transaction, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Return an insert that supports `on_conflict_do_update` and `on_conflict_do_nothing`."""
    return sqlite.insert(table) if tx.dialect.name == "sqlite" else postgresql.insert(table)

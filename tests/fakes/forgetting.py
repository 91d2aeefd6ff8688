"""Retention of one table, for tests that are about that table alone."""

from datetime import datetime

from sqlalchemy import Table, func, select

from db import retention
from db.database import Transaction


async def forget(tx: Transaction, table: Table, moment: datetime, *, of: str = "") -> int:
    """Delete the rows of a table that its rules call old, and return how many there were.

    Args:
        tx: The transaction.
        table: The table.
        moment: Rows from before are old.
        of: Only by the rule for this moment; by all rules for an empty text.
    """
    before = await _count(tx, table)
    for rule in retention.RULES:
        if rule.table is table and of in {"", rule.of}:
            while await retention.forget(tx, rule, moment):
                pass
    return before - await _count(tx, table)


async def _count(tx: Transaction, table: Table) -> int:
    return await tx.scalar(select(func.count()).select_from(table)) or 0

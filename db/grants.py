"""Queries on grants: a user's consent to a tool in one conversation, for a limited time."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import func, select

from db.database import Transaction
from db.rows import put_row, remove
from db.tables import grants


async def give(
    tx: Transaction, conversation_id: str, user_id: str, tools: Iterable[str], until: datetime
) -> None:
    """Store a user's consent to calls of these tools in a conversation, until a time."""
    row = {"conversation_id": conversation_id, "user_id": user_id, "expires_at": until}
    for tool in sorted({*tools}):
        await put_row(tx, grants, row | {"tool": tool})


async def given(
    tx: Transaction, user_id: str, now: datetime, conversation_id: str | None = None
) -> dict[str, datetime]:
    """Return the tools that a user has consented to, with the latest time; `None`: anywhere."""
    query = select(grants.c.tool, func.max(grants.c.expires_at).label("until")).where(
        grants.c.user_id == user_id, grants.c.expires_at > now
    )
    if conversation_id is not None:
        query = query.where(grants.c.conversation_id == conversation_id)
    return {row.tool: row.until for row in await tx.execute(query.group_by(grants.c.tool))}


async def revoke(tx: Transaction, user_id: str, tool: str | None) -> bool:
    """Take back a user's consent to a tool everywhere, or all; `False` if there was none."""
    which = [] if tool is None else [grants.c.tool == tool]
    return await remove(tx, grants, grants.c.user_id == user_id, *which)

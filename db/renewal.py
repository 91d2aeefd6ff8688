"""Begins conversations anew, and goes back to the one before."""

from datetime import datetime
from typing import Literal

from sqlalchemy import delete, select, update

from bot.values import ConversationMode, Identity, Place
from db import conversations as queries
from db import history, turn_inbox
from db.database import Transaction
from db.rows import change, is_at
from db.schema.base import ROUTE
from db.tables import conversations, messages, subagent_runs, turns


async def begin_anew(
    tx: Transaction, user: Identity, place: Place, mode: ConversationMode, now: datetime
) -> str | None:
    """Close the conversation of a place; turns that wait in it go into a new one.

    A turn in progress ends in the old conversation.

    Returns:
        The id of the new conversation if a turn waits in it, else `None`: the next message opens
        one.
    """
    old = await queries.find(tx, user, place, mode)
    if old is None:
        return None
    await queries.close(tx, old, now)
    rows = await tx.execute(
        select(turns.c.id, turns.c.user_id, turns.c.message_id)
        .where(turns.c.conversation_id == old, turns.c.status == "queued")
        .order_by(turns.c.id)
    )
    waiting = rows.all()
    if not waiting:
        return None
    new = await queries.find_or_open(tx, user, place, now, mode)
    for row in waiting:
        after = await turn_inbox.newest_begun(tx, old, row.user_id)
        theirs = (
            *turn_inbox.waiting(old, row.user_id, after=after),
            messages.c.id <= row.message_id,
        )
        moved = [row.message_id, *await tx.scalars(select(messages.c.id).where(*theirs))]
        await _move(tx, moved, new)
        await change(tx, turns, turns.c.id == row.id, conversation_id=new)
    return new


async def go_back(
    tx: Transaction,
    user: Identity,
    place: Place,
    mode: ConversationMode,
    *,
    since: datetime,
) -> Literal["done", "busy", "none"]:
    """Open the conversation before the present one again, with all that was said since.

    Args:
        tx: The transaction.
        user: The user.
        place: The place.
        mode: The mode of the place.
        since: Only a conversation that was closed since then.

    Returns:
        `none` without such a conversation; `busy` while a turn is at work in the present one.
    """
    present = await queries.find(tx, user, place, mode)
    here = is_at(conversations, place, *ROUTE)
    which = [conversations.c.shared] if mode.shared else [conversations.c.user_id == user.key]
    earlier = (
        select(conversations.c.id)
        .where(*here, *which, conversations.c.shared.is_(mode.shared))
        .where(conversations.c.closed_at >= since)
        .order_by(conversations.c.id.desc())
        .limit(1)
    )
    before = await tx.scalar(earlier)
    if before is None:
        return "none"
    if present is not None:
        this = conversations.c.id == present
        busy = await tx.scalar(select(conversations.c.active_turn_id).where(this).with_for_update())
        if busy is not None:
            return "busy"
        moved = select(messages.c.id).where(messages.c.conversation_id == present)
        await _move(tx, [*await tx.scalars(moved)], before)
        for table in (turns, subagent_runs):
            here_now = table.c.conversation_id == present
            await tx.execute(update(table).where(here_now).values(conversation_id=before))
        await tx.execute(delete(conversations).where(this))
    await change(tx, conversations, conversations.c.id == before, closed_at=None)
    return "done"


async def _move(tx: Transaction, message_ids: list[str], to: str) -> None:
    """Move messages into another conversation, where their authors take part as well."""
    rows = await tx.execute(
        select(messages.c.id, messages.c.author, messages.c.author_number, messages.c.author_name)
        .where(messages.c.id.in_(message_ids))
        .order_by(messages.c.id)
    )
    for row in rows.all():
        number, name = 0, ""
        if row.author_number:
            number, name = await history.join(tx, to, row.author, row.author_name)
        await change(
            tx,
            messages,
            messages.c.id == row.id,
            conversation_id=to,
            author_number=number,
            author_name=name,
        )

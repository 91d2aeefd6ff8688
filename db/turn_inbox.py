"""Messages that a user sends while their turn is at work: its next step reads them."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, delete, func, select, update

from db.conversations import MESSAGES, StoredMessage
from db.database import Transaction
from db.rows import has_row
from db.tables import files, messages, turns
from db.turns import Turn


async def newest_begun(tx: Transaction, conversation_id: str, user: str) -> str:
    """Return the message of a user's newest turn that has begun; empty for none."""
    begun = select(func.max(turns.c.message_id)).where(
        turns.c.conversation_id == conversation_id,
        turns.c.user_id == user,
        turns.c.status != "queued",
    )
    return await tx.scalar(begun) or ""


def waiting(conversation_id: str, user: str, *, after: str) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for the messages of a user that no turn has read.

    Args:
        conversation_id: The conversation.
        user: The key of the user.
        after: The message of the user's newest turn that has begun.
    """
    return (
        messages.c.conversation_id == conversation_id,
        messages.c.author == user,
        messages.c.role == "user",
        ~messages.c.overheard,
        messages.c.turn_id.is_(None),
        messages.c.id > after,
    )


async def has_waiting(tx: Transaction, conversation_id: str) -> bool:
    """Return True if a message waits for the end of the turn at work in a conversation."""
    waiting = (turns.c.conversation_id == conversation_id, turns.c.status == "queued")
    return await has_row(tx, turns, *waiting)


async def unread(tx: Transaction, turn: Turn) -> list[StoredMessage]:
    """Return the messages that wait for a further turn of the same user, oldest first.

    None are returned while one of them has files, which only a turn of its own can show.
    """
    theirs = (turns.c.conversation_id == turn.conversation_id, turns.c.user_id == turn.user.key)
    ready = (turns.c.kind == "message") & turns.c.held_until.is_(None)
    rows = await tx.execute(
        select(turns.c.message_id, ready.label("ready")).where(*theirs, turns.c.status == "queued")
    )
    queued = rows.all()
    if not queued or not all(row.ready for row in queued):
        return []
    after = await newest_begun(tx, turn.conversation_id, turn.user.key)
    found = (
        *waiting(turn.conversation_id, turn.user.key, after=after),
        messages.c.id <= max(row.message_id for row in queued),
    )
    with_files = select(files.c.id).join(messages, messages.c.id == files.c.message_id)
    if await tx.scalar(with_files.where(*found).limit(1)):
        return []
    return await MESSAGES.find_all(tx, *found, order=[messages.c.id])


async def read_by(tx: Transaction, turn: Turn) -> list[StoredMessage]:
    """Return the messages that steps of a turn have read, oldest first."""
    here = messages.c.conversation_id == turn.conversation_id
    read = (here, messages.c.turn_id == turn.id, messages.c.role == "user")
    return await MESSAGES.find_all(tx, *read, order=[messages.c.id])


async def mark_read(tx: Transaction, turn_id: str, message_ids: Sequence[str]) -> None:
    """Record that a step of a turn has read messages; the turns that they waited for are over.

    A waiting turn that a further message has joined meanwhile stays, and answers that message.
    """
    these = messages.c.id.in_(message_ids)
    await tx.execute(update(messages).where(these).values(turn_id=turn_id))
    queued = (turns.c.message_id.in_(message_ids), turns.c.status == "queued")
    await tx.execute(delete(turns).where(*queued))

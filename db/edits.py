"""Edits and deletes stored messages, as their authors do on the platform."""

import hashlib
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, or_, select

from bot.values import Place
from db import files as stored_files
from db import holds, turn_inbox
from db.database import Transaction
from db.rows import change, is_at, remove
from db.schema.base import ROUTE
from db.tables import conversations, files, messages, turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A stored copy of a message of the platform."""

    id: str
    conversation_id: str
    author: str
    overheard: bool
    turn_id: str | None
    user_id: str
    shared: bool
    place: Place

    @property
    def written_by(self) -> str:
        """The key of the author's account."""
        # Before version 0.2, messages had no author and conversations one user.
        return self.author or self.user_id

    @property
    def files_of(self) -> str:
        """The owner of the workspace for files of the message: see `ToolContext.files_of`."""
        return self.place.files_key if self.shared else self.written_by


async def copies(tx: Transaction, place: Place) -> list[Copy]:
    """Return the stored copies of the message of a place.

    Args:
        tx: The transaction.
        place: The place of the message; its channel may be the thread that holds the message.
    """
    rows = await tx.execute(
        select(
            messages.c.id,
            messages.c.conversation_id,
            messages.c.author,
            messages.c.overheard,
            messages.c.turn_id,
            conversations.c.user_id,
            conversations.c.shared,
            *(conversations.c[name] for name in ROUTE),
        )
        .join(conversations, conversations.c.id == messages.c.conversation_id)
        .where(
            messages.c.reference == place.message,
            messages.c.reference != "",
            messages.c.role.in_(("user", "bot")),
            # The messages of a deleted user are empty, have a number, and stay as they are.
            or_(messages.c.author != "", messages.c.author_number == 0),
            conversations.c.channel == place.platform,
            conversations.c.place_workspace == place.workspace,
            or_(
                conversations.c.place_channel == place.channel,
                conversations.c.place_thread == place.channel,
            ),
        )
        .order_by(messages.c.id)
    )
    found = []
    for row in rows.mappings():
        columns = dict(row)
        at = Place(*(columns.pop(name) for name in ROUTE))
        found.append(Copy(**columns, place=at))
    return found


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A stored message of the platform: its id there, and the text."""

    reference: str
    text: str


async def held(tx: Transaction, place: Place, *, since: datetime) -> list[HeldMessage]:
    """Return the messages of the platform that the conversations of a place have since a time."""
    here = select(conversations.c.id).where(*is_at(conversations, place, *ROUTE))
    rows = await tx.execute(
        select(messages.c.reference, messages.c.text).where(
            messages.c.conversation_id.in_(here),
            messages.c.created_at >= since,
            messages.c.reference != "",
            messages.c.role.in_(("user", "bot")),
        )
    )
    return [HeldMessage(*row) for row in rows]


async def rewrite(tx: Transaction, copy: Copy, text: str, *, quotes: bool, now: datetime) -> None:
    """Store the edited text of a message; of a user under a hold, the former one is kept apart.

    Args:
        tx: The transaction.
        copy: The stored message.
        text: The new text.
        quotes: Whether it has lines that its author did not write.
        now: The time.
    """
    await holds.keep(tx, copy.written_by, copy.id, now)
    foreign = {"foreign_content": True} if quotes else {}
    await change(tx, messages, messages.c.id == copy.id, text=text, **foreign)


async def delete(tx: Transaction, copy: Copy, now: datetime) -> tuple[tuple[str, str], ...]:
    """Delete a message with its files, and the turn that waits for it alone.

    A message that a turn has read stays without content, since the turn refers to it. Of a user
    under a hold, the content is kept apart.

    Returns:
        The names of the files, each with the SHA-256 digest of its content, without those that
        another message of the place has as well.
    """
    await holds.keep(tx, copy.written_by, copy.id, now)
    held = select(files.c.id, files.c.name, files.c.data).where(files.c.message_id == copy.id)
    deleted = [
        (row.name, hashlib.sha256(row.data).hexdigest())
        for row in (await tx.execute(held)).all()
        if not await stored_files.sent_again(tx, row.id)
    ]
    await remove(tx, files, files.c.message_id == copy.id)
    if copy.overheard or await _withdrawn(tx, copy):
        await remove(tx, messages, messages.c.id == copy.id)
    else:
        await change(tx, messages, messages.c.id == copy.id, text="", quoted=None)
    return tuple(deleted)


async def _withdrawn(tx: Transaction, copy: Copy) -> bool:
    """Remove a message from the turn that waits for it; `False` if a turn has read it."""
    theirs = (turns.c.conversation_id == copy.conversation_id, turns.c.user_id == copy.author)
    after = await turn_inbox.newest_begun(tx, copy.conversation_id, copy.author)
    if copy.turn_id is not None or copy.id <= after:
        return False
    waiting = select(turns.c.id, turns.c.message_id).where(
        *theirs, turns.c.status == "queued", turns.c.message_id >= copy.id
    )
    found = await tx.execute(waiting.order_by(turns.c.id).limit(1).with_for_update())
    turn = found.one_or_none()
    if turn is None or turn.message_id != copy.id:
        return turn is not None
    others = (
        *turn_inbox.waiting(copy.conversation_id, copy.author, after=after),
        messages.c.id < copy.id,
    )
    this = turns.c.id == turn.id
    if (earlier := await tx.scalar(select(func.max(messages.c.id)).where(*others))) is None:
        return await remove(tx, turns, this, turns.c.status == "queued")
    return await change(tx, turns, this, turns.c.status == "queued", message_id=earlier)

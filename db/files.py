"""Queries on the files of messages."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import and_, bindparam, func, insert, select

from bot.values import File, new_sortable_id
from db.database import Transaction
from db.rows import RowMapper
from db.schema.base import ROUTE
from db.tables import conversations, files, messages


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file without its content.

    Attributes:
        media_type: For an image or a document; empty for a text.
        size: In bytes.
    """

    id: str
    message_id: str
    name: str
    media_type: str
    size: int

    @property
    def is_document(self) -> bool:
        """True for a document, whose text has to be extracted."""
        return self.media_type.startswith("application/")


_FILES = RowMapper(StoredFile, files, others={"size": func.length(files.c.data)})
# Built once: every turn queries files, and hardly any has one.
_OF_MESSAGES = _FILES.query.where(
    files.c.message_id.in_(bindparam("b_ids", expanding=True))
).order_by(files.c.id)


async def put_files(tx: Transaction, message_id: str, sent: Sequence[File], now: datetime) -> None:
    """Store the files of a message, in this order."""
    # Ids of the same microsecond are random among themselves.
    ids = sorted(new_sortable_id() for _ in sent)
    common = {"message_id": message_id, "created_at": now}
    rows = [{"id": key, **common, **asdict(file)} for key, file in zip(ids, sent, strict=True)]
    if rows:
        await tx.execute(insert(files), rows)


async def files_of(tx: Transaction, message_ids: Sequence[str]) -> list[StoredFile]:
    """Return the files of these messages, in the order in which they were stored."""
    return await _FILES.all(tx, _OF_MESSAGES, {"b_ids": list(message_ids)})


async def contents_of(tx: Transaction, file_ids: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of these files, by id."""
    rows = await tx.execute(select(files.c.id, files.c.data).where(files.c.id.in_(file_ids)))
    return {row.id: row.data for row in rows}


async def sent_again(tx: Transaction, file_id: str, *, author: str | None = None) -> bool:
    """Return True if another message of its place has a file of the same name and content.

    Args:
        tx: The transaction.
        file_id: The file.
        author: The key of an account whose messages do not count; `None` counts all messages.
    """
    there, message, other = conversations.alias(), messages.alias(), files.alias()
    same_place = and_(*(there.c[name] == conversations.c[name] for name in ROUTE))
    found = (
        select(other.c.id)
        .select_from(files)
        .join(messages, messages.c.id == files.c.message_id)
        .join(conversations, conversations.c.id == messages.c.conversation_id)
        .join(there, same_place)
        .join(message, message.c.conversation_id == there.c.id)
        .join(other, other.c.message_id == message.c.id)
        .where(files.c.id == file_id, message.c.id != messages.c.id)
        .where(other.c.name == files.c.name, other.c.data == files.c.data)
    )
    if author is not None:
        found = found.where(message.c.author != author)
    return await tx.scalar(found.limit(1)) is not None


async def of_conversation(
    tx: Transaction, conversation_id: str, *, limit: int = 200
) -> list[StoredFile]:
    """Return the files of the messages of a conversation, newest first."""
    query = _FILES.query.join(messages, messages.c.id == files.c.message_id)
    here = query.where(messages.c.conversation_id == conversation_id)
    return await _FILES.all(tx, here.order_by(files.c.id.desc()).limit(limit))


async def summarised(
    tx: Transaction, conversation_id: str, summary_id: str, *, limit: int
) -> list[StoredFile]:
    """Return the files of the messages for which a summary stands, the newest `limit`, in order."""
    resets = select(func.max(messages.c.id)).where(
        messages.c.conversation_id == conversation_id,
        messages.c.role == "reset",
        messages.c.id < summary_id,
    )
    here = _FILES.query.join(messages, messages.c.id == files.c.message_id).where(
        messages.c.conversation_id == conversation_id,
        messages.c.id < summary_id,
        messages.c.id > func.coalesce(resets.scalar_subquery(), ""),
    )
    newest = await _FILES.all(tx, here.order_by(files.c.id.desc()).limit(limit))
    return newest[::-1]

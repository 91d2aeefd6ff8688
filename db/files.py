"""Queries on the files of messages."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import bindparam, func, insert, select

from bot.values import File, new_sortable_id
from db.database import Transaction
from db.rows import RowMapper
from db.tables import files, messages


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

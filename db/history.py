"""Queries on the history of a conversation: what a turn reads of it, and its participants."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Select, bindparam, case, func, select

from db.conversations import MESSAGES, StoredMessage
from db.database import Transaction
from db.rows import RowMapper, change, insert_new
from db.tables import files, messages, participants, steps, turns
from db.turns import Turn
from db.types import storable


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMessage(StoredMessage):
    """A message that a turn reads.

    Attributes:
        has_files: Whether files came with it.
        steps: For an answer, the number of the stored steps of its turn.
    """

    has_files: bool = False
    steps: int = 0


_HERE: BindParameter[str] = bindparam("b_conversation")


def _mapper(place_id: ColumnElement[str]) -> RowMapper[HistoryMessage]:
    """Return the mapper of messages that are sorted by an id."""
    of_turn = select(func.count()).where(steps.c.work_id == messages.c.turn_id)
    further: dict[str, ColumnElement[Any]] = {
        "sort_id": place_id,
        "has_files": select(files.c.id).where(files.c.message_id == messages.c.id).exists(),
        "steps": of_turn.scalar_subquery(),
    }
    others = {**MESSAGES.others, **further}
    return RowMapper(HistoryMessage, messages, others=others, convert=MESSAGES.convert)


def _newest(of: RowMapper[HistoryMessage], *conditions: ColumnElement[bool]) -> Select[Any]:
    """Return the statement for the newest messages of a conversation that meet conditions."""
    return (
        of.query.outerjoin(turns, turns.c.id == messages.c.turn_id)
        .where(messages.c.conversation_id == _HERE, *conditions)
        .order_by(messages.c.id.desc())
        .limit(bindparam("b_limit"))
    )


# Built once: every turn reads its history.
_UNTIL: BindParameter[str] = bindparam("b_until")
_PERSONAL = _mapper(func.coalesce(turns.c.message_id, messages.c.id))
_READ_PERSONAL = _newest(_PERSONAL, (messages.c.id <= _UNTIL) | (messages.c.role != "user"))
_SHARED = _mapper(func.coalesce(func.nullif(turns.c.seen_id, ""), messages.c.id))
_READ_SHARED = _newest(
    _SHARED,
    _SHARED.others["sort_id"] <= _UNTIL,
    messages.c.turn_id.is_distinct_from(bindparam("b_turn")),
)

#: Above the ids of all messages.
_END = "~"
_SEEN = select(
    func.max(turns.c.seen_id).label("read"),
    func.count(case((turns.c.status == "queued", 1))).label("waiting"),
    select(func.max(messages.c.id))
    .where(messages.c.conversation_id == _HERE)
    .scalar_subquery()
    .label("newest"),
).where(turns.c.conversation_id == _HERE)


async def personal(
    tx: Transaction, conversation_id: str, *, until: str, limit: int = 200
) -> list[HistoryMessage]:
    """Return the messages that the turn of a message may see, oldest first, since the last reset.

    A reply is placed after the message that it answers, even if others came in between. Later
    messages of users are left out, but results are included.

    Args:
        tx: The transaction.
        conversation_id: The conversation.
        until: The message of the turn, which is included.
        limit: The most messages.
    """
    which = {"b_conversation": conversation_id, "b_until": until, "b_limit": limit}
    found = await _PERSONAL.all(tx, _READ_PERSONAL, which)
    return _since(
        each for each in found if each.sort_id < until or each.role == "result" or each.id == until
    )


async def shared(
    tx: Transaction, conversation_id: str, *, until: str, turn_id: str = "", limit: int = 200
) -> list[HistoryMessage]:
    """Return the messages of a shared conversation up to one of them, in order, since the reset.

    An answer is placed behind the messages that its turn had read, before those that came
    meanwhile: so what is sent to a model grows at its end only.

    Args:
        tx: The transaction.
        conversation_id: The conversation.
        until: The newest message; an answer whose turn had read no more is included.
        turn_id: The turn that reads; what its own steps have read is left out.
        limit: The most messages.
    """
    which = {"b_conversation": conversation_id, "b_until": until, "b_limit": limit}
    return _since(await _SHARED.all(tx, _READ_SHARED, which | {"b_turn": turn_id}))


def _since(found: Iterable[HistoryMessage]) -> list[HistoryMessage]:
    """Return the messages since the last reset or summary, oldest first."""
    kept: list[HistoryMessage] = []
    for each in sorted(found, key=lambda each: (each.sort_id, each.id), reverse=True):
        if each.role == "reset":
            break
        kept.append(each)
        if each.role == "summary":
            break
    return kept[::-1]


async def put_summary(
    tx: Transaction,
    conversation_id: str,
    text: str,
    *,
    behind: StoredMessage,
    foreign: bool,
    now: datetime,
) -> str:
    """Store a summary of the messages up to one of them, behind which it stands."""
    summary_id = f"{int(behind.sort_id, 16) + 1:032x}"
    row = {
        "id": summary_id,
        "conversation_id": conversation_id,
        "role": "summary",
        "text": text,
        "foreign_content": foreign,
        "created_at": now,
    }
    await insert_new(tx, messages, row)
    return summary_id


async def forget_summary(tx: Transaction, conversation_id: str) -> bool:
    """Delete the text of all summaries of a conversation; `False` if there is none."""
    summaries = (messages.c.conversation_id == conversation_id, messages.c.role == "summary")
    return await change(tx, messages, *summaries, text="", role="reset")


async def first_to_answer(tx: Transaction, conversation_id: str, turn_id: str) -> str:
    """Return the id of the first message that a turn, or one that waits, has to answer."""
    # A turn is stored right behind its first message; further messages may have joined it.
    first = select(func.max(messages.c.id)).where(
        messages.c.conversation_id == conversation_id,
        messages.c.author == turns.c.user_id,
        messages.c.role == "user",
        messages.c.id < turns.c.id,
    )
    found = await tx.scalar(
        select(func.min(func.coalesce(first.scalar_subquery(), turns.c.message_id))).where(
            turns.c.conversation_id == conversation_id,
            (turns.c.id == turn_id) | (turns.c.status == "queued"),
        )
    )
    return found or ""


async def see(tx: Transaction, turn: Turn) -> Turn:
    """Return a turn of a shared conversation with the newest message that it may read.

    What earlier turns have read is read too, and what follows, up to the first message that waits
    for a turn of its own. A later attempt reads no more than the first.
    """
    if turn.seen_id:
        return turn
    row = (await tx.execute(_SEEN, {"b_conversation": turn.conversation_id})).one()
    # Turns begin in another order than their messages came in, since users take turns.
    known = max(turn.message_id, row.read or "")
    newest = row.newest
    if row.waiting:
        first = select(func.min(turns.c.message_id)).where(
            turns.c.conversation_id == turn.conversation_id,
            turns.c.status == "queued",
            turns.c.message_id > known,
        )
        here = messages.c.conversation_id == turn.conversation_id
        before = func.coalesce(first.scalar_subquery(), _END)
        newest = await tx.scalar(
            select(func.max(messages.c.id)).where(here, messages.c.id < before)
        )
    seen = max(known, newest or "")
    await change(tx, turns, turns.c.id == turn.id, seen_id=seen)
    return replace(turn, seen_id=seen)


#: Longest shown name of a participant, in characters.
NAME_LENGTH = 40


async def join(tx: Transaction, conversation_id: str, author: str, name: str) -> tuple[int, str]:
    """Return the number and the shown name of a participant; a new one is given both.

    The name stays as it was at first, so that earlier messages read the same. A name that another
    participant has, or one that looks the same, is followed by a number.
    """
    this = (participants.c.conversation_id == conversation_id,)
    known = await _get(tx, *this, participants.c.author == author)
    while known is None:
        names = {
            _folded(each) for each in await tx.scalars(select(participants.c.name).where(*this))
        }
        number = (await tx.scalar(select(func.max(participants.c.number)).where(*this)) or 0) + 1
        name = storable(name)[:NAME_LENGTH]
        found, count = name, 1
        while _folded(found) in names:
            count += 1
            found = f"{name} ({count})"
        row = {
            "conversation_id": conversation_id,
            "number": number,
            "author": author,
            "name": found,
        }
        # Another process may take the number at the same time.
        await insert_new(tx, participants, row)
        known = await _get(tx, *this, participants.c.author == author)
    return known


async def number_of(tx: Transaction, conversation_id: str, author: str) -> int:
    """Return the number of a participant; 0 for none."""
    this = (participants.c.conversation_id == conversation_id, participants.c.author == author)
    found = await _get(tx, *this)
    return found[0] if found else 0


async def _get(tx: Transaction, *which: ColumnElement[bool]) -> tuple[int, str] | None:
    query = select(participants.c.number, participants.c.name).where(*which)
    row = (await tx.execute(query)).first()
    return None if row is None else (row.number, row.name)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()

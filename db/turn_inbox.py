"""Queries of the inbox of turns: a message begins a turn at once, or the turn at work reads it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Select,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy import true as always

from bot.values import ConversationMode, Identity, Json, Place
from db import pauses
from db.conversations import MESSAGES, StoredMessage
from db.database import Transaction
from db.rows import any_of, has_row, place_columns
from db.schema.base import ROUTE
from db.tables import conversations, files, messages, participants, run_questions, turns, users
from db.tables import pauses as all_pauses
from db.turns import TURNS, Turn
from db.types import UtcDateTime


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownConversation:
    """An open conversation, as a message of a known user finds it.

    Attributes:
        name: The stored name of the user.
        number: The number of the user among the participants; 0 for none.
        shown_name: The shown name of the participant.
        model: The model that answers the user; empty for the default.
        looked_at: When the messages above the first mention were read; `None` before.
        newest_at: The time of the newest message, or of the opening.
        newest: The id of the newest message; empty for none.
        read: The id of the newest message that a turn has read; empty for none.
        overheard: Whether the message is stored as context.
        asked: Whether a question of a run to the user is open in the channel.
        waiting: Whether a turn waits in the conversation.
        paused: Whether anything is paused.
    """

    conversation_id: str
    name: str
    number: int
    shown_name: str
    model: str
    looked_at: datetime | None
    newest_at: datetime
    newest: str
    read: str
    overheard: bool
    asked: bool
    waiting: bool
    paused: bool


_USER: BindParameter[str] = bindparam("b_user")
_HERE = messages.c.conversation_id == conversations.c.id
_TURN_HERE = turns.c.conversation_id == conversations.c.id


def _of(column: ColumnElement[Any]) -> ColumnElement[Any]:
    newest = select(column).where(_HERE).order_by(messages.c.id.desc()).limit(1)
    return newest.scalar_subquery()


def _query(*which: ColumnElement[bool]) -> Select[Any]:
    """Return the statement for the conversation that meets conditions.

    The rows of the user and the conversation are locked against deletion until the commit.
    """
    read = select(func.max(turns.c.seen_id)).where(_TURN_HERE).scalar_subquery()
    theirs = (participants.c.conversation_id == conversations.c.id) & (
        participants.c.author == _USER
    )
    return (
        select(
            conversations.c.id.label("conversation_id"),
            users.c.name,
            func.coalesce(participants.c.number, 0).label("number"),
            func.coalesce(participants.c.name, "").label("shown_name"),
            func.coalesce(participants.c.model, conversations.c.model).label("model"),
            conversations.c.looked_at,
            func.coalesce(_of(messages.c.created_at), conversations.c.created_at).label(
                "newest_at"
            ),
            func.coalesce(_of(messages.c.id), "").label("newest"),
            func.coalesce(read, "").label("read"),
            any_of(
                _HERE,
                messages.c.reference == bindparam("b_message"),
                messages.c.reference != "",
                messages.c.overheard,
            ).label("overheard"),
            any_of(
                run_questions.c.user_id == _USER,
                run_questions.c.status == "open",
                run_questions.c.expires_at > bindparam("b_now", type_=UtcDateTime()),
                run_questions.c.channel == bindparam("b_channel"),
                run_questions.c.place_channel == bindparam("b_place_channel"),
            ).label("asked"),
            any_of(_TURN_HERE, turns.c.status == "queued").label("waiting"),
            select(literal_column("1")).select_from(all_pauses).exists().label("paused"),
        )
        .select_from(users.join(conversations, always()).outerjoin(participants, theirs))
        .where(
            users.c.id == _USER,
            *(conversations.c[name] == bindparam(f"b_{name}") for name in ROUTE),
            conversations.c.closed_at.is_(None),
            *which,
        )
        .with_for_update(read=True, key_share=True, of=[users, conversations])
    )


# Built once: every message reads it.
_PERSONAL = _query(conversations.c.user_id == _USER, ~conversations.c.shared)
_SHARED = _query(conversations.c.shared)


async def read(
    tx: Transaction, user: Identity, place: Place, now: datetime, mode: ConversationMode
) -> KnownConversation | None:
    """Return the open conversation of a place; `None` without one, and for a new user.

    No pause is committed before the end of the transaction.
    """
    await pauses.hold_off(tx)
    columns = place_columns(place)
    given: Json = {f"b_{name}": columns[name] for name in ROUTE}
    given |= {"b_user": user.key, "b_message": place.message, "b_now": now}
    row = (await tx.execute(_SHARED if mode.shared else _PERSONAL, given)).one_or_none()
    return None if row is None else KnownConversation(**row._mapping)  # noqa: SLF001 - public


_CLAIM = (
    update(conversations)
    .where(
        conversations.c.id == bindparam("b_conversation"),
        conversations.c.active_turn_id.is_(None),
        ~any_of(turns.c.conversation_id == bindparam("b_conversation"), turns.c.status == "queued"),
    )
    .values(active_turn_id=bindparam("b_turn"))
)
_INSERT = insert(turns)


async def begin(tx: Transaction, turn: Turn, worker_id: str) -> bool:
    """Store a turn in its first attempt; `False` if its conversation is busy, or a turn waits."""
    claimed = await tx.execute(_CLAIM, {"b_conversation": turn.conversation_id, "b_turn": turn.id})
    if not claimed.rowcount:
        return False
    row = TURNS.values(turn) | {"worker_id": worker_id, "begun_at": turn.created_at}
    await tx.execute(_INSERT, row)
    return True


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

"""Queries on approvals: stored, answered once, or expired."""

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import insert, update

from bot.values import Json, Place
from db.database import Transaction
from db.rows import RowMapper, change, is_at, place_columns
from db.tables import approvals


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A tool call that waits for its owner's approval.

    Attributes:
        arguments: The arguments of the call, exactly as they were shown.
        fingerprint: A hash over user, tool and arguments.
        context: Data about the caller for the tool.
        asked_at: When it was stored; `None` before.
    """

    id: str
    user_id: str
    run_id: str | None
    tool: str
    arguments: Json
    fingerprint: str
    context: Json
    status: str
    expires_at: datetime
    asked_at: datetime | None = field(default=None, compare=False)


_APPROVALS = RowMapper(Approval, approvals, others={"asked_at": approvals.c.created_at})


async def put(
    tx: Transaction, approval: Approval, *, place: Place, conversation_id: str, now: datetime
) -> None:
    """Store an approval request."""
    row = _APPROVALS.values(approval) | place_columns(place)
    row |= {"conversation_id": conversation_id, "created_at": now}
    await tx.execute(insert(approvals), row)


async def get(tx: Transaction, approval_id: str) -> Approval | None:
    """Return the approval request with this id."""
    return await _APPROVALS.find_one(tx, approvals.c.id == approval_id)


async def open_for(tx: Transaction, user_id: str, place: Place, now: datetime) -> list[Approval]:
    """Return the open requests that a user can see in this place, newest first."""
    return await _APPROVALS.find_all(
        tx,
        approvals.c.user_id == user_id,
        approvals.c.status == "open",
        approvals.c.expires_at > now,
        approvals.c.shown_at.is_not(None),
        *is_at(approvals, place, "channel", "place_channel", "place_thread"),
        order=[approvals.c.created_at.desc()],
    )


async def show(tx: Transaction, approval_id: str, now: datetime, *, message_id: str = "") -> None:
    """Record that a request has been shown to the user, in a message with this id."""
    this = (approvals.c.id == approval_id, approvals.c.shown_at.is_(None))
    found = await _APPROVALS.find_one(tx, *this)
    if found is not None:
        shown_as = {"message_id": message_id} if message_id else {}
        await change(tx, approvals, *this, shown_at=now, context=found.context | shown_as)


async def done(tx: Transaction, approval_id: str, now: datetime) -> bool:
    """Record that an approved call was executed; `False` if that was recorded before."""
    this = approvals.c.id == approval_id
    return await change(tx, approvals, this, approvals.c.done_at.is_(None), done_at=now)


async def answer(tx: Transaction, approval_id: str, *, status: str, by: str, now: datetime) -> bool:
    """Answer an open request; `False` if it is not open, so that no call is executed twice."""
    is_open = (approvals.c.status == "open", approvals.c.expires_at > now)
    answered = {"status": status, "answered_by": by, "answered_at": now}
    return await change(tx, approvals, approvals.c.id == approval_id, *is_open, **answered)


async def expire(tx: Transaction, now: datetime) -> list[Approval]:
    """Close all requests past their deadline, and return them."""
    closed = (
        update(approvals)
        .where(approvals.c.status == "open", approvals.c.expires_at <= now)
        .values(status="expired")
        .returning(*_APPROVALS.columns)
    )
    return await _APPROVALS.all(tx, closed)

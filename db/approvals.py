"""Queries on confirmations: asked, answered once, expired."""

from dataclasses import dataclass, fields
from datetime import datetime

from sqlalchemy import insert, select, update

from bot.values import Json, Place
from db.database import Transaction
from db.places import place_columns
from db.tables import approvals


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A question that waits for its owner's yes or no.

    Attributes:
        arguments: What will be run, exactly as it was shown.
        fingerprint: A hash over person, tool and arguments.
        context: What the tool is told about who asks.
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


_COLUMNS = [approvals.c[field.name] for field in fields(Approval)]


async def put(
    tx: Transaction,
    approval: Approval,
    *,
    place: Place,
    conversation_id: str,
    now: datetime,
) -> None:
    """Store a question."""
    values = {field.name: getattr(approval, field.name) for field in fields(Approval)}
    await tx.execute(
        insert(approvals).values(
            **values, conversation_id=conversation_id, created_at=now, **place_columns(place)
        )
    )


async def get(tx: Transaction, approval_id: str) -> Approval | None:
    """Return one question."""
    query = select(*_COLUMNS).where(approvals.c.id == approval_id)
    row = (await tx.execute(query)).mappings().first()
    return Approval(**row) if row else None


async def open_for(tx: Transaction, user_id: str, place: Place, now: datetime) -> list[Approval]:
    """Return the questions that wait for this person in this place, newest first."""
    where = place_columns(place)
    rows = await tx.execute(
        select(*_COLUMNS)
        .where(
            approvals.c.user_id == user_id,
            approvals.c.status == "open",
            approvals.c.expires_at > now,
            approvals.c.shown_at.is_not(None),
            approvals.c.channel == where["channel"],
            approvals.c.place_channel == where["place_channel"],
            approvals.c.place_thread == where["place_thread"],
        )
        .order_by(approvals.c.created_at.desc())
    )
    return [Approval(**row) for row in rows.mappings()]


async def show(tx: Transaction, approval_id: str, now: datetime) -> None:
    """Take note that a question can be read."""
    await tx.execute(
        update(approvals)
        .where(approvals.c.id == approval_id, approvals.c.shown_at.is_(None))
        .values(shown_at=now)
    )


async def done(tx: Transaction, approval_id: str, now: datetime) -> bool:
    """Take note that what was approved has been dealt with; `False` when it had been before."""
    ended = await tx.execute(
        update(approvals)
        .where(approvals.c.id == approval_id, approvals.c.done_at.is_(None))
        .values(done_at=now)
    )
    return ended.rowcount > 0


async def answer(tx: Transaction, approval_id: str, *, status: str, by: str, now: datetime) -> bool:
    """Answer a question that is still open; `False` when it is not: nothing is run twice."""
    done = await tx.execute(
        update(approvals)
        .where(
            approvals.c.id == approval_id,
            approvals.c.status == "open",
            approvals.c.expires_at > now,
        )
        .values(status=status, answered_by=by, answered_at=now)
    )
    return done.rowcount > 0


async def expire(tx: Transaction, now: datetime) -> list[Approval]:
    """Close every question whose time is over, and return them."""
    rows = await tx.execute(
        update(approvals)
        .where(approvals.c.status == "open", approvals.c.expires_at <= now)
        .values(status="expired")
        .returning(*_COLUMNS)
    )
    return [Approval(**row) for row in rows.mappings()]

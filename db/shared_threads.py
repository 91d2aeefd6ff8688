"""Queries on the course of a shared conversation, by which the bot decides whether it is meant."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from bot.values import OPEN_TURN, UNFINISHED, Identity, Place
from db.database import Transaction
from db.rows import is_at
from db.schema.base import ROUTE
from db.tables import conversations, messages, subagent_runs, turns


@dataclass(frozen=True, slots=True)
class Course:
    """The course of a shared conversation as one user sees it.

    Attributes:
        others: The number of other people who have spoken.
        last_at: The time of the last message, or of the closing.
        turn_at: The time of the user's last turn; `None` for none.
        interrupted: Whether another person has spoken since the last message of the bot.
    """

    others: int
    last_at: datetime
    turn_at: datetime | None
    interrupted: bool


async def spoken_since(tx: Transaction, user: Identity, place: Place, at: datetime) -> bool:
    """Return True if anybody else has written in the shared conversation of a place since a time.

    In a conversation of one user nobody has.
    """
    here = is_at(conversations, place, *ROUTE)
    query = (
        select(messages.c.id)
        .join(conversations, conversations.c.id == messages.c.conversation_id)
        .where(conversations.c.shared, conversations.c.closed_at.is_(None), *here)
        .where(messages.c.role.in_(("user", "bot")), messages.c.author != user.key)
        .where(messages.c.created_at > at)
        .limit(1)
    )
    return await tx.scalar(query) is not None


async def live_places(tx: Transaction, since: datetime) -> list[Place]:
    """Return the places of shared conversations with unfinished work, or a message since a time."""
    # Each part reads an index of the other table, not all conversations.
    parts = (
        select(messages.c.conversation_id).where(messages.c.created_at >= since),
        select(turns.c.conversation_id).where(turns.c.status.in_(OPEN_TURN)),
        select(subagent_runs.c.conversation_id).where(subagent_runs.c.status.in_(UNFINISHED)),
    )
    live: set[tuple[str, ...]] = set()
    for part in parts:
        query = select(*(conversations.c[name] for name in ROUTE)).where(
            conversations.c.id.in_(part), conversations.c.shared
        )
        live |= {tuple(row) for row in await tx.execute(query)}
    return [Place(*row) for row in sorted(live)]


async def course(tx: Transaction, user: Identity, place: Place) -> Course | None:
    """Return the course of the newest shared conversation of a place; `None` for none.

    A conversation that `/new` has closed counts until the next message.
    """
    newest = (
        select(conversations.c.id, conversations.c.closed_at, conversations.c.created_at)
        .where(conversations.c.shared, *is_at(conversations, place, *ROUTE))
        .order_by(conversations.c.id.desc())
        .limit(1)
    )
    found = (await tx.execute(newest)).first()
    if found is None:
        return None
    here = messages.c.conversation_id == found.id
    theirs = (here, messages.c.role == "user", messages.c.author != user.key)
    mine = (turns.c.conversation_id == found.id, turns.c.user_id == user.key)
    spoken = select(func.max(messages.c.id)).where(here, messages.c.role == "assistant")
    row = (
        await tx.execute(
            select(
                select(func.count(messages.c.author.distinct())).where(*theirs).scalar_subquery(),
                select(func.max(messages.c.created_at)).where(here).scalar_subquery(),
                select(func.max(turns.c.created_at)).where(*mine).scalar_subquery(),
                select(messages.c.id)
                .where(*theirs, messages.c.id > func.coalesce(spoken.scalar_subquery(), ""))
                .exists(),
            )
        )
    ).one()
    return Course(
        others=row[0],
        last_at=found.closed_at or row[1] or found.created_at,
        turn_at=row[2],
        interrupted=bool(row[3]),
    )

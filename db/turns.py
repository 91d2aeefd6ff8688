"""Queries on turns: each answers one message."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import delete, func, insert, select

from bot.values import Identity, Json, Place, Role, new_sortable_id
from db import pauses
from db.database import Transaction
from db.rows import PLACE, RowMapper, change, is_at, owned_by, place_columns, remove
from db.tables import conversations, messages, participants, turns, users

#: The origin of a turn; `Turn` describes each.
TurnKind = Literal["message", "summary", "confirmed", "greeting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn: one message that is being answered, or was.

    Attributes:
        kind: `message`: a user sent it. `summary`: results of runs are summarised. `confirmed`:
            the user approved calls, with which the turn begins. `greeting`: its answer is stored
            already.
        role: The user's role at the time of the message.
        reply_message_id: The platform's id of the reply that has begun; empty for none.
        model: The model of this conversation, as `provider/model`; empty for the default. In a
            shared conversation, each user has a model.
        shared: Whether the conversation is shared by the users of the place.
        number: The number of the user among the participants of a shared conversation; else 0.
        seen_id: The newest message that the turn has read, of a shared conversation; empty before
            its first attempt.
        looked_at: When the messages above the first mention were read; `None` before.
        sent_at: When its message was sent, if that was before the bot received it.
        input_tokens: Input tokens that earlier attempts were charged, those of the cache included.
        cached_tokens: Those of them that were read from a cache.
        cost: What they cost, in micro-dollars; `None` if a call had no price.
    """

    id: str
    conversation_id: str
    user: Identity
    user_name: str
    place: Place
    message_id: str
    status: str
    kind: TurnKind
    role: Role
    attempt: int
    crashes: int
    reply_message_id: str
    stop_requested_at: datetime | None
    created_at: datetime
    sent_at: datetime | None
    model: str
    shared: bool = False
    number: int = 0
    looked_at: datetime | None = None
    seen_id: str = ""
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: int | None = 0


TURNS = RowMapper(
    Turn,
    turns,
    others={
        "user_name": users.c.name,
        "model": func.coalesce(participants.c.model, conversations.c.model),
        "shared": conversations.c.shared,
        "looked_at": conversations.c.looked_at,
        "number": func.coalesce(participants.c.number, 0),
    },
    convert={"role": Role},
)
_ROUTE = [turns.c[name] for name in PLACE[:-1]]


async def add(
    tx: Transaction,
    conversation_id: str,
    *,
    user: Identity,
    place: Place,
    message_id: str,
    now: datetime,
    kind: TurnKind = "message",
    role: Role = Role.USER,
) -> str:
    """Store a turn that waits until its conversation is free, and return its id."""
    turn_id = new_sortable_id()
    await tx.execute(
        insert(turns).values(
            id=turn_id,
            conversation_id=conversation_id,
            user_id=user.key,
            message_id=message_id,
            kind=kind,
            role=str(role),
            created_at=now,
            **place_columns(place),
        )
    )
    return turn_id


async def set_sent_at(tx: Transaction, turn_id: str, sent_at: datetime) -> None:
    """Store the time when the message of a turn was sent, if that was before it was received."""
    await change(tx, turns, turns.c.id == turn_id, sent_at=sent_at)


async def hold(tx: Transaction, turn_id: str, until: datetime) -> None:
    """Delay a turn until `let_go`, or until this time at the latest."""
    await change(tx, turns, turns.c.id == turn_id, held_until=until)


async def let_go(tx: Transaction, turn_id: str) -> None:
    """Allow a delayed turn to begin."""
    await change(tx, turns, turns.c.id == turn_id, held_until=None)


async def withdraw(tx: Transaction, turn_id: str) -> None:
    """Delete a turn that has not begun, with its message: it needs no answer."""
    gone = await tx.execute(
        delete(turns)
        .where(turns.c.id == turn_id, turns.c.status == "queued")
        .returning(turns.c.message_id)
    )
    if (message_id := gone.scalar()) is not None:
        await remove(tx, messages, messages.c.id == message_id)


async def joinable(tx: Transaction, conversation_id: str, user: Identity) -> Turn | None:
    """Return the turn of a user that waits in a conversation and that a message can join.

    A turn with files that are being fetched is not joined.
    """
    turn_id = await tx.scalar(
        select(turns.c.id)
        .where(
            turns.c.conversation_id == conversation_id,
            turns.c.user_id == user.key,
            turns.c.status == "queued",
            turns.c.kind == "message",
            turns.c.held_until.is_(None),
        )
        .with_for_update()
    )
    return await get(tx, turn_id) if turn_id else None


async def join(tx: Transaction, turn_id: str, message_id: str, place: Place) -> bool:
    """Let a waiting turn answer a further message of its user; `False` if it has begun."""
    this = (turns.c.id == turn_id, turns.c.status == "queued")
    return await change(tx, turns, *this, message_id=message_id, place_message=place.message)


async def claim_next(
    tx: Transaction, conversation_id: str, now: datetime, worker_id: str
) -> str | None:
    """Assign the conversation to its next queued turn, and return the turn's id.

    The turn belongs to this process, which has to start it.

    Each user's turns begin in order, and users take turns: the one who has waited longest since
    the last turn is next.

    Returns:
        `None` if the conversation is busy or has no queued turn, or all are delayed or paused.
    """
    # Locked until the commit: otherwise a turn that ends meanwhile sees no queued turn, this one
    # sees the conversation busy, and none begins. Inserts that refer to it are not blocked.
    this = conversations.c.id == conversation_id
    await tx.execute(select(conversations.c.id).where(this).with_for_update(key_share=True))
    mine = turns.c.conversation_id == conversation_id
    queued = await tx.execute(
        select(turns.c.id, turns.c.user_id, turns.c.held_until, *(turns.c[name] for name in PLACE))
        .where(mine, turns.c.status == "queued")
        .order_by(turns.c.id)
    )
    first = {row.user_id: row for row in reversed(queued.all())}
    ready = [row for row in first.values() if row.held_until is None or row.held_until <= now]
    if not ready:
        return None
    await pauses.hold_off(tx)
    paused = await pauses.listed(tx)
    ready = [
        row
        for row in ready
        if not pauses.covering(paused, row.user_id, Place(*(getattr(row, it) for it in PLACE)))
    ]
    if not ready:
        return None
    served: dict[str, datetime] = {}
    if len(ready) > 1:
        theirs = turns.c.user_id.in_([row.user_id for row in ready])
        newest = select(turns.c.user_id, func.max(turns.c.begun_at).label("at"))
        rows = await tx.execute(newest.where(mine, theirs).group_by(turns.c.user_id))
        served = {row.user_id: row.at for row in rows if row.at is not None}

    chosen: str = min((row.user_id in served, served.get(row.user_id), row.id) for row in ready)[2]
    free = conversations.c.active_turn_id.is_(None)
    if not await change(tx, conversations, this, free, active_turn_id=chosen):
        return None
    await change(tx, turns, turns.c.id == chosen, status="running", worker_id=worker_id)
    return chosen


async def begin(
    tx: Transaction, turn_id: str, *, worker_id: str, now: datetime, first: bool = False
) -> Turn | None:
    """Begin an attempt and return the turn; `None` when it is over, or another process has it.

    Args:
        tx: The transaction.
        turn_id: The turn.
        worker_id: The start of the process that works on it.
        now: The time.
        first: Only if no attempt was made before.
    """
    mine = turns.c.worker_id.in_(["", worker_id])
    which = [turns.c.id == turn_id, turns.c.status == "running", mine]
    if first:
        which.append(turns.c.attempt == 0)
    begun = {"attempt": turns.c.attempt + 1, "worker_id": worker_id, "begun_at": now}
    return await get(tx, turn_id) if await change(tx, turns, *which, **begun) else None


async def get(tx: Transaction, turn_id: str) -> Turn | None:
    """Return a turn."""
    query = TURNS.query.join(
        conversations, conversations.c.id == turns.c.conversation_id
    ).outerjoin(
        participants,
        (participants.c.conversation_id == turns.c.conversation_id)
        & (participants.c.author == turns.c.user_id),
    )
    return await TURNS.first(tx, query.where(turns.c.id == turn_id))


async def active_of(
    tx: Transaction, user_id: str | None, place: Place, *, before: str | None = None
) -> Turn | None:
    """Return the newest running turn of a user in a place; of any user for `None`.

    Turns of conversations closed meanwhile are included; for a place without a thread, also turns
    in its threads.

    Args:
        tx: The transaction.
        user_id: The user.
        place: The place.
        before: Only turns stored before what has this sortable id.
    """
    further = [turns.c.place_thread == place.thread] if place.thread else []
    if before is not None:
        further.append(turns.c.id < before)
    turn_id = await tx.scalar(
        select(turns.c.id)
        .where(
            *owned_by(turns, user_id),
            turns.c.status == "running",
            *is_at(turns, place, "channel", "place_channel"),
            *further,
        )
        .order_by(turns.c.id.desc())
        .limit(1)
    )
    return await get(tx, turn_id) if turn_id else None


async def idle_places(tx: Transaction, platform: str, *, since: datetime) -> list[Place]:
    """Return the places whose turns since a time have all ended."""
    rows = await tx.execute(
        select(*_ROUTE)
        .where(turns.c.channel == platform, turns.c.created_at >= since)
        .group_by(*_ROUTE)
        .having(func.count() == func.count(turns.c.ended_at))
    )
    return [Place(*row) for row in rows]


async def release(
    tx: Transaction, turn_id: str, attempt: int, *, counts: Json | None = None
) -> None:
    """Release a turn to another process.

    Args:
        tx: The transaction.
        turn_id: The turn.
        attempt: The attempt that ends; a turn of another attempt is not changed.
        counts: The columns of the tokens and the cost of all attempts; `None` for those that the
            steps stored.
    """
    this = (turns.c.id == turn_id, turns.c.attempt == attempt, turns.c.status == "running")
    await change(tx, turns, *this, worker_id="", **(counts or {}))


async def end(
    tx: Transaction,
    turn: Turn,
    *,
    status: str,
    now: datetime,
    counts: Json | None = None,
    answering_model: str = "",
) -> bool:
    """End a turn and free its conversation; `False` if another attempt has it, or it is over.

    Args:
        tx: The transaction.
        turn: The turn, with the attempt that ends it.
        status: The final status.
        now: The time.
        counts: The columns of the tokens and the cost of all attempts; `None` for those that the
            steps stored.
        answering_model: The model that answered; empty for none.
    """
    this = (turns.c.id == turn.id, turns.c.attempt == turn.attempt, turns.c.status == "running")
    values = {
        "status": status,
        "ended_at": now,
        "answering_model": answering_model,
        **(counts or {}),
    }
    if not await change(tx, turns, *this, **values):
        return False
    active = conversations.c.active_turn_id == turn.id
    owner = conversations.c.id == turn.conversation_id
    await change(tx, conversations, owner, active, active_turn_id=None)
    return True


async def charge(tx: Transaction, turn: Turn, counts: Json) -> None:
    """Store the tokens and the cost of a turn at work, when they belong to no step."""
    await change(tx, turns, turns.c.id == turn.id, turns.c.attempt == turn.attempt, **counts)


async def keep_reply(tx: Transaction, turn: Turn, message_id: str) -> None:
    """Store the platform's id of the reply that this attempt at a turn has begun."""
    this = (turns.c.id == turn.id, turns.c.attempt == turn.attempt)
    await change(tx, turns, *this, reply_message_id=message_id)


async def request_stop(tx: Transaction, turn_id: str, now: datetime) -> bool:
    """Request that a turn be stopped; `False` when it is over."""
    this = (turns.c.id == turn_id, turns.c.status == "running")
    return await change(tx, turns, *this, stop_requested_at=now)


async def stop_requested(tx: Transaction, turn_ids: list[str]) -> list[str]:
    """Return those of these turns that their user wants stopped."""
    requested = (turns.c.id.in_(turn_ids), turns.c.stop_requested_at.is_not(None))
    query = select(turns.c.id).where(*requested, turns.c.status == "running")
    return list(await tx.scalars(query))


async def waiting_conversations(tx: Transaction) -> list[tuple[str, str]]:
    """Return (conversation, platform) pairs where a turn is queued and none is running."""
    rows = await tx.execute(
        select(conversations.c.id, conversations.c.channel)
        .join(turns, turns.c.conversation_id == conversations.c.id)
        .where(turns.c.status == "queued", conversations.c.active_turn_id.is_(None))
        .distinct()
    )
    return [(row.id, row.channel) for row in rows]


async def all_running(tx: Transaction) -> list[Turn]:
    """Return all running turns, oldest first."""
    found = list(await tx.scalars(select(turns.c.id).where(turns.c.status == "running")))
    read = [await get(tx, turn_id) for turn_id in sorted(found)]
    return [turn for turn in read if turn is not None]

"""Queries on the outbox: announcements and late replies, until they are delivered."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, bindparam, or_, select, update

from bot.values import Identity, Place, short
from db.database import Transaction
from db.rows import RowMapper, change, has_row, insert_new, owned_by, readable_in
from db.tables import messages, outbox, run_files, subagent_runs

#: Delay of the files of a run whose announcement is part of another one, which comes first.
FILES_AFTER = timedelta(seconds=5)
#: The states of items that are not delivered yet.
UNDELIVERED = ("pending", "sending", "waiting", "blocked")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """A text to be delivered once.

    Attributes:
        key: The run's id, or the turn's.
        text_delivered: Only the files of the run are left to deliver.
        status: See the table.
        batch_id: The turn whose results may be announced together; empty for none.
        send_key: The platform's key of the message that this entry is sent in; empty before.
    """

    key: str
    user: Identity
    place: Place
    run_id: str | None
    title: str
    text: str
    footer: str
    status: str
    attempts: int
    maybe_repeated: bool
    batch_id: str
    send_key: str
    text_delivered: bool
    created_at: datetime
    due_at: datetime
    first_tried_at: datetime | None

    @property
    def handle(self) -> str:
        """The short name that users type: of the run, or the end of the key of a late reply."""
        return short(self.run_id) if self.run_id else self.key[-8:]


_ENTRIES = RowMapper(OutboxEntry, outbox)

# Statements of the hot path are built once: building one costs more than running it.
_GET = _ENTRIES.query.where(outbox.c.key == bindparam("b_key"))
_OLDEST = (outbox.c.created_at, outbox.c.key)
_DELIVERED = update(outbox).where(
    outbox.c.key == bindparam("b_key"),
    # Written out, since the statement is executed for several items.
    or_(*(outbox.c.status == each for each in ("sending", "pending", "waiting", "blocked"))),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOutboxEntry:
    """A text to be delivered: its title and footer are one line each, its text is Markdown."""

    key: str
    user_id: str
    place: Place
    run_id: str | None
    title: str
    text: str
    footer: str = ""
    maybe_repeated: bool = False
    batch_id: str = ""
    text_delivered: bool = False


_NEW = RowMapper(NewOutboxEntry, outbox)


async def put(
    tx: Transaction, item: NewOutboxEntry, now: datetime, *, status: str = "pending"
) -> bool:
    """Store an item; `False` if its key is stored already."""
    row = _NEW.values(item) | {"status": status, "created_at": now, "due_at": now}
    return await insert_new(tx, outbox, row)


async def get(tx: Transaction, key: str) -> OutboxEntry | None:
    """Return the item with this key."""
    return await _ENTRIES.first(tx, _GET, {"b_key": key})


async def delivered(tx: Transaction, sent: Mapping[str, list[str]], now: datetime) -> None:
    """Mark items as delivered, even if other attempts at them have begun meanwhile.

    Args:
        tx: The transaction.
        sent: The ids of the messages by the keys of the items.
        now: The time.
    """
    values = {"status": "delivered", "last_error": "", "delivered_at": now}
    rows = [values | {"b_key": key, "message_ids": sent[key]} for key in sorted(sent)]
    await tx.execute(_DELIVERED, rows)


async def follow_with_files(
    tx: Transaction, key: str, message_ids: list[str], now: datetime
) -> bool:
    """Mark the text of an item as delivered, and the files of its run as due.

    Returns:
        False if another attempt has delivered the text.
    """
    this = (outbox.c.key == key, ~outbox.c.text_delivered)
    undelivered = outbox.c.status.in_(("sending", "pending", "waiting", "blocked"))
    # The attempts go on: a late outcome of an earlier one must not be taken for a later one's.
    values = {"status": "pending", "due_at": now, "maybe_repeated": False, "first_tried_at": None}
    values |= {"text_delivered": True, "message_ids": message_ids, "last_error": ""}
    return await change(tx, outbox, *this, undelivered, **values)


async def wait(tx: Transaction, item: OutboxEntry) -> None:
    """Defer an item until its user is present; the attempt does not count."""
    await _set(tx, item, status="waiting", attempts=outbox.c.attempts - 1, first_tried_at=None)


async def retry(
    tx: Transaction, item: OutboxEntry, *, due_at: datetime, error: str, maybe_repeated: bool
) -> None:
    """Schedule another attempt."""
    values: dict[str, Any] = {"status": "pending", "due_at": due_at, "last_error": error}
    if maybe_repeated:
        values["maybe_repeated"] = True
    await _set(tx, item, **values)


async def block(tx: Transaction, item: OutboxEntry, *, error: str) -> None:
    """Block an item after failed attempts; the user can retry or dismiss it."""
    await _set(tx, item, status="blocked", last_error=error)


async def _set(tx: Transaction, item: OutboxEntry, **values: Any) -> None:
    """Change a claimed item, unless another attempt has claimed it."""
    claimed = (outbox.c.status == "sending", outbox.c.attempts == item.attempts)
    await change(tx, outbox, outbox.c.key == item.key, *claimed, **values)


def _held_with(run_id: ColumnElement[str] | str) -> ColumnElement[bool]:
    """Return the condition for held items of the batch of a run, itself included."""
    batch = select(subagent_runs.c.batch_id).where(subagent_runs.c.id == run_id)
    together = select(subagent_runs.c.id).where(
        or_(
            subagent_runs.c.id == run_id,
            (subagent_runs.c.batch_id == batch.scalar_subquery())
            & (subagent_runs.c.batch_id != ""),
        )
    )
    return (outbox.c.status == "held") & outbox.c.run_id.in_(together)


async def any_held(tx: Transaction, run_id: str) -> bool:
    """Return True if an item is held for a run in the batch of this one, itself included."""
    return await has_row(tx, outbox, _held_with(run_id))


async def release_held(
    tx: Transaction, message_id: str, text: str | None, now: datetime
) -> list[str]:
    """Release the held results that a turn was about, and return the keys to deliver.

    Args:
        tx: The transaction.
        message_id: The message of the turn: the result of one of these runs.
        text: One text that replaces them all; `None` delivers each with its own text.
        now: The time.
    """
    about = select(messages.c.run_id).where(messages.c.id == message_id).scalar_subquery()
    held = await tx.scalars(
        select(outbox.c.key).where(_held_with(about)).order_by(outbox.c.created_at)
    )
    keys = list(held)
    if text is not None and keys:
        replaced = outbox.c.key.in_(keys[:-1])
        with_files = outbox.c.run_id.in_(select(run_files.c.run_id))
        due = {"text_delivered": True, "status": "pending", "due_at": now + FILES_AFTER}
        await change(tx, outbox, replaced, with_files, **due)
        await change(tx, outbox, replaced, outbox.c.status == "held", status="dismissed")
        keys = keys[-1:]
        await change(tx, outbox, outbox.c.key.in_(keys), text=text)
    await change(tx, outbox, outbox.c.key.in_(keys), status="pending", due_at=now)
    return keys


async def release_held_before(tx: Transaction, moment: datetime, now: datetime) -> list[str]:
    """Release items held since before `moment`, each with its own text; return their keys."""
    released = await tx.scalars(
        update(outbox)
        .where(outbox.c.status == "held", outbox.c.created_at < moment)
        .values(status="pending", due_at=now)
        .returning(outbox.c.key)
    )
    return list(released)


async def retry_blocked(tx: Transaction, key: str, user_id: str, now: datetime) -> bool:
    """Retry a blocked item of this user, with its attempts reset."""
    this = (outbox.c.key == key, outbox.c.user_id == user_id, outbox.c.status == "blocked")
    values = {"status": "pending", "due_at": now, "attempts": 0, "first_tried_at": None}
    # Another message than before, which may have held other items as well.
    values |= {"send_key": "", "batch_id": ""}
    return await change(tx, outbox, *this, **values)


async def dismiss(tx: Transaction, key: str, user_id: str) -> bool:
    """Dismiss an undelivered item of this user."""
    undelivered = outbox.c.status.in_(("held", "pending", "waiting", "blocked"))
    this = (outbox.c.key == key, outbox.c.user_id == user_id, undelivered)
    return await change(tx, outbox, *this, status="dismissed")


async def due(
    tx: Transaction,
    platforms: list[str],
    now: datetime,
    *,
    together: bool = False,
    limit: int = 100,
) -> list[str]:
    """Return the keys of the items that are due on these platforms, oldest first.

    Of items that are sent in one message only one is returned, so that two processes do not send
    parts of it.
    """
    here = (outbox.c.status == "pending", outbox.c.channel.in_(platforms))
    columns = (outbox.c.key, outbox.c.batch_id, outbox.c.send_key)
    query = select(*columns).where(*here, outbox.c.due_at <= now)
    rows = await tx.execute(query.order_by(outbox.c.due_at, outbox.c.key).limit(limit))
    found: dict[tuple[str, ...], str] = {}
    for key, batch_id, send_key in rows:
        found.setdefault((batch_id, send_key) if together and batch_id else (key,), key)
    return list(found.values())


async def waiting_for(tx: Transaction, user_id: str) -> list[str]:
    """Return the keys of the items that wait for a user's presence, oldest first."""
    waiting = (outbox.c.status == "waiting", outbox.c.user_id == user_id)
    query = select(outbox.c.key).where(*waiting).order_by(outbox.c.created_at)
    return list(await tx.scalars(query))


async def undelivered(
    tx: Transaction, user_id: str, *, limit: int, read_in: Place | None = None
) -> list[OutboxEntry]:
    """Return the items that are not delivered to this user yet, oldest first.

    Args:
        tx: The transaction.
        user_id: The user.
        limit: The most to return.
        read_in: Only items that every reader of this place can read.
    """
    within = (*owned_by(outbox, user_id), *readable_in(outbox, read_in))
    open_ = outbox.c.status.in_(UNDELIVERED)
    return await _ENTRIES.find_all(tx, *within, open_, order=_OLDEST, limit=limit)


async def blocked(tx: Transaction, user_id: str, *, limit: int) -> list[OutboxEntry]:
    """Return the blocked items of this user, oldest first."""
    mine = (outbox.c.user_id == user_id, outbox.c.status == "blocked")
    return await _ENTRIES.find_all(tx, *mine, order=_OLDEST, limit=limit)


async def recover(
    tx: Transaction, alive: list[str], *, me: str = "", under_way: Set[str] = frozenset()
) -> int:
    """Reset the items that dead processes were sending: their delivery is uncertain.

    Each is sent at most once more, marked as a possible duplicate; an item that was marked already
    is blocked instead.

    Args:
        tx: The transaction.
        alive: The workers that are alive.
        me: The worker that recovers; items that it is not sending any more are reset as well.
        under_way: The keys that it is sending; the set changes while this runs.
    """
    sending = outbox.c.status == "sending"
    whose = outbox.c.worker_id.not_in([each for each in alive if each != me])
    found = await tx.scalars(select(outbox.c.key).where(sending, whose))
    # Compared after the read: an item claimed before the read is in `under_way` by now.
    lost = [key for key in found if key not in under_way]
    if not lost:
        return 0
    stuck = (sending, whose, outbox.c.key.in_(lost))
    error = "The process ended while it was sending this; it may have arrived."
    repeated = outbox.c.maybe_repeated.is_(True)
    await change(tx, outbox, *stuck, repeated, status="blocked", last_error=error)
    done = await tx.execute(
        update(outbox).where(*stuck).values(status="pending", maybe_repeated=True, last_error=error)
    )
    return done.rowcount

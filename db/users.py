"""Queries on users."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, bindparam, select

from bot.values import Identity
from db.database import Transaction
from db.rows import change, count_rows, insert_new
from db.tables import messages, subagent_runs, users
from db.types import storable

_NAME_LENGTH = 255
# Locked until the commit: retention deletes users without any rows.
_NAME = (
    select(users.c.name)
    .where(users.c.id == bindparam("b_key"))
    .with_for_update(read=True, key_share=True)
)
_GET = select(users).where(users.c.id == bindparam("b_key"))
_STOPPER = select(subagent_runs.c.cancelled_by).where(
    subagent_runs.c.id == bindparam("b_run"),
    subagent_runs.c.cancelled_by != subagent_runs.c.user_id,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user, as last seen.

    Attributes:
        name: The user's current name on the platform; shown, and never trusted.
        run_counter: The number of the user's newest run.
        notify: The user's notifications about runs; empty for the default.
    """

    identity: Identity
    name: str
    run_counter: int
    created_at: datetime
    notify: str = ""


def as_stored(name: str) -> str:
    """Return the name of a user as it is stored."""
    return storable(name)[:_NAME_LENGTH]


async def ensure_user(tx: Transaction, user: Identity, name: str, now: datetime) -> None:
    """Store a new user, or the new name of a known one."""
    name = as_stored(name)
    known = await tx.scalar(_NAME, {"b_key": user.key})
    if known is None:
        platform, workspace, account = user.parts
        # Two transactions may insert the same user at once; the first one wins.
        row = {"id": user.key, "platform": platform, "workspace": workspace, "account": account}
        await insert_new(tx, users, row | {"name": name, "created_at": now})
    elif known != name:
        await change(tx, users, users.c.id == user.key, name=name)


async def get(tx: Transaction, key: str) -> User | None:
    """Return the user with this `Identity.key`."""
    row = (await tx.execute(_GET, {"b_key": key})).one_or_none()
    if row is None:
        return None
    return User(
        identity=Identity(row.platform, row.workspace, row.account),
        name=row.name,
        run_counter=row.run_counter,
        created_at=row.created_at,
        notify=row.notify,
    )


async def set_notify(tx: Transaction, key: str, notify: str) -> None:
    """Store the notifications about runs that a user wants."""
    await change(tx, users, users.c.id == key, notify=notify)


async def set_search_token(tx: Transaction, key: str, token: str) -> None:
    """Store the platform's permission to search for a user, instead of the one before."""
    await change(tx, users, users.c.id == key, search_token=token)


async def search_token(tx: Transaction, key: str) -> str:
    """Return the platform's newest permission to search for a user; empty for none."""
    found: str | None = await tx.scalar(select(users.c.search_token).where(users.c.id == key))
    return found or ""


def spoke_since(
    key: ColumnElement[str], conversation_id: ColumnElement[str], since: ColumnElement[datetime]
) -> ColumnElement[bool]:
    """Return the condition that a user wrote in a conversation after a time."""
    there = (messages.c.conversation_id == conversation_id, messages.c.author == key)
    first = select(messages.c.id).where(*there, messages.c.created_at > since).limit(1)
    return first.scalar_subquery().is_not(None)


async def stopper_of(tx: Transaction, run_id: str) -> User | None:
    """Return the user who stopped another user's run; `None` if the owner stopped it."""
    key: str | None = await tx.scalar(_STOPPER, {"b_run": run_id})
    return await get(tx, key) if key else None


async def count(tx: Transaction) -> int:
    """Return the number of users."""
    return await count_rows(tx, users)


async def lock(tx: Transaction, key: str) -> None:
    """Lock a user's row: concurrent transactions neither count nor number what the user owns."""
    await tx.execute(select(users.c.id).where(users.c.id == key).with_for_update())

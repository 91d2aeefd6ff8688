"""The query for the kinds of rows that concern the user of a turn, beside the messages."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import BindParameter, bindparam, select

from bot.values import UNFINISHED
from db.database import Transaction
from db.outbox import UNDELIVERED
from db.rows import any_of
from db.tables import grants, memories, outbox, subagent_runs, todos
from db.types import UtcDateTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Concerns:
    """The kinds of rows that concern a user; some may not be readable in the place of a turn.

    Attributes:
        active: Unfinished runs.
        recent: Runs that ended since a time.
        undelivered: Announcements that are not delivered yet.
        memories: Memories.
        todo: The to-do list.
        grants: Consents to tools in the conversation.
    """

    active: bool
    recent: bool
    undelivered: bool
    memories: bool
    todo: bool
    grants: bool


_USER: BindParameter[str] = bindparam("b_user")


# One statement instead of one for each table, of which most hold nothing for a turn.
_QUERY = select(
    any_of(subagent_runs.c.user_id == _USER, subagent_runs.c.status.in_(UNFINISHED)).label(
        "active"
    ),
    any_of(
        subagent_runs.c.user_id == _USER,
        subagent_runs.c.completed_at > bindparam("b_since", type_=UtcDateTime()),
    ).label("recent"),
    any_of(outbox.c.user_id == _USER, outbox.c.status.in_(UNDELIVERED)).label("undelivered"),
    any_of(memories.c.user_id == _USER).label("memories"),
    any_of(todos.c.id == bindparam("b_todo_list"), todos.c.user_id == _USER).label("todo"),
    any_of(
        grants.c.user_id == _USER,
        grants.c.conversation_id == bindparam("b_conversation"),
        grants.c.expires_at > bindparam("b_now", type_=UtcDateTime()),
    ).label("grants"),
)


async def concerns(
    tx: Transaction,
    user: str,
    *,
    conversation_id: str,
    todo_list: str,
    since: datetime,
    now: datetime,
) -> Concerns:
    """Return the kinds of rows that concern a user.

    Args:
        tx: The transaction.
        user: The key of the user.
        conversation_id: The conversation of the consents.
        todo_list: The id of the to-do list.
        since: The time since which ended runs count.
        now: The time.
    """
    of = {"b_user": user, "b_conversation": conversation_id, "b_todo_list": todo_list}
    row = (await tx.execute(_QUERY, of | {"b_since": since, "b_now": now})).one()
    return Concerns(**row._mapping)  # noqa: SLF001 - public, in spite of its name

"""Queries of a turn: rows that concern its user, and the tools that its place carries."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import BindParameter, bindparam, func, select

from bot.values import UNFINISHED
from db.database import Transaction
from db.outbox import UNDELIVERED
from db.rows import RowMapper, any_of, insert_into, put_row
from db.tables import grants, memories, outbox, place_choices, subagent_runs, todos, tool_uses
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceChoice:
    """The tools and agents that every request of a place carries.

    Attributes:
        place_key: The key of the place.
        day: The beginning of the day of the choice, in UTC.
        tools: The names of the tools.
        agents: The names of the agents.
        known: All names between which was chosen: another one is a reason to choose again.
    """

    place_key: str
    day: datetime
    tools: tuple[str, ...]
    agents: tuple[str, ...]
    known: frozenset[str]


_CHOICES = RowMapper(
    PlaceChoice, place_choices, convert={"tools": tuple, "agents": tuple, "known": frozenset}
)


async def chosen(tx: Transaction, place: str) -> PlaceChoice | None:
    """Return the newest choice of a place; `None` before the first."""
    return await _CHOICES.find_one(tx, place_choices.c.place_key == place)


async def choose(tx: Transaction, choice: PlaceChoice) -> None:
    """Store the choice of a place in place of an earlier one."""
    row = _CHOICES.values(choice)
    lists = {name: sorted(row[name]) for name in ("tools", "agents", "known")}
    await put_row(tx, place_choices, row | lists)


async def count(tx: Transaction, place: str, uses: Mapping[str, int], day: datetime) -> None:
    """Add to the uses of tools and agents in a place on a day."""
    insert = insert_into(tx, tool_uses)
    added = insert.on_conflict_do_update(
        index_elements=[tool_uses.c.place_key, tool_uses.c.name, tool_uses.c.day],
        set_={"uses": tool_uses.c.uses + insert.excluded.uses},
    )
    # In one order, so that two processes do not wait for each other.
    rows = [
        {"place_key": place, "name": name, "day": day, "uses": number}
        for name, number in sorted(uses.items())
    ]
    await tx.execute(added, rows)


async def uses(tx: Transaction, place: str, since: datetime) -> dict[str, int]:
    """Return the number of uses of tools and agents in a place since a day."""
    total = func.sum(tool_uses.c.uses)
    of_place = (tool_uses.c.place_key == place, tool_uses.c.day >= since)
    query = select(tool_uses.c.name, total).where(*of_place).group_by(tool_uses.c.name)
    return {name: int(number) for name, number in await tx.execute(query)}

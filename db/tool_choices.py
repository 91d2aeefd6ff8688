"""Queries on the tools that requests of a place carry today, and on the uses of all tools there."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from db.database import Transaction
from db.rows import RowMapper, insert_into, put_row
from db.tables import place_choices, tool_uses


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

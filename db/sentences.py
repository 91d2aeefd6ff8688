"""Queries on the sentences about the progress of runs: in each place, one at a time."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, select

from bot.values import Json, Place
from db.database import Transaction
from db.rows import change, insert_into, is_at, place_columns
from db.runs import BEGUN, RUNS, Run, held_by
from db.schema.base import ROUTE
from db.tables import sentences, subagent_runs


def _at(place: Place) -> list[ColumnElement[bool]]:
    return is_at(sentences, place, *ROUTE)


async def last(tx: Transaction, place: Place) -> datetime | None:
    """Return the time at which the newest sentence of a place was begun; `None` for none."""
    found: datetime | None = await tx.scalar(select(sentences.c.begun_at).where(*_at(place)))
    return found


async def claim(tx: Transaction, place: Place, *, now: datetime, before: datetime) -> bool:
    """Begin a sentence in a place; `False` if one was begun there after `before`."""
    route = {name: place_columns(place)[name] for name in ROUTE}
    begun = insert_into(tx, sentences).values(route | {"begun_at": now})
    begun = begun.on_conflict_do_update(
        index_elements=list(ROUTE), set_={"begun_at": now}, where=sentences.c.begun_at <= before
    )
    return (await tx.execute(begun)).rowcount > 0


async def runs_at(tx: Transaction, place: Place) -> list[Run]:
    """Return the background runs at work in a place, in the order in which they were asked for."""
    at_work = (subagent_runs.c.status.in_(BEGUN), subagent_runs.c.mode == "async")
    here = is_at(subagent_runs, place, *ROUTE)
    order = (subagent_runs.c.created_at, subagent_runs.c.number)
    return await RUNS.find_all(tx, *at_work, *here, order=order)


async def reserve(tx: Transaction, run: Run, tokens: int) -> None:
    """Add to the reserved tokens of a run, until its next step is stored."""
    reserved = subagent_runs.c.reserved_tokens + tokens
    await change(tx, subagent_runs, *held_by(run.id, run.attempt), reserved_tokens=reserved)


async def post(tx: Transaction, place: Place, run_ids: Sequence[str], until: datetime) -> bool:
    """Begin to post a sentence; `False` if one of its runs is over.

    Until `posted`, or the given time at the latest, `deliveries.claim` takes nothing for the place.
    """
    # Locked until the commit, so that no run ends in between.
    at_work = select(subagent_runs.c.id).where(
        subagent_runs.c.id.in_(run_ids), subagent_runs.c.status.in_(BEGUN)
    )
    at_work = at_work.order_by(subagent_runs.c.id).with_for_update(key_share=True)
    if len(list(await tx.scalars(at_work))) < len(run_ids):
        return False
    return await change(tx, sentences, *_at(place), posting_until=until)


async def charge(tx: Transaction, run_id: str, counts: Json) -> None:
    """Store the tokens and the cost of a run that is over, if they are more than at its end."""
    table = subagent_runs.c
    over = (table.id == run_id, table.completed_at.is_not(None))
    more = (
        table.input_tokens + table.output_tokens < counts["input_tokens"] + counts["output_tokens"]
    )
    await change(tx, subagent_runs, *over, more, **counts)


async def posted(tx: Transaction, place: Place) -> None:
    """Record that no sentence is being posted in a place any more."""
    await change(tx, sentences, *_at(place), posting_until=None)

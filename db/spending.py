"""Sums of the tokens and the costs of turns and runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Subquery, case, cast, func, literal, select, union_all

from bot.values import Place
from db.database import Transaction
from db.rows import begun_in, is_at
from db.schema.base import ROUTE
from db.tables import subagent_runs as runs
from db.tables import turns
from db.types import String

#: The agent of turns.
MAIN = "main agent"
#: Weight of a cached token where the model is unknown.
CACHED_WEIGHT = 0.1
#: Most rows of a table.
MOST_ROWS = 50_000
#: By what costs can be grouped.
Grouping = Literal["user", "channel", "agent", "model"]
#: All of them, in the order in which they are shown.
GROUPINGS: tuple[Grouping, ...] = ("user", "channel", "agent", "model")
_GROUPS: dict[Grouping, Sequence[str]] = {
    "user": ("user_id",),
    "channel": ("channel", "place_workspace", "place_channel"),
    "agent": ("agent",),
    "model": ("model",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingSum:
    """Tokens and costs of several turns and runs.

    Attributes:
        group: The values that they share; empty for all of them.
        fresh: Input tokens that were not read from a cache.
        cost: The sum of the known costs, in micro-dollars.
        unpriced: Number of turns and runs whose cost is unknown.
    """

    group: tuple[str, ...] = ()
    fresh: int
    cached: int
    output: int
    cost: int
    unpriced: int


def _work() -> Subquery:
    """Return the turns and runs as rows of the same columns."""
    both: list[Any] = []
    for table, work_id, agent, model in (
        (turns, turns.c.id, literal(MAIN), turns.c.answering_model),
        (runs, cast(runs.c.id, String(36)), runs.c.agent, func.coalesce(runs.c.model, "")),
    ):
        shared = ("user_id", "channel", "place_workspace", "place_channel", "created_at")
        counts = ("input_tokens", "cached_tokens", "output_tokens", "cost")
        columns = [table.c[name] for name in (*shared, *counts)]
        named = [work_id.label("id"), agent.label("agent"), model.label("model")]
        both.append(select(*columns, *named))
    return union_all(*both).subquery()


_WORK = _work()
_TOKENS = func.sum(_WORK.c.input_tokens + _WORK.c.output_tokens)
_SUMS = (
    func.coalesce(func.sum(_WORK.c.input_tokens - _WORK.c.cached_tokens), 0).label("fresh"),
    func.coalesce(func.sum(_WORK.c.cached_tokens), 0).label("cached"),
    func.coalesce(func.sum(_WORK.c.output_tokens), 0).label("output"),
    func.coalesce(func.sum(_WORK.c.cost), 0).label("cost"),
    func.coalesce(func.sum(case((_WORK.c.cost.is_(None), 1), else_=0)), 0).label("unpriced"),
)


async def of_user(tx: Transaction, user_id: str, since: datetime) -> SpendingSum:
    """Return the sum of the turns and runs of a user since a time."""
    mine = (_WORK.c.user_id == user_id, _WORK.c.created_at >= since)
    return _spending((await tx.execute(select(*_SUMS).where(*mine))).one())


async def of_last_turn(tx: Transaction, user_id: str, place: Place) -> SpendingSum | None:
    """Return the tokens and the cost of a user's newest ended turn in a place; `None` for none."""
    newest = (
        select(turns.c.id)
        .where(turns.c.user_id == user_id, turns.c.ended_at.is_not(None))
        .where(*is_at(turns, place, *ROUTE))
        .order_by(turns.c.id.desc())
        .limit(1)
    )
    turn_id = await tx.scalar(newest)
    if turn_id is None:
        return None
    return _spending((await tx.execute(select(*_SUMS).where(_WORK.c.id == turn_id))).one())


async def top(
    tx: Transaction,
    by: Grouping,
    since: datetime,
    *,
    limit: int,
    began_in: Place | None = None,
) -> list[SpendingSum]:
    """Return the groups that have cost most since a time, of all users.

    Args:
        tx: The transaction.
        by: The values that a group shares.
        since: The time.
        limit: Most groups.
        began_in: Only the server or workspace of this place; `None` for all.
    """
    keys = [_WORK.c[name] for name in _GROUPS[by]]
    within = (_WORK.c.created_at >= since, *begun_in(_WORK.c, began_in))
    query = select(*keys, *_SUMS).where(*within).group_by(*keys)
    query = query.having(_TOKENS > 0).limit(limit)
    order = func.coalesce(func.sum(_WORK.c.cost), 0).desc(), _TOKENS.desc(), *keys
    return [_spending(row, len(keys)) for row in await tx.execute(query.order_by(*order))]


async def table(
    tx: Transaction, since: datetime, *, began_in: Place | None = None
) -> list[SpendingSum]:
    """Return the sums since a time by user, place, agent and model, the highest cost first.

    With `began_in` only those of the server or workspace of this place.
    """
    keys = [_WORK.c[name] for by in GROUPINGS for name in _GROUPS[by]]
    within = (_WORK.c.created_at >= since, *begun_in(_WORK.c, began_in))
    query = select(*keys, *_SUMS).where(*within).group_by(*keys).having(_TOKENS > 0)
    order = func.coalesce(func.sum(_WORK.c.cost), 0).desc(), *keys
    rows = await tx.execute(query.order_by(*order).limit(MOST_ROWS))
    return [_spending(row, len(keys)) for row in rows]


async def used(
    tx: Transaction,
    since: datetime | None,
    *,
    run_id: str | None = None,
    user_id: str | None = None,
    place: Place | None = None,
) -> tuple[int, int]:
    """Return the weighted tokens, estimated, and the micro-dollars of turns and runs.

    Args:
        tx: The transaction.
        since: The begin of the time in which they were created; `None` for any time.
        run_id: Only of this run; `None` for all.
        user_id: Only of this user; `None` for all.
        place: Only of this channel, or of its workspace if the place names none; `None` for all.
    """
    conditions = [] if since is None else [_WORK.c.created_at >= since]
    if run_id is not None:
        conditions.append(_WORK.c.id == run_id)
    if user_id is not None:
        conditions.append(_WORK.c.user_id == user_id)
    if place is not None:
        route = ("channel", "place_workspace", *["place_channel"] * bool(place.channel))
        conditions += is_at(_WORK, place, *route)
    query = select(*_SUMS).where(*conditions)
    found = _spending((await tx.execute(query)).one())
    return found.fresh + found.output + int(found.cached * CACHED_WEIGHT), found.cost


def _spending(row: Any, keys: int = 0) -> SpendingSum:
    fresh, cached, output, cost, unpriced = map(int, row[keys:])
    group = tuple(map(str, row[:keys]))
    return SpendingSum(
        group=group, fresh=fresh, cached=cached, output=output, cost=cost, unpriced=unpriced
    )

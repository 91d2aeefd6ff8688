"""Reserves an amount in every pool that a model call draws from, and settles what was billed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from math import inf

from bot.errors import ModelRefusedError, NearLimitError, NotAllowedError, SpendingLimitError
from bot.models.metering import MeteredCall
from bot.recent import Recent
from bot.spending.amounts import PoolState
from bot.spending.pools import (
    WARN_PERCENT,
    CallBounds,
    Payer,
    Pool,
    Scope,
    SpendingGrant,
    SpendingRefusal,
    decide,
    is_used_up,
    pools_of,
    refusal_text,
    report_room,
    used_percent,
)
from bot.spending.settings import SpendingSettings
from bot.tasks import Tasks
from bot.values import Clock, Identity, Live, Place, new_sortable_id
from db import pools, spending
from db.database import Database, Transaction, patiently

#: Time after which the pool of a run may be deleted; it ended long before.
RUN_POOLS = timedelta(days=31)
#: Most roles of users that a process holds.
MOST_ROLES = 10_000
#: Transactions of a process that may lock pools at once; further ones queue without a connection.
#: Most would wait for the same row, and other work would get no connection meanwhile.
AT_ONCE = 3
#: Most attempts at a reservation whose pools another process creates or deletes meanwhile.
ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNotice:
    """A pool of which 80 % is used, or which has refused a call, for the first time.

    Attributes:
        exhausted: Whether it has refused a call.
    """

    payer: Payer
    pool: Pool
    state: PoolState
    exhausted: bool


#: Stores a notice in the transaction that found it; returns the keys to deliver after the commit.
Tell = Callable[[Transaction, PoolNotice], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """A `bot.models.metering.Meter` on the pools in the database.

    Attributes:
        settings: Returns the limits.
        role_of: Returns the name of a user's role in a place.
        tell: Stores the notices about pools that are nearly or wholly used.
        deliver: Delivers stored notices, by their keys.
    """

    database: Database
    settings: Live[SpendingSettings]
    role_of: Callable[[Identity, Place], Awaitable[str]]
    tasks: Tasks
    worker_id: str
    now: Clock
    tell: Tell
    deliver: Callable[[list[str]], None]
    #: The last known roles of users.
    _roles: Recent[tuple[Identity, Place], str] = field(default_factory=lambda: Recent(MOST_ROLES))
    _few: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def limits(self, payer: Payer | None) -> list[Pool]:
        """Return the limits that apply to a payer; see `Meter`.

        While the platform does not answer, the last known role of the user of the work applies.

        Raises:
            SpendingLimitError: The limits of the payer's role are unknown.
        """
        if payer is None:
            return []
        try:
            role = await self._role_of(payer)
        except NotAllowedError as error:
            known = self._roles.get((payer.user, payer.place))
            if known is None:
                raise SpendingLimitError(str(error)) from error
            role = known
        return pools_of(payer, role, self.settings(), self.now())

    async def _role_of(self, payer: Payer) -> str:
        if not self.settings().roles:
            return ""
        role = await self.role_of(payer.user, payer.place)
        self._roles[payer.user, payer.place] = role
        return role

    async def _shown_limits(self, payer: Payer) -> list[Pool]:
        """Return the limits of a payer, without those of a role that is unknown."""
        with suppress(SpendingLimitError):
            return await self.limits(payer)
        return pools_of(payer, "", self.settings(), self.now())

    @asynccontextmanager
    async def call(
        self, payer: Payer, limits: Sequence[Pool], bounds: CallBounds, *, counted: bool
    ) -> AsyncIterator[MeteredCall]:
        """Reserve an amount for a call, and settle it at the end; see `Meter`."""
        if bounds.input_cost is None and any(pool.cost is not None for pool in limits):
            raise ModelRefusedError(
                "This model has no price, and a limit in money applies here. An admin must set its "
                "price under `models.prices`; 0 is allowed."
            )
        reservation_id = new_sortable_id(self.now())
        settle = partial(self._settle, payer, limits, reservation_id)
        try:
            grant = await self._reserve(payer, limits, bounds, reservation_id, counted=counted)
        except (SpendingLimitError, NearLimitError):
            raise
        except BaseException:
            # The connection may have broken after the commit.
            self._patiently(partial(settle, 0, 0))
            raise
        call = MeteredCall(grant.max_output)
        try:
            yield call
        finally:
            tokens, cost = call.tokens, call.cost
            if call.unpriced:
                cost = max(cost, bounds.cost(grant.max_output))
            # The work may be cancelled or its process drained: the pools are settled all the same.
            await asyncio.shield(self._patiently(partial(settle, tokens, cost)))

    def _patiently(self, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Do a unit of work in a task of its own, however long the database is unreachable."""
        return self.tasks.start(patiently(work, seconds=inf), name="settle a model call")

    async def _reserve(
        self,
        payer: Payer,
        limits: Sequence[Pool],
        bounds: CallBounds,
        reservation_id: str,
        *,
        counted: bool,
    ) -> SpendingGrant:
        """Reserve the most that a call can cost."""
        ids = [pool.id for pool in limits]
        for _ in range(ATTEMPTS):
            async with self._few, self.database.transaction() as tx:
                now = self.now()
                found = await pools.lock(tx, ids, now)
                states = [(pool, found[pool.id]) for pool in limits if pool.id in found]
                decision: SpendingGrant | SpendingRefusal | None = None
                due: list[str] = []
                if len(states) == len(limits):
                    decision = decide(payer, states, bounds, now)
                    if not counted and (isinstance(decision, SpendingRefusal) or decision.near):
                        raise NearLimitError
                    if isinstance(decision, SpendingGrant):
                        await pools.reserve(
                            tx,
                            pools.Reservation(
                                id=reservation_id,
                                pools=ids,
                                tokens=bounds.input_tokens + decision.max_output,
                                cost=bounds.cost(decision.max_output),
                                worker_id=self.worker_id,
                                work_id=payer.work_id,
                                created_at=now,
                            ),
                        )
                        return decision
                    due = await self._refused(tx, payer, decision)
            if isinstance(decision, SpendingRefusal):
                self.deliver(due)
                raise SpendingLimitError(decision.text, report=report_room(states, bounds))
            # In a transaction of their own, since this one has locked the others.
            await self._create(payer, [pool for pool in limits if pool.id not in found])
        raise SpendingLimitError("The spending limits change too often now. Try again.")

    async def _refused(self, tx: Transaction, payer: Payer, refusal: SpendingRefusal) -> list[str]:
        """Store the notice about the first refusal by a pool; return the keys to deliver."""
        pool, state = refusal.pool, refusal.state
        if not await pools.mark(tx, pool.id, "exhausted_at", self.now()):
            return []
        notice = PoolNotice(payer=payer, pool=pool, state=state, exhausted=True)
        return await self.tell(tx, notice)

    async def _create(self, payer: Payer, missing: Sequence[Pool]) -> None:
        """Create pools with what their period has used before: a limit may be new."""
        async with self.database.transaction() as tx:
            new = []
            for pool in missing:
                tokens, cost = await used_before(tx, payer, pool)
                ends_at = pool.resets_at or self.now() + RUN_POOLS
                new.append(
                    pools.NewPool(id=pool.id, used_tokens=tokens, used_cost=cost, ends_at=ends_at)
                )
            await pools.create(tx, new)

    async def _settle(
        self, payer: Payer, limits: Sequence[Pool], reservation_id: str, tokens: int, cost: int
    ) -> None:
        now, due = self.now(), []
        async with self._few, self.database.transaction() as tx:
            states = await pools.settle(tx, reservation_id, tokens=tokens, cost=cost, now=now)
            for pool in limits:
                state = states.get(pool.id)
                if state is None or state.warned or used_percent(pool, state) < WARN_PERCENT:
                    continue
                if await pools.mark(tx, pool.id, "warned_at", now):
                    notice = PoolNotice(payer=payer, pool=pool, state=state, exhausted=False)
                    due += await self.tell(tx, notice)
        self.deliver(due)

    async def states(self, payer: Payer) -> list[tuple[Pool, PoolState]]:
        """Return the limits of a payer with their use."""
        async with self.database.snapshot() as tx:
            return await self._states(tx, payer, await self._shown_limits(payer))

    async def exhausted(self, tx: Transaction, payer: Payer) -> str:
        """Return the refusal of a new run whose payer has used up a limit; empty below all."""
        limits = await self._shown_limits(payer)
        states = await self._states(tx, payer, limits) if limits else []
        used = (refusal_text(*each, self.now()) for each in states if is_used_up(*each))
        return next(used, "")

    async def _states(
        self, tx: Transaction, payer: Payer, limits: Sequence[Pool]
    ) -> list[tuple[Pool, PoolState]]:
        found = await pools.read(tx, [pool.id for pool in limits], self.now())
        states = []
        for pool in limits:
            state = found.get(pool.id)
            if state is None:
                tokens, cost = await used_before(tx, payer, pool)
                state = PoolState(id=pool.id, used_tokens=tokens, used_cost=cost)
            states.append((pool, state))
        return states


async def used_before(tx: Transaction, payer: Payer, pool: Pool) -> tuple[int, int]:
    """Return the weighted tokens and micro-dollars that a pool's period used before it existed.

    The roles of earlier work are unknown: the pool of a role begins empty.
    """
    place = payer.place
    match pool.scope:
        case Scope.RUN:
            return await spending.used(tx, None, run_id=pool.subject)
        case Scope.USER:
            return await spending.used(tx, pool.since, user_id=payer.user.key)
        case Scope.CHANNEL:
            return await spending.used(tx, pool.since, place=place)
        case Scope.WORKSPACE:
            return await spending.used(tx, pool.since, place=Place(place.platform, place.workspace))
        case Scope.BOT:
            return await spending.used(tx, pool.since)
        case _:
            return 0, 0

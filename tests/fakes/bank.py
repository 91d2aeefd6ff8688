"""Ledgers of several processes on one database, and calls that draw from their pools."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from bot.agent.messages import Usage
from bot.models.metering import MeteredCall
from bot.spending.amounts import PoolState
from bot.spending.ledger import Ledger, PoolNotice
from bot.spending.pools import CallBounds, Payer
from bot.spending.settings import SpendingSettings
from bot.tasks import Tasks
from bot.values import Clock, Identity, Place
from db import pools
from db.database import Database, Transaction

CHANNEL = Place("discord", "S1", "C1", "T1")
DAY = timedelta(days=1)


async def no_role(_: Identity, __: Place) -> str:
    """Return no role, where none are configured."""
    return ""


def noon() -> datetime:
    """Return a time that is far from the end of any period."""
    return datetime(2026, 11, 21, 12, tzinfo=UTC)


def call(input_tokens: int = 1_000, output: int = 1_000, *, last: bool = False) -> CallBounds:
    """Return a call at one micro-dollar for a token of input and five for one of output."""
    return CallBounds(
        input_tokens=input_tokens,
        input_cost=Decimal(input_tokens),
        output_cost=Decimal(5),
        max_output=output,
        last=last,
    )


def billed(input_tokens: int, output: int) -> Usage:
    return Usage(input_tokens, output, cost=input_tokens + 5 * output)


@dataclass(slots=True)
class Bank:
    """Ledgers of several processes on one database.

    Attributes:
        limits: The limits that apply now.
        told: The notices so far: the scope, and whether the pool has refused a call.
    """

    database: Database
    clock: Clock
    tasks: Tasks
    limits: SpendingSettings = field(default_factory=SpendingSettings)
    told: list[tuple[str, bool]] = field(default_factory=list)

    def limit(self, **sections: object) -> None:
        self.limits = SpendingSettings.model_validate(sections)

    def ledger(self, worker_id: str = "w1") -> Ledger:
        async def tell(tx: Transaction, notice: PoolNotice) -> list[str]:
            self.told.append((notice.pool.scope, notice.exhausted))
            return []

        return Ledger(
            database=self.database,
            role_of=no_role,
            settings=lambda: self.limits,
            tasks=self.tasks,
            worker_id=worker_id,
            now=self.clock,
            tell=tell,
            deliver=lambda _: None,
        )

    @asynccontextmanager
    async def call(
        self,
        payer: Payer,
        bounds: CallBounds,
        *,
        worker: str = "w1",
        counted: bool = True,
    ) -> AsyncIterator[MeteredCall]:
        """Make a call in a process."""
        ledger = self.ledger(worker)
        limits = await ledger.limits(payer)
        async with ledger.call(payer, limits, bounds, counted=counted) as made:
            yield made

    async def spend(
        self, payer: Payer, usage: Usage, bounds: CallBounds | None = None, *, counted: bool = True
    ) -> int:
        """Make a call that is billed so much, and return its most output tokens."""
        async with self.call(payer, bounds or call(), counted=counted) as made:
            made.charge(usage, "model")
        return made.max_output

    async def states(self, payer: Payer) -> list[PoolState]:
        return [state for _, state in await self.ledger().states(payer)]

    async def settle_lost(self, *alive: str) -> int:
        async with self.database.transaction() as tx:
            return await pools.settle_lost(tx, alive, self.clock())


def payer(user: Identity, place: Place = CHANNEL, work: str = "turn", *runs: str) -> Payer:
    return Payer(user=user, place=place, work_id=work, runs=runs)

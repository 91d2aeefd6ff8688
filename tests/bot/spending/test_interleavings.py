"""Any interleaving of calls, runs, answers, crashes and sweeps keeps every pool below its limit."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields
from typing import ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from bot.agent.messages import Usage
from bot.errors import SpendingLimitError
from bot.models.metering import MeteredCall
from bot.spending.ledger import Ledger
from bot.spending.pools import Payer
from bot.values import Identity, Place
from db import pools
from db.tables import reservations
from tests.fakes.bank import Bank, call, payer
from tests.fakes.stored import Stored

USERS = 3


class CrashableLedger(Ledger):
    """A ledger whose process can die: nothing is settled then."""

    dead: ClassVar[set[str]] = set()

    def _patiently(self, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        async def nothing() -> None:
            pass

        # Not `super()`: a dataclass with slots is another class than its methods name.
        return Ledger._patiently(self, nothing if self.worker_id in self.dead else work)


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that a step of an example makes.

    Attributes:
        depth: 0 for a turn, 1 for a run that it has begun, 2 for a run that this one has begun.
        error: By how many percent the input that is billed differs from its estimate.
        written: The part of the allowed output that is written, in percent.
    """

    user: int
    depth: int
    size: int
    error: int
    wanted: int
    written: int
    last: bool


@dataclass(frozen=True, slots=True)
class Open:
    """A call in progress, and what its provider will bill for it.

    Attributes:
        excess: The billed tokens beyond the reserved ones.
    """

    context: AbstractAsyncContextManager[MeteredCall]
    made: MeteredCall
    worker: str
    usage: Usage
    excess: int


@dataclass(slots=True)
class Example:
    """One interleaving: three users in a channel of their own, each in a process of its own.

    Attributes:
        limit: The tokens of the channel; a user has two thirds, and a run half.
        excess: The sum of the errors of the estimates so far.
    """

    bank: Bank
    users: list[Identity]
    limit: int
    opened: list[Open] = field(default_factory=list)
    excess: int = 0
    starts: list[int] = field(default_factory=lambda: [0] * USERS)

    @property
    def place(self) -> Place:
        return Place("discord", "S1", self.users[0].account)

    @property
    def workers(self) -> list[str]:
        return [f"{self.users[0].account}-{at}-{number}" for at, number in enumerate(self.starts)]

    def payer(self, user: Identity, depth: int = 2) -> Payer:
        runs = (f"{user.account}-inner", f"{user.account}-run")[2 - depth :]
        return payer(user, self.place, "work", *runs)

    async def ask(self, asked: Asked) -> None:
        worker, plain = self.workers[asked.user], self.bank.ledger()
        parts = {each.name: getattr(plain, each.name) for each in fields(plain)}
        ledger = CrashableLedger(**parts | {"worker_id": worker})
        pays = self.payer(self.users[asked.user], asked.depth)
        limits = await ledger.limits(pays)
        wanted = call(asked.size, asked.wanted, last=asked.last)
        context = ledger.call(pays, limits, wanted, counted=True)
        try:
            made = await context.__aenter__()
        except SpendingLimitError:
            return
        real = asked.size * (100 + asked.error) // 100
        usage = Usage(real, made.max_output * asked.written // 100, cost=0)
        self.opened.append(Open(context, made, worker, usage, max(0, real - asked.size)))

    async def answer(self, at: int) -> None:
        if not self.opened:
            return
        ended = self.opened.pop(at % len(self.opened))
        ended.made.charge(ended.usage, "model")
        if ended.worker not in CrashableLedger.dead:
            self.excess += ended.excess
        await ended.context.__aexit__(None, None, None)

    async def crash(self, at: int) -> None:
        CrashableLedger.dead.add(self.workers[at])
        self.starts[at] += 1

    async def sweep(self, _: int) -> None:
        async with self.bank.database.transaction() as tx:
            own = reservations.c.worker_id.startswith(self.users[0].account)
            others = list(await tx.scalars(select(reservations.c.worker_id).where(~own)))
            await pools.settle_lost(tx, [*self.workers, *others], self.bank.clock())

    async def check(self) -> None:
        async with self.bank.database.snapshot() as tx:
            rows = list(await tx.execute(select(reservations)))
        for user in self.users:
            found = await self.bank.ledger().states(self.payer(user))
            for pool, state in found:
                assert pool.tokens is not None
                held = [row.tokens for row in rows if pool.id in row.pools]
                assert state.reserved_tokens == sum(held)
                assert state.used_tokens + state.reserved_tokens <= pool.tokens + self.excess

    async def end(self) -> None:
        while self.opened:
            await self.answer(0)


calls = st.builds(
    Asked,
    st.integers(0, USERS - 1),
    st.integers(0, 2),
    st.integers(1, 4_000),
    st.integers(-30, 30),
    st.integers(1, 3_000),
    st.integers(0, 100),
    st.booleans(),
)
steps = st.one_of(
    st.tuples(st.just(Example.ask), calls),
    st.tuples(st.just(Example.answer), st.integers(0, 9)),
    st.tuples(st.just(Example.crash), st.integers(0, USERS - 1)),
    st.tuples(st.just(Example.sweep), st.just(0)),
)


@settings(max_examples=25)
@given(steps=st.lists(steps, max_size=25), limit=st.integers(2_000, 30_000))
async def test_no_interleaving_passes_a_limit_but_by_the_errors_of_the_estimates(
    bank: Bank, steps: list[tuple[Callable[..., Awaitable[None]], object]], limit: int
) -> None:
    stored = Stored(bank.database, bank.clock)
    example = Example(bank, [await stored.somebody() for _ in range(USERS)], limit)
    bank.limit(
        user={"day": {"tokens": limit * 2 // 3}},
        channel={"day": {"tokens": limit}},
        run={"tokens": limit // 2},
    )

    for step, argument in steps:
        await step(example, argument)
        await example.check()
    await example.end()
    await example.check()

"""Reserving an amount for each model call, and settling it, whatever happens in between."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import select

from bot.agent.journal import columns
from bot.agent.messages import Usage
from bot.errors import ModelRefusedError, NearLimitError, NotAllowedError, SpendingLimitError
from bot.spending.ledger import AT_ONCE
from bot.tasks import Tasks
from bot.values import Identity, Place
from db import pools, tables
from db.database import Database, DatabaseSettings
from db.rows import place_columns
from tests.fakes.bank import CHANNEL, DAY, Bank, billed, call, payer
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored


async def test_a_call_settles_at_what_was_billed(bank: Bank, alice: Identity) -> None:
    bank.limit(user={"day": {"usd": 1, "tokens": 100_000}}, bot={"month": {"usd": 5}})

    most = await bank.spend(payer(alice), billed(700, 40), call(1_000, 2_000))

    assert most == 2_000
    for state in await bank.states(payer(alice)):
        assert (state.used_cost, state.reserved_cost, state.reserved_tokens) == (900, 0, 0)
        assert state.used_tokens == 740


async def test_while_a_call_is_open_its_most_is_reserved(bank: Bank, alice: Identity) -> None:
    bank.limit(bot={"day": {"usd": 1}})

    async with bank.call(payer(alice), call(1_000, 2_000)):
        (state,) = await bank.states(payer(alice))

    assert (state.reserved_cost, state.reserved_tokens) == (11_000, 3_000)


async def test_cached_input_counts_by_its_weight_in_tokens(bank: Bank, alice: Identity) -> None:
    bank.limit(bot={"day": {"tokens": 100_000}})

    await bank.spend(payer(alice), Usage(100, 10, cache_read=1_000, cost=5))

    (state,) = await bank.states(payer(alice))
    assert state.used_tokens == 210


async def test_several_requests_of_one_call_add_up(bank: Bank, alice: Identity) -> None:
    bank.limit(bot={"day": {"usd": 1}})

    async with bank.call(payer(alice), call()) as made:
        made.charge(billed(100, 0), "model")
        made.charge(billed(50, 10), "model")

    (state,) = await bank.states(payer(alice))
    assert state.used_cost == 200


async def test_a_call_that_fails_uncharged_costs_nothing(bank: Bank, alice: Identity) -> None:
    bank.limit(bot={"day": {"usd": 1}})

    with pytest.raises(LookupError):
        async with bank.call(payer(alice), call()):
            raise LookupError

    (state,) = await bank.states(payer(alice))
    assert (state.used_cost, state.reserved_cost) == (0, 0)


async def test_a_cancelled_call_is_settled_at_what_was_lost(bank: Bank, alice: Identity) -> None:
    bank.limit(bot={"day": {"usd": 1}})
    begun = asyncio.Event()

    async def ask() -> None:
        async with bank.call(payer(alice), call()) as made:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                made.charge(billed(1_000, 0), "model")

    task = bank.tasks.start(ask(), name="ask")
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])

    (state,) = await bank.states(payer(alice))
    assert (state.used_cost, state.reserved_cost) == (1_000, 0)


async def test_a_call_that_is_cancelled_while_it_is_settled_is_settled_all_the_same(
    bank: Bank, alice: Identity
) -> None:
    bank.limit(bot={"day": {"usd": 1}})
    answered = asyncio.Event()

    async def ask() -> None:
        async with bank.call(payer(alice), call()) as made:
            made.charge(billed(1_000, 0), "model")
            answered.set()

    task = bank.tasks.start(ask(), name="ask")
    await answered.wait()
    await asyncio.sleep(0)
    task.cancel()
    await bank.tasks.wait_idle(5)

    (state,) = await bank.states(payer(alice))
    assert task.cancelled()
    assert (state.used_cost, state.reserved_cost) == (1_000, 0)


async def test_a_charge_without_a_price_counts_as_the_whole_reservation(
    bank: Bank, alice: Identity
) -> None:
    bank.limit(bot={"day": {"usd": 1}})

    await bank.spend(payer(alice), Usage(10, 10), call(1_000, 1_000))

    (state,) = await bank.states(payer(alice))
    assert state.used_cost == 6_000


async def test_a_model_without_a_price_is_refused_only_where_money_is_limited(
    bank: Bank, alice: Identity
) -> None:
    unpriced = replace(call(), input_cost=None)
    bank.limit(bot={"day": {"tokens": 10_000}})
    await bank.spend(payer(alice), Usage(10, 10), unpriced)
    bank.limit(bot={"day": {"usd": 1}})

    with pytest.raises(ModelRefusedError, match=r"no price.*`models.prices`; 0 is allowed"):
        await bank.spend(payer(alice), Usage(10, 10), unpriced)


async def test_the_first_refusal_and_the_first_eighty_percent_are_reported_once(
    bank: Bank, alice: Identity
) -> None:
    bank.limit(user={"day": {"usd": "0.01"}}, bot={"day": {"usd": 1}})

    await bank.spend(payer(alice), billed(0, 1_590), call(0, 2_000))
    assert bank.told == []
    await bank.spend(payer(alice), billed(0, 10), call(0, 10))
    assert bank.told == [("user", False)]
    for _ in range(2):
        with pytest.raises(SpendingLimitError, match="your own work today"):
            await bank.spend(payer(alice), billed(0, 10), call(0, 1_000))

    assert bank.told == [("user", False), ("user", True)]


async def test_a_limit_that_was_raised_allows_more_until_its_day_ends(
    bank: Bank, alice: Identity, clock: FakeClock
) -> None:
    bank.limit(bot={"month": {"usd": "0.01"}})
    await bank.spend(payer(alice), billed(9_000, 0), call(9_000, 10))
    (pool, _), now = (await bank.ledger().states(payer(alice)))[0], clock()
    with pytest.raises(SpendingLimitError):
        await bank.spend(payer(alice), billed(1_000, 0))

    async with bank.database.transaction() as tx:
        (raised,) = await pools.raise_limits(
            tx, [pool.id], tokens=0, cost=50_000, until=now + DAY, now=now
        )

    assert raised.extra_cost == 50_000
    await bank.spend(payer(alice), billed(1_000, 0))
    clock.advance(DAY.total_seconds())
    with pytest.raises(SpendingLimitError):
        await bank.spend(payer(alice), billed(1_000, 0))
    assert bank.told == [("bot", False), ("bot", True), ("bot", True)]


async def test_a_refusal_under_a_raise_is_no_refusal_of_the_next_day(
    bank: Bank, alice: Identity, clock: FakeClock
) -> None:
    bank.limit(bot={"month": {"usd": "0.01"}})
    await bank.spend(payer(alice), billed(9_000, 0), call(9_000, 10))
    (pool, _), now = (await bank.ledger().states(payer(alice)))[0], clock()
    async with bank.database.transaction() as tx:
        await pools.raise_limits(tx, [pool.id], tokens=0, cost=10_000, until=now + DAY, now=now)
    await bank.spend(payer(alice), billed(9_000, 0), call(9_000, 10))

    for days in (0, 0, 1, 0):
        clock.advance(DAY.total_seconds() * days)
        with pytest.raises(SpendingLimitError):
            await bank.spend(payer(alice), billed(1_000, 0))

    assert [exhausted for _, exhausted in bank.told] == [False, False, True, True]


async def test_a_limit_whose_period_has_ended_is_not_raised(
    bank: Bank, alice: Identity, clock: FakeClock
) -> None:
    bank.limit(bot={"day": {"usd": 1}, "month": {"usd": 1}})
    await bank.spend(payer(alice), billed(10, 0))
    ids = [pool.id for pool, _ in await bank.ledger().states(payer(alice))]
    clock.advance(DAY.total_seconds())

    # The button of a notice is pressed on the next day.
    async with bank.database.transaction() as tx:
        raised = await pools.raise_limits(
            tx, ids, tokens=0, cost=5, until=clock() + DAY, now=clock()
        )

    assert [each.id for each in raised] == [each for each in ids if "|2026-11|" in each]


async def test_a_new_limit_counts_what_its_period_has_used_before(
    bank: Bank, alice: Identity, bob: Identity, clock: FakeClock
) -> None:
    stored = Stored(bank.database, clock)
    await stored.run(alice, **place_columns(CHANNEL), **columns(Usage(70, 5, cost=400)))
    await stored.run(bob, **place_columns(CHANNEL), **columns(Usage(1, 1, cost=30)))
    await stored.run(
        bob, **place_columns(Place("discord", "S1", "C2")), **columns(Usage(1, 1, cost=2))
    )
    await stored.run(
        bob, **place_columns(Place("slack", "S1", "C1")), **columns(Usage(1, 1, cost=1))
    )
    day = {"day": {"usd": 1}}
    bank.limit(user=day, channel=day, workspace=day, bot=day)

    async def used() -> dict[str, int]:
        found = await bank.ledger().states(payer(alice))
        return {str(pool.scope): state.used_cost for pool, state in found}

    assert await used() == {"user": 400, "channel": 430, "workspace": 432, "bot": 433}
    await bank.spend(payer(alice), billed(10, 0))
    assert await used() == {"user": 410, "channel": 440, "workspace": 442, "bot": 443}


async def test_a_call_settles_in_the_period_in_which_it_began(
    bank: Bank, alice: Identity, clock: FakeClock
) -> None:
    bank.limit(bot={"day": {"usd": 1}})

    async with bank.call(payer(alice), call()) as made:
        (yesterday,) = await bank.ledger().states(payer(alice))
        clock.advance(DAY.total_seconds())
        made.charge(billed(500, 0), "model")

    (today,) = await bank.states(payer(alice))
    async with bank.database.snapshot() as tx:
        before = (await pools.read(tx, [yesterday[0].id], clock()))[yesterday[0].id]
    assert (before.used_cost, before.reserved_cost, today.used_cost) == (500, 0, 0)


async def test_nested_runs_draw_from_the_runs_that_began_them(bank: Bank, alice: Identity) -> None:
    bank.limit(run={"usd": "0.01"})
    await bank.spend(payer(alice, CHANNEL, "outer", "outer"), billed(3_000, 0))

    inner = payer(alice, CHANNEL, "inner", "inner", "outer")
    await bank.spend(inner, billed(2_000, 0))

    outer = await bank.states(payer(alice, CHANNEL, "outer", "outer"))
    assert [each.used_cost for each in outer] == [5_000]
    assert {each.id: each.used_cost for each in await bank.states(inner)} == {
        "run||inner": 2_000,
        "run||outer": 5_000,
    }


async def test_while_a_role_is_unknown_its_last_limits_apply_and_new_work_waits(
    bank: Bank, alice: Identity, bob: Identity
) -> None:
    bank.limit(roles={"guest": {"together": {"day": {"usd": 1}}}}, bot={"day": {"usd": 9}})

    async def guest(_: Identity, __: Place) -> str:
        return "guest"

    async def unknown(_: Identity, __: Place) -> str:
        raise NotAllowedError("I cannot check your role here at the moment.")

    ledger = replace(bank.ledger(), role_of=guest)
    known = [pool.scope for pool in await ledger.limits(payer(alice))]
    away = replace(ledger, role_of=unknown)

    assert known == ["bot", "role"]
    assert [pool.scope for pool in await away.limits(payer(alice))] == known
    with pytest.raises(SpendingLimitError, match="cannot check your role"):
        await away.limits(payer(bob))
    # An admin can still see and raise what does not depend on it.
    assert [pool.scope for pool, _ in await away.states(payer(bob))] == ["bot"]


async def test_near_a_limit_an_estimate_does_not_suffice(bank: Bank, alice: Identity) -> None:
    bank.limit(bot={"day": {"tokens": 10_000}})

    await bank.spend(payer(alice), billed(1, 1), call(2_000), counted=False)
    with pytest.raises(NearLimitError):
        await bank.spend(payer(alice), billed(1, 1), call(3_000), counted=False)

    assert await bank.spend(payer(alice), billed(1, 1), call(3_000), counted=True) == 1_000


async def test_what_a_dead_process_reserved_counts_as_billed(bank: Bank, alice: Identity) -> None:
    bank.limit(bot={"day": {"usd": 1}})
    living = bank.call(payer(alice), call(1_000), worker="living")
    dying = bank.call(payer(alice), call(2_000), worker="dying")
    async with living as of_living, dying as of_dying:
        assert await bank.settle_lost("living") == 1
        (state,) = await bank.states(payer(alice))
        assert (state.used_cost, state.reserved_cost) == (7_000, 6_000)
        assert await bank.settle_lost("living") == 0
        # It was not dead after all: its reservation is settled already.
        of_dying.charge(billed(100, 0), "model")
        of_living.charge(billed(100, 0), "model")

    (state,) = await bank.states(payer(alice))
    assert (state.used_cost, state.reserved_cost) == (7_100, 0)
    async with bank.database.snapshot() as tx:
        assert (await tx.execute(select(tables.reservations))).all() == []


async def test_many_calls_at_once_never_pass_a_limit(bank: Bank, database: Database) -> None:
    bank.limit(bot={"day": {"tokens": 50_000}}, user={"day": {"tokens": 30_000}})
    stored = Stored(database, bank.clock)
    users = [await stored.somebody() for _ in range(3)]
    refused: list[str] = []

    async def work(user: Identity, worker_id: str) -> None:
        for _ in range(8):
            try:
                reserved = bank.call(payer(user), call(), worker=worker_id)
                async with reserved as made:
                    await asyncio.sleep(0)
                    made.charge(Usage(1_000, made.max_output, cost=0), "model")
            except SpendingLimitError as error:
                refused.append(str(error))

    async with asyncio.TaskGroup() as group:
        for number, user in enumerate(users * 2):
            group.create_task(work(user, f"w{number}"))

    for user in users:
        for state, most in zip(await bank.states(payer(user)), (50_000, 30_000), strict=True):
            assert 0 < state.used_tokens <= most
            assert state.reserved_tokens == 0
    assert refused


async def test_calls_that_wait_for_a_pool_leave_connections_to_other_work(
    postgres_url: str, clock: FakeClock
) -> None:
    settings = DatabaseSettings(url=postgres_url, pool_size=AT_ONCE + 1)
    async with (
        Database.open(settings) as other,
        Database.open(settings) as database,
        Tasks() as tasks,
    ):
        bank = Bank(database, clock, tasks)
        bank.limit(bot={"day": {"usd": 1}})
        pays = payer(Identity("discord", "", "1"))
        await bank.spend(pays, billed(1, 0))
        ledger = bank.ledger()
        [(pool, _)] = await ledger.states(pays)

        async def spend() -> None:
            async with ledger.call(pays, [pool], call(), counted=True) as made:
                made.charge(billed(1, 0), "model")

        async with other.transaction() as tx:
            await pools.lock(tx, [pool.id], clock())
            calls = [tasks.start(spend(), name="spend") for _ in range(AT_ONCE + 1)]
            await asyncio.sleep(0)
            waiting = await database.read(pools.read, [pool.id], clock())
        await asyncio.wait(calls)

        [after] = await bank.states(pays)
    assert waiting[pool.id].used_cost == 1
    assert after.used_cost == 1 + len(calls)

"""The pool of a limit that was removed is forgotten, so that it counts all when it comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.journal import columns
from bot.agent.messages import Usage
from bot.spending.cleanup import PoolCleanup, is_limited
from bot.spending.pools import Payer, pools_of
from bot.spending.settings import SpendingSettings
from bot.values import Identity, Place
from db import tables
from db.rows import change
from tests.fakes.bank import Bank, billed, call, noon, payer
from tests.fakes.stored import Stored

ALICE = Identity("discord", "", "1")
SERVER, TEAM = Place("discord", "S1", "C1", "T1"), Place("slack", "E1.T1", "C1")


@pytest.fixture
def stored(bank: Bank) -> Stored:
    return Stored(bank.database, bank.clock)


async def turn(stored: Stored, user: Identity, cost: int) -> None:
    """Store a turn of a user that has cost so much."""
    turn_id = await stored.turn(user, await stored.conversation(user))
    async with stored.database.transaction() as tx:
        values = columns(Usage(10, 1, cost=cost))
        await change(tx, tables.turns, tables.turns.c.id == turn_id, **values)


async def test_a_limit_that_comes_back_counts_what_was_used_without_it(
    bank: Bank, stored: Stored, alice: Identity
) -> None:
    cleanup = PoolCleanup(bank.database, lambda: bank.limits, bank.clock)
    bank.limit(user={"day": {"usd": 2}}, bot={"day": {"usd": 9}})
    await turn(stored, alice, 100)
    await bank.spend(payer(alice), billed(100, 0))
    await cleanup.forget_unlimited()
    kept = [state.used_cost for state in await bank.states(payer(alice))]

    bank.limit(bot={"day": {"usd": 9}})
    await cleanup.forget_unlimited()
    await turn(stored, alice, 5_000_000)
    bank.limit(user={"day": {"usd": 2}}, bot={"day": {"usd": 9}})
    await cleanup.forget_unlimited()

    assert kept == [200, 200]
    of_bot, of_user = await bank.states(payer(alice))
    assert (of_bot.used_cost, of_user.used_cost) == (200, 5_000_100)


async def test_the_use_of_a_limit_that_was_changed_is_reported_again(
    bank: Bank, alice: Identity
) -> None:
    cleanup = PoolCleanup(bank.database, lambda: bank.limits, bank.clock)
    bank.limit(bot={"month": {"usd": "0.01"}})
    await cleanup.forget_unlimited()
    for limit in ("0.01", "0.01", "0.02", "0.02"):
        bank.limit(bot={"month": {"usd": limit}})
        await cleanup.forget_unlimited()
        await bank.spend(payer(alice), billed(4_300, 0), call(4_300, 10))

    assert bank.told == [("bot", False), ("bot", False)]


async def test_a_pool_is_forgotten_once_no_call_in_progress_draws_from_it(
    bank: Bank, alice: Identity
) -> None:
    cleanup = PoolCleanup(bank.database, lambda: bank.limits, bank.clock)
    bank.limit(bot={"day": {"usd": 9}})
    async with bank.call(payer(alice), call()) as made:
        bank.limit()
        await cleanup.forget_unlimited()
        bank.limit(bot={"day": {"usd": 9}})
        (during,) = await bank.states(payer(alice))
        made.charge(billed(100, 0), "model")
        bank.limit()
        await cleanup.forget_unlimited()
    bank.limit(bot={"day": {"usd": 9}})
    (after,) = await bank.states(payer(alice))
    bank.limit()
    await cleanup.forget_unlimited()
    bank.limit(bot={"day": {"usd": 9}})
    (later,) = await bank.states(payer(alice))

    assert during.reserved_cost == call().cost(1_000)
    assert (after.used_cost, after.reserved_cost) == (100, 0)
    assert later.used_cost == 0


PERIODS = st.sampled_from(
    [{}, {"day": {"usd": 1}}, {"month": {"tokens": 1}}, {"day": {"usd": 1}, "month": {"usd": 2}}]
)


@given(
    st.fixed_dictionaries(
        {
            **dict.fromkeys(("user", "channel", "workspace", "bot"), PERIODS),
            "run": st.sampled_from([{}, {"usd": 1}]),
            "users": st.dictionaries(st.just("discord:1"), PERIODS),
            "channels": st.dictionaries(
                st.sampled_from(["discord:C1", "discord:S1:C1", "slack:T1:C1"]), PERIODS
            ),
            "workspaces": st.dictionaries(st.sampled_from(["discord:S1", "slack:T1"]), PERIODS),
            "roles": st.dictionaries(
                st.just("guest"),
                st.fixed_dictionaries({"each": PERIODS, "together": PERIODS}),
            ),
        }
    ),
    st.sampled_from([SERVER, TEAM]),
)
def test_the_pools_from_which_a_call_draws_have_a_limit_and_no_others(
    sections: dict[str, object], place: Place
) -> None:
    limited = SpendingSettings.model_validate(sections)
    everything = {"day": {"usd": 1}, "month": {"usd": 1}}
    whole = SpendingSettings.model_validate(
        dict.fromkeys(("user", "channel", "workspace", "bot"), everything) | {"run": {"usd": 1}}
    )
    pays = Payer(user=ALICE, place=place, work_id="run", runs=("run",))

    drawn = {pool.id for pool in pools_of(pays, "guest", limited, noon())}
    possible = {pool.id for pool in pools_of(pays, "guest", whole, noon())} | drawn

    assert {each for each in possible if is_limited(each, limited)} == drawn

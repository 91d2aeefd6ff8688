"""The limits that apply to a call, and whether it fits them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bot.spending.amounts import PoolState
from bot.spending.pools import (
    LEAST_OUTPUT,
    CallBounds,
    Payer,
    Pool,
    Scope,
    SpendingGrant,
    SpendingRefusal,
    decide,
    is_used_up,
    limit_name,
    pools_of,
    refusal_text,
    report_room,
    used_percent,
)
from bot.spending.settings import SpendingSettings
from bot.values import Identity, Place

NOW = datetime(2026, 2, 27, 22, 30, tzinfo=UTC)
ALICE = Identity("discord", "", "1")
CHANNEL = Place("discord", "S1", "C1", "T1")
TURN = Payer(user=ALICE, place=CHANNEL, work_id="turn")
RUN = Payer(user=ALICE, place=CHANNEL, work_id="run", runs=("run",))


def pool(*, tokens: int | None = None, cost: int | None = None) -> Pool:
    return Pool(
        scope=Scope.BOT,
        subject="",
        name="the whole bot",
        period="2026-02-27",
        tokens=tokens,
        cost=cost,
        resets_at=NOW + timedelta(minutes=90),
    )


def state(**amounts: Any) -> PoolState:
    return replace(PoolState(id=""), **amounts)


def call(input_tokens: int = 1_000, output: int = 16_000, *, last: bool = False) -> CallBounds:
    """Return a call at one micro-dollar for a token of input and five for one of output."""
    return CallBounds(
        input_tokens=input_tokens,
        input_cost=Decimal(input_tokens),
        output_cost=Decimal(5),
        max_output=output,
        last=last,
    )


def settings(**sections: object) -> SpendingSettings:
    return SpendingSettings.model_validate(sections)


# -- the limits that apply ----------------------------------------------------------------------


def test_without_limits_a_call_draws_from_no_pool() -> None:
    assert pools_of(RUN, "", SpendingSettings(), NOW) == []


def test_a_call_draws_from_every_pool_that_has_a_limit_in_the_order_of_their_keys() -> None:
    day = {"day": {"usd": 1}}
    limits = settings(
        run={"usd": "0.5"},
        user=day,
        channel={**day, "month": {"tokens": 9}},
        workspace={"month": {"usd": 4}},
        bot={"month": {"usd": 5}},
        roles={"guest": {"together": day}, "other": {"together": day}},
    )
    payer = Payer(user=ALICE, place=CHANNEL, work_id="r2", runs=("r2", "r1"))

    found = pools_of(payer, "guest", limits, NOW)

    assert [each.id for each in found] == sorted(each.id for each in found)
    assert {(each.scope, each.period, each.cost, each.tokens) for each in found} == {
        ("run", "", 500_000, None),
        ("user", "2026-02-27", 1_000_000, None),
        ("role", "2026-02-27", 1_000_000, None),
        ("channel", "2026-02-27", 1_000_000, None),
        ("channel", "2026-02", None, 9),
        ("workspace", "2026-02", 4_000_000, None),
        ("bot", "2026-02", 5_000_000, None),
    }
    assert [each.subject for each in found if each.scope is Scope.RUN] == ["r1", "r2"]
    month = next(each for each in found if each.scope is Scope.BOT)
    assert month.resets_at == datetime(2026, 3, 1, tzinfo=UTC)
    assert month.since == datetime(2026, 2, 1, tzinfo=UTC)


def test_threads_share_the_pool_of_their_channel_and_direct_messages_have_none() -> None:
    limits = settings(channel={"day": {"usd": 1}})
    inner = Payer(user=ALICE, place=Place("discord", "S1", "C1", "T2"), work_id="x")
    direct = Payer(user=ALICE, place=Place("discord", "", "D1"), work_id="x")

    assert pools_of(inner, "", limits, NOW) == pools_of(TURN, "", limits, NOW)
    assert pools_of(direct, "", limits, NOW) == []


def test_the_name_of_a_user_is_in_no_pool() -> None:
    user = Identity("slack", "T1", "U0SECRET")
    limits = settings(user={"day": {"usd": 1}}, users={"slack:T1:U0SECRET": {"day": {"usd": 2}}})

    (found,) = pools_of(Payer(user=user, place=CHANNEL, work_id="x"), "", limits, NOW)

    assert "SECRET" not in found.id
    assert found.cost == 2_000_000


def test_single_channels_and_workspaces_may_have_other_limits() -> None:
    limits = settings(
        channel={"day": {"usd": 1}},
        channels={"discord:C1": {"day": {"usd": 7}}},
        workspace={"day": {"usd": 1}},
        workspaces={"discord:S1": {}},
    )

    (found,) = pools_of(TURN, "", limits, NOW)

    assert (found.scope, found.cost) == (Scope.CHANNEL, 7_000_000)


@pytest.mark.parametrize("server", ["slack:T1", "slack:E1"])
def test_a_limit_of_a_workspace_of_an_organisation_names_one_of_both(server: str) -> None:
    limits = settings(
        channels={f"{server}:C1": {"day": {"usd": 7}}}, workspaces={server: {"day": {"usd": 9}}}
    )
    here = Place("slack", "E1.T1", "C1")

    found = pools_of(Payer(user=ALICE, place=here, work_id="turn"), "", limits, NOW)
    there = replace(here, workspace="E2.T2")

    assert [each.cost for each in found] == [7_000_000, 9_000_000]
    assert pools_of(Payer(user=ALICE, place=there, work_id="turn"), "", limits, NOW) == []


@pytest.mark.parametrize(("role", "cost"), [("guest", 1), ("staff", 5), ("other", 5)])
def test_of_the_limits_for_each_user_the_lowest_counts(role: str, cost: int) -> None:
    limits = settings(
        user={"day": {"usd": 5}},
        roles={"guest": {"each": {"day": {"usd": 1}}}, "staff": {"each": {"day": {"usd": 9}}}},
    )

    (found,) = pools_of(TURN, role, limits, NOW)

    assert found.cost == cost * 1_000_000


@pytest.mark.parametrize("wrong", [{"usd": -1}, {"tokens": 1.5}, {"usd": "much"}, {"euros": 1}])
def test_a_limit_that_is_none_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        settings(bot={"day": wrong})


# -- the decision --------------------------------------------------------------------------------


def test_the_output_is_at_most_a_quarter_of_what_the_tightest_limit_leaves() -> None:
    loose, tight = pool(tokens=1_000_000), pool(tokens=40_000)

    found = decide(TURN, [(loose, state()), (tight, state(used_tokens=10_000))], call(), NOW)

    # A turn may use 95 % of a limit: 38,000 tokens, of which 28,000 are left.
    assert found == SpendingGrant(7_000, near=False)


def test_money_limits_the_output_by_its_price() -> None:
    found = decide(TURN, [(pool(cost=100_000), state())], call(), NOW)

    assert found == SpendingGrant(95_000 // 5 // 4, near=False)


def test_a_thousand_tokens_are_always_allowed_if_they_fit() -> None:
    tight = pool(tokens=2_200)

    assert decide(TURN, [(tight, state())], call(1_000), NOW) == SpendingGrant(
        LEAST_OUTPUT, near=True
    )
    refused = decide(TURN, [(tight, state(used_tokens=91))], call(1_000), NOW)
    assert isinstance(refused, SpendingRefusal)


def test_a_call_that_wants_less_needs_less() -> None:
    found = decide(TURN, [(pool(tokens=1_200), state())], call(1_000, 100), NOW)

    assert found == SpendingGrant(100, near=True)


def test_runs_leave_a_part_to_turns_and_both_leave_one_to_last_reports() -> None:
    pools = [(pool(tokens=100_000), state(used_tokens=90_000))]

    assert isinstance(decide(RUN, pools, call(), NOW), SpendingRefusal)
    assert decide(TURN, pools, call(), NOW) == SpendingGrant(1_250, near=False)
    pools = [(pool(tokens=100_000), state(used_tokens=95_000))]
    assert isinstance(decide(TURN, pools, call(), NOW), SpendingRefusal)
    assert decide(RUN, pools, call(last=True), NOW) == SpendingGrant(1_250, near=False)


def test_what_an_admin_added_counts() -> None:
    full = state(used_cost=1_000_000)

    assert isinstance(decide(TURN, [(pool(cost=1_000_000), full)], call(), NOW), SpendingRefusal)
    raised = state(used_cost=1_000_000, extra_cost=1_000_000)
    assert isinstance(decide(TURN, [(pool(cost=1_000_000), raised)], call(), NOW), SpendingGrant)


def test_a_free_model_answers_where_nothing_may_be_paid() -> None:
    free = CallBounds(
        input_tokens=500, input_cost=Decimal(0), output_cost=Decimal(0), max_output=4_000
    )

    assert decide(TURN, [(pool(cost=0), state())], free, NOW) == SpendingGrant(4_000, near=False)


def test_a_refusal_names_the_limit_what_is_used_the_reset_and_whom_to_ask() -> None:
    refused = decide(
        TURN,
        [(pool(tokens=10**9), state()), (pool(cost=2_000_000), state(used_cost=1_990_000))],
        call(),
        NOW,
    )

    assert isinstance(refused, SpendingRefusal)
    assert refused.text == (
        "The spending limit of the whole bot today is reached: $1.99 of $2.00 used. It resets at "
        "2026-02-28 00:00 UTC, in 1 h 30 min. An operator of the bot can raise it for today."
    )


def test_a_refusal_names_those_who_can_raise_the_limit() -> None:
    day = {"day": {"usd": 1}}
    limits = settings(
        **dict.fromkeys(("user", "channel", "workspace", "bot"), day),
        run={"usd": 1},
        roles={"guest": {"together": day}},
    )

    asked = {
        each.scope: refusal_text(each, state(), NOW).rpartition(". ")[2]
        for each in pools_of(RUN, "guest", limits, NOW)
    }

    operators = "An operator of the bot can raise it for today."
    assert asked == {
        Scope.RUN: "An operator of the bot sets it: `spending.run`.",
        Scope.CHANNEL: "An admin can raise it for today.",
        Scope.WORKSPACE: "An admin can raise it for today.",
        **dict.fromkeys((Scope.USER, Scope.ROLE, Scope.BOT), operators),
    }


def test_a_refusal_says_that_work_in_progress_holds_a_part() -> None:
    text = refusal_text(pool(tokens=100), state(reserved_tokens=100), NOW)

    assert "0 of 100 weighted tokens used, and more is reserved for work in progress." in text


def test_a_monthly_limit_is_named_by_its_month() -> None:
    limits = settings(workspace={"month": {"usd": 1}})

    (found,) = pools_of(TURN, "", limits, NOW)

    assert limit_name(found) == "this server this month"


@pytest.mark.parametrize(
    ("amounts", "percent"),
    [({"used_cost": 80}, 80), ({"used_tokens": 90}, 9), ({"used_cost": 1, "extra_cost": 100}, 0)],
)
def test_the_used_part_is_that_of_the_tightest_limit(amounts: dict[str, int], percent: int) -> None:
    assert used_percent(pool(cost=100, tokens=1_000), state(**amounts)) == percent


@pytest.mark.parametrize(
    ("amounts", "used_up"),
    [
        ({"used_cost": 89}, False),
        ({"used_cost": 90}, True),
        ({"used_cost": 90, "extra_cost": 10}, False),
        ({"used_tokens": 900}, True),
        ({}, False),
    ],
)
def test_a_limit_is_used_up_when_no_call_of_a_run_can_fit(
    amounts: dict[str, int], *, used_up: bool
) -> None:
    assert is_used_up(pool(cost=100, tokens=1_000), state(**amounts)) is used_up


def test_the_last_report_may_be_as_long_as_what_is_left_allows() -> None:
    found = report_room([(pool(tokens=10_000), state(used_tokens=4_000))], call(9_000))

    assert found == (4_500, 1_500)
    assert report_room([(pool(tokens=10_000), state(used_tokens=9_500))], call(9_000)) is None


amount = st.integers(0, 200_000)


@given(
    limits=st.lists(st.tuples(amount, amount, amount), min_size=1, max_size=4),
    wanted=st.integers(1, 20_000),
    input_tokens=st.integers(0, 60_000),
    last=st.booleans(),
    payer=st.sampled_from([TURN, RUN]),
)
def test_a_granted_call_never_passes_a_limit_nor_takes_more_than_its_share(
    limits: list[tuple[int, int, int]],
    wanted: int,
    input_tokens: int,
    last: bool,
    payer: Payer,
) -> None:
    pools = [
        (pool(tokens=tokens), state(used_tokens=used, reserved_tokens=reserved))
        for tokens, used, reserved in limits
    ]

    found = decide(payer, pools, call(input_tokens, wanted, last=last), NOW)

    if isinstance(found, SpendingGrant):
        for each, now in pools:
            assert each.tokens is not None
            left = each.tokens - now.used_tokens - now.reserved_tokens
            assert input_tokens + found.max_output <= left
            assert found.max_output <= max(LEAST_OUTPUT, left / 4)
        assert min(wanted, LEAST_OUTPUT) <= found.max_output <= wanted

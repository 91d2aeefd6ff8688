"""The token budget of a run: what a call may cost, and what is set aside for the last step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.budget import LAST_STEP_SHARE, LEAST_OUTPUT, UNLIMITED, TokenBudget
from bot.agent.messages import Usage

totals = st.integers(100, 200_000)
calls = st.lists(st.tuples(st.integers(0, 50_000), st.floats(0, 1)), max_size=30)
max_outputs = st.integers(1, 16_000)


@given(totals, calls, max_outputs)
def test_ordinary_steps_never_touch_what_is_set_aside(
    total: int, steps: list[tuple[int, float]], max_output: int
) -> None:
    budget = TokenBudget(total)

    for sent, share in steps:
        output = budget.allow(sent, max_output)
        if output is None:
            continue
        assert output <= max_output
        budget.charge(Usage(sent, int(output * share)))

    assert budget.left >= int(total * LAST_STEP_SHARE)


@given(totals, calls, max_outputs)
def test_whatever_calls_cost_spending_passes_the_budget_by_at_most_one(
    total: int, steps: list[tuple[int, float]], max_output: int
) -> None:
    budget = TokenBudget(total)
    newest = 0

    for cost, _ in steps:
        if budget.allow(0, max_output) is None and budget.allow_last(max_output) is None:
            break
        budget.charge(Usage(cost))
        newest = cost

    assert budget.spent - newest <= total


def test_a_budget_counts_weighted_tokens() -> None:
    budget = TokenBudget(10_000)

    budget.charge(Usage(5_000, 500, discount=4_500))

    assert budget.spent == 1_000


def test_more_is_set_aside_when_there_is_more_to_report_on_within_bounds() -> None:
    budget = TokenBudget(50_000)

    budget.set_aside(1_000)
    assert budget.allow(0, 50_000) == 40_000 // 4
    budget.set_aside(13_000)
    assert budget.allow(0, 50_000) == 35_000 // 4
    budget.set_aside(90_000)
    assert budget.allow(0, 50_000) == 30_000 // 4


@given(totals, st.integers(0, 250_000), max_outputs)
def test_the_last_step_fits_in_what_is_left(total: int, spent: int, max_output: int) -> None:
    budget = TokenBudget(total)
    budget.charge(Usage(spent))

    allowed = budget.allow_last(max_output)

    if allowed is not None:
        most_input, output = allowed
        assert most_input > 0
        assert 0 < output <= max_output
        assert most_input + output <= budget.left


@given(totals, st.integers(0, 250_000), st.integers(0, 50_000), max_outputs)
def test_a_reservation_is_never_more_than_what_is_left(
    total: int, spent: int, sent: int, max_output: int
) -> None:
    budget = TokenBudget(total)
    budget.charge(Usage(spent))

    reserved = budget.reservation(sent, max_output)

    assert 0 <= reserved <= budget.left
    assert reserved <= sent + max_output


def test_cached_tokens_count_like_all_others() -> None:
    budget = TokenBudget(1_000)

    budget.charge(Usage(1, 2, 30, 400))

    assert (budget.spent, budget.left) == (433, 567)


def test_a_fifth_is_set_aside_from_the_start() -> None:
    budget = TokenBudget(10_000)

    assert budget.allow(2_000, 4_000) == 2_000
    assert budget.allow(6_500, 4_000) == 1_500
    assert budget.allow(8_000 - LEAST_OUTPUT, 4_000) == LEAST_OUTPUT
    assert budget.allow(8_001 - LEAST_OUTPUT, 4_000) is None


def test_the_fraction_is_of_what_ordinary_steps_may_use() -> None:
    budget = TokenBudget(10_000)
    assert budget.fraction == 0

    budget.charge(Usage(6_400))
    assert budget.fraction == pytest.approx(0.8)
    budget.charge(Usage(1_600))
    assert budget.fraction == pytest.approx(1.0)


def test_once_all_is_spent_not_even_a_last_step_fits() -> None:
    budget = TokenBudget(1_000)

    budget.charge(Usage(2_000))

    assert budget.left == 0
    assert budget.allow_last(4_000) is None
    assert budget.reservation(10, 4_000) == 0


def test_a_turn_has_no_budget() -> None:
    budget = TokenBudget(UNLIMITED)

    budget.charge(Usage(10**9))

    assert budget.fraction < 0.01
    assert budget.allow(10**9, 4_096) == 4_096
    allowed = budget.allow_last(4_096)
    assert allowed is not None
    assert allowed[1] == 4_096

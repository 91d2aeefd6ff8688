"""A caller made from a tool call is a model, whatever the role of its user."""

import pytest

from bot.conversations.access import has_admin_powers
from bot.subagents.requests import Caller
from bot.values import Identity, Place, Role
from skills.base import ToolContext
from tests.fakes.clock import FakeClock


@pytest.mark.parametrize("run_id", [None, "r1"])
def test_a_call_of_a_model_has_no_admin_powers(
    alice: Identity, clock: FakeClock, run_id: str | None
) -> None:
    context = ToolContext(
        user=alice,
        role=Role.OPERATOR,
        place=Place("discord"),
        conversation_id="c1",
        work_id="t1",
        call_id="1",
        run_id=run_id,
        now=clock,
    )

    place = context.place
    assert not has_admin_powers(Caller.of(context), place)
    assert has_admin_powers(Caller.of_user(alice, Role.OPERATOR, place), place)
    assert not has_admin_powers(Caller.of_user(alice, Role.USER, place), place)

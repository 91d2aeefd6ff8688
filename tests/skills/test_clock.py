"""The clock tells the time of the clock it was given, in the zone asked for."""

import pytest

from bot.errors import ToolError
from bot.values import Identity
from skills.clock import build
from tests.fakes.calls import Caller
from tests.fakes.clock import FakeClock


@pytest.fixture
def caller(alice: Identity, clock: FakeClock) -> Caller:
    return Caller(build("Europe/Paris"), alice, clock)


async def test_the_time_is_told_in_the_configured_zone(caller: Caller) -> None:
    told = await caller.call("current_time")

    assert told == "Saturday 21 November 2026, 10:00 in Europe/Paris"


async def test_another_zone_can_be_asked_for(caller: Caller, clock: FakeClock) -> None:
    clock.advance(15 * 3600)

    told = await caller.call("current_time", zone="Asia/Tokyo")

    assert told == "Sunday 22 November 2026, 09:00 in Asia/Tokyo"


@pytest.mark.parametrize(
    "zone", ["Moon/Base", "", "../etc/passwd", "/etc/passwd", "Europe", "a\0b", "\ud800", "x" * 999]
)
async def test_a_zone_that_does_not_exist_is_answered_with_advice(
    caller: Caller, zone: str
) -> None:
    with pytest.raises(ToolError, match=r"There is no time zone .*; use a name like Asia/Tokyo"):
        await caller.call("current_time", zone=zone)


def test_the_model_learns_the_default_zone() -> None:
    (tool,) = build("Europe/Paris").tools

    assert tool.schema["properties"]["zone"]["default"] == "Europe/Paris"
    assert not tool.main_agent_only

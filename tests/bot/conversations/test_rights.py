"""The roles and rights of users are those of now, and are not guessed when a platform is away."""

from datetime import timedelta

import pytest

from bot.conversations.rights import FRESH, UNREADABLE, USABLE, Memberships, RightsDirectory
from bot.errors import DeliveryError, NotAllowedError
from bot.platforms.reading import Membership
from bot.rights.effective import Rights
from bot.rights.settings import RolesSettings
from bot.values import Identity, Place
from tests.fakes.clock import FakeClock
from tests.fakes.outlet import FakeOutlet

ANN = Identity("discord", "", "10001")
SERVER = Place("discord", "70010", "80010")
LEADS = "discord-role:70010:60010"
ROLES = RolesSettings.model_validate(
    {"named": {"lead": {"members": [LEADS]}, "guest": {"tools": [], "places": ["discord:70010"]}}}
    | {"default": "guest"}
)


@pytest.fixture
def outlet() -> FakeOutlet:
    return FakeOutlet("discord")


def directory(outlet: FakeOutlet, clock: FakeClock, roles: RolesSettings) -> RightsDirectory:
    return RightsDirectory(roles, Memberships({"discord": outlet}, clock), frozenset)


async def test_a_role_that_is_removed_counts_no_more_within_two_minutes(
    outlet: FakeOutlet, clock: FakeClock
) -> None:
    known = directory(outlet, clock, ROLES)
    outlet.members[ANN, ""] = Membership(groups=frozenset({LEADS}))

    first = await known.role_of(ANN, SERVER)
    outlet.members.clear()
    soon = await known.role_of(ANN, SERVER)
    clock.advance(FRESH.total_seconds())
    later = await known.rights(ANN, SERVER)

    assert (first, soon, later.role) == ("lead", "lead", "guest")
    assert later.refusal("tools", "shell")
    assert len(outlet.looked_up) == 2


async def test_what_an_event_tells_is_not_asked_for(outlet: FakeOutlet, clock: FakeClock) -> None:
    known = directory(outlet, clock, ROLES)

    known.note(ANN, SERVER, frozenset({LEADS}))

    assert await known.role_of(ANN, SERVER) == "lead"
    assert outlet.looked_up == []


async def test_without_an_answer_a_membership_holds_for_five_minutes_and_then_nothing_is_allowed(
    outlet: FakeOutlet, clock: FakeClock
) -> None:
    known = directory(outlet, clock, ROLES)
    known.note(ANN, SERVER, frozenset({LEADS}))
    outlet.unreadable = DeliveryError("Discord is away.")

    clock.advance((USABLE - timedelta(seconds=1)).total_seconds())
    held = await known.role_of(ANN, SERVER)
    clock.advance(1)

    assert held == "lead"
    with pytest.raises(NotAllowedError, match="cannot check your role here at the moment"):
        await known.rights(ANN, SERVER)


async def test_groups_that_may_not_be_read_are_not_taken_for_none(
    outlet: FakeOutlet, clock: FakeClock
) -> None:
    outlet.members[ANN, ""] = Membership(groups=None)

    with pytest.raises(NotAllowedError) as refused:
        await directory(outlet, clock, ROLES).rights(ANN, SERVER)

    assert str(refused.value) == UNREADABLE


async def test_a_role_is_refused_outside_of_its_places(
    outlet: FakeOutlet, clock: FakeClock
) -> None:
    known = directory(outlet, clock, ROLES)

    await known.check(ANN, SERVER)

    with pytest.raises(NotAllowedError, match="The role `guest` may not use this bot here"):
        await known.check(ANN, Place("discord", "70020", "80020"))
    await directory(outlet, clock, RolesSettings()).check(ANN, Place("discord", "70020", "1"))


async def test_without_roles_nothing_is_looked_up(outlet: FakeOutlet, clock: FakeClock) -> None:
    known = directory(outlet, clock, RolesSettings())

    assert await known.rights(ANN, SERVER) == Rights((), "user")
    assert not await known.is_among(frozenset({"discord:10001"}), ANN, SERVER)
    assert outlet.looked_up == []


async def test_a_role_of_the_platform_makes_an_admin_only_if_it_is_known(
    outlet: FakeOutlet, clock: FakeClock
) -> None:
    known = directory(outlet, clock, RolesSettings())
    outlet.members[ANN, "70010"] = Membership(groups=frozenset({LEADS}))

    assert await known.is_among({LEADS}, ANN, SERVER)
    assert not await known.is_among({LEADS}, ANN, Place("discord", "70020", "1"))
    clock.advance(USABLE.total_seconds())
    outlet.unreadable = DeliveryError("Discord is away.")
    assert not await known.is_among({LEADS}, ANN, SERVER)

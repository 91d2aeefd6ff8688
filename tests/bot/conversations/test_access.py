"""The access rules: users that may talk to the bot, and runs that a request may reach."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bot.conversations.access import (
    AccessSettings,
    can_read,
    has_admin_powers,
    is_private,
    is_same_server,
    may_reach,
    own_scope,
    scope_of,
    spelled,
)
from bot.conversations.inbound import authorise
from bot.subagents.requests import Caller
from bot.values import Identity, Place, Role

ANN = Identity("discord", "", "1001")
BEN = Identity("slack", "T1", "U2")
HERE = Place("discord", "70010", "room")


def test_people_are_spelled_as_in_the_configuration() -> None:
    assert (spelled(ANN), spelled(BEN)) == ("discord:1001", "slack:T1:U2")


def test_an_operator_is_one_by_account() -> None:
    settings = AccessSettings(admins=("discord:1001",))

    assert authorise(ANN, settings, HERE) is Role.OPERATOR
    assert authorise(BEN, settings, HERE) is Role.USER


@pytest.mark.parametrize(
    "other",
    [
        Identity("slack", "", "1001"),
        Identity("discord", "", "10010"),
        Identity("discord", "", "100"),
        Identity("slack", "T2", "U2"),
        Identity("slack", "", "U2"),
        Identity("terminal", "", "discord:1001"),
    ],
)
def test_nobody_else_is_taken_for_an_admin(other: Identity) -> None:
    settings = AccessSettings(admins=("discord:1001", "slack:T1:U2"))

    assert authorise(other, settings, HERE) is Role.USER


@pytest.mark.parametrize(
    ("user", "place", "role"),
    [
        (ANN, HERE, Role.ADMIN),
        (ANN, Place("discord", "70020", "room"), Role.USER),
        (ANN, Place("discord", "", "direct"), Role.USER),
        (BEN, HERE, Role.USER),
        (BEN, Place("slack", "T10", "C1"), Role.ADMIN),
        (BEN, Place("slack", "T20", "C1"), Role.USER),
        (BEN, Place("slack", "E1X.T2X", "C1"), Role.USER),
        (BEN, Place("slack", "E1X.T3X", "C1"), Role.ADMIN),
    ],
)
def test_an_admin_of_a_server_or_workspace_is_one_only_there(
    user: Identity, place: Place, role: Role
) -> None:
    settings = AccessSettings(
        place_admins={
            "discord:70010": ("discord:1001",),
            "slack:T10": ("slack:T1:U2",),
            "slack:T3X": ("slack:T1:U2",),
            "slack:T20": (),
        }
    )

    assert authorise(user, settings, place) is role


def test_a_workspace_is_the_same_with_and_without_its_organisation() -> None:
    here = Place("slack", "E1.T1", "C1")

    assert is_same_server(here, Place("slack", "T1"))
    assert not is_same_server(here, Place("slack", "E1.T2"))
    assert not is_same_server(here, Place("slack", "E1"))
    assert not is_same_server(Place("discord"), Place("discord"))


@pytest.mark.parametrize("name", ["discord", "slack:C1234", "7001", "discord:abc", "slack:T1:C1"])
def test_an_unknown_kind_of_server_is_refused_with_the_right_form(name: str) -> None:
    with pytest.raises(ValidationError, match="no server or workspace: write `discord:`"):
        AccessSettings(place_admins={name: ()})


USERS = st.sampled_from([ANN, BEN, Identity("slack", "T2", "U2"), Identity("discord", "", "7")])
PLACES = st.builds(
    Place,
    platform=st.sampled_from(["discord", "slack", "terminal", "other"]),
    workspace=st.sampled_from(["", "W1", "W2"]),
    channel=st.sampled_from(["", "C1", "C2", "D1"]),
    thread=st.sampled_from(["", "1", "2"]),
    message=st.sampled_from(["", "1", "2", "3"]),
)


@given(
    owner=USERS,
    asker=USERS,
    role=st.sampled_from(Role),
    typed=st.booleans(),
    place=PLACES,
    started_in=PLACES,
)
def test_a_request_reaches_a_run_of_its_user_or_by_an_admins_command_and_never_tells_others(
    owner: Identity, asker: Identity, role: Role, *, typed: bool, place: Place, started_in: Place
) -> None:
    request = Caller(user=asker, role=role, typed=typed, place=place)

    reached = scope_of(request).covers(owner.key, started_in)

    same = bool(place.workspace) and (place.platform, place.workspace) == (
        started_in.platform,
        started_in.workspace,
    )
    powers = typed and (role is Role.OPERATOR or (role is Role.ADMIN and same))
    assert may_reach(request, owner.key, started_in) == (reached or (typed and owner == asker))
    if typed and role is Role.ADMIN and place.workspace:
        assert reached == same
    elif typed:
        assert reached == (owner == asker or role is Role.OPERATOR)
    elif is_private(place):
        assert reached == (owner == asker)
    else:
        assert reached == (owner == asker and can_read(place, started_in))
    assert has_admin_powers(request, started_in) == powers
    assert has_admin_powers(request, None) == (typed and role is Role.OPERATOR)
    own = own_scope(request).covers(owner.key, started_in)
    assert own <= (owner == asker)
    assert may_reach(request, owner.key, started_in) == (own or powers)


@given(asker=USERS, place=PLACES, started_in=PLACES)
def test_a_model_in_a_place_with_several_readers_reaches_nothing_of_a_private_or_another_channel(
    asker: Identity, place: Place, started_in: Place
) -> None:
    request = Caller(user=asker, role=Role.OPERATOR, place=place)
    elsewhere = (place.platform, place.workspace, place.channel) != (
        started_in.platform,
        started_in.workspace,
        started_in.channel,
    )

    reached = scope_of(request).covers(asker.key, started_in)

    if not is_private(place) and (elsewhere or is_private(started_in)):
        assert not reached
    assert scope_of(request).covers(asker.key) == is_private(place)


@pytest.mark.parametrize(
    ("place", "other", "readable"),
    [
        (Place("discord", "g", "room", "9"), Place("discord", "g", "room"), True),
        (Place("discord", "g", "room", "9"), Place("discord", "g", "room", "9", "11"), True),
        (Place("discord", "g", "room"), Place("discord", "g", "room", "9", "9"), True),
        (Place("discord", "g", "room"), Place("discord", "g", "room", "9", "11"), False),
        (Place("discord", "g", "room", "8"), Place("discord", "g", "room", "9", "11"), False),
        (Place("slack", "T1", "C1", "1.0"), Place("slack", "T1", "C1", "2.0", "3.0"), True),
        (Place("slack", "T1", "C1", "1.0"), Place("slack", "T1", "C2", "1.0"), False),
        (Place("slack", "T1", "C1"), Place("slack", "T2", "C1"), False),
        (Place("slack", "T1", "C1"), Place("slack", "T1", "D1"), False),
    ],
)
def test_a_thread_is_readable_by_its_channel_where_it_is_public(
    place: Place, other: Place, *, readable: bool
) -> None:
    assert can_read(place, other) is readable


def test_direct_messages_and_terminals_have_one_reader() -> None:
    assert is_private(Place("discord", "", "55"))
    assert is_private(Place("slack", "T1", "D1", "1.0"))
    assert is_private(Place("terminal"))
    for shared in (
        Place("discord", "g", "55"),
        Place("slack", "T1", "C1"),
        Place("slack", "T1", "G1"),
        Place("slack", "T1"),
        Place("unknown"),
    ):
        assert not is_private(shared)


def test_two_people_never_share_a_key() -> None:
    people = [
        Identity("slack", "T1", "U2"),
        Identity("slack", "", "T1:U2"),
        Identity("slack", "T1:U2", ""),
        Identity("slack", "T1%3AU2", ""),
        Identity("slack:T1", "", "U2"),
    ]

    assert len({one.key for one in people}) == len(people)

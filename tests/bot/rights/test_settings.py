"""Roles: their members, and the levels of rights in a place."""

import pytest
from pydantic import ValidationError

from bot.rights.settings import (
    RoleSettings,
    RolesSettings,
    asks_for_groups,
    names_of,
    rights_of,
    role_of,
)
from bot.values import Identity, Place

ANN, BEN = Identity("discord", "", "10001"), Identity("slack", "T10", "U20")
SERVER = Place("discord", "70010", "80010", "90010")
OTHER = Place("discord", "70020", "80020")
TEAM = Place("slack", "E1X.T10", "C10")
ROLES = RolesSettings.model_validate(
    {
        "named": {
            "lead": {"members": ["discord-role:70010:60010", "slack-group:T10:S10"]},
            "guest": {"members": ["discord-channel:70010:80010", "slack-channel:T10:C20"]},
            "user": {"members": ["discord:10001"]},
        },
        "default": "guest",
    }
)


@pytest.mark.parametrize(
    ("user", "place", "groups", "role"),
    [
        (ANN, SERVER, {"discord-role:70010:60010"}, "lead"),
        (ANN, SERVER, {"discord-role:70020:60010"}, "guest"),
        (ANN, OTHER, {"discord-role:70020:60010"}, "user"),
        (ANN, Place("discord", "", "55"), set(), "user"),
        (BEN, TEAM, {"slack-group:T10:S10"}, "lead"),
        (BEN, TEAM, {"slack-group:T20:S10"}, "guest"),
        (BEN, Place("slack", "T10", "C20"), set(), "guest"),
    ],
)
def test_a_user_has_the_first_role_of_which_they_are_a_member(
    user: Identity, place: Place, groups: set[str], role: str
) -> None:
    assert role_of(ROLES, user, place, groups) == role


def test_groups_are_looked_up_only_where_roles_name_some() -> None:
    assert asks_for_groups(ROLES, SERVER)
    assert asks_for_groups(ROLES, TEAM)
    assert not asks_for_groups(ROLES, OTHER)
    assert not asks_for_groups(ROLES, Place("discord", "", "55"))
    assert not asks_for_groups(RolesSettings(), SERVER)


def test_the_levels_stand_in_the_order_in_which_rights_shrink() -> None:
    settings = RolesSettings.model_validate(
        {
            "everyone": {"denied_tools": ["shell"]},
            "places": {
                "discord:70010:80010": {"agents": []},
                "discord:70010": {"tools": ["web"]},
                "discord:70020": {"tools": []},
            },
            "named": {"lead": {"skills": []}, "guest": {}},
        }
    )

    found = rights_of(settings, "lead", SERVER, lambda names: [f"{name}_get" for name in names])

    assert [level.key for level in found.levels] == [
        "roles.everyone",
        "roles.places.discord:70010",
        "roles.places.discord:70010:80010",
        "roles.named.lead",
    ]
    assert found.levels[1].allowed == {"tools": ("web_get",)}
    assert rights_of(settings, "guest", OTHER, set).levels[-1].key == "roles.places.discord:70020"
    assert rights_of(RolesSettings(), "user", SERVER, set).levels == ()


@pytest.mark.parametrize(
    ("place", "names"),
    [
        (SERVER, ["discord:70010", "discord:70010:80010"]),
        (Place("discord", "", "55"), ["direct"]),
        (TEAM, ["slack:E1X", "slack:T10", "slack:E1X:C10", "slack:T10:C10"]),
        (Place("slack", "T10", "D10"), ["slack:T10", "slack:T10:D10", "direct"]),
        (Place("terminal", "", "ann"), ["terminal"]),
    ],
)
def test_a_place_is_named_from_the_widest_to_the_narrowest(place: Place, names: list[str]) -> None:
    assert names_of(place) == names


@pytest.mark.parametrize(
    ("places", "admits"),
    [(None, True), ((), False), (("discord:70010",), True), (("direct", "slack:T10"), False)],
)
def test_a_role_is_used_in_its_places_alone(places: tuple[str, ...] | None, admits: bool) -> None:
    assert RoleSettings(places=places).admits(SERVER) is admits


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"named": {"guest": {"members": ["ann"]}}}, "names no member: write an account"),
        ({"named": {"guest": {"members": ["discord:ann"]}}}, "names no member"),
        ({"named": {"guest": {"places": ["here"]}}}, "names no place"),
        ({"places": {"slack": {}}}, "names no place"),
        ({"named": {"Guest!": {}}}, "cannot be the name of a role"),
        ({"default": "gust"}, "names 'gust', which is no role; there are: guest, user"),
        ({"named": {"guest": {"permissions": {"shell": "no"}}}}, "must be allow, ask or deny"),
    ],
)
def test_what_is_wrong_is_said_with_what_would_be_right(
    given: dict[str, object], error: str
) -> None:
    with pytest.raises(ValidationError, match=error):
        RolesSettings.model_validate(given)

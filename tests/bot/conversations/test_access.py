"""Who may talk, start, see and stop what."""

import pytest

from bot.conversations.access import (
    AccessSettings,
    check_may_talk,
    may_see,
    role_of,
    spelled,
)
from bot.errors import NotAllowedError
from bot.values import Identity, Role

ANN = Identity("discord", "", "1001")
BEN = Identity("slack", "T1", "U2")


def test_people_are_spelled_as_in_the_configuration() -> None:
    assert (spelled(ANN), spelled(BEN)) == ("discord:1001", "slack:T1:U2")


def test_an_admin_is_one_by_account() -> None:
    settings = AccessSettings(admins=("discord:1001",))

    assert role_of(ANN, settings) is Role.ADMIN
    assert role_of(BEN, settings) is Role.USER


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

    assert role_of(other, settings) is Role.USER


def test_one_who_is_shut_out_is_told_so_and_others_are_let_in() -> None:
    settings = AccessSettings(blocked=("slack:T1:U2",))

    with pytest.raises(NotAllowedError, match="You cannot use this bot"):
        check_may_talk(BEN, settings)
    check_may_talk(ANN, settings)


def test_a_run_is_seen_by_its_owner_and_by_admins() -> None:
    assert may_see(ANN.key, Role.USER, ANN.key)
    assert may_see(BEN.key, Role.ADMIN, ANN.key)
    assert not may_see(BEN.key, Role.USER, ANN.key)


def test_two_people_never_share_a_key() -> None:
    people = [
        Identity("slack", "T1", "U2"),
        Identity("slack", "", "T1:U2"),
        Identity("slack", "T1:U2", ""),
        Identity("slack", "T1%3AU2", ""),
        Identity("slack:T1", "", "U2"),
    ]

    assert len({one.key for one in people}) == len(people)

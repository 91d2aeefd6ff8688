"""Who somebody on Discord is, and whether they may talk with the bot there."""

from typing import Any

import pytest

from bot.platforms.discord.people import (
    NO_DIRECT_MESSAGES,
    NOT_THIS_CHANNEL,
    NOT_THIS_SERVER,
    ROLES_UNKNOWN,
    DiscordAccessPolicy,
    DiscordUser,
    identity_of,
)
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.messaging.intake import NOT_YOU, AccessRefusal
from bot.values import Identity, Place

ALICE = DiscordUser(account="11111", roles=frozenset({"77777"}))
GENERAL = Place("discord", "20000", "30000")
THREAD = Place("discord", "20000", "30000", "50000")
DIRECT = Place("discord", channel="60000")


def refused(place: Place, user: DiscordUser = ALICE, **settings: Any) -> AccessRefusal | None:
    category = "40000" if place.workspace else ""
    return DiscordAccessPolicy(DiscordSettings(**settings)).refusal(user, place, category)


def test_somebody_is_the_same_user_everywhere() -> None:
    assert identity_of(11111) == identity_of("11111") == Identity("discord", "", "11111")


@pytest.mark.parametrize("place", [GENERAL, THREAD, DIRECT])
def test_everybody_may_everywhere_unless_something_is_set(place: Place) -> None:
    assert refused(place) is None


def test_other_servers_are_passed_over() -> None:
    assert refused(GENERAL, guilds=("20000",)) is None
    assert refused(GENERAL, guilds=("20001",)) == AccessRefusal(NOT_THIS_SERVER, silent=True)
    assert refused(DIRECT, guilds=("20001",)) is None


@pytest.mark.parametrize("named", ["30000", "40000", "50000"])
def test_a_channel_serves_by_its_own_id_its_category_and_for_threads_its_parent(
    named: str,
) -> None:
    assert refused(THREAD, channels=("30001", named)) is None


def test_other_channels_are_passed_over_and_direct_messages_not_affected() -> None:
    assert refused(GENERAL, channels=("50000",)) == AccessRefusal(NOT_THIS_CHANNEL, silent=True)
    assert refused(DIRECT, channels=("50000",)) is None


@pytest.mark.parametrize(
    "settings",
    [{"users": ("11111",)}, {"roles": ("77777",)}, {"users": ("11111",), "roles": ("77778",)}],
)
def test_one_of_the_people_or_of_a_role_may(settings: dict[str, Any]) -> None:
    assert refused(GENERAL, **settings) is None


@pytest.mark.parametrize(
    "settings",
    [{"users": ("11112",)}, {"roles": ("77778",)}, {"users": ("11112",), "roles": ("77778",)}],
)
def test_nobody_else_may(settings: dict[str, Any]) -> None:
    assert refused(GENERAL, **settings) == AccessRefusal(NOT_YOU)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"guilds": []}, AccessRefusal(NOT_THIS_SERVER, silent=True)),
        ({"channels": []}, AccessRefusal(NOT_THIS_CHANNEL, silent=True)),
        ({"users": []}, AccessRefusal(NOT_YOU)),
        ({"roles": []}, AccessRefusal(NOT_YOU)),
    ],
)
def test_an_empty_list_admits_nobody(settings: dict[str, Any], refusal: AccessRefusal) -> None:
    assert refused(GENERAL, **settings) == refusal


def test_in_direct_messages_only_people_who_are_named_get_past_a_role() -> None:
    unknown = DiscordUser(account="11111")

    assert refused(DIRECT, unknown, roles=("77777",)) == AccessRefusal(ROLES_UNKNOWN)
    assert refused(DIRECT, unknown, roles=("77777",), users=("11111",)) is None
    assert refused(DIRECT, unknown, users=("11112",)) == AccessRefusal(NOT_YOU)


def test_direct_messages_can_be_switched_off() -> None:
    assert refused(DIRECT, direct_messages=False) == AccessRefusal(NO_DIRECT_MESSAGES)
    assert refused(GENERAL, direct_messages=False) is None


def test_an_admin_is_who_has_one_of_the_roles() -> None:
    policy = DiscordAccessPolicy(DiscordSettings(admin_roles=("77777", "77779")))

    assert policy.is_admin(ALICE)
    assert not policy.is_admin(DiscordUser(account="11111", roles=frozenset({"77778"})))
    assert not DiscordAccessPolicy(DiscordSettings()).is_admin(ALICE)

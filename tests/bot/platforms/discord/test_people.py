"""Who somebody on Discord is, and whether they may talk with the bot there."""

import asyncio
from typing import Any

import pytest

from bot.platforms.discord.people import (
    NO_DIRECT_MESSAGES,
    NOT_THIS_CHANNEL,
    NOT_THIS_SERVER,
    ROLES_UNKNOWN,
    Person,
    Reception,
    Spot,
    identity_of,
    place_of,
    refusal_of,
)
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.reception import NOT_YOU, REMEMBERED, TELL_AGAIN_SECONDS, Refusal
from bot.values import Identity, Place

ALICE = Person(account="11111", roles=frozenset({"77777"}))
GENERAL = Spot(guild="20000", channel="30000", category="40000")
THREAD = Spot(guild="20000", channel="30000", thread="50000", category="40000")
DIRECT = Spot(channel="60000")


def refused(spot: Spot, person: Person = ALICE, **settings: Any) -> Refusal | None:
    return refusal_of(DiscordSettings(**settings), person, spot)


class Watch:
    """A clock of seconds that moves when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_somebody_is_the_same_person_everywhere() -> None:
    assert identity_of(11111) == identity_of("11111") == Identity("discord", "", "11111")


def test_a_thread_is_in_its_channel_and_a_direct_message_in_no_server() -> None:
    assert place_of(THREAD, "9") == Place("discord", "20000", "30000", "50000", "9")
    assert place_of(GENERAL) == Place("discord", "20000", "30000", "", "")
    assert place_of(DIRECT) == Place("discord", "", "60000", "", "")


@pytest.mark.parametrize("spot", [GENERAL, THREAD, DIRECT])
def test_everybody_may_everywhere_unless_something_is_set(spot: Spot) -> None:
    assert refused(spot) is None


def test_other_servers_are_passed_over() -> None:
    assert refused(GENERAL, guilds=("20000",)) is None
    assert refused(GENERAL, guilds=("20001",)) == Refusal(NOT_THIS_SERVER, silent=True)
    assert refused(DIRECT, guilds=("20001",)) is None


@pytest.mark.parametrize("named", ["30000", "40000", "50000"])
def test_a_channel_serves_by_its_own_id_its_category_and_for_threads_its_parent(
    named: str,
) -> None:
    assert refused(THREAD, channels=("30001", named)) is None


def test_other_channels_are_passed_over_and_direct_messages_not_affected() -> None:
    assert refused(GENERAL, channels=("50000",)) == Refusal(NOT_THIS_CHANNEL, silent=True)
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
    assert refused(GENERAL, **settings) == Refusal(NOT_YOU)


def test_in_direct_messages_only_people_who_are_named_get_past_a_role() -> None:
    unknown = Person(account="11111")

    assert refused(DIRECT, unknown, roles=("77777",)) == Refusal(ROLES_UNKNOWN)
    assert refused(DIRECT, unknown, roles=("77777",), users=("11111",)) is None
    assert refused(DIRECT, unknown, users=("11112",)) == Refusal(NOT_YOU)


def test_direct_messages_can_be_switched_off() -> None:
    assert refused(DIRECT, direct_messages=False) == Refusal(NO_DIRECT_MESSAGES)
    assert refused(GENERAL, direct_messages=False) is None


def test_an_admin_is_who_has_one_of_the_roles() -> None:
    reception = Reception(DiscordSettings(admin_roles=("77777", "77779")))

    assert reception.is_admin(ALICE)
    assert not reception.is_admin(Person(account="11111", roles=frozenset({"77778"})))
    assert not Reception(DiscordSettings()).is_admin(ALICE)


def test_a_refusal_is_worth_a_sentence_once_an_hour_for_each_person_and_channel() -> None:
    watch = Watch()
    reception = Reception(DiscordSettings(), monotonic=watch)

    assert reception.may_tell("11111", "30000")
    watch.now += TELL_AGAIN_SECONDS - 1
    assert not reception.may_tell("11111", "30000")
    assert reception.may_tell("11111", "30001")
    assert reception.may_tell("11112", "30000")
    watch.now += 2
    assert reception.may_tell("11111", "30000")


def test_what_came_already_is_known_however_long_ago() -> None:
    watch = Watch()
    reception = Reception(DiscordSettings(), monotonic=watch)

    assert reception.first(("message", 1))
    watch.now += 1e9
    assert not reception.first(("message", 1))
    assert reception.first(("interaction", 1))


def test_what_is_remembered_does_not_grow_without_end() -> None:
    reception = Reception(DiscordSettings())

    assert all(reception.first(number) for number in range(REMEMBERED + 1))

    assert not reception.first(REMEMBERED)
    assert not reception.first(1)
    assert reception.first(0)


def test_what_came_again_is_remembered_from_then_on() -> None:
    reception = Reception(DiscordSettings())
    for number in range(REMEMBERED):
        reception.first(number)

    assert reception.first(0, again_after=0)
    assert reception.first("one more")

    assert not reception.first(0)
    assert reception.first(1)


async def test_settling_waits_for_whoever_is_being_seen_to_but_not_for_ever() -> None:
    reception = Reception(DiscordSettings())
    may_end, begun = asyncio.Event(), asyncio.Event()

    async def visit() -> None:
        with reception.attending():
            begun.set()
            await may_end.wait()

    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        visiting = tasks.create_task(visit())
        await begun.wait()
        await reception.settle(0.01)
        assert not visiting.done()
        settling = tasks.create_task(reception.settle(5))
        may_end.set()
        await settling

        assert visiting.done()
        await reception.settle(5)

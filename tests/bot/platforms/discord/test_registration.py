"""Which commands Discord knows: told only when that has changed, and nobody else's touched."""

import logging
from collections.abc import AsyncIterator

import discord
import pytest

from bot.conversations.admin_table import ADMIN_COMMANDS
from bot.platforms.discord.registration import comparable
from bot.values import Json
from tests.bot.platforms.discord.hearing import CONTENT_ALLOWED, people, town
from tests.fakes.discord.server import FakeDiscord

OURS = ["ask", "retinue", "retinue-admin", "subagents"]
FOREIGN: Json = {"type": 1, "name": "launch", "description": "Somebody else's", "id": "17"}


@pytest.fixture
async def fake() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord.open() as opened:
        opened.application_flags = CONTENT_ALLOWED
        yield opened


@pytest.fixture(autouse=True)
def _hear_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="bot")


def known(fake: FakeDiscord, guild_id: int | None = None) -> list[str]:
    commands = fake.commands if guild_id is None else fake.guild_commands.get(guild_id, [])
    return sorted(each["name"] for each in commands)


async def test_commands_are_registered_everywhere_for_servers_and_for_people(
    fake: FakeDiscord,
) -> None:
    async with town(fake):
        assert known(fake) == OURS
        for command in fake.commands:
            for_admins = command["name"] == "retinue-admin"
            assert command["contexts"] == ([0] if for_admins else [0, 1, 2])
            assert command["integration_types"] == ([0] if for_admins else [0, 1])


async def test_commands_of_admins_are_offered_to_those_who_manage_the_server(
    fake: FakeDiscord,
) -> None:
    async with town(fake):
        offered = {
            each["name"]: (
                each["default_member_permissions"],
                {option["name"] for option in each["options"]},
            )
            for each in fake.commands
        }

    permissions, names = offered.pop("retinue-admin")
    assert permissions == str(discord.Permissions(manage_guild=True).value)
    assert names == {each.name for each in ADMIN_COMMANDS}
    for open_to, others in offered.values():
        assert open_to is None
        assert not {"kill", "drain", "audit"} & others


async def test_the_next_start_finds_them_and_changes_nothing(fake: FakeDiscord) -> None:
    async with town(fake):
        pass
    async with town(fake):
        pass

    assert fake.syncs == 1


async def test_what_has_changed_is_registered_anew(fake: FakeDiscord) -> None:
    async with town(fake):
        pass
    stop = next(each for each in fake.commands if each["name"] == "subagents")["options"][1]
    stop["description"] = "Something else"
    async with town(fake):
        pass

    assert fake.syncs == 2
    assert "Something else" not in str(fake.commands)


async def test_commands_of_others_stay(fake: FakeDiscord) -> None:
    fake.commands.append(FOREIGN)

    async with town(fake):
        pass
    async with town(fake):
        pass

    assert known(fake) == sorted(["launch", *OURS])
    assert fake.syncs == 1


async def test_in_chosen_servers_they_are_there_only(fake: FakeDiscord) -> None:
    guild, *_ = people(fake)
    async with town(fake):
        pass
    fake.commands.append(FOREIGN)

    for _ in range(2):
        async with town(fake, commands="guilds", guilds=(str(guild.id),)):
            pass

    assert known(fake) == ["launch"]
    assert known(fake, guild.id) == OURS
    assert fake.syncs == 3


async def test_when_they_are_everywhere_again_no_server_has_them_twice(fake: FakeDiscord) -> None:
    guild, *_ = people(fake)
    async with town(fake, commands="guilds", guilds=(str(guild.id),)):
        pass
    async with town(fake, commands="global", guilds=(str(guild.id),)):
        pass

    assert known(fake) == OURS
    assert known(fake, guild.id) == []


async def test_switched_off_discord_is_not_even_asked(fake: FakeDiscord) -> None:
    async with town(fake, commands="off"):
        pass

    assert not fake.requests("GET", "/applications/{id}/commands")
    assert fake.syncs == 0


async def test_a_server_that_is_closed_to_them_is_named_and_the_bot_listens(
    fake: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    guild, *_ = people(fake)
    other = fake.add_guild("Closed", bot=False)

    ids = (str(other.id), str(guild.id))
    async with town(fake, commands="guilds", guilds=ids) as here:
        await fake.say(here.alice, here.general, "hello", mention=True)
        await here.heard()

    assert known(fake, guild.id) == OURS
    assert f"in the server {other.id} could not be registered" in caplog.text
    assert "oauth2/authorize" in caplog.text


async def test_when_discord_does_not_take_them_the_bot_listens(
    fake: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    fake.fail("PUT", "/applications/{id}/commands", status=400, text="Not like that")

    async with town(fake) as here:
        await fake.say(here.alice, here.general, "hello", mention=True)
        await here.heard()

    assert "Not like that" in caplog.text
    assert "the next start tries again" in caplog.text


def test_what_discord_adds_makes_no_difference_and_what_we_say_does() -> None:
    ours: Json = {
        "name": "a",
        "type": 1,
        "description": "A",
        "contexts": [0, 1, 2],
        "options": [{"name": "n", "type": 4, "required": False, "min_value": 0}],
    }
    theirs: Json = {
        **ours,
        "id": "1",
        "version": "2",
        "application_id": "3",
        "nsfw": False,
        "name_localizations": None,
        "contexts": [2, 0, 1],
        "options": [{"name": "n", "type": 4, "min_value": 0, "autocomplete": False}],
    }

    assert comparable([ours]) == comparable([theirs])
    without_least = {"name": "n", "type": 4}
    assert comparable([ours]) != comparable([{**ours, "options": [without_least]}])
    assert comparable([ours]) != comparable([{**ours, "contexts": [0]}])
    assert comparable([ours], guild=True) == comparable([{**ours, "contexts": [0]}], guild=True)

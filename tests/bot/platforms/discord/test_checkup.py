"""What `doctor` asks Discord: every problem is named with what to click."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from bot.checks import Check
from bot.conversations.command_table import COMMANDS
from bot.platforms.discord import registration
from bot.platforms.discord.checkup import look
from bot.platforms.discord.client import open_client
from bot.platforms.discord.portal import PERMISSIONS
from bot.platforms.discord.settings import DiscordSettings
from bot.values import Place
from tests.fakes.discord.server import FakeDiscord


@pytest.fixture
async def fake() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord.open() as opened:
        opened.application_flags = 1 << 19
        yield opened


def settings_for(fake: FakeDiscord, **more: Any) -> DiscordSettings:
    return DiscordSettings(
        **{
            "token": SecretStr(fake.token),
            "api_url": fake.api_url,
            "gateway_url": fake.gateway_url,
            **more,
        }
    )


def about(found: list[Check], words: str) -> Check:
    """Return the one remark with these words."""
    (remark,) = [each for each in found if words in each.text]
    return remark


async def test_a_bot_that_is_set_up_is_found_good_in_all(fake: FakeDiscord) -> None:
    guild = fake.add_guild("Farm")
    settings = settings_for(fake, guilds=[guild.id])
    async with open_client(settings) as client:
        await registration.sync(client, COMMANDS)

    found = await look(settings)

    assert [remark.good for remark in found] == [True] * len(found)
    assert about(found, "the token is").text == "the token is retinue's, of “Retinue”."
    assert (
        "in threads it receives messages without a mention"
        in about(found, "Message Content Intent").text
    )
    assert "it is in 1 server" in about(found, "add it to another").text
    assert about(found, "slash commands").text.endswith(
        "/retinue, /retinue-admin, /subagents are registered."
    )
    assert fake.gateway.identifies == 0


async def test_a_bot_that_is_new_is_told_its_next_steps(fake: FakeDiscord) -> None:
    fake.application_flags = 0

    found = await look(settings_for(fake))

    assert not any(remark.good is False for remark in found)
    invite = f"client_id={fake.application_id}&scope=bot+applications.commands"
    assert f"{invite}&permissions={PERMISSIONS.value}" in about(found, "in no server yet").text
    content = about(found, "without a mention")
    assert content.good is None
    assert f"/developers/applications/{fake.application_id}/bot" in content.text
    assert "not registered yet; `serve` registers them" in about(found, "slash commands").text


async def test_a_token_that_is_refused_is_all_there_is_to_say(fake: FakeDiscord) -> None:
    (found,) = await look(settings_for(fake, token=SecretStr("not-the-token")))

    assert found.good is False
    assert "press Reset Token" in found.text
    assert "not-the-token" not in found.text


@pytest.mark.parametrize(
    ("application", "advice"),
    [
        ({"interactions_endpoint_url": "https://e.com/x"}, "empty Interactions Endpoint URL"),
        ({"bot_require_code_grant": True}, "switch off Requires OAuth2 Code Grant"),
    ],
)
async def test_settings_that_keep_it_from_working_are_bad(
    fake: FakeDiscord, application: dict[str, object], advice: str
) -> None:
    fake.application = application

    remark = about(await look(settings_for(fake)), advice)

    assert remark.good is False
    assert f"/developers/applications/{fake.application_id}/" in remark.text


@pytest.mark.parametrize(("public", "said"), [(True, "everyone may"), (False, "is private")])
async def test_it_says_who_may_add_the_bot(fake: FakeDiscord, public: bool, said: str) -> None:
    fake.application = {"bot_public": public}

    assert about(await look(settings_for(fake)), said).good


async def test_a_server_that_is_configured_and_where_it_is_not_is_bad(fake: FakeDiscord) -> None:
    farm = fake.add_guild("Farm")

    found = await look(settings_for(fake, guilds=[farm.id, 123456], commands="guilds"))

    assert about(found, "`discord.guilds` names 123456").good is False
    assert about(found, "slash commands").text.startswith(f"slash commands in the server {farm.id}")


async def test_commands_of_another_version_are_told_apart(fake: FakeDiscord) -> None:
    settings = settings_for(fake)
    async with open_client(settings) as client:
        await registration.sync(client, COMMANDS)
    fake.commands[0]["description"] = "As it was before"

    found = await look(settings)

    assert "are those of another version" in about(found, "slash commands").text
    off = await look(settings_for(fake, commands="off"))
    assert about(off, "slash commands").text == "slash commands: another process registers them."


async def test_what_fails_in_the_middle_keeps_what_was_found(fake: FakeDiscord) -> None:
    fake.fail("GET", "/applications/{id}/commands", status=503)

    found = await look(settings_for(fake))

    assert found[0].good
    assert found[-1].good is False
    assert "503" in found[-1].text


async def test_discord_that_does_not_answer_is_left_after_a_while(
    fake: FakeDiscord,
) -> None:
    fake.fail("GET", "/users/@me", status=502, times=None)

    (found,) = await look(settings_for(fake), patience_seconds=0.3)

    assert found.good is False
    assert "did not answer within 0.3 s" in found.text
    assert "`discord.api_url`" in found.text


async def test_an_admin_channel_that_cannot_be_written_is_named(fake: FakeDiscord) -> None:
    guild = fake.add_guild("Farm")
    open_, closed = fake.add_channel(guild, "ops"), fake.add_channel(guild, "secret")
    guild.deny(closed, "send_messages")
    places = [
        Place("discord", str(guild.id), str(open_.id)),
        Place("discord", str(guild.id), str(closed.id)),
        Place("discord", str(guild.id), "404"),
        Place("discord", "404", "405"),
    ]

    found = await look(settings_for(fake), admin_channels=places)

    assert about(found, "may write in the admin channel #ops").good
    assert [each.good for each in found[-3:]] == [False] * 3
    assert "no such channel" in found[-2].text
    assert "not in that server" in found[-1].text

"""Discord as a whole: opened for speaking, or for hearing as well, and closed without a loss."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from bot.errors import ConfigError
from bot.platforms.base import RunCard
from bot.platforms.discord.platform import open_platform
from bot.platforms.discord.settings import DiscordSettings
from bot.values import Identity, Place, RunStatus, new_run_id
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.inbound import FakeInboundHandler


@pytest.fixture
async def fake() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord.open() as opened:
        yield opened


def settings_for(fake: FakeDiscord, token: str = "") -> DiscordSettings:
    return DiscordSettings(
        token=SecretStr(token or fake.token),
        api_url=fake.api_url,
        gateway_url=fake.gateway_url,
    )


async def test_for_speaking_it_only_logs_in(fake: FakeDiscord) -> None:
    async with open_platform(settings_for(fake), receives=False) as discord:
        assert discord.outlet.platform == discord.intake.platform == "discord"

    assert [sent.path for sent in fake.sent] == ["/users/@me", "/oauth2/applications/@me"]
    assert fake.gateway.identifies == 0


async def test_for_hearing_it_has_its_commands_and_listens_until_stopped(
    fake: FakeDiscord,
) -> None:
    async with open_platform(settings_for(fake), receives=True) as discord:
        running = asyncio.ensure_future(discord.intake.run(FakeInboundHandler()))
        await fake.until(lambda: fake.gateway.connected and fake.commands, "a bot that hears")
        running.cancel()
        await asyncio.wait({running})
        await fake.until(lambda: not fake.gateway.connections, "a bot that hears no more")

    names = sorted(command["name"] for command in fake.commands)
    assert names == ["ask", "retinue", "retinue-admin", "subagents"]


async def test_what_was_to_be_shown_last_is_shown_before_it_closes(fake: FakeDiscord) -> None:
    guild = fake.add_guild("Farm")
    channel = fake.add_channel(guild, "general")
    card = RunCard(
        run_id=new_run_id(),
        owner=Identity("discord", "", "1001"),
        place=Place("discord", str(guild.id), str(channel.id)),
        label="tea",
        agent="general",
        status=RunStatus.COMPLETED,
    )

    async with open_platform(settings_for(fake), receives=False) as discord:
        discord.outlet.show_card(card)

    (message,) = fake.messages(channel)
    assert "completed" in message.text()


async def test_a_token_that_is_refused_leaves_nothing_open(fake: FakeDiscord) -> None:
    with pytest.raises(ConfigError, match="Reset Token"):
        async with open_platform(settings_for(fake, "not-the-token"), receives=True):
            pass

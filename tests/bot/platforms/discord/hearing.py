"""A client that really listens to the fake Discord, and somebody who hears what it hands on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import discord
from pydantic import SecretStr

from bot.platforms.base import CommandReply
from bot.platforms.discord.buttons import Row, RunButton, Unkept
from bot.platforms.discord.client import RetinueClient, open_client
from bot.platforms.discord.commands import on_interaction
from bot.platforms.discord.intake import DiscordIntake
from bot.platforms.discord.people import identity_of
from bot.platforms.discord.questions import AnswerButton
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.messaging.intake import STORE_PAUSES
from bot.tasks import Tasks
from bot.values import Identity
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.things import Channel, Guild, Message, User
from tests.fakes.inbound import FakeInboundHandler

CONTENT_ALLOWED = 1 << 18
QUESTION = "0f" * 16
RUN = "1a2b3c4d-0000-4000-8000-000000000001"


@dataclass
class Town:
    """A server with a channel and two people, and the bot that listens there."""

    fake: FakeDiscord
    inbound: FakeInboundHandler
    client: RetinueClient
    listening: "asyncio.Task[None]"
    guild: Guild
    general: Channel
    alice: User
    bob: User

    def answers(self, text: str, reply: CommandReply | str) -> None:
        """Let the core answer a command."""
        self.inbound.commands[text] = CommandReply(text=reply) if isinstance(reply, str) else reply

    async def heard(self, count: int = 1) -> None:
        """Wait until so many messages and commands were heard."""
        await self.inbound.until(lambda: len(self.inbound.heard) >= count, f"{count} messages")

    async def said(self, channel: Channel, count: int = 1) -> list[Message]:
        """Wait until the bot has said something in a channel so many times."""
        fake = self.fake
        await fake.until(lambda: len(fake.answers(channel)) >= count, f"{count} answers")
        return fake.answers(channel)

    async def post(self, channel: Channel, *items: discord.ui.DynamicItem[Any]) -> Message:
        """Let the bot post buttons below a text, as another process might have done."""
        there = self.client.get_partial_messageable(channel.id)
        sent = await there.send("Look:", view=Row(*items))
        return channel.messages[sent.id]


class Card(Unkept, discord.ui.LayoutView):
    """A message of components with buttons in a row."""

    def __init__(self, text: str, *items: discord.ui.DynamicItem[Any]) -> None:
        super().__init__(timeout=None)
        row: discord.ui.ActionRow[Card] = discord.ui.ActionRow()
        for item in items:
            row.add_item(item)
        self.add_item(discord.ui.Container(discord.ui.TextDisplay(text), row))


async def show(here: Town, text: str, *items: discord.ui.DynamicItem[Any]) -> Message:
    """Post a card."""
    there = here.client.get_partial_messageable(here.general.id)
    sent = await there.send(view=Card(text, *items))
    return here.general.messages[sent.id]


def who(user: User) -> Identity:
    return identity_of(user.id)


def people(fake: FakeDiscord) -> tuple[Guild, Channel, User, User]:
    """Make a server with a channel and two people, unless they are there."""
    if fake.guilds:
        guild = next(iter(fake.guilds.values()))
        named = {user.name: user for user in fake.users.values()}
        general = next(each for each in fake.channels_of(guild) if each.name == "general")
        return guild, general, named["alice"], named["bob"]
    guild = fake.add_guild("Town")
    general = fake.add_channel(guild, "general")
    alice, bob = fake.add_user("alice"), fake.add_user("bob")
    fake.join(guild, alice)
    fake.join(guild, bob)
    return guild, general, alice, bob


@asynccontextmanager
async def town(
    fake: FakeDiscord,
    inbound: FakeInboundHandler | None = None,
    *,
    pauses: tuple[float, ...] = STORE_PAUSES,
    **settings: Any,
) -> AsyncIterator[Town]:
    """Let the bot listen while the block lasts."""
    inbound = inbound or FakeInboundHandler()
    guild, general, alice, bob = people(fake)
    made = DiscordSettings(
        token=SecretStr(fake.token), api_url=fake.api_url, gateway_url=fake.gateway_url, **settings
    )
    async with open_client(made) as client:
        client._connection.guild_ready_timeout = 0.01
        client.event(on_interaction)
        client.add_dynamic_items(RunButton, AnswerButton)
        tasks = Tasks()
        listening = tasks.start(
            DiscordIntake(client, tasks, pauses=pauses).run(inbound), name="listen"
        )
        try:
            # All that begins with it is over then: the commands were looked at.
            await fake.until(
                lambda: listening.done() or (client.is_ready() and len(tasks) == 1),
                "a client that listens",
            )
            yield Town(fake, inbound, client, listening, guild, general, alice, bob)
        finally:
            await tasks.close()

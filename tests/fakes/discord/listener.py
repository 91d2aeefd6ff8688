"""A plain client of discord.py that remembers what it was told."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import discord
import yarl
from discord import app_commands
from discord.gateway import DiscordWebSocket
from discord.http import Route

from tests.fakes.discord.server import FakeDiscord

#: After the last server the library waits this long for another one.
GUILD_READY_SECONDS = 0.05


class Listener(discord.Client):
    """Remembers what it was told.

    Attributes:
        heard: Names of events, without `on_`, and what came with them.
    """

    def __init__(self, *, intents: discord.Intents, **options: Any) -> None:
        self.heard: list[tuple[str, tuple[Any, ...]]] = []
        super().__init__(intents=intents, guild_ready_timeout=GUILD_READY_SECONDS, **options)
        self.tree: app_commands.CommandTree[Listener] = app_commands.CommandTree(
            self,
            allowed_contexts=app_commands.AppCommandContext(
                guild=True, dm_channel=True, private_channel=True
            ),
            allowed_installs=app_commands.AppInstallationType(guild=True, user=True),
        )

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Wait for nothing: the library would wait five seconds before it identifies again."""

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        """Remember an event, and go on with it."""
        self.heard.append((event, args))
        super().dispatch(event, *args, **kwargs)

    def events(self, name: str) -> list[tuple[Any, ...]]:
        """Return what came with the events of one name."""
        return [args for event, args in self.heard if event == name]

    @property
    def messages(self) -> list[discord.Message]:
        """The messages that were said by others."""
        return [each for (each,) in self.events("message") if each.author != self.user]


class ShardedListener(Listener, discord.AutoShardedClient):
    """The same for some of the shards."""


@contextmanager
def addresses(fake: FakeDiscord) -> Iterator[None]:
    """Let discord.py talk to the fake while the block lasts."""
    usual = Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY
    Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = fake.api_url, yarl.URL(fake.gateway_url)
    try:
        yield
    finally:
        Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = usual


@asynccontextmanager
async def logged_in(
    fake: FakeDiscord, kind: type[Listener] = Listener, *, token: str = "", **options: Any
) -> AsyncIterator[Listener]:
    """Log in, without the gateway."""
    options.setdefault("intents", discord.Intents.default())
    with addresses(fake):
        async with kind(**options) as client:
            await client.login(token or fake.token)
            yield client


@asynccontextmanager
async def listening(
    fake: FakeDiscord, kind: type[Listener] = Listener, **options: Any
) -> AsyncIterator[Listener]:
    """Log in and be connected to the gateway while the block lasts."""
    async with logged_in(fake, kind, **options) as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(client.connect())
        await fake.ready()
        await client.wait_until_ready()
        try:
            yield client
        finally:
            await client.close()

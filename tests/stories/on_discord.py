"""The whole bot in Discord: real discord.py, real engine, real database, a scripted model."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from bot.platforms.discord.platform import open_platform
from bot.platforms.discord.settings import DiscordSettings
from bot.running import Bot
from bot.subagents.limits import SubagentSettings
from bot.tasks import Tasks
from bot.values import Json
from skills.base import Skill
from tests.fakes.anthropic_server import FakeAnthropic, Reply
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.things import Channel, Guild, Message, Pinged, User
from tests.stories.live_file import LiveFile, open_watched
from tests.stories.stage import Gate, Play, config_for, listens

#: The application may read messages that do not mention it.
MESSAGE_CONTENT = 1 << 18


@dataclass
class Server:
    """A Discord server with two people who do not trust each other, and an admin."""

    discord: FakeDiscord
    guild: Guild = field(init=False)
    channel: Channel = field(init=False)
    alice: User = field(init=False)
    bob: User = field(init=False)
    root: User = field(init=False)

    def __post_init__(self) -> None:
        self.discord.application_flags = MESSAGE_CONTENT
        self.guild = self.discord.add_guild("Farm")
        self.channel = self.discord.add_channel(self.guild, "general")
        self.alice, self.bob, self.root = map(self.discord.add_user, ("alice", "bob", "root"))
        for user in (self.alice, self.bob, self.root):
            self.discord.join(self.guild, user)


@dataclass
class Scene:
    """A running bot, the Discord server that it is on, and its model."""

    bot: Bot
    server: Server
    model: FakeAnthropic
    gate: Gate

    @property
    def discord(self) -> FakeDiscord:
        """What the bot and the people are connected to."""
        return self.server.discord

    def said(self, channel: Channel) -> list[Message]:
        """Return what the bot has said in a channel and what stands there still, in order."""
        bot = self.discord.bot.id
        return [each for each in self.discord.messages(channel) if each.author_id == bot]

    async def reads(self, channel: Channel, words: str) -> Message:
        """Wait until a message of the bot holds these words, and return it."""
        await self.discord.until(
            lambda: any(words in each.text() for each in self.said(channel)),
            f"{words!r} in #{channel.name}",
        )
        return next(each for each in self.said(channel) if words in each.text())

    async def thread_of(self, message: Message) -> Channel:
        """Wait until a message has a thread, and return that."""
        await self.discord.until(lambda: message.thread is not None, "a thread")
        assert message.thread is not None
        return message.thread

    async def card(self, channel: Channel, label: str, state: str = "running") -> Message:
        """Wait until the card of a run shows a state, and return its message."""

        def shown() -> list[Message]:
            return [
                each
                for each in self.said(channel)
                if each.buttons() and label in each.text() and state in each.text()
            ]

        await self.discord.until(shown, f"a card of {label}, {state}")
        return shown()[0]

    def pings(self) -> list[Pinged]:
        """Return everybody who was ever notified by the bot, in every channel."""
        channels = self.discord.channels.values()
        return [
            pinged
            for channel in channels
            for each in channel.messages.values()
            if each.author_id == self.discord.bot.id
            for pinged in (*each.pings, *each.edit_pings)
        ]


def settings_for(discord: FakeDiscord, **more: Any) -> DiscordSettings:
    """Return settings for the fake."""
    return DiscordSettings(
        token=SecretStr(discord.token),
        api_url=discord.api_url,
        gateway_url=discord.gateway_url,
        **more,
    )


@asynccontextmanager
async def new_server() -> AsyncIterator[Server]:
    """Open a Discord with one server in it."""
    async with FakeDiscord.open() as discord:
        yield Server(discord)


@asynccontextmanager
async def on_discord(
    database_url: str,
    server: Server,
    play: Callable[[Json], Reply] | Play,
    *,
    gate: Gate | None = None,
    further_skills: Sequence[Skill] = (),
    settings: Json | None = None,
    file: LiveFile | None = None,
    **sections: Any,
) -> AsyncIterator[Scene]:
    """Start the bot on a server; `settings` go into `discord:`, `sections` beside it."""
    gate = gate or Gate()
    async with FakeAnthropic(play) as model:
        discord = settings_for(server.discord, **(settings or {}))
        # Whoever speaks in a story has spoken within a minute.
        sections.setdefault("subagents", SubagentSettings(present_seconds=0))
        config = config_for(database_url, model.url, discord=discord, **sections)
        skills = [gate.skill, *further_skills]
        async with open_platform(discord, receives=True) as platform:
            outlets = {platform.outlet.platform: platform.outlet}
            async with (
                open_watched(config, outlets, file=file, further_skills=skills) as bot,
                running(platform.intake.run(bot.orchestrator)),
            ):
                await server.discord.ready()
                await listens(bot)
                yield Scene(bot, server, model, gate)


@asynccontextmanager
async def running(work: Any) -> AsyncIterator[None]:
    """Do something in the background as long as the block lasts."""
    tasks = Tasks()
    tasks.start(work, name="intake")
    try:
        yield
    finally:
        with suppress(Exception):
            await tasks.close()

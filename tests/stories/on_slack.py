"""The whole bot in Slack: the real Bolt and SDK, real engine, real database, a scripted model."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import SecretStr

from bot.platforms.slack.live import Tempo
from bot.platforms.slack.platform import open_platform
from bot.platforms.slack.settings import SlackSettings
from bot.platforms.slack.sockets import PING_SECONDS
from bot.running import Bot
from bot.subagents.limits import SubagentSettings
from bot.values import Json
from migrations.run import open_database
from skills.base import Skill
from tests.fakes.anthropic_server import FakeAnthropic, Reply
from tests.fakes.patience import PATIENCE_SECONDS
from tests.fakes.ports import free_port
from tests.fakes.slack.messages import Channel, Message
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.shapes import User
from tests.stories.live_file import LiveFile, open_watched
from tests.stories.on_discord import running
from tests.stories.stage import Gate, Play, config_for, listens

MANIFEST = Path(__file__).parents[2] / "deploy" / "slack-manifest.yaml"

#: Faster than people can look.
QUICK = Tempo(
    edit_seconds=0.05,
    grow_seconds=0.02,
    refresh_seconds=30.0,
    pauses=(0.05, 0.05),
    last_pauses=(0.05, 0.05),
)


@dataclass(frozen=True)
class Way:
    """How Slack reaches the bot, and where that keeps what it knows."""

    transport: Literal["socket", "http"]
    database_url: str


@dataclass
class Office:
    """A Slack workspace with two people who do not trust each other, and an admin."""

    slack: FakeSlack
    channel: Channel = field(init=False)
    alice: User = field(init=False)
    bob: User = field(init=False)
    root: User = field(init=False)

    def __post_init__(self) -> None:
        self.slack.use_manifest(yaml.safe_load(MANIFEST.read_text()))
        self.channel = self.slack.add_channel("general")
        self.alice, self.bob, self.root = map(self.slack.add_user, ("alice", "bob", "root"))


@dataclass
class Scene:
    """A running bot, the workspace that it is in, and its model."""

    bot: Bot
    office: Office
    model: FakeAnthropic
    gate: Gate

    @property
    def slack(self) -> FakeSlack:
        """What the bot and the people are connected to."""
        return self.office.slack

    def said(self, thread: Message) -> list[Message]:
        """Return what the bot has said in a thread and what stands there still, in order."""
        return self.slack.said(thread.channel, thread)

    async def reads(self, thread: Message | Channel, words: str) -> Message:
        """Wait until a message of the bot in a thread or a channel holds these words."""
        channel = thread.channel if isinstance(thread, Message) else thread
        within = thread if isinstance(thread, Message) else None

        def found() -> list[Message]:
            said = self.slack.said(channel, within)
            return [each for each in said if words in each.readable()]

        await self.slack.until(found, f"{words!r} in #{channel.name}")
        return found()[0]

    async def whispered(self, user: User, words: str) -> Message:
        """Wait until this user alone was shown these words."""

        def found() -> list[Message]:
            return [each for each in self.slack.ephemerals(user) if words in each.readable(user)]

        await self.slack.until(found, f"{words!r} for {user.name} alone")
        return found()[0]

    async def card(self, thread: Message, label: str, state: str = "running") -> Message:
        """Wait until the card of a run shows a state, and return its message."""

        def shown() -> list[Message]:
            return [
                each
                for each in self.said(thread)
                if each.buttons() and label in each.readable() and state in each.readable()
            ]

        await self.slack.until(shown, f"a card of {label}, {state}")
        return shown()[0]

    async def acknowledged(self) -> None:
        """Wait until everything that Slack has told the bot is acknowledged, in time."""
        told = self.slack.deliveries.all
        await self.slack.until(lambda: all(each.acked for each in told), "acknowledgements")
        assert max(each.acked_after or 0 for each in told) < 3

    def pings(self) -> list[str]:
        """Return whom anything that the bot ever said would notify."""
        bots = {team.bot.id for team in self.slack.world.teams.values()}
        rooms = self.slack.world.channels.values()
        written = [m for room in rooms for m in room.messages.values() if m.user.id in bots]
        return [
            ping for message in (*written, *self.slack.world.ephemerals) for ping in message.pings
        ]


def settings_for(slack: FakeSlack, transport: str, **more: Any) -> SlackSettings:
    """Return settings for the fake."""
    values: Json = {
        "bot_token": SecretStr(slack.bot_token),
        "app_token": SecretStr(slack.app_token),
        "signing_secret": SecretStr(slack.signing_secret),
        "mode": transport,
        "api_url": slack.api_url,
    }
    return SlackSettings(**(values | more))


@asynccontextmanager
async def new_office(patience: float = PATIENCE_SECONDS) -> AsyncIterator[Office]:
    """Open a Slack with one workspace in it."""
    async with FakeSlack.open(patience=patience) as slack:
        yield Office(slack)


@asynccontextmanager
async def on_slack(
    way: Way,
    office: Office,
    play: Callable[[Json], Reply] | Play,
    *,
    gate: Gate | None = None,
    further_skills: Sequence[Skill] = (),
    settings: Json | None = None,
    tempo: Tempo = QUICK,
    ping_seconds: float = PING_SECONDS,
    current: Callable[[SlackSettings], SlackSettings] = lambda given: given,
    file: LiveFile | None = None,
    **sections: Any,
) -> AsyncIterator[Scene]:
    """Start the bot in a workspace; `settings` go into `slack:`, `sections` beside it.

    `current` returns what stands under `slack:` now.
    """
    gate, slack = gate or Gate(), office.slack
    settings = {"port": free_port(), **(settings or {})}
    async with FakeAnthropic(play) as model:
        given = settings_for(slack, way.transport, **settings)
        # Whoever speaks in a story has spoken within a minute.
        sections.setdefault("subagents", SubagentSettings(present_seconds=0))
        config = config_for(way.database_url, model.url, slack=given, **sections)
        if way.transport == "http":
            slack.connect_http(f"http://127.0.0.1:{given.port}/slack/events")
        skills = [gate.skill, *further_skills]
        async with (
            open_database(config.database) as database,
            open_platform(
                lambda: current(given),
                database,
                receives=True,
                tempo=tempo,
                ping_seconds=ping_seconds,
            ) as platform,
        ):
            outlets = {platform.outlet.platform: platform.outlet}
            async with (
                open_watched(
                    config, outlets, file=file, database=database, further_skills=skills
                ) as bot,
                running(platform.intake.run(bot.orchestrator)),
            ):
                await ready(slack, way.transport, given.port)
                await listens(bot)
                yield Scene(bot, office, model, gate)


async def ready(slack: FakeSlack, transport: str, port: int) -> None:
    """Wait until the bot hears."""
    if transport == "socket":
        await slack.connected()
        return
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return

"""A bot that really listens to the fake Slack, and somebody who hears what it hands on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from pydantic import SecretStr
from slack_sdk.web.async_client import AsyncWebClient

from bot.platforms.base import CommandReply
from bot.platforms.messaging.intake import STORE_PAUSES
from bot.platforms.slack import sockets
from bot.platforms.slack.bolt import bolt_app
from bot.platforms.slack.clients import Clients, Installed, OneClient, new_client, open_session
from bot.platforms.slack.intake import STORED_SECONDS, SlackMessageReceiver
from bot.platforms.slack.interactions import ACK_SECONDS, SlackReceiver
from bot.platforms.slack.outlet import SlackOutlet
from bot.platforms.slack.people import SlackAccessPolicy, SlackUser
from bot.platforms.slack.platform import Slack, open_platform
from bot.platforms.slack.settings import SlackSettings
from bot.tasks import Tasks
from bot.values import Identity, Json, Place
from db.database import Database
from tests.bot.platforms.slack.installing import nowhere
from tests.bot.platforms.slack.speaking import AT_ONCE
from tests.fakes.inbound import FakeInboundHandler
from tests.fakes.slack.messages import Channel, Message
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.shapes import User


@dataclass
class Town:
    """A workspace with a channel and two people."""

    fake: FakeSlack
    inbound: FakeInboundHandler
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
        await fake.until(lambda: len(fake.said(channel)) >= count, f"{count} answers")
        return fake.said(channel)

    async def whispered(self, user: User, count: int = 1) -> list[Message]:
        """Wait until somebody alone was shown so many messages."""
        fake = self.fake
        await fake.until(lambda: len(fake.ephemerals(user)) >= count, f"{count} for {user.name}")
        return fake.ephemerals(user)

    def who(self, user: User) -> Identity:
        """Return somebody as the core knows them."""
        return Identity("slack", user.team.enterprise or user.team.id, user.id)

    def place(self, message: Message) -> Place:
        """Return where a message is answered."""
        channel = message.channel.id
        return Place("slack", self.fake.team.id, channel, message.root_ts, message.ts)

    def talks(self, user: User, thread: Message) -> None:
        """Let somebody be in a conversation with the bot in a thread."""
        self.inbound.talking.add((self.who(user), thread.channel.id, thread.root_ts))

    def bodies(self, message: Message) -> list[Json]:
        """Return what Slack has told of a message, or would have."""
        told = message.events or self.fake.events.posted(message, self.fake.team)
        return [delivery.payload for delivery in told]


@dataclass
class Here(Town):
    """The whole platform, which listens."""

    platform: Slack


@dataclass
class Counter(Town):
    """All parts that hear, put together by hand, so that a test may be quicker than they are."""

    tasks: Tasks
    clients: Clients
    receiver: SlackReceiver
    listener: SlackMessageReceiver

    async def knows(self, user: User) -> None:
        """Let the bot know somebody's name, so that it need not ask when there is little time."""
        team = self.fake.team
        home = user.team.enterprise or user.team.id
        await self.receiver.outlet.names.of(
            SlackUser(account=user.id, home=home, workspace=team.id)
        )

    async def take(self, message: Message) -> None:
        """Let the bot take all that Slack tells of a message.

        Raises:
            DeliveryError: It is not stored yet.
        """
        for body in self.bodies(message):
            await self.listener.take(body)


def people(fake: FakeSlack) -> tuple[Channel, User, User]:
    """Make a channel and two people, unless they are there."""
    channels = [each for each in fake.world.channels.values() if each.name == "general"]
    if channels:
        named = {user.name: user for user in fake.world.users.values()}
        return channels[0], named["alice"], named["bob"]
    alice, bob = fake.add_user("alice"), fake.add_user("bob")
    return fake.add_channel("general"), alice, bob


def settings_for(fake: FakeSlack, **more: Any) -> SlackSettings:
    """Return settings that lead to a fake Slack, over Socket Mode unless it is said."""
    given: Json = {
        "bot_token": SecretStr(fake.bot_token),
        "app_token": SecretStr(fake.app_token),
        "signing_secret": SecretStr(fake.signing_secret),
        "api_url": fake.api_url,
    }
    return SlackSettings(**(given | more))


@asynccontextmanager
async def listening(
    fake: FakeSlack,
    inbound: FakeInboundHandler | None = None,
    *,
    database: Database | None = None,
    ping_seconds: float = sockets.PING_SECONDS,
    **settings: Any,
) -> AsyncIterator[Here]:
    """Let the whole platform listen while the block lasts, over Socket Mode.

    Args:
        fake: Slack.
        inbound: Hear.
        database: For many workspaces; one workspace needs none.
        ping_seconds: How often it is looked whether a connection still stands.
        settings: Whatever else stands under `slack:`.
    """
    inbound, made = inbound or FakeInboundHandler(), settings_for(fake, **settings)
    general, alice, bob = people(fake)
    tasks = Tasks()
    async with (
        nowhere() as unreachable,
        open_platform(
            made,
            database or unreachable,
            receives=True,
            tempo=AT_ONCE,
            ping_seconds=ping_seconds,
        ) as platform,
    ):
        running = tasks.start(platform.intake.run(inbound), name="listen")
        try:
            await fake.until(
                lambda: running.done() or fake.deliveries.transport.ready, "a bot that listens"
            )
            yield Here(fake, inbound, general, alice, bob, platform)
        finally:
            await tasks.close()


@asynccontextmanager
async def counter(
    fake: FakeSlack,
    inbound: FakeInboundHandler | None = None,
    *,
    clients: Clients | None = None,
    reception: SlackAccessPolicy | None = None,
    pauses: tuple[float, ...] = STORE_PAUSES,
    stored_seconds: float = STORED_SECONDS,
    ack_seconds: float = ACK_SECONDS,
    **settings: Any,
) -> AsyncIterator[Counter]:
    """Put together what hears; it hears what a test lets it take, or what `connect` brings.

    Args:
        fake: Slack.
        inbound: Hear.
        clients: Know the tokens; those of the one workspace if `None`.
        reception: Lets people in; as the settings say if `None`.
        pauses: How long to wait before each further attempt at handing on what was said.
        stored_seconds: How long Slack waits for a message to be stored.
        ack_seconds: How long Slack waits for everything else.
        settings: Whatever else stands under `slack:`.
    """
    inbound, made = inbound or FakeInboundHandler(), settings_for(fake, **settings)
    general, alice, bob = people(fake)
    async with open_session() as session:
        tasks = Tasks()
        known = clients or OneClient(installed_in(fake, new_client_of(fake, session)), fake.team.id)
        outlet = SlackOutlet(known, made, tasks, tempo=AT_ONCE, session=session)
        receiver = SlackReceiver(
            inbound=inbound,
            clients=known,
            outlet=outlet,
            reception=reception or SlackAccessPolicy(made),
            tasks=tasks,
            ack_seconds=ack_seconds,
        )
        listener = SlackMessageReceiver(receiver, stored_seconds=stored_seconds, pauses=pauses)
        try:
            yield Counter(fake, inbound, general, alice, bob, tasks, known, receiver, listener)
        finally:
            outlet.status.close()
            await tasks.close()


@asynccontextmanager
async def connected(at: Counter) -> AsyncIterator[None]:
    """Let what stands at a counter hear over Socket Mode, through the real Bolt app."""
    made = settings_for(at.fake)
    async with open_session() as session:
        app = bolt_app(at.receiver, at.listener, made, session)
        async with sockets.connected(app, made, session):
            await at.fake.connected()
            yield


def new_client_of(fake: FakeSlack, session: aiohttp.ClientSession) -> AsyncWebClient:
    """Return a client with the token of the first workspace."""
    return new_client(fake.bot_token, api_url=fake.api_url, session=session)


def installed_in(fake: FakeSlack, client: AsyncWebClient) -> Installed:
    """Return who the bot is in the first workspace."""
    me = fake.team.bot
    return Installed(
        client=client,
        token=fake.bot_token,
        user=me.id,
        bot=me.bot_id,
        enterprise=fake.team.enterprise,
    )

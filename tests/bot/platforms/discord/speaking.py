"""An outlet that really speaks to the fake Discord, and what people read and feel there."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from pydantic import SecretStr

from bot.platforms.base import RunCard
from bot.platforms.discord.client import RetinueClient, open_client
from bot.platforms.discord.live import Tempo, Threads
from bot.platforms.discord.outlet import DiscordOutlet
from bot.platforms.discord.people import identity_of
from bot.platforms.discord.sending import Sender
from bot.platforms.discord.settings import DiscordSettings
from bot.tasks import Tasks
from bot.values import Identity, Place, RunStatus
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.things import Channel, Guild, Message, User

RUN = "1a2b3c4d-0000-4000-8000-000000000001"
MESSAGES = "/channels/{id}/messages"
MESSAGE = "/channels/{id}/messages/{id}"
THREADS = "/channels/{id}/messages/{id}/threads"

#: As fast as it goes.
AT_ONCE = Tempo(edit_seconds=0.0, typing_seconds=0.01, pauses=(0.0, 0.0), last_pauses=(0.0, 0.0))
#: The same, and threads that do not open at once are not waited for.
IMPATIENT = replace(AT_ONCE, open_seconds=0.1)

_ESCAPED = re.compile(r"\\([\\*_~|])")


@dataclass
class Stand:
    """A server with a channel where alice said something, and a bot that is about to speak.

    Attributes:
        said: What alice said in the channel.
    """

    fake: FakeDiscord
    client: RetinueClient
    tasks: Tasks
    outlet: DiscordOutlet
    guild: Guild
    channel: Channel
    alice: User
    bob: User
    said: Message

    @property
    def owner(self) -> Identity:
        """Alice, as the core knows her."""
        return identity_of(self.alice.id)

    @property
    def place(self) -> Place:
        """Where alice is answered: in the thread that her message is going to begin."""
        here = self.in_channel
        return Place("discord", here.workspace, here.channel, here.message, here.message)

    @property
    def in_channel(self) -> Place:
        """The same where no threads are wanted."""
        return Place("discord", str(self.guild.id), str(self.channel.id), message=str(self.said.id))

    @property
    def direct(self) -> Place:
        """Alice's direct messages."""
        return Place("discord", channel=str(self.fake.dm(self.alice).id))

    @property
    def thread(self) -> Channel:
        """The thread that alice's message began."""
        return self.fake.channels[self.said.id]

    @property
    def sender(self) -> Sender:
        """A way to send single messages."""
        return Sender(self.client, pauses=AT_ONCE.pauses)

    @property
    def threads(self) -> Threads:
        """Threads, of which nothing is known yet."""
        return Threads(self.client, self.sender, self.tasks)

    async def made_thread(self) -> Channel:
        """Let the thread be there."""
        await self.threads.ready(self.place)
        return self.thread

    async def answered(self, channel: Channel, text: str) -> Message:
        """Wait until the bot's newest message in a channel shows a text."""
        await self.fake.until(
            lambda: text in "".join(each.text() for each in self.fake.answers(channel)[-1:]), text
        )
        return self.fake.answers(channel)[-1]

    def everything(self) -> list[Message]:
        """Return all that the bot said anywhere."""
        return [each for room in self.fake.channels.values() for each in self.fake.answers(room)]


def card_of(stand: Stand, status: RunStatus = RunStatus.RUNNING, **changes: object) -> RunCard:
    values: dict[str, object] = {
        "run_id": RUN,
        "owner": stand.owner,
        "place": stand.place,
        "label": "the news",
        "agent": "general",
        "status": status,
        "tool_calls": 3,
        "tokens": 12345,
        "token_budget": 100000,
    }
    return RunCard(**(values | changes))  # type: ignore[arg-type]


def readable(message: Message) -> str:
    """Return what a user reads in a message, without Discord's escapes."""
    return _ESCAPED.sub(r"\1", message.text())


@asynccontextmanager
async def stand(tempo: Tempo = AT_ONCE, **settings: Any) -> AsyncIterator[Stand]:
    """Log in while the block lasts; nobody listens."""
    async with FakeDiscord.open() as fake:
        guild = fake.add_guild("Town")
        channel = fake.add_channel(guild, "general")
        alice, bob = fake.add_user("alice"), fake.add_user("bob")
        fake.join(guild, alice)
        fake.join(guild, bob)
        said = await fake.say(alice, channel, "what is new?", mention=True)
        given = DiscordSettings(
            token=SecretStr(fake.token),
            api_url=fake.api_url,
            gateway_url=fake.gateway_url,
            **settings,
        )
        async with open_client(given) as client:
            tasks = Tasks()
            outlet = DiscordOutlet(client, given, tasks, tempo=tempo)
            try:
                yield Stand(fake, client, tasks, outlet, guild, channel, alice, bob, said)
            finally:
                await tasks.close()

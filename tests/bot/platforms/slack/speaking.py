"""An outlet that really speaks to the fake Slack, and what people read and feel there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pydantic import SecretStr
from slack_sdk.web.async_client import AsyncWebClient

from bot.platforms.base import Announcement, Confirmation, RunCard
from bot.platforms.slack.budget import WorkspaceBudgets
from bot.platforms.slack.clients import Installed, OneClient, new_client, open_session
from bot.platforms.slack.live import Tempo
from bot.platforms.slack.outlet import SlackOutlet
from bot.platforms.slack.settings import SlackSettings
from bot.tasks import Tasks
from bot.values import Identity, Place, RunStatus
from tests.fakes.slack.calls import Call
from tests.fakes.slack.messages import Channel, Message
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.shapes import User

RUN = "1a2b3c4d-0000-4000-8000-000000000001"

#: As fast as it goes.
AT_ONCE = Tempo(
    edit_seconds=0.0,
    grow_seconds=0.0,
    refresh_seconds=30.0,
    pauses=(0.0, 0.0),
    last_pauses=(0.0, 0.0),
)


def no_limits() -> WorkspaceBudgets:
    """Return budgets that nobody ever waits for."""
    return WorkspaceBudgets(edits=1e9, growths=1e9, streams=1e9)


#: Slack's own refusals of what was sent, whatever it was.
_REFUSED = (
    "invalid_",
    "msg_",
    "no_text",
    "markdown_text_conflict",
    "too_many_attachments",
    "streaming_mode_mismatch",
)


@dataclass
class Stand:
    """A channel where alice said something, and a bot that is about to speak.

    Attributes:
        said: What alice said in the channel.
    """

    fake: FakeSlack
    client: AsyncWebClient
    clients: OneClient
    tasks: Tasks
    outlet: SlackOutlet
    channel: Channel
    alice: User
    bob: User
    said: Message

    @property
    def owner(self) -> Identity:
        """Alice, as the core knows her."""
        return Identity("slack", self.fake.team.id, self.alice.id)

    @property
    def other(self) -> Identity:
        """Bob."""
        return Identity("slack", self.fake.team.id, self.bob.id)

    @property
    def place(self) -> Place:
        """Where alice is answered: in the thread that her message begins."""
        ts = self.said.ts
        return Place("slack", self.fake.team.id, self.channel.id, ts, ts)

    @property
    def in_channel(self) -> Place:
        """The channel itself, where a slash command was typed."""
        return Place("slack", self.fake.team.id, self.channel.id)

    @property
    def direct(self) -> Channel:
        """Alice's direct messages."""
        return self.fake.dm(self.alice)

    def after_a_restart(self) -> SlackOutlet:
        """Return another outlet, which knows nothing of what was said before."""
        return SlackOutlet(self.clients, settings_for(self.fake), self.tasks, tempo=AT_ONCE)

    async def in_direct(self, text: str = "hello") -> Place:
        """Let alice say something to the bot alone, and return where she is answered."""
        said = await self.fake.say(self.alice, self.direct, text)
        return Place("slack", self.fake.team.id, self.direct.id, said.ts, said.ts)

    def shown(self, channel: Channel | None = None) -> list[Message]:
        """Return what the bot said in a channel, threads included."""
        return self.fake.said(channel or self.channel)

    def texts(self, channel: Channel | None = None) -> list[str]:
        """Return what alice reads of it."""
        return [message.readable(self.alice) for message in self.shown(channel)]

    async def shows(self, text: str, channel: Channel | None = None) -> Message:
        """Wait until the bot's newest message in a channel shows a text."""
        await self.fake.until(lambda: text in "".join(self.texts(channel)[-1:]), text)
        return self.shown(channel)[-1]

    def everything(self) -> list[Message]:
        """Return all that the bot said anywhere, to whomever."""
        bot = self.fake.bot_user().id
        rooms = self.fake.world.channels.values()
        written = [m for room in rooms for m in room.messages.values() if m.user.id == bot]
        return written + self.fake.world.ephemerals

    def called(self, method: str) -> list[Call]:
        """Return the calls of a method."""
        return self.fake.called(method)

    def refused(self) -> list[tuple[str, str]]:
        """Return what Slack did not take for what was in it: (method, error)."""
        return [
            (call.method, call.error) for call in self.fake.calls if call.error.startswith(_REFUSED)
        ]

    def pings(self) -> list[str]:
        """Return who would be notified by anything that the bot said."""
        return [ping for message in self.everything() for ping in message.pings]


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


def announcement_of(stand: Stand, **changes: object) -> Announcement:
    values: dict[str, object] = {
        "key": RUN,
        "place": stand.place,
        "owner": stand.owner,
        "title": "the news completed",
        "text": "There is **some**.",
        "footer": "12,345 tokens",
    }
    return Announcement(**(values | changes))  # type: ignore[arg-type]


def question_of(stand: Stand, **changes: object) -> Confirmation:
    values: dict[str, object] = {
        "id": "question-1",
        "owner": stand.owner,
        "place": stand.place,
        "text": "Shall I delete the list?",
        "expires_in_seconds": 600.0,
    }
    return Confirmation(**(values | changes))  # type: ignore[arg-type]


def settings_for(fake: FakeSlack) -> SlackSettings:
    """Return settings that lead to a fake Slack."""
    return SlackSettings(
        bot_token=SecretStr(fake.bot_token),
        app_token=SecretStr(fake.app_token),
        api_url=fake.api_url,
    )


@asynccontextmanager
async def stand(
    tempo: Tempo = AT_ONCE, *, budgets: WorkspaceBudgets | None = None
) -> AsyncIterator[Stand]:
    """Be about to speak while the block lasts; nobody listens."""
    async with FakeSlack.open() as fake, open_session() as session:
        alice, bob = fake.add_user("alice"), fake.add_user("bob")
        channel = fake.add_channel("general")
        said = await fake.say(alice, channel, "what is new?", mention=True)
        settings = settings_for(fake)
        tasks = Tasks()
        client = new_client(fake.bot_token, api_url=fake.api_url, session=session)
        installed = Installed(client=client, token=fake.bot_token, user=fake.bot_user().id, bot="")
        clients = OneClient(installed, fake.team.id)
        outlet = SlackOutlet(clients, settings, tasks, tempo=tempo, budgets=budgets)
        try:
            yield Stand(fake, client, clients, tasks, outlet, channel, alice, bob, said)
        finally:
            outlet.status.close()
            await tasks.close()

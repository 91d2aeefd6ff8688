"""Clicks have their effect once wherever the process is killed; lost ones are not acknowledged."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest
from sqlalchemy import select

from bot.values import Json
from db.database import Database, DatabaseSettings
from db.tables import notes, run_questions, subagent_runs
from tests.fakes.anthropic_server import FakeAnthropic, Reply
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.slack import messages
from tests.fakes.slack.server import FakeSlack
from tests.stories.on_discord import Server, new_server
from tests.stories.on_slack import Office, new_office
from tests.stories.platform_process import mortal_bot
from tests.stories.stage import Play, call, is_run, said

pytestmark = pytest.mark.timeout(180)

PATIENCE = 40.0
HANGS = Reply(text="x", fault="hang")
#: Stores the answer to a run; questions that expire are closed by another statement.
ANSWERED = "UPDATE run_questions SET status=?, whole_run=?"
ASKS = {"permissions": {"rules": {"note_save": "ask"}}}


class Chat(Protocol):
    """Alice's direct messages with the bot."""

    @property
    def fake(self) -> FakeDiscord | FakeSlack: ...

    async def connected(self) -> None:
        """Wait until the bot hears."""

    async def say(self, text: str) -> None:
        """Let Alice say something."""

    def said(self) -> Sequence[tuple[Any, str, Sequence[str]]]:
        """Return what the bot has said: message, text and labels of buttons."""

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until something is so."""

    async def click(self, message: Any, button: str) -> bool:
        """Let Alice click; return whether the bot has acknowledged it."""


@dataclass
class OnDiscord:
    """Direct messages on Discord."""

    server: Server

    def __post_init__(self) -> None:
        self.fake = self.server.discord
        self._channel = self.fake.dm(self.server.alice)

    async def connected(self) -> None:
        await self.fake.ready()

    async def say(self, text: str) -> None:
        await self.fake.say(self.server.alice, self._channel, text)

    def said(self) -> Sequence[tuple[Any, str, Sequence[str]]]:
        return [(each, each.text(), each.buttons()) for each in self.fake.answers(self._channel)]

    async def until(self, condition: Callable[[], object], what: str) -> None:
        await self.fake.until(condition, what, seconds=PATIENCE)

    async def click(self, message: Any, button: str) -> bool:
        clicked = await self.fake.click(self.server.alice, message, button)
        await self.until(lambda: not self.fake.gateway.connected, "the end of the process")
        return bool(clicked.response)


@dataclass
class OnSlack:
    """Direct messages on Slack."""

    office: Office
    _asked: list[messages.Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fake = self.office.slack

    async def connected(self) -> None:
        await self.fake.connected()

    async def say(self, text: str) -> None:
        private = self.fake.dm(self.office.alice)
        self._asked.append(await self.fake.say(self.office.alice, private, text))

    def said(self) -> Sequence[tuple[Any, str, Sequence[str]]]:
        found = [each for asked in self._asked for each in self.fake.said(asked.channel, asked)]
        return [(m, m.readable(), [button.label for button in m.buttons()]) for m in found]

    async def until(self, condition: Callable[[], object], what: str) -> None:
        await self.fake.until(condition, what)

    async def click(self, message: Any, button: str) -> bool:
        clicked = await self.fake.click(self.office.alice, message, button)
        return clicked.acked_after is not None


@asynccontextmanager
async def on_discord() -> AsyncIterator[Chat]:
    async with new_server() as server:
        yield OnDiscord(server)


@asynccontextmanager
async def on_slack() -> AsyncIterator[Chat]:
    async with new_office(PATIENCE) as office:
        yield OnSlack(office)


@dataclass
class Story:
    """One chat with several processes of the bot, each killed by a click."""

    chat: Chat
    url: str
    model: FakeAnthropic
    sections: Json = field(default_factory=dict)

    async def shown(self, *words: str, button: str = "") -> Any:
        """Wait until a message of the bot holds all these words and this button."""

        def found() -> list[Any]:
            return [
                message
                for message, text, buttons in self.chat.said()
                if all(word in text for word in words) and (not button or button in buttons)
            ]

        await self.chat.until(found, f"{words} {button}")
        return found()[-1]

    def bot(self) -> AbstractAsyncContextManager[Any]:
        """Start a process of the bot."""
        return mortal_bot(self.chat.fake, self.url, self.model.url, **self.sections)

    async def click(self, button: str, *words: str, dies: str, says: str = "") -> bool:
        """Let a process die of a click on the message that holds these words.

        Args:
            button: What is clicked.
            words: Of the message.
            dies: The point of the process's death.
            says: What Alice says before.

        Returns:
            Whether the click was acknowledged.
        """
        async with self.bot() as bot:
            await self.chat.connected()
            if says:
                await self.chat.say(says)
            message = await self.shown(*words, button=button)
            await bot.dies(dies)
            acknowledged = await self.chat.click(message, button)
            await bot.ended()
        return acknowledged

    async def ends(self, *words: str) -> int:
        """Let a last process work; return how many messages hold the words of its end."""
        async with self.bot():
            await self.shown(*words)
        return sum(all(word in text for word in words) for _, text, _ in self.chat.said())

    async def stored(self, column: Any) -> list[str]:
        """Return a column of the database, oldest row first."""
        settings = DatabaseSettings(url=self.url)
        async with Database.open(settings) as database, database.snapshot() as tx:
            return list(await tx.scalars(select(column).order_by(column.table.c.created_at)))


@pytest.mark.parametrize("platform", [on_discord, on_slack])
async def test_stop_and_resume_have_their_effect_once(
    sqlite_url: str, platform: Callable[[], AbstractAsyncContextManager[Chat]]
) -> None:
    spawn = call("sessions_spawn", task="Dig", label="digging")
    play = Play(main=[spawn, Reply(text="Started it.")], runs={"Dig": [HANGS] * 9})
    async with platform() as chat, FakeAnthropic(play) as model:
        it = Story(chat, sqlite_url, model)
        lost = await it.click(
            "Stop", "digging", "running", dies="before INSERT INTO seen_events", says="Dig"
        )
        before = await it.stored(subagent_runs.c.status)
        await it.click("Stop", "digging", "running", dies="after UPDATE commands")
        play.runs["Dig"] = [Reply(text="Dug after all.")] * 3
        await it.click("Resume", "digging", "stopped", dies="after INSERT INTO subagent_runs")
        told = await it.ends("Dug after all.")

        # Not stored and not acknowledged: the platform says that it failed.
        assert (lost, before) == (False, ["running"])
        assert await it.stored(subagent_runs.c.status) == ["cancelled", "completed"]
        assert told == 1


def asking(body: Json) -> Reply:
    """Answer as a model that needs a yes, and whose run asks which colour; it may be asked anew."""
    last = said(body["messages"][-1])
    if is_run(body):
        asks = call("ask_user", question="Which colour?", options=["red", "blue"])
        return Reply(text="Painted.") if "blue" in last else asks
    words = {
        "Note it": call("note_save", text="Feed the owl"),
        "confirmation_asked": Reply(text="I asked."),
        "Saved": Reply(text="Noted."),
        "Paint it": call("sessions_spawn", task="Paint", label="painting"),
    }
    return next((reply for word, reply in words.items() if word in last), Reply(text="Fine."))


@pytest.mark.parametrize("platform", [on_discord, on_slack])
async def test_answers_by_a_button_have_their_effect_once(
    sqlite_url: str, platform: Callable[[], AbstractAsyncContextManager[Chat]]
) -> None:
    async with platform() as chat, FakeAnthropic(asking) as model:
        it = Story(chat, sqlite_url, model, ASKS)
        lost = await it.click("Yes", "Shall I", dies="before INSERT INTO turns", says="Note it")
        before = await it.stored(notes.c.text)
        await it.click("Yes", "Shall I", dies="after INSERT INTO turns")
        noted = await it.ends("Noted.")
        unheard = await it.click(
            "blue", "Which colour?", dies=f"before {ANSWERED}", says="Paint it"
        )
        unanswered = await it.stored(run_questions.c.answer)
        await it.click("blue", "Which colour?", dies=f"after {ANSWERED}")
        painted = await it.ends("Painted.")

        assert (lost, before) == (False, [])
        assert (unheard, unanswered) == (False, [""])
        assert (noted, painted) == (1, 1)
        assert await it.stored(notes.c.text) == ["Feed the owl"]
        assert await it.stored(run_questions.c.answer) == ["blue"]

"""The whole bot on a stage: real engine, real database, real anthropic SDK, a scripted model."""

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy import ColumnElement, Table, make_url, select, update

from bot.app import open_bot
from bot.config.model import Config
from bot.models.anthropic import AnthropicSettings
from bot.models.catalog import ModelSettings
from bot.models.retrying import RetrySettings
from bot.platforms.base import CommandReply, Incoming
from bot.running import Bot
from bot.values import Identity, Json, Place, RunStatus, new_run_id
from db import outbox, runs, tables
from db.rows import count_rows
from db.runs import Run
from db.settings import DatabaseSettings
from skills.base import Audience, Effects, Skill, ToolContext, tool
from skills.files.settings import WorkspaceSettings
from skills.shell.settings import ShellSettings
from tests.fakes.anthropic_server import KEY, Call, FakeAnthropic, Reply
from tests.fakes.outlet import FakeOutlet
from tests.fakes.patience import eventually

PLATFORM = "fake"
ALICE = Identity(PLATFORM, "", "alice")
BOB = Identity(PLATFORM, "", "bob")
ADMIN = Identity(PLATFORM, "", "root")
#: Quick, and not for long: most stories with an error are about a provider that stays away.
RETRY = RetrySettings(
    total_seconds=2, wait_initial_seconds=0.01, wait_max_seconds=0.02, wait_jitter_seconds=0.01
)
ROOM = Place(PLATFORM, "guild", "room")


@dataclass
class Play:
    """What the model says: to the main agent in order, to each run by a word of its task."""

    main: list[Reply] = field(default_factory=list)
    runs: dict[str, list[Reply]] = field(default_factory=dict)
    asked: list[Json] = field(default_factory=list)

    def __call__(self, body: Json) -> Reply:
        self.asked.append(body)
        return self._next(self.lines_for(body))

    def lines_for(self, body: Json) -> list[Reply]:
        if not is_run(body):
            return self.main
        task = said(body["messages"][0])
        return next(lines for word, lines in self.runs.items() if word in task)

    @staticmethod
    def _next(lines: list[Reply]) -> Reply:
        return lines.pop(0) if lines else Reply(text="Done.")


def is_run(body: Json) -> bool:
    """Whether a request comes from a subagent."""
    return "You are a subagent" in json.dumps(body["system"])


def said(message: Json) -> str:
    """Return all text of one message of a request, results of tools included."""
    content = message["content"]
    if isinstance(content, str):
        return content
    texts = []
    for block in content:
        inner = block.get("content", block.get("text", ""))
        texts.append(
            inner if isinstance(inner, str) else " ".join(b.get("text", "") for b in inner)
        )
    return "\n".join(texts)


def newest(body: Json) -> str:
    """Return all that a request holds since the last answer."""
    turned = itertools.takewhile(lambda each: each["role"] == "user", reversed(body["messages"]))
    return "\n".join(map(said, [*turned][::-1]))


def words_of(body: Json) -> str:
    """Return the newest words of a user in a request, without author and situation."""
    shared, _, rest = newest(body).rpartition("<situation>")
    situation, _, personal = rest.partition("</situation>")
    speaker = re.search(r"You answer (u\d+) now", situation)
    if speaker is None:
        return personal.strip()
    found = re.findall(rf'<message from="{speaker[1]}"[^>]*>\n(.*?)\n</message>', shared, re.DOTALL)
    return str(found[-1])


def task_of(body: Json) -> str:
    """Return the task in a request of a subagent."""
    return said(body["messages"][0]).rpartition("Task:\n")[2]


class Gate:
    """A tool `wait_here` that lets nobody through until the test opens it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.waiting = 0
        self._changed = asyncio.Condition()

    @property
    def skill(self) -> Skill:
        gate = self

        @tool(effects=Effects.NONE, timeout_seconds=50, audience=Audience.PLACE)
        async def wait_here(context: ToolContext) -> str:
            """Wait."""
            gate.waiting += 1
            gate.reached.set()
            async with gate._changed:
                gate._changed.notify_all()
            try:
                await gate.opened.wait()
            finally:
                gate.waiting -= 1
            return "You may pass."

        return Skill(name="gate", description="A gate.", tools=(wait_here,))

    async def held(self, count: int) -> None:
        """Wait until so many runs stand at the gate."""
        async with asyncio.timeout(40), self._changed:
            await self._changed.wait_for(lambda: self.waiting >= count)


@dataclass
class Stage:
    """A running bot, its platform, and its model."""

    bot: Bot
    outlet: FakeOutlet
    server: FakeAnthropic
    play: Play
    gate: Gate

    async def say(self, user: Identity, text: str, place: Place = ROOM) -> CommandReply | None:
        """Let a user say something."""
        incoming = Incoming(
            event_id=new_run_id(),
            user=user,
            user_name=user.account.title(),
            place=place,
            text=text,
        )
        return await self.bot.orchestrator.receive(incoming)

    async def command(self, user: Identity, text: str, place: Place = ROOM) -> CommandReply:
        """Let a user type a command, which is answered at once."""
        reply = await self.say(user, text, place)
        assert reply is not None
        return reply

    async def run_of(self, word: str) -> Run:
        """Wait for a run whose task holds a word, and return the newest."""
        return await newest_run(self.bot, word)

    async def ended(self, word: str, status: RunStatus) -> Run:
        """Wait until a run's card shows this final state, and return the run."""
        run = await self.run_of(word)
        await self.outlet.card_shows(run.id, status)
        return await self.run_of(word)

    async def reaches(self, key: str, status: str) -> None:
        """Wait until an item of the outbox has this status and is not being sent."""

        async def has_reached() -> bool:
            async with self.bot.database.snapshot() as tx:
                item = await outbox.get(tx, key)
            if item is None or item.status != status or key in self.bot.announcements.under_way:
                return False
            return item.attempts > 0 or status == "waiting"

        await eventually(has_reached, f"{key} is {status}")

    async def rows(self, table: Table) -> list[Json]:
        """Return all rows of a table."""
        async with self.bot.database.snapshot() as tx:
            return [dict(row) for row in (await tx.execute(select(table))).mappings()]

    async def make_due(self, key: str) -> None:
        """Let the waiting time of an item be over."""
        await self._change(tables.outbox, tables.outbox.c.key == key, due_at=self.bot.upkeep.now())

    async def expire(self, approval_id: str) -> None:
        """Let the time of a question be over."""
        where = tables.approvals.c.id == approval_id
        await self._change(tables.approvals, where, expires_at=self.bot.upkeep.now())

    async def tamper(self, approval_id: str) -> None:
        """Change what a question would run, behind the bot's back."""
        where = tables.approvals.c.id == approval_id
        await self._change(tables.approvals, where, arguments={"run_id": "all"})

    async def _change(self, table: Table, where: ColumnElement[bool], **values: Any) -> None:
        await change(self.bot, table, where, **values)


async def newest_run(bot: Bot, word: str) -> Run:
    """Wait for a run whose task holds a word, and return the newest."""
    since = bot.upkeep.now() - timedelta(days=1)

    async def newest() -> Run | None:
        async with bot.database.snapshot() as tx:
            ended = await runs.ended_since(tx, None, since, limit=100)
            found = [*await runs.active(tx, None), *ended]
        return next((run for run in found if word in run.task), None)

    run = await eventually(newest, f"a run for {word!r}")
    assert run is not None
    return run


async def card_is_kept(bot: Bot, word: str) -> None:
    """Wait until it is stored which message shows a run: the next process needs that."""

    async def kept() -> bool:
        return bool((await newest_run(bot, word)).card_message_id)

    await eventually(kept, "the card's id is stored")


async def listens(bot: Bot) -> None:
    """Wait until it is stored that the bot listens: what it misses later is caught up with."""

    async def stored() -> bool:
        async with bot.database.snapshot() as tx:
            return bool(await count_rows(tx, tables.listeners))

    await eventually(stored, "a connection that listens")


async def change(bot: Bot, table: Table, *where: ColumnElement[bool], **values: Any) -> None:
    """Change rows behind the bot's back."""
    async with bot.database.transaction() as tx:
        await tx.execute(update(table).where(*where).values(**values))


def call(name: str, **arguments: Any) -> Reply:
    """Return a reply that calls one tool."""
    return Reply(calls=(Call(name, arguments),))


def calls(*wanted: tuple[str, Json]) -> Reply:
    """Return a reply that calls several tools at once."""
    return Reply(calls=tuple(Call(name, arguments) for name, arguments in wanted))


def _files_of(database_url: str) -> Path:
    """Return a folder for the workspaces of the bots of one database, beside it.

    A bot deletes the files of places that its database does not know.
    """
    url = make_url(database_url)
    if database_url.startswith("sqlite"):
        return Path(url.database or "").parent / "workspaces"
    return Path(str(url.query["host"])).parent / f"workspaces-{url.database}"


def config_for(database_url: str, model_url: str, **sections: Any) -> Config:
    """Return a configuration whose model is the fake server.

    `more_models` goes into its section on models, `more_anthropic` into that on Claude.
    The shell is off unless a story has a section for it: each start would test its sandbox.
    """
    models = ModelSettings(
        anthropic=AnthropicSettings(
            api_key=SecretStr(KEY), base_url=model_url, **sections.pop("more_anthropic", {})
        ),
        **{"retry": RETRY, **sections.pop("more_models", {})},
    )
    files = WorkspaceSettings(folder=str(_files_of(database_url)))
    sections = {"shell": ShellSettings(enabled=False), "workspaces": files, **sections}
    return Config(database=DatabaseSettings(url=database_url), models=models, **sections)


@asynccontextmanager
async def stage(
    database_url: str,
    play: Play,
    *,
    outlet: FakeOutlet | None = None,
    further_skills: Sequence[Skill] = (),
    script: Callable[[Json], Reply] | None = None,
    present: Callable[[], Identity | None] = lambda: None,
    **sections: Any,
) -> AsyncIterator[Stage]:
    """Open the whole bot with a scripted model; `sections` go into its configuration."""
    outlet = outlet or FakeOutlet(PLATFORM)
    gate = Gate()
    async with FakeAnthropic(script or play) as server:
        config = config_for(database_url, server.url, **sections)
        skills = [gate.skill, *further_skills]
        outlets = {PLATFORM: outlet}
        async with open_bot(config, outlets, present=present, further_skills=skills) as bot:
            yield Stage(bot, outlet, server, play, gate)

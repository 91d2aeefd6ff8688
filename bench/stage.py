"""What every measurement needs: the fake server, a bot with an outlet that only takes the time."""

import asyncio
import json
import logging
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated

import aiohttp

from bench.work import PATIENCE_SECONDS, meaning, task
from bot import logs
from bot.app import open_bot
from bot.config.model import Config
from bot.platforms.base import (
    Announcement,
    Confirmation,
    Delivered,
    FileMessage,
    OnBegun,
    OnDrawn,
    RunCard,
    Settlement,
    not_kept,
    not_noted,
)
from bot.platforms.messages import PastMessage
from bot.platforms.reading import PlaceOnly
from bot.running import Bot, settle_memory
from bot.subagents.requests import Caller, RunRequest
from bot.values import Identity, Json, Place, Role, utc_now
from db import conversations, users
from skills.base import Effects, Skill, ToolContext, tool

PLATFORM = "bench"
KEY = "sk-fake-key-of-the-bench"
RUNS_PER_PERSON = 10
ROOT = Path(__file__).parent.parent


class Server:
    """The fake model server, reached through its control paths."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self._session = session

    async def hold(self) -> None:
        """Hold the first call of every run from now on."""
        await self._control("hold/")

    async def full(self, count: int) -> None:
        """Wait until so many runs are held."""
        await self._control(f"full/{count}")

    async def go(self) -> None:
        """Let the held runs go on."""
        await self._control("go/")

    async def latency(self, seconds: float) -> None:
        """Let every answer but a held one take so long."""
        await self._control(f"latency/{seconds}")

    async def newest(self) -> Json:
        """Return the body of the newest request to the model."""
        found: Json = json.loads(await self._control("newest/"))
        return found

    async def _control(self, path: str) -> bytes:
        async with self._session.post(f"{self.url}/{path}") as response:
            return await response.read()


@asynccontextmanager
async def open_server() -> AsyncIterator[Server]:
    """Start the fake model server in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.server",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = (await process.stdout.readline()).decode().strip()
        async with aiohttp.ClientSession() as session:
            yield Server(url, session)
    finally:
        process.stdin.close()
        await process.wait()


_MARKS = re.compile(r"received=(\d+) sent=(\d+)")


@dataclass(frozen=True, slots=True)
class Marks:
    """When the server received the last request and sent its answer, in seconds."""

    received: float
    sent: float


def marks(text: str) -> Marks:
    """Return the times that the fake server wrote into its last answer.

    Raises:
        ValueError: There are none: the run did not end as it should.
    """
    found = _MARKS.search(text)
    if found is None:
        raise ValueError(f"The run ended otherwise: {text[:300]}")
    return Marks(int(found[1]) / 1e9, int(found[2]) / 1e9)


class Reply:
    """A reply of the main agent."""

    def __init__(self, outlet: "Outlet") -> None:
        self._outlet = outlet

    def update(self, text: str) -> None:
        """Show nothing."""

    async def finish(self, text: str, *, failed: bool = False) -> Delivered:
        """Take the final text."""
        self._outlet.replies.append(text)
        self._outlet.stir()
        return Delivered(("1",))

    async def abandon(self) -> None:
        """Do nothing."""


@dataclass(slots=True)
class Outlet(PlaceOnly):
    """A platform without a network.

    Attributes:
        announced: For each run, when its announcement came, and its text.
    """

    platform: str = PLATFORM
    takes_files: bool = True
    announced: dict[str, tuple[float, str]] = field(default_factory=dict)
    replies: list[str] = field(default_factory=list)
    cards: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def acknowledge(self, place: Place) -> None:
        """Do nothing."""

    async def send_files(self, message: FileMessage) -> Delivered:
        """Do nothing."""
        return Delivered()

    async def answered(self, place: Place, *, read: bool = False) -> None:
        """Do nothing."""

    def open_reply(
        self,
        place: Place,
        owner: Identity,
        message_id: str = "",
        *,
        begun: OnBegun = not_kept,
    ) -> Reply:
        """Begin a reply."""
        return Reply(self)

    async def announce(self, announcement: Announcement) -> Delivered:
        """Take an announcement."""
        self.announced[announcement.key] = (time.monotonic(), announcement.text)
        self.stir()
        return Delivered(("1",))

    def show_card(
        self, card: RunCard, *, begun: OnBegun = not_kept, drawn: OnDrawn = not_noted
    ) -> None:
        """Count the moves of all cards."""
        self.cards += 1

    async def ask(self, confirmation: Confirmation) -> str:
        """Do nothing."""
        return ""

    async def show_settlement(self, question: Confirmation, settlement: Settlement) -> None:
        """Do nothing."""

    async def post(self, place: Place, owner: Identity, text: str) -> Delivered:
        """Do nothing."""
        return Delivered()

    async def tell(self, place: Place, user: Identity, text: str) -> None:
        """Do nothing."""

    async def history(
        self, place: Place, after: datetime | str, limit: int, *, opening: bool = False
    ) -> list[PastMessage]:
        """Return nothing."""
        return []

    def stir(self) -> None:
        """Wake who waits."""
        self._changed.set()

    async def until(self, *, announced: int = 0, replies: int = 0) -> None:
        """Wait until so much has come."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.announced) < announced or len(self.replies) < replies:
                self._changed.clear()
                await self._changed.wait()


@tool(effects=Effects.NONE)
async def look_up(context: ToolContext, word: Annotated[str, "The word to look up"]) -> str:
    """Look a word up in the dictionary and return what it means."""
    return meaning(word)


@dataclass(slots=True)
class Stage:
    """A bot that is open, and people who start runs on it."""

    bot: Bot
    outlet: Outlet
    callers: list[Caller] = field(default_factory=list)
    spawned: int = 0

    async def people(self, count: int, *, first: int = 0) -> None:
        """Let so many people be known, each with a conversation; `first` begins their names."""
        async with self.bot.database.transaction() as tx:
            for number in range(len(self.callers), count):
                user = Identity(PLATFORM, "", f"{first}-{number}")
                place = Place(PLATFORM, channel=f"channel {first}-{number}")
                await users.ensure_user(tx, user, f"person {number}", utc_now())
                opened = await conversations.find_or_open(tx, user, place, utc_now())
                self.callers.append(
                    Caller(user=user, role=Role.USER, place=place, conversation_id=opened)
                )

    async def spawn(self) -> str:
        """Start one run and return its id."""
        number = self.spawned
        self.spawned += 1
        caller = self.callers[number // RUNS_PER_PERSON % len(self.callers)]
        # With all the tools of a user's run.
        request = RunRequest(task=task(number))
        return (await self.bot.manager.spawn(request, caller)).run.id

    async def spawn_held(self, server: Server, count: int) -> None:
        """Start so many runs at once and return when all of them wait for their first answer."""
        await server.hold()
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(self.spawn())
        await server.full(count)

    async def all_announced(self) -> None:
        """Wait until every run that was started is announced."""
        await self.outlet.until(announced=self.spawned)


def config(server: Server, database_url: str) -> Config:
    """Return the settings of a bot whose limits are out of the way."""
    many = 1_000_000
    return Config.model_validate(
        {
            "models": {"provider": "anthropic", "anthropic": _anthropic(server)},
            "database": {"url": database_url},
            "subagents": {
                "max_concurrent_per_user": many,
                "max_concurrent_global": 5000,
                "max_queued_per_user": many,
                "spawn_rate_limit": {"max_requests": many},
                "delegation_rate_limit": {"max_requests": many},
            },
        }
    )


def _anthropic(server: Server) -> dict[str, str]:
    return {"api_key": KEY, "base_url": server.url}


@asynccontextmanager
async def open_stage(
    server: Server, database_url: str = "", *, people: int = 10, first: int = 0
) -> AsyncIterator[Stage]:
    """Open a bot on a fresh SQLite file, or on the database of that address."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        logs.set_up(level="info", file=str(folder / "bot.log"))
        stack.callback(_stop_logging)
        outlet = Outlet()
        url = database_url or f"sqlite:///{folder / 'retinue.db'}"
        skill = Skill(name="dictionary", description="Words.", tools=(look_up,))
        bot = await stack.enter_async_context(
            open_bot(config(server, url), {PLATFORM: outlet}, further_skills=[skill])
        )
        stage = Stage(bot, outlet)
        await stage.people(people, first=first)
        # As `serve` does.
        settle_memory()
        yield stage


def _stop_logging() -> None:
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()

"""A bot in a process of its own, driven by lines: what a test kills, stops, and starts again.

Reads one JSON document a line from standard input and writes one for everything it says or does.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bot.app import open_bot
from bot.config.model import Config
from bot.platforms.base import (
    Announcement,
    Confirmation,
    Delivered,
    Incoming,
    OnBegun,
    OnDrawn,
    RunCard,
    not_kept,
    not_noted,
)
from bot.running import Bot
from bot.values import Identity, Place, new_run_id
from db.database import Database
from migrations.run import ensure_current
from skills.base import Effects, Skill, ToolContext, tool
from tests.fakes.crashing_database import CrashingDatabase
from tests.fakes.outlet import FakeOutlet, FakeReply
from tests.stories.stage import PLATFORM, config_for

ROOM = Place(PLATFORM, "guild", "room")


def tell(**document: Any) -> None:
    """Write one line for the test."""
    sys.stdout.write(json.dumps(document, default=str) + "\n")
    sys.stdout.flush()


class TellingReply(FakeReply):
    """A reply that is told to the test."""

    async def finish(self, text: str, *, failed: bool = False) -> Delivered:
        tell(event="reply", text=text, message_id=self.message_id)
        return await super().finish(text, failed=failed)


class TellingOutlet(FakeOutlet):
    """An outlet that tells the test everything, and can die at a named point."""

    def __init__(self, crash_at: str) -> None:
        super().__init__(PLATFORM)
        self._crash_at = crash_at

    def open_reply(
        self,
        place: Place,
        owner: Identity,
        message_id: str = "",
        *,
        begun: OnBegun = not_kept,
    ) -> FakeReply:
        new_id = message_id or new_run_id()
        begun(new_id)
        return TellingReply(self, place, owner, new_id)

    async def announce(self, announcement: Announcement) -> Delivered:
        if self._crash_at == "before-send":
            os.kill(os.getpid(), signal.SIGKILL)
        tell(
            event="announcement",
            key=announcement.key,
            title=announcement.title,
            text=announcement.text,
            repeated=announcement.maybe_repeated,
        )
        if self._crash_at == "after-send":
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().announce(announcement)

    async def ask(self, confirmation: Confirmation) -> str:
        tell(event="question", text=confirmation.text, id=confirmation.id)
        return await super().ask(confirmation)

    async def tell(self, place: Place, user: Identity, text: str) -> None:
        tell(event="told", user=user.account, text=text)

    def show_card(
        self, card: RunCard, *, begun: OnBegun = not_kept, drawn: OnDrawn = not_noted
    ) -> None:
        tell(event="card", run=card.run_id, label=card.label, status=card.status, line=card.line)


def tools() -> Skill:
    """Return tools that tell the test when they begin, and wait when they are told to."""

    @tool(effects=Effects.NONE, timeout_seconds=100)
    async def look(context: ToolContext, at: str = "", wait: bool = False) -> str:
        """Look at something."""
        tell(event="tool", name="look", run=context.run_id, at=at)
        if wait:
            await asyncio.Event().wait()
        return "seen"

    @tool(effects=Effects.ONCE, timeout_seconds=100)
    async def launch(context: ToolContext, wait: bool = False) -> str:
        """Do something that cannot be undone."""
        tell(event="tool", name="launch", run=context.run_id)
        if wait:
            await asyncio.Event().wait()
        return "launched"

    @tool(effects=Effects.NONE)
    async def explode(context: ToolContext) -> str:
        """Take the whole process down."""
        tell(event="tool", name="explode", run=context.run_id)
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    return Skill(name="stage", description="For tests.", tools=(look, launch, explode))


async def lines() -> asyncio.StreamReader:
    """Return standard input as a stream."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def obey(bot: Bot) -> None:
    """Let people say what the test wants them to say, until the input ends."""
    reader = await lines()
    while line := await reader.readline():
        given = json.loads(line)
        asyncio.ensure_future(_hear(bot, given))  # noqa: RUF006 - several at once is the point


async def _hear(bot: Bot, given: dict[str, Any]) -> None:
    reply = await bot.orchestrator.receive(
        Incoming(
            event_id=given.get("event_id") or new_run_id(),
            user=Identity(PLATFORM, "", given["user"]),
            user_name=given["user"],
            place=ROOM,
            text=given["text"],
        )
    )
    if reply is not None:
        tell(event="answer", text=reply.text, failed=reply.failed)


@asynccontextmanager
async def prepared(database: Database, config: Config) -> AsyncIterator[None]:
    """Bring the tables to this version."""
    await ensure_current(database, config.database)
    yield


async def main(given: argparse.Namespace) -> None:
    """Run the bot until the input ends or it is told to stop."""
    sections = json.loads(given.sections)
    config = config_for(given.database, given.model, **sections)
    outlets = {PLATFORM: TellingOutlet(given.crash_at)}
    async with (
        CrashingDatabase.open(config.database, exclusive=True) as database,
        prepared(database, config),
        open_bot(config, outlets, database=database, further_skills=[tools()]) as bot,
    ):
        # What is there at the start is not meant.
        database.crash_at = given.crash_at
        tell(event="ready", pid=os.getpid())
        work = asyncio.ensure_future(obey(bot))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
        try:
            await work
        except asyncio.CancelledError:
            await bot.drain(0.2)
            tell(event="drained")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--sections", default="{}")
    parser.add_argument("--crash-at", default="")
    asyncio.run(main(parser.parse_args()))

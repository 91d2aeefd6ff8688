"""The test's side of a bot in a process of its own."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.children import Child

Line = dict[str, Any]


@dataclass
class Actor:
    """A bot's process: what it said, and what can be done to it."""

    process: Child
    heard: list[Line] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self) -> None:
        """Keep every line that the process writes."""
        while line := await self.process.stdout.readline():
            self.heard.append(json.loads(line))
            self.changed.set()
        self.heard.append({"event": "gone"})
        self.changed.set()

    async def repeat_errors(self) -> None:
        """Write what it logs where the test's own log goes."""
        async for line in self.process.stderr:
            sys.stderr.write(line.decode())

    async def until(self, wanted: Callable[[Line], bool], *, seconds: float = 40) -> Line:
        """Wait for a line, and return it."""
        async with asyncio.timeout(seconds):
            while True:
                self.changed.clear()
                for line in self.heard:
                    if wanted(line):
                        return line
                await self.changed.wait()

    async def event(self, kind: str, **fields: Any) -> Line:
        """Wait for an event with these fields."""
        wanted = {"event": kind, **fields}
        return await self.until(lambda line: all(line.get(k) == v for k, v in wanted.items()))

    def events(self, name: str) -> list[Line]:
        """Return all events of a kind so far."""
        return [line for line in self.heard if line["event"] == name]

    def say(self, user: str, text: str, **fields: Any) -> None:
        """Let a user say something."""
        document = {"user": user, "text": text, **fields}
        self.process.stdin.write(json.dumps(document).encode() + b"\n")

    async def answer_with(self, user: str, command: str, words: str) -> Line:
        """Let a user give a command again and again until the answer holds these words."""
        async with asyncio.timeout(40):
            while True:
                known = len(self.events("answer"))
                self.say(user, command)
                await self.until(lambda _: len(self.events("answer")) > known)  # noqa: B023
                newest = self.events("answer")[-1]
                if words in newest["text"]:
                    return newest
                await asyncio.sleep(0.5)

    async def kill(self) -> None:
        """Kill the process as `kill -9` does."""
        self.signal(signal.SIGKILL)
        await self.gone()

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self.process.signal(number)

    async def gone(self) -> None:
        """Wait until the process is no more."""
        await self.event("gone")
        await self.process.wait()


@asynccontextmanager
async def actor(
    database_url: str,
    model_url: str,
    *,
    crash_at: str = "",
    sections: Line | None = None,
) -> AsyncIterator[Actor]:
    """Start a bot in a process of its own, and kill what is left of it at the end."""
    process = await Child.start(
        "tests.stories.process",
        f"--database={database_url}",
        f"--model={model_url}",
        f"--sections={json.dumps(sections or {})}",
        f"--crash-at={crash_at}",
    )
    bot = Actor(process)
    listening = [asyncio.ensure_future(work) for work in (bot.listen(), bot.repeat_errors())]
    try:
        await bot.event("ready")
        yield bot
    finally:
        await process.close()
        for each in listening:
            await each

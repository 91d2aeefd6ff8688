"""`python -m bot serve` as an operator meets it: a process, signals, exit codes, the log."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.things import Channel, Message, User

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def fake() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord.open() as opened:
        yield opened


@dataclass
class Process:
    """A bot's process, and what it has written to its log."""

    process: asyncio.subprocess.Process
    log: list[str] = field(default_factory=list)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> None:
        """Keep what it writes until it ends."""
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log.append(line.decode())
            self._more.set()

    async def wrote(self, words: str) -> None:
        """Wait until these words are in its log."""
        async with asyncio.timeout(30):
            while not any(words in line for line in self.log):
                self._more.clear()
                await self._more.wait()

    async def ended(self, seconds: float = 30) -> int:
        """Wait until it is over, and return its exit code."""
        async with asyncio.timeout(seconds):
            return await self.process.wait()

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send it a signal."""
        os.kill(self.process.pid, number)


@asynccontextmanager
async def serving(
    fake: FakeDiscord, folder: Path, *, pace: float = 0.01, **environ: str
) -> AsyncIterator[Process]:
    """Run `python -m bot serve` in a folder, and kill what is left of it at the end."""
    (folder / "config.yaml").write_text(
        f"discord: {{api_url: '{fake.api_url}', gateway_url: '{fake.gateway_url}'}}\n"
        f"models: {{provider: offline, offline: {{pace_seconds: {pace}}}}}\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bot",
        "serve",
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "DISCORD_TOKEN": fake.token,
            **environ,
        },
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    bot = Process(process)
    reading = asyncio.ensure_future(bot.read())
    try:
        yield bot
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading


def new_room(fake: FakeDiscord) -> tuple[Channel, User]:
    guild, alice = fake.add_guild("Farm"), fake.add_user("alice")
    fake.join(guild, alice)
    return fake.add_channel(guild, "general"), alice


async def begins(fake: FakeDiscord, message: Message) -> Message:
    """Wait until the answer to a message begins."""
    await fake.until(
        lambda: message.thread and fake.messages(message.thread), "an answer", seconds=20
    )
    assert message.thread is not None
    return fake.messages(message.thread)[-1]


async def test_it_answers_a_mention_and_at_sigterm_finishes_that_and_ends_in_good_order(
    fake: FakeDiscord, tmp_path: Path
) -> None:
    channel, alice = new_room(fake)

    async with serving(fake, tmp_path, pace=1) as bot:
        await bot.wrote("Connected to Discord as")
        message = await fake.say(alice, channel, f"<@{fake.bot.id}> hello")
        begun = await begins(fake, message)
        so_far = begun.text()
        bot.signal()
        await fake.until(lambda: not fake.gateway.connections, "a client that hears no more")
        assert await bot.ended() == 0

    assert not so_far.endswith("no language model is connected)_")
    assert begun.text().endswith("no language model is connected)_")
    assert "Traceback" not in "".join(bot.log)
    assert fake.token not in "".join(bot.log)


async def test_a_second_signal_ends_it_at_once(fake: FakeDiscord, tmp_path: Path) -> None:
    channel, alice = new_room(fake)

    async with serving(fake, tmp_path, pace=30) as bot:
        await bot.wrote("Connected to Discord as")
        message = await fake.say(alice, channel, f"<@{fake.bot.id}> hello")
        await fake.until(lambda: message.reactions, "👀", seconds=10)
        bot.signal(signal.SIGINT)
        await bot.wrote("once more ends it at once")
        bot.signal(signal.SIGTERM)

        assert await bot.ended(5) == -signal.SIGTERM


async def test_a_token_that_is_refused_ends_it_with_a_sentence_and_exit_code_2(
    fake: FakeDiscord, tmp_path: Path
) -> None:
    async with serving(fake, tmp_path, DISCORD_TOKEN="this-is-not-it") as bot:
        assert await bot.ended() == 2

    said = "".join(bot.log)
    assert "press Reset Token" in said
    assert "Traceback" not in said
    assert "this-is-not-it" not in said
    assert [sent.path for sent in fake.sent] == ["/users/@me"]


async def test_a_gateway_that_will_not_have_it_ends_it_the_same_way(
    fake: FakeDiscord, tmp_path: Path
) -> None:
    fake.gateway.shards = 2

    async with serving(fake, tmp_path) as bot:
        assert await bot.ended() == 2

    assert "set `discord.shard_count`" in "".join(bot.log)
    assert fake.gateway.identifies == 1


async def test_discord_that_is_away_is_waited_for_and_sigterm_ends_that(
    fake: FakeDiscord, tmp_path: Path
) -> None:
    fake.fail("GET", "/users/@me", status=503, times=None)

    async with serving(fake, tmp_path) as bot:
        await bot.wrote("Discord is out of reach; waiting for it")
        bot.signal()
        assert await bot.ended(5) == 0

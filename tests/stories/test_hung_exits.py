"""Work that does not end when it is cancelled does not keep the process from ending at SIGTERM."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from bot.__main__ import EXIT_SECONDS
from bot.platforms.discord import intake as discord_intake
from bot.platforms.slack import platform as slack
from bot.running import DRAIN_SECONDS, HAND_OVER_SECONDS
from tests.fakes.anthropic_server import FakeAnthropic, Reply
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.patience import eventually
from tests.fakes.serving import serving
from tests.stories.stage import Play, call
from tests.stories.test_discord_process import models

pytestmark = pytest.mark.timeout(120)

#: What the issue promises, from the signal to the end of the process.
PROMISED_SECONDS = 8.0
#: For the end by force itself, and for a machine that is busy.
MARGIN_SECONDS = 0.5

SKILL = '''
import asyncio
import time
from skills.base import Effects, Skill, tool


def build(services):
    @tool(effects=Effects.NONE, timeout_seconds=1000)
    async def ignore_cancellation(context) -> str:
        """Go on whatever happens."""
        print("Nothing ends me.", file=__import__("sys").stderr, flush=True)
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                pass

    @tool(effects=Effects.NONE, timeout_seconds=1000)
    async def hang_in_a_thread(context) -> str:
        """Wait where no cancellation comes."""
        print("Nothing ends me.", file=__import__("sys").stderr, flush=True)
        await asyncio.to_thread(time.sleep, 1000)
        return "never"

    tools = (ignore_cancellation, hang_in_a_thread)
    return Skill(name="hanging", description="For tests.", tools=tools)
'''

#: Seconds; no other process sleeps as long.
NAP = 1_987

STUCK = """
import signal
import sys
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("Nothing ends me.", file=sys.stderr, flush=True)
time.sleep(1000)
"""


def test_every_wait_before_the_end_by_force_fits_into_what_is_promised() -> None:
    # The intakes close while the rest drains.
    waiting = max(discord_intake.GRACE_SECONDS, slack.GRACE_SECONDS)

    assert DRAIN_SECONDS == 5
    assert max(DRAIN_SECONDS + HAND_OVER_SECONDS, waiting) < EXIT_SECONDS
    assert EXIT_SECONDS + MARGIN_SECONDS <= PROMISED_SECONDS


@pytest.mark.parametrize("tool", ["ignore_cancellation", "hang_in_a_thread"])
async def test_a_tool_that_does_not_end_does_not_keep_the_process(
    tmp_path: Path, tool: str
) -> None:
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "hanging.py").write_text(SKILL)
    play = Play(main=[call(tool), Reply(text="never")])
    async with FakeDiscord.open() as fake, FakeAnthropic(play) as model:
        sections = {"skills": {"folders": ["skills"]}}
        alice = fake.add_user("alice")
        fake.join(fake.add_guild("Farm"), alice)
        async with serving(fake, tmp_path, models=models(model), sections=sections) as bot:
            await bot.wrote("Connected to Discord as")
            await fake.say(alice, fake.dm(alice), "Hang")
            await bot.wrote("Nothing ends me.")
            bot.signal()
            code = await bot.ended()

    assert code == 0
    assert f"did not end within {EXIT_SECONDS:g} s" in "".join(bot.log)


async def test_an_mcp_server_that_does_not_end_does_not_keep_the_process(tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(STUCK)
    sections = {"mcp": {"servers": {"stuck": {"command": [sys.executable, "stuck.py"]}}}}
    async with (
        FakeDiscord.open() as fake,
        FakeAnthropic(Play()) as model,
        serving(fake, tmp_path, models=models(model), sections=sections) as bot,
    ):
        await bot.wrote("Nothing ends me.")
        await bot.wrote("Connected to Discord as")
        bot.signal()
        code = await bot.ended()

    assert code == 0


async def test_a_command_that_does_not_end_does_not_keep_the_process_and_ends_with_it(
    tmp_path: Path,
) -> None:
    play = Play(main=[call("shell", command=f"trap '' TERM INT; sleep {NAP}"), Reply(text="never")])
    async with FakeDiscord.open() as fake, FakeAnthropic(play) as model:
        alice = fake.add_user("alice")
        fake.join(fake.add_guild("Farm"), alice)
        async with serving(fake, tmp_path, models=models(model)) as bot:
            await bot.wrote("Connected to Discord as")
            if any("The shell tool is off" in line for line in bot.log):
                pytest.skip("This system has no sandbox.")
            await fake.say(alice, fake.dm(alice), "Sleep")
            await eventually(naps, "the command runs")
            bot.signal()
            code = await bot.ended()

            async def over() -> bool:
                return not await naps()

            await eventually(over, "the command is gone")

    assert code == 0


async def naps() -> bool:
    """Return whether a process of the command is there."""
    return f"sleep\0{NAP}\0" in await asyncio.to_thread(command_lines)


def command_lines() -> list[str]:
    """Return the command lines of all processes."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(each.read_text(errors="replace"))
    return found

"""A process is asked to end while work goes on: it is gone soon, and the next one goes on."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bot.subagents.cards import PAUSED
from skills.base import Effects, Skill, ToolContext, tool
from tests.bot.platforms.terminal.pipes import idle
from tests.fakes.anthropic_server import FakeAnthropic, Reply
from tests.fakes.serving import Process, serving
from tests.stories.on_discord import new_server
from tests.stories.on_slack import new_office
from tests.stories.stage import ALICE, Play, call, stage
from tests.stories.test_discord_process import models

pytestmark = pytest.mark.timeout(180)

PATIENCE = 40.0
FORCED = "it is ended now"


@dataclass
class Stage:
    """A platform on which alice talks with the bot privately.

    Attributes:
        heard: Waits until a process hears.
        say: Lets alice say something.
        texts: Returns what the bot's messages show, oldest first.
        until: Waits for something.
    """

    fake: Any
    heard: Callable[[Process], Any]
    say: Callable[[str], Any]
    texts: Callable[[], list[str]]
    until: Callable[[Callable[[], object], str], Any]

    async def shows(self, words: str) -> None:
        await self.until(lambda: any(words in text for text in self.texts()), words)


@asynccontextmanager
async def on_discord() -> AsyncIterator[Stage]:
    async with new_server() as server:
        fake, private = server.discord, server.discord.dm(server.alice)

        async def heard(process: Process) -> None:
            await process.wrote("Connected to Discord as")

        yield Stage(
            fake,
            heard,
            say=lambda text: fake.say(server.alice, private, text),
            texts=lambda: [each.text() for each in fake.answers(private)],
            until=partial(fake.until, seconds=PATIENCE),
        )


@asynccontextmanager
async def on_slack() -> AsyncIterator[Stage]:
    async with new_office(PATIENCE) as office:
        fake, private = office.slack, office.slack.dm(office.alice)

        async def heard(_: Process) -> None:
            await fake.connected()

        yield Stage(
            fake,
            heard,
            say=lambda text: fake.say(office.alice, private, text),
            texts=lambda: [each.readable() for each in fake.said(private)],
            until=fake.until,
        )


@pytest.fixture(params=[on_discord, on_slack])
def platform(
    request: pytest.FixtureRequest,
) -> Callable[[], AbstractAsyncContextManager[Stage]]:
    chosen: Callable[[], AbstractAsyncContextManager[Stage]] = request.param
    return chosen


async def ends_in_time(process: Process) -> None:
    process.signal()
    assert await process.ended() == 0
    said = "".join(process.log)
    assert FORCED not in said
    assert "Traceback" not in said


async def test_a_durable_run_is_handed_over_and_its_card_says_so(
    platform: Callable[[], AbstractAsyncContextManager[Stage]], tmp_path: Path, sqlite_url: str
) -> None:
    play = Play(
        main=[call("sessions_spawn", task="Dig", label="digging"), Reply(text="Started it.")],
        runs={"Dig": [Reply(text="x", fault="hang"), Reply(text="Dug after all.")]},
    )
    async with platform() as stage, FakeAnthropic(play) as model:
        start = partial(
            serving, stage.fake, tmp_path, models=models(model), database_url=sqlite_url
        )
        async with start() as process:
            await stage.heard(process)
            await stage.say("Dig, please.")
            await stage.shows("Started it.")
            await stage.shows("running")
            await model.received(3)
            await ends_in_time(process)
        assert sum(PAUSED in text for text in stage.texts()) == 1, stage.texts()
        async with start():
            await stage.shows("Dug after all.")
            await stage.shows("completed")

        assert not any(PAUSED in text for text in stage.texts())
        assert sum("Dug after all." in text for text in stage.texts()) == 1


async def test_an_answer_that_is_not_done_in_time_goes_on_in_its_message(
    platform: Callable[[], AbstractAsyncContextManager[Stage]], tmp_path: Path, sqlite_url: str
) -> None:
    endless = Reply(text="Once upon a time there was a sheep. " * 100, gap_seconds=0.2)
    play = Play(main=[endless, Reply(text="The whole story.")])
    async with platform() as stage, FakeAnthropic(play) as model:
        start = partial(
            serving, stage.fake, tmp_path, models=models(model), database_url=sqlite_url
        )
        async with start() as process:
            await stage.heard(process)
            await stage.say("A story!")
            await stage.shows("Once upon")
            await ends_in_time(process)
        async with start():
            await stage.shows("The whole story.")

        assert len(stage.texts()) == 1


async def test_an_answer_that_is_nearly_done_comes_to_its_end(
    platform: Callable[[], AbstractAsyncContextManager[Stage]], tmp_path: Path, sqlite_url: str
) -> None:
    short = Reply(text="Once upon a time there was a sheep, the end.", gap_seconds=0.1)
    async with platform() as stage, FakeAnthropic(Play(main=[short])) as model:
        async with serving(
            stage.fake, tmp_path, models=models(model), database_url=sqlite_url
        ) as process:
            await stage.heard(process)
            await stage.say("A story!")
            await stage.shows("Once upon")
            await ends_in_time(process)

        assert stage.texts() == ["Once upon a time there was a sheep, the end."]


@pytest.mark.parametrize("effects", [Effects.ONCE, Effects.NONE])
async def test_a_call_with_side_effects_comes_to_its_end_and_others_are_cut_off(
    sqlite_url: str, effects: Effects
) -> None:
    begun, opened, ends = asyncio.Event(), asyncio.Event(), list[str]()

    @tool(effects=effects, timeout_seconds=50)
    async def launch(context: ToolContext) -> str:
        """Launch something."""
        begun.set()
        try:
            await opened.wait()
        except asyncio.CancelledError:
            ends.append("cut off")
            raise
        ends.append("launched")
        return "launched"

    play = Play(runs={"Dig": [call("launch"), Reply(text="x", fault="hang")]})
    skill = Skill(name="launching", description="For tests.", tools=(launch,))
    async with stage(sqlite_url, play, further_skills=[skill]) as it:
        await it.command(ALICE, "/subagents spawn Dig")
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
        draining = asyncio.ensure_future(it.bot.drain(1))
        await it.outlet.until(
            lambda: any(cards[-1].line == PAUSED for cards in it.outlet.cards.values())
        )
        await idle()
        opened.set()
        await draining

    assert ends == ["launched" if effects is Effects.ONCE else "cut off"]

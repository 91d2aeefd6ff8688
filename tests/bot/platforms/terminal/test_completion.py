import asyncio

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from bot.platforms.terminal.completion import CommandCompleter
from bot.platforms.terminal.room import Room
from bot.platforms.terminal.texts import number_of
from bot.values import Identity
from tests.bot.platforms.terminal.test_room import Recorder
from tests.bot.platforms.terminal.things import ALLOW, OPTIONS, RUN, person, question
from tests.fakes.ears import FakeEars
from tests.fakes.terminal import sit_down

OTHER = "9f8e7d6c-0000-4000-8000-000000000002"


@pytest.fixture
def ears() -> FakeEars:
    ears = FakeEars()
    ears.runs = {
        person("alice"): [(RUN, "news"), (OTHER, "[red]\x1b[2Jweather")],
        person("bob"): [("77777777-0000-4000-8000-000000000003", "bob's")],
    }
    return ears


async def offered(ears: FakeEars, line: str, room: Room | None = None) -> dict[str, str]:
    """Return the words offered for a line, and what is said about each."""
    if room is None:
        room = Room()
        room.enter(person("alice"), Recorder())
    completions = CommandCompleter(room, ears).get_completions_async(
        Document(line), CompleteEvent(text_inserted=True)
    )
    return {item.text: item.display_meta_text async for item in completions}


async def test_commands_are_offered_from_the_first_slash(ears: FakeEars) -> None:
    everything = set(await offered(ears, "/"))

    commands = {"/subagents", "/new", "/model", "/stop", "/undo", "/help"}
    assert everything == commands | {"/quit", "/as", "/yes", "/all", "/no"}
    assert list(await offered(ears, "/su")) == ["/subagents"]
    assert await offered(ears, "hello /su") == {}


async def test_everything_about_runs_is_offered(ears: FakeEars) -> None:
    assert list(await offered(ears, "/subagents ")) == (
        ["list", "stop", "resume", "log", "info", "send", "spawn", "usage", "agents"]
    )


@pytest.mark.parametrize("action", ["stop", "resume", "log", "info", "send"])
async def test_ones_own_runs_are_offered_with_their_labels(ears: FakeEars, action: str) -> None:
    words = await offered(ears, f"/subagents {action} ")

    words.pop("all", None)
    assert words == {"1a2b3c4d": "news", "9f8e7d6c": "[red]weather"}
    assert await offered(ears, f"/subagents {action} 1a") == {"1a2b3c4d": "news"}
    assert "1a2b3c4d" in await offered(ears, f"/subagents {action} new")


async def test_only_stop_takes_all_runs(ears: FakeEars) -> None:
    assert "all" in await offered(ears, "/subagents stop ")
    assert "all" not in await offered(ears, "/subagents log ")


async def test_no_run_is_offered_where_none_is_meant(ears: FakeEars) -> None:
    assert await offered(ears, "/subagents list ") == {}
    assert await offered(ears, "/subagents send 1a2b3c4d ") == {}
    assert await offered(ears, "/subagents log 1a", Room()) == {}


async def test_open_questions_are_offered(ears: FakeEars) -> None:
    room = Room()
    room.enter(person("alice"), Recorder())
    asked = question("alice", text="Shall I?")
    room.add_question(asked)
    room.add_question(question("bob"))

    asked_too = question("alice", text="May it?", choices=ALLOW)
    room.add_question(asked_too)
    room.add_question(question("alice", choices=OPTIONS, open_ended=True))

    assert await offered(ears, "/yes ", room) == {
        number_of(asked): "Shall I?",
        number_of(asked_too): "May it?",
    }
    assert await offered(ears, "/all ", room) == {number_of(asked_too): "May it?"}


async def test_what_is_chosen_stands_in_the_line(ears: FakeEars) -> None:
    async with sit_down("alice", ears=ears) as sitting:
        sitting.type("/subagents log 1")
        await sitting.screen.shows("1a2b3c4d")
        sitting.type("\t\r")

        await sitting.ears.until(lambda: sitting.ears.texts() == ["/subagents log 1a2b3c4d"])


async def test_a_completion_that_fails_does_not_end_the_chat() -> None:
    failed = asyncio.Event()

    class Deaf(FakeEars):
        async def run_choices(
            self, user: Identity, typed: str, *, action: str = ""
        ) -> list[tuple[str, str]]:
            failed.set()
            raise RuntimeError("no database")

    async with sit_down("alice", ears=Deaf()) as sitting:
        sitting.type("/subagents log 1")
        async with asyncio.timeout(5):
            await failed.wait()
        sitting.send("")

        await sitting.ears.until(lambda: sitting.ears.texts() == ["/subagents log 1"])

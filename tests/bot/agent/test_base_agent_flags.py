"""Tools learn whether the prompt holds foreign content or private material."""

import asyncio
from dataclasses import replace

import pytest

from bot.agent.messages import ToolResult
from bot.agent.protocols import Entry
from bot.values import Json
from skills.base import ToolContext
from tests.bot.agent.things import Office, a_tool
from tests.fakes.around import MemoryJournal, Shelf, surroundings
from tests.fakes.scripted_model import ScriptedModel, asks_for, call, says


class Recorder:
    """A tool function that records the flags of its calls."""

    def __init__(self) -> None:
        self.flags: list[tuple[bool, bool]] = []

    async def __call__(self, context: ToolContext, _: Json) -> str:
        await asyncio.sleep(0)
        self.flags.append((context.foreign, context.private))
        return "Noted."


def script() -> ScriptedModel:
    return ScriptedModel(
        asks_for(call("note", "a"), call("page", "b")),
        asks_for(call("note", "c"), call("diary", "d")),
        asks_for(call("note", "e")),
        says("Done."),
    )


async def test_results_of_earlier_steps_set_the_flags_of_a_call(office: Office) -> None:
    note = Recorder()
    tools = [a_tool("note", note), a_tool("page", foreign=True), a_tool("diary", private=True)]

    await office.work(script(), *tools)

    assert note.flags == [(False, False), (True, False), (True, True)]


async def test_the_flags_of_the_prompt_at_the_start_stay_set(office: Office) -> None:
    note = Recorder()
    around = surroundings()
    around = replace(around, caller=replace(around.caller, foreign=True, private=True))

    await office.work(
        ScriptedModel(asks_for(call("note")), says("Done.")), a_tool("note", note), around=around
    )

    assert note.flags == [(True, True)]


class KilledError(BaseException):
    """The process ends here."""


async def test_the_flags_survive_a_crash_even_when_the_tool_is_gone(office: Office) -> None:
    shelf, note = Shelf(), Recorder()

    async def end_at_the_third_answer(_: Entry) -> None:
        await asyncio.sleep(0)
        if len(shelf.entries) == 2:
            raise KilledError

    dying = surroundings(journal=MemoryJournal(shelf, before=end_at_the_third_answer))
    with pytest.raises(KilledError):
        await office.work(script(), a_tool("note"), a_tool("page", foreign=True), around=dying)
    shelf.attempt = 2

    rest = ScriptedModel(asks_for(call("note", "e")), says("Done."))
    await office.work(
        rest, a_tool("note", note), around=surroundings(journal=MemoryJournal(shelf, 2))
    )

    assert note.flags == [(True, False), (True, False)]


def test_a_result_stored_before_there_were_flags_has_both() -> None:
    old = {"id": "a", "text": "Found.", "failed": False}

    assert ToolResult.read(old) == ToolResult("a", "Found.", foreign=True, private=True)

"""One message through a pipe: its answer, and what a program learns of it."""

import asyncio
import json
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import pytest

from bot.platforms.base import CommandReply, Incoming
from bot.platforms.terminal.once import OneMessage
from bot.platforms.terminal.people import place_of
from bot.values import RunStatus
from tests.bot.platforms.terminal.things import announcement, card, person
from tests.fakes.inbound import FakeInboundHandler
from tests.fakes.terminal import nothing_waits


@dataclass
class Asked:
    """A message that was sent, and what came of it."""

    text: str
    options: dict[str, Any] = field(default_factory=dict)
    inbound: FakeInboundHandler = field(default_factory=FakeInboundHandler)
    answers: StringIO = field(default_factory=StringIO)
    notes: StringIO = field(default_factory=StringIO)

    def __post_init__(self) -> None:
        self.message = OneMessage(
            self.text,
            name="alice",
            on_present=nothing_waits,
            answers=self.answers,
            notes=self.notes,
            **self.options,
        )
        self.outlet = self.message.outlet

    async def reply(self, text: str, *, failed: bool = False) -> None:
        stream = self.outlet.open_reply(place_of(person()), person())
        await stream.finish(text, failed=failed)

    async def over(self) -> None:
        async with asyncio.timeout(5):
            await self.message.run(self.inbound, idle_seconds=0.05)


async def test_many_lines_are_one_message_whose_answer_goes_to_standard_output() -> None:
    asked = Asked("one\ntwo\n\n/three\n")

    async def answer(_: Incoming) -> None:
        await asked.reply("**x** is [a](http://b)")

    asked.inbound.on_message = answer
    await asked.over()

    assert asked.inbound.texts() == ["one\ntwo\n\n/three"]
    assert asked.answers.getvalue() == "**x** is [a](http://b)\n"
    assert asked.notes.getvalue() == ""
    assert not asked.message.failed


async def test_a_turn_that_failed_is_told_beside_it() -> None:
    asked = Asked("What is x?")

    async def answer(_: Incoming) -> None:
        await asked.reply("⚠ The model is overloaded.", failed=True)

    asked.inbound.on_message = answer
    await asked.over()

    assert (asked.answers.getvalue(), asked.message.failed) == ("", True)
    assert "overloaded" in asked.notes.getvalue()


@pytest.mark.parametrize("failed", [False, True])
async def test_a_command_is_answered_too(*, failed: bool) -> None:
    asked = Asked("/subagents list")
    asked.inbound.commands["/subagents list"] = CommandReply(text="None.", failed=failed)

    await asked.over()

    assert asked.message.failed is failed
    assert (asked.notes if failed else asked.answers).getvalue() == "None.\n"


async def test_states_of_its_runs_stay_out_of_the_answer_and_their_results_are_in_it() -> None:
    asked = Asked("Find news in the background.")

    async def spawn(_: Incoming) -> None:
        asked.outlet.show_card(card(status=RunStatus.RUNNING))
        await asked.reply("It is under way.")
        asked.outlet.show_card(card(status=RunStatus.COMPLETED))
        await asked.outlet.announce(announcement())

    asked.inbound.on_message = spawn
    await asked.over()

    assert asked.answers.getvalue() == (
        "It is under way.\nSubagent Result: news completed (1a2b3c4d)\nThere is some.\n"
    )
    assert "running" in asked.notes.getvalue()


async def test_what_was_due_from_earlier_runs_is_no_answer() -> None:
    asked = Asked("What is x?")

    async def answer(_: Incoming) -> None:
        await asked.outlet.announce(announcement())
        await asked.reply("It is y.")

    asked.inbound.on_message = answer
    await asked.over()

    assert asked.answers.getvalue() == "It is y.\n"
    assert "There is some." in asked.notes.getvalue()


async def test_with_an_agent_its_result_alone_is_the_answer() -> None:
    asked = Asked("the news\nof today", {"agent": "explore"})
    command = "/subagents spawn --agent explore -- the news\nof today"

    async def finish() -> None:
        asked.outlet.show_card(card(status=RunStatus.COMPLETED))
        await asked.outlet.announce(announcement())

    asked.inbound.commands[command] = CommandReply(text="It has started.")
    asked.outlet.show_card(card(status=RunStatus.RUNNING))
    async with asyncio.TaskGroup() as group:
        group.create_task(asked.over())
        await asked.inbound.until(lambda: bool(asked.inbound.heard))
        group.create_task(finish())

    assert asked.answers.getvalue() == "There is some.\n"
    assert "It has started." in asked.notes.getvalue()


async def test_a_run_that_failed_fails_the_message() -> None:
    asked = Asked("Find news in the background.")

    async def spawn(_: Incoming) -> None:
        await asked.reply("It is under way.")
        asked.outlet.show_card(card(status=RunStatus.TIMEOUT))

    asked.inbound.on_message = spawn
    await asked.over()

    assert asked.message.failed


async def test_a_program_gets_one_json_object() -> None:
    asked = Asked("Find news in the background.", {"as_json": True})

    async def spawn(_: Incoming) -> None:
        await asked.reply("It is under way.")
        asked.outlet.show_card(card(status=RunStatus.COMPLETED))
        await asked.outlet.announce(announcement())

    asked.inbound.on_message = spawn
    await asked.over()

    found = json.loads(asked.answers.getvalue())
    assert (found["answer"], found["failed"]) == ("It is under way.", False)
    [run] = found["runs"]
    assert (run["status"], run["result"], run["id"][:8]) == (
        "completed",
        "There is some.",
        "1a2b3c4d",
    )

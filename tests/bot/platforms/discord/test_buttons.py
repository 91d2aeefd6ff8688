"""Buttons and forms: who clicks, what is heard, and that they outlive a restart."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import discord
import pytest

from bot.platforms.base import YES, CommandReply
from bot.platforms.discord.buttons import Row, RunButton, more_below
from bot.platforms.discord.questions import AnswerButton
from bot.platforms.messaging.intake import NOT_YOU
from tests.bot.platforms.discord.hearing import (
    CONTENT_ALLOWED,
    QUESTION,
    RUN,
    Town,
    people,
    show,
    town,
    who,
)
from tests.fakes.discord.server import FakeDiscord


@pytest.fixture
async def fake() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord.open() as opened:
        opened.application_flags = CONTENT_ALLOWED
        yield opened


@pytest.fixture
async def here(fake: FakeDiscord, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Town]:
    caplog.set_level(logging.INFO, logger="bot")
    async with town(fake) as opened:
        yield opened


# --- stop and log ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("button", "label", "text"),
    [
        (RunButton("stop", RUN), "Stop", f"/subagents stop {RUN}"),
        (RunButton("resume", RUN), "Resume", f"/subagents resume {RUN}"),
        (RunButton("log", RUN), "Log", f"/subagents log {RUN}"),
        (RunButton("log", RUN, "3"), "More", f"/subagents log {RUN} 3"),
    ],
)
@pytest.mark.parametrize("put", [show, None])
async def test_a_click_is_heard_as_a_command_and_answered_for_the_one_alone(
    here: Town, button: discord.ui.DynamicItem[Any], label: str, text: str, put: Any
) -> None:
    here.answers(text, "As you wish.")
    message = await (show(here, "A run", button) if put else here.post(here.general, button))

    clicked = await (await here.fake.click(here.bob, message, label)).done()

    assert (here.inbound.texts(), here.inbound.heard[0].user) == ([text], who(here.bob))
    assert here.inbound.heard[0].event_id == f"interaction:{clicked.id}"
    assert (clicked.text(), clicked.ephemeral, clicked.deferred) == ("As you wish.", True, True)
    assert message.edits == 0


async def test_two_people_click_and_each_gets_an_own_answer(here: Town) -> None:
    message = await show(here, "A run", RunButton("stop", RUN))
    here.answers(f"/subagents stop {RUN}", "Stopping it.")

    clicks = [await here.fake.click(person, message, "Stop") for person in (here.alice, here.bob)]
    for clicked in clicks:
        await clicked.done()

    assert {each.user for each in here.inbound.heard} == {who(here.alice), who(here.bob)}
    assert all(clicked.ephemeral for clicked in clicks)


async def test_buttons_work_that_a_process_posted_which_is_gone(fake: FakeDiscord) -> None:
    async with town(fake) as before:
        card = await show(before, "A run", RunButton("stop", RUN), RunButton("send", RUN))
    async with town(fake) as after:
        after.answers(f"/subagents stop {RUN}", "Stopping it.")

        clicked = await (await fake.click(after.alice, card, "Stop")).done()

        assert clicked.text() == "Stopping it."


async def test_below_a_page_of_the_log_is_a_button_for_the_next(here: Town) -> None:
    message = await show(here, "A run", RunButton("log", RUN))
    first, second = f"/subagents log {RUN}", f"/subagents log {RUN} 2"
    here.answers(first, CommandReply(text="Page 1 of 2", more="/subagents log 1a2b3c4d 2"))
    here.answers(second, CommandReply(text="Page 2 of 2"))

    page = await (await here.fake.click(here.alice, message, "Log")).done()
    more = await (await here.fake.click(here.alice, page.messages[0], "More")).done()

    assert page.text() == "Page 1 of 2"
    assert page.messages[0].buttons() == ["More"]
    assert (more.text(), more.messages[0].buttons()) == ("Page 2 of 2", [])
    assert (more.ephemeral, here.inbound.texts()) == (True, [first, second])


def test_the_next_page_is_of_the_same_run_also_when_the_reply_has_its_short_id() -> None:
    def ids(more: str, asked: str) -> list[str]:
        row = more_below(CommandReply(text="", more=more), asked)
        return [str(getattr(item, "custom_id", "")) for item in row.children] if row else []

    assert ids("/subagents log 1a2b3c4d 2", RUN) == [f"run:log:{RUN}:2"]
    assert ids("/subagents log 1a2b3c4d 2", "last") == ["run:log:1a2b3c4d:2"]
    assert ids("", RUN) == []
    assert ids("/subagents list 2", RUN) == []


async def test_clicks_pass_the_same_gate_as_messages(fake: FakeDiscord) -> None:
    *_, bob = people(fake)
    async with town(fake, users=(str(bob.id),)) as here:
        buttons = (RunButton("stop", RUN), RunButton("send", RUN), AnswerButton(QUESTION, YES))
        message = await show(here, "A run", *buttons)
        for label in ("Stop", "Send", "Yes"):
            clicked = await (await fake.click(here.alice, message, label)).done()

            assert (clicked.text(), clicked.ephemeral, clicked.modal) == (NOT_YOU, True, None)
        assert not here.inbound.heard
        assert not here.inbound.answered
        assert message.edits == 0


async def test_a_button_in_a_thread_that_is_gone_answers_all_the_same(here: Town) -> None:
    thread = await here.fake.open_thread(here.alice, here.general)
    message = await here.post(thread, RunButton("stop", RUN))
    here.answers(f"/subagents stop {RUN}", "Stopping it.")
    go_on = asyncio.Event()
    here.fake.fail("POST", "/interactions/{id}/{token}/callback", hold=go_on)

    clicked = await here.fake.click(here.alice, message, "Stop")
    here.fake.delete_channel(thread)
    go_on.set()

    assert (await clicked.done()).text() == "Stopping it."


# --- send -----------------------------------------------------------------------------------------


async def test_send_opens_a_form_and_what_is_written_is_heard(here: Town) -> None:
    message = await show(here, "A run", RunButton("send", RUN))
    here.answers(f"/subagents send {RUN} Use euros.\nNot pounds.", "It will read that.")

    clicked = await (await here.fake.click(here.alice, message, "Send")).done()
    assert clicked.modal is not None
    sent = await here.fake.submit(here.alice, clicked.modal, "Use euros.\nNot pounds.")
    await sent.done()

    assert clicked.modal.title == "Message to run 1a2b3c4d"
    assert clicked.modal.inputs[0]["max_length"] == 4_000
    assert (sent.text(), sent.ephemeral) == ("It will read that.", True)
    assert len(here.inbound.heard) == 1


async def test_a_form_is_taken_that_a_process_opened_which_is_gone(fake: FakeDiscord) -> None:
    async with town(fake) as before:
        message = await show(before, "A run", RunButton("send", RUN))
        clicked = await (await fake.click(before.alice, message, "Send")).done()
    async with town(fake) as after:
        after.answers(f"/subagents send {RUN} hello", "It will read that.")

        sent = await (await fake.submit(after.alice, clicked.modal, "hello")).done()

        assert sent.text() == "It will read that."


async def test_a_form_passes_the_same_gate_as_messages(fake: FakeDiscord) -> None:
    *_, bob = people(fake)
    async with town(fake, users=(str(bob.id),)) as here:
        message = await show(here, "A run", RunButton("send", RUN))
        clicked = await (await fake.click(here.bob, message, "Send")).done()

        sent = await (await fake.submit(here.alice, clicked.modal, "hello")).done()

        assert (sent.text(), sent.ephemeral) == (NOT_YOU, True)
        assert not here.inbound.heard


async def test_a_form_that_nobody_knows_is_passed_over(
    here: Town, caplog: pytest.LogCaptureFixture
) -> None:
    message = await show(here, "A run", RunButton("send", RUN))
    clicked = await (await here.fake.click(here.alice, message, "Send")).done()
    assert clicked.modal is not None
    clicked.modal.payload["custom_id"] = "something:else"

    await here.fake.submit(here.alice, clicked.modal, "hello")
    await here.fake.until(lambda: "Nobody knows the form" in caplog.text, "a line in the log")

    assert not here.inbound.heard


# --- what the library keeps -----------------------------------------------------------------------


async def test_the_library_keeps_no_view_so_none_can_take_a_button_away(here: Town) -> None:
    older = await here.post(here.general, RunButton("stop", RUN))
    message = await here.post(here.general, RunButton("stop", RUN), RunButton("log", RUN))
    there = here.client.get_partial_messageable(here.general.id).get_partial_message(message.id)
    row = Row(RunButton("stop", RUN), RunButton("log", RUN))
    await there.edit(view=row)
    row.remove_item(row.children[0])
    await there.edit(view=row)
    here.answers(f"/subagents stop {RUN}", "Stopping it.")

    clicked = await (await here.fake.click(here.alice, older, "Stop")).done()

    assert clicked.text() == "Stopping it."

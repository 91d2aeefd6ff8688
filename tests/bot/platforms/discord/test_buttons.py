"""Buttons and forms: who clicks, what is heard, and that they outlive a restart."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import discord
import pytest

from bot.errors import BotError
from bot.platforms.base import CommandReply
from bot.platforms.discord.buttons import (
    AnswerButton,
    LogButton,
    Row,
    SendButton,
    StopButton,
    Unkept,
    more_below,
)
from bot.platforms.discord.texts import question_tail
from bot.platforms.reception import NOT_YOU
from bot.values import Identity
from tests.bot.platforms.discord.hearing import CONTENT_ALLOWED, RUN, Town, people, town, who
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.things import Message
from tests.fakes.ears import FakeEars

QUESTION = "0f" * 16
GONE = "There is nothing to confirm: it was answered already, has expired, or is not yours."
EDIT = "/channels/{channel}/messages/{message}"


class OneOwner(FakeEars):
    """Takes answers from one person, or an admin, once."""

    def __init__(self, owner: Identity) -> None:
        super().__init__()
        self.owner = owner
        self.result = CommandReply(text="Deleted 3 files.")

    async def answer(
        self, user: Identity, confirmation_id: str, *, yes: bool, admin: bool = False
    ) -> CommandReply:
        before = any(self._counts(each.user, each.admin) for each in self.answered)
        await super().answer(user, confirmation_id, yes=yes, admin=admin)
        if before or not self._counts(user, admin):
            return CommandReply(text=GONE, failed=True, refused=True)
        return self.result

    def _counts(self, user: Identity, admin: bool) -> bool:
        return user == self.owner or admin


class Card(Unkept, discord.ui.LayoutView):
    """A message of components with buttons in a row."""

    def __init__(self, text: str, *items: discord.ui.DynamicItem[Any]) -> None:
        super().__init__(timeout=None)
        row: discord.ui.ActionRow[Card] = discord.ui.ActionRow()
        for item in items:
            row.add_item(item)
        self.add_item(discord.ui.Container(discord.ui.TextDisplay(text), row))


async def show(here: Town, text: str, *items: discord.ui.DynamicItem[Any]) -> Message:
    """Post a card."""
    there = here.client.get_partial_messageable(here.general.id)
    sent = await there.send(view=Card(text, *items))
    return here.general.messages[sent.id]


async def ask(here: Town, text: str = "Shall I delete it?") -> Message:
    buttons = AnswerButton(QUESTION, yes=True), AnswerButton(QUESTION, yes=False)
    return await show(here, text, *buttons)


@pytest.fixture
async def fake() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord.open() as opened:
        opened.application_flags = CONTENT_ALLOWED
        yield opened


@pytest.fixture
async def here(fake: FakeDiscord, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Town]:
    caplog.set_level(logging.INFO, logger="bot")
    _, _, alice, _ = people(fake)
    async with town(fake, OneOwner(who(alice))) as opened:
        yield opened


# --- stop and log ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("button", "label", "text"),
    [
        (StopButton(RUN), "Stop", f"/subagents stop {RUN}"),
        (LogButton(RUN), "Log", f"/subagents log {RUN} 1"),
        (LogButton(RUN, 3), "More", f"/subagents log {RUN} 3"),
    ],
)
@pytest.mark.parametrize("put", [show, None])
async def test_a_click_is_heard_as_a_command_and_answered_for_the_one_alone(
    here: Town, button: discord.ui.DynamicItem[Any], label: str, text: str, put: Any
) -> None:
    here.answers(text, "As you wish.")
    message = await (show(here, "A run", button) if put else here.post(here.general, button))

    clicked = await (await here.fake.click(here.bob, message, label)).done()

    assert (here.ears.texts(), here.ears.heard[0].user) == ([text], who(here.bob))
    assert here.ears.heard[0].event_id == f"interaction:{clicked.id}"
    assert (clicked.text(), clicked.ephemeral, clicked.deferred) == ("As you wish.", True, True)
    assert message.edits == 0


async def test_two_people_click_and_each_gets_an_own_answer(here: Town) -> None:
    message = await show(here, "A run", StopButton(RUN))
    here.answers(f"/subagents stop {RUN}", "Stopping it.")

    clicks = [await here.fake.click(person, message, "Stop") for person in (here.alice, here.bob)]
    for clicked in clicks:
        await clicked.done()

    assert {each.user for each in here.ears.heard} == {who(here.alice), who(here.bob)}
    assert all(clicked.ephemeral for clicked in clicks)


async def test_buttons_work_that_a_process_posted_which_is_gone(fake: FakeDiscord) -> None:
    async with town(fake) as before:
        card = await show(before, "A run", StopButton(RUN), SendButton(RUN))
    async with town(fake) as after:
        after.answers(f"/subagents stop {RUN}", "Stopping it.")

        clicked = await (await fake.click(after.alice, card, "Stop")).done()

        assert clicked.text() == "Stopping it."


async def test_below_a_page_of_the_log_is_a_button_for_the_next(here: Town) -> None:
    message = await show(here, "A run", LogButton(RUN))
    first, second = f"/subagents log {RUN} 1", f"/subagents log {RUN} 2"
    here.answers(first, CommandReply(text="Page 1 of 2", more="/subagents log 1a2b3c4d 2"))
    here.answers(second, CommandReply(text="Page 2 of 2"))

    page = await (await here.fake.click(here.alice, message, "Log")).done()
    more = await (await here.fake.click(here.alice, page.messages[0], "More")).done()

    assert page.text() == "Page 1 of 2"
    assert page.messages[0].buttons() == ["More"]
    assert (more.text(), more.messages[0].buttons()) == ("Page 2 of 2", [])
    assert (more.ephemeral, here.ears.texts()) == (True, [first, second])


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
        buttons = (StopButton(RUN), SendButton(RUN), AnswerButton(QUESTION, yes=True))
        message = await show(here, "A run", *buttons)
        for label in ("Stop", "Send", "Yes, do it"):
            clicked = await (await fake.click(here.alice, message, label)).done()

            assert (clicked.text(), clicked.ephemeral, clicked.modal) == (NOT_YOU, True, None)
        assert not here.ears.heard
        assert not here.ears.answered
        assert message.edits == 0


async def test_a_button_in_a_thread_that_is_gone_answers_all_the_same(here: Town) -> None:
    thread = await here.fake.open_thread(here.alice, here.general)
    message = await here.post(thread, StopButton(RUN))
    here.answers(f"/subagents stop {RUN}", "Stopping it.")
    go_on = asyncio.Event()
    here.fake.fail("POST", "/interactions/{id}/{token}/callback", hold=go_on)

    clicked = await here.fake.click(here.alice, message, "Stop")
    here.fake.delete_channel(thread)
    go_on.set()

    assert (await clicked.done()).text() == "Stopping it."


# --- send -----------------------------------------------------------------------------------------


async def test_send_opens_a_form_and_what_is_written_is_heard(here: Town) -> None:
    message = await show(here, "A run", SendButton(RUN))
    here.answers(f"/subagents send {RUN} Use euros.\nNot pounds.", "It will read that.")

    clicked = await (await here.fake.click(here.alice, message, "Send")).done()
    assert clicked.modal is not None
    sent = await here.fake.submit(here.alice, clicked.modal, "Use euros.\nNot pounds.")
    await sent.done()

    assert clicked.modal.title == "Message to run 1a2b3c4d"
    assert clicked.modal.inputs[0]["max_length"] == 4_000
    assert (sent.text(), sent.ephemeral) == ("It will read that.", True)
    assert len(here.ears.heard) == 1


async def test_a_form_is_taken_that_a_process_opened_which_is_gone(fake: FakeDiscord) -> None:
    async with town(fake) as before:
        message = await show(before, "A run", SendButton(RUN))
        clicked = await (await fake.click(before.alice, message, "Send")).done()
    async with town(fake) as after:
        after.answers(f"/subagents send {RUN} hello", "It will read that.")

        sent = await (await fake.submit(after.alice, clicked.modal, "hello")).done()

        assert sent.text() == "It will read that."


async def test_a_form_passes_the_same_gate_as_messages(fake: FakeDiscord) -> None:
    *_, bob = people(fake)
    async with town(fake, users=(str(bob.id),)) as here:
        message = await show(here, "A run", SendButton(RUN))
        clicked = await (await fake.click(here.bob, message, "Send")).done()

        sent = await (await fake.submit(here.alice, clicked.modal, "hello")).done()

        assert (sent.text(), sent.ephemeral) == (NOT_YOU, True)
        assert not here.ears.heard


async def test_a_form_that_nobody_knows_is_passed_over(
    here: Town, caplog: pytest.LogCaptureFixture
) -> None:
    message = await show(here, "A run", SendButton(RUN))
    clicked = await (await here.fake.click(here.alice, message, "Send")).done()
    assert clicked.modal is not None
    clicked.modal.payload["custom_id"] = "something:else"

    await here.fake.submit(here.alice, clicked.modal, "hello")
    await here.fake.until(lambda: "Nobody knows the form" in caplog.text, "a line in the log")

    assert not here.ears.heard


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "yes", "words"), [("Yes, do it", True, "said yes"), ("No", False, "said no")]
)
@pytest.mark.parametrize("as_card", [True, False])
async def test_an_answered_question_loses_its_buttons_and_says_who_decided(
    here: Town, label: str, yes: bool, words: str, as_card: bool
) -> None:
    buttons = AnswerButton(QUESTION, yes=True), AnswerButton(QUESTION, yes=False)
    put = show(here, "Look:", *buttons) if as_card else here.post(here.general, *buttons)
    message = await put

    clicked = await (await here.fake.click(here.alice, message, label)).done()
    await here.fake.until(lambda: clicked.messages, "the result")

    assert [(each.user, each.confirmation_id, each.yes) for each in here.ears.answered] == [
        (who(here.alice), QUESTION, yes)
    ]
    assert message.buttons() == []
    assert message.text().startswith("Look:\n")
    assert message.text().endswith(f"<@{here.alice.id}> {words}.")
    assert not message.pings | message.edit_pings
    assert (clicked.text(), clicked.messages[0].ephemeral) == ("Deleted 3 files.", True)


async def test_an_answered_question_no_longer_says_when_it_ends(here: Town) -> None:
    there = here.client.get_partial_messageable(here.general.id)
    row = Row(AnswerButton(QUESTION, yes=True))
    sent = await there.send(f"Shall I delete it?\n{question_tail(1_700_000_000)}", view=row)
    message = here.general.messages[sent.id]

    await (await here.fake.click(here.alice, message, "Yes, do it")).done()

    assert message.text() == f"Shall I delete it?\n\n✅ <@{here.alice.id}> said yes."


async def test_a_question_as_long_as_discord_allows_can_be_answered(here: Town) -> None:
    message = await ask(here, "x" * 4_000)

    clicked = await (await here.fake.click(here.alice, message, "No")).done()
    await here.fake.until(lambda: clicked.messages, "the result")

    assert message.buttons() == []
    assert message.text().endswith("said no.")


async def test_somebody_elses_answer_is_refused_and_changes_nothing(here: Town) -> None:
    message = await ask(here)

    clicked = await (await here.fake.click(here.bob, message, "Yes, do it")).done()

    assert (clicked.text(), clicked.ephemeral) == (GONE, True)
    assert (message.edits, message.buttons()) == (0, ["Yes, do it", "No"])


async def test_of_two_answers_the_second_is_refused(here: Town) -> None:
    message = await ask(here)

    clicks = [await here.fake.click(here.alice, message, each) for each in ("Yes, do it", "No")]
    await here.fake.until(lambda: all(each.messages for each in clicks), "both answered")

    assert [each.text() for each in clicks] == ["Deleted 3 files.", GONE]
    assert message.edits == 1
    assert message.text().endswith("said yes.")


async def test_an_admin_by_role_answers_as_one(fake: FakeDiscord) -> None:
    guild, _, alice, bob = people(fake)
    chiefs = fake.add_role(guild, "chiefs")
    fake.join(guild, bob, roles=[chiefs])
    async with town(fake, OneOwner(who(alice)), admin_roles=(str(chiefs.id),)) as here:
        message = await ask(here)
        clicked = await (await fake.click(bob, message, "No")).done()
        await fake.until(lambda: clicked.messages, "the result")

        assert here.ears.answered[0].admin
        assert message.text().endswith(f"<@{bob.id}> said no.")


async def test_an_answer_that_the_core_could_not_take_can_be_given_again(here: Town) -> None:
    message = await ask(here)
    here.ears.failure = BotError("The database is away; try again in a minute.")

    clicked = await (await here.fake.click(here.alice, message, "Yes, do it")).done()

    assert clicked.text() == "The database is away; try again in a minute."
    assert (message.edits, message.buttons()) == (0, ["Yes, do it", "No"])


async def test_what_was_confirmed_and_then_failed_is_answered(here: Town) -> None:
    assert isinstance(here.ears, OneOwner)
    here.ears.result = CommandReply(text="It is not there.", failed=True)
    message = await ask(here)

    clicked = await (await here.fake.click(here.alice, message, "Yes, do it")).done()
    await here.fake.until(lambda: clicked.messages, "the result")

    assert clicked.text() == "It is not there."
    assert message.buttons() == []


async def test_a_question_that_is_gone_when_it_is_answered_breaks_nothing(
    here: Town, caplog: pytest.LogCaptureFixture
) -> None:
    message = await ask(here)
    go_on = asyncio.Event()
    here.fake.fail("PATCH", EDIT, hold=go_on)

    clicked = await here.fake.click(here.alice, message, "Yes, do it")
    await here.fake.until(lambda: here.fake.requests("PATCH", EDIT), "the question settled")
    await here.fake.delete(message)
    go_on.set()
    await here.fake.until(lambda: clicked.messages, "the result")

    assert clicked.text() == "Deleted 3 files."
    assert "still has its buttons" in caplog.text


async def test_a_question_is_settled_also_when_the_click_has_expired(here: Town) -> None:
    message = await ask(here)
    here.fake.fail("POST", "/interactions/{id}/{token}/callback", code=10062)

    await here.fake.click(here.alice, message, "Yes, do it")
    *_, said = await here.said(here.general, 2)

    assert message.buttons() == []
    assert said.text() == "Deleted 3 files."


async def test_the_same_click_in_another_process_says_nothing_more(here: Town) -> None:
    message = await ask(here)
    first = await (await here.fake.click(here.alice, message, "Yes, do it")).done()
    here.fake.fail("POST", "/interactions/{id}/{token}/callback", code=40060)

    await here.fake.click(here.alice, await ask(here), "Yes, do it")
    await here.ears.until(lambda: len(here.ears.answered) == 2, "the answer")
    other = await (await here.fake.click(here.bob, await ask(here), "No")).done()

    assert (first.text(), other.text()) == ("Deleted 3 files.", GONE)
    assert len(here.fake.requests("POST", "/webhooks/{application}/{token}")) == 2


# --- what the library keeps -----------------------------------------------------------------------


async def test_the_library_keeps_no_view_so_none_can_take_a_button_away(here: Town) -> None:
    older = await here.post(here.general, StopButton(RUN))
    message = await here.post(here.general, StopButton(RUN), LogButton(RUN))
    there = here.client.get_partial_messageable(here.general.id).get_partial_message(message.id)
    row = Row(StopButton(RUN), LogButton(RUN))
    await there.edit(view=row)
    row.remove_item(row.children[0])
    await there.edit(view=row)
    here.answers(f"/subagents stop {RUN}", "Stopping it.")

    clicked = await (await here.fake.click(here.alice, older, "Stop")).done()

    assert clicked.text() == "Stopping it."

"""Questions: a button for each choice, who answers, and how they are settled."""

import asyncio
import logging
from collections.abc import AsyncIterator

import discord
import pytest

from bot.errors import BotError
from bot.platforms.base import NO, YES, Choice, CommandReply, Weight
from bot.platforms.discord.buttons import Row
from bot.platforms.discord.questions import AnswerButton
from bot.platforms.discord.texts import question_tail
from bot.values import Identity, Place
from tests.bot.platforms.discord.hearing import (
    CONTENT_ALLOWED,
    QUESTION,
    Town,
    people,
    show,
    town,
    who,
)
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.things import Message
from tests.fakes.inbound import Answered, FakeInboundHandler

GONE = "There is nothing to confirm: it was answered already, has expired, or is not yours."
EDIT = "/channels/{channel}/messages/{message}"


class OneOwner(FakeInboundHandler):
    """Takes answers from one user, or an admin, once."""

    def __init__(self, owner: Identity) -> None:
        super().__init__()
        self.owner = owner
        self.result = CommandReply(text="Deleted 3 files.")

    async def answer(
        self,
        user: Identity,
        confirmation_id: str,
        *,
        choice: str,
        place: Place | None = None,
        admin: bool = False,
    ) -> CommandReply:
        before = any(self._counts(each.user, each.admin) for each in self.answered)
        await super().answer(user, confirmation_id, choice=choice, admin=admin)
        if before or not self._counts(user, admin):
            return CommandReply(text=GONE, failed=True, refused=True)
        return self.result

    def _counts(self, user: Identity, admin: bool) -> bool:
        return user == self.owner or admin


async def ask(here: Town, text: str = "Shall I delete it?") -> Message:
    buttons = AnswerButton(QUESTION, YES), AnswerButton(QUESTION, NO)
    return await show(here, text, *buttons)


async def raw(here: Town, custom_id: str, label: str) -> Message:
    """Post a button as another version of the bot might have done."""
    view = discord.ui.View(timeout=None)
    view.add_item(discord.ui.Button(label=label, custom_id=custom_id))
    sent = await here.client.get_partial_messageable(here.general.id).send("Look:", view=view)
    return here.general.messages[sent.id]


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


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (YES, "✅ {who} said yes."),
        (NO, "❌ {who} said no."),
        (Choice("all", "Allow for this run", Weight.GOOD), "✅ {who}: Allow for this run"),
        (Choice("2", "**Big** <@5> bang"), "💬 {who}: \\*\\*Big\\*\\* < @5> bang"),
        (Choice("skip", "Skip"), "💬 {who}: Skip"),
    ],
)
@pytest.mark.parametrize("as_card", [True, False])
async def test_an_answered_question_loses_its_buttons_and_says_who_decided_what(
    here: Town, choice: Choice, words: str, as_card: bool
) -> None:
    buttons = AnswerButton(QUESTION, choice), AnswerButton(QUESTION, Choice("x", "Something else"))
    put = show(here, "Look:", *buttons) if as_card else here.post(here.general, *buttons)
    message = await put

    clicked = await (await here.fake.click(here.alice, message, message.buttons()[0])).done()
    await here.fake.until(lambda: clicked.messages, "the result")

    assert here.inbound.answered == [Answered(who(here.alice), QUESTION, choice.key)]
    assert message.buttons() == []
    assert message.text().startswith("Look:\n")
    assert message.text().endswith(words.format(who=f"<@{here.alice.id}>"))
    assert not message.pings | message.edit_pings
    assert (clicked.text(), clicked.messages[0].ephemeral) == ("Deleted 3 files.", True)


@pytest.mark.parametrize("open_ended", [True, False])
async def test_an_answered_question_no_longer_says_how_and_until_when(
    here: Town, open_ended: bool
) -> None:
    there = here.client.get_partial_messageable(here.general.id)
    row = Row(AnswerButton(QUESTION, YES))
    tail = question_tail(1_700_000_000, open_ended=open_ended)
    sent = await there.send(f"Shall I delete it?\n{tail}", view=row)
    message = here.general.messages[sent.id]

    await (await here.fake.click(here.alice, message, "Yes")).done()

    assert message.text() == f"Shall I delete it?\n\n✅ <@{here.alice.id}> said yes."


@pytest.mark.parametrize(
    ("custom_id", "label", "choice", "words"),
    [
        (f"ask:yes:{QUESTION}", "Yes, do it", "yes", "✅ {who}: Yes, do it"),
        (f"ask:no:{QUESTION}", "No", "no", "❌ {who} said no."),
    ],
)
async def test_a_button_from_before_an_update_still_answers(
    here: Town, custom_id: str, label: str, choice: str, words: str
) -> None:
    message = await raw(here, custom_id, label)

    await (await here.fake.click(here.alice, message, label)).done()

    assert here.inbound.answered == [Answered(who(here.alice), QUESTION, choice)]
    assert message.text().endswith(words.format(who=f"<@{here.alice.id}>"))


async def test_a_choice_that_the_core_does_not_know_is_refused_in_a_sentence(here: Town) -> None:
    assert isinstance(here.inbound, OneOwner)
    here.inbound.result = CommandReply(text=GONE, failed=True, refused=True)
    message = await raw(here, f"ask:whatever:{QUESTION}", "Whatever")

    clicked = await (await here.fake.click(here.alice, message, "Whatever")).done()

    assert clicked.text() == GONE
    assert (message.edits, message.buttons()) == (0, ["Whatever"])


@pytest.mark.parametrize(
    "custom_id", [f"ask:overlongkey:{QUESTION}", "ask:yes:" + "0" * 81, "ask:yes:", "ask:a b:c"]
)
async def test_a_button_that_we_cannot_have_made_does_nothing(
    here: Town, custom_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    message = await raw(here, custom_id, "Odd")

    await here.fake.click(here.alice, message, "Odd")
    await (await here.fake.click(here.alice, await ask(here), "No")).done()

    assert [each.choice for each in here.inbound.answered] == ["no"]
    assert message.edits == 0
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


# --- answers in words -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "chosen", "words"),
    [
        ("yes", "", "✅ {who} said yes."),
        ("2", "Pounds", "💬 {who}: Pounds"),
        ("Use euros @everyone", "", "💬 {who}: Use euros @ everyone"),
    ],
)
async def test_a_question_that_is_answered_in_words_is_settled(
    here: Town, said: str, chosen: str, words: str
) -> None:
    message = await here.post(here.general, AnswerButton(QUESTION, YES))
    other = await here.post(here.general, AnswerButton("1" * 32, YES))
    here.answers(said, CommandReply(text="Thanks.", answered=QUESTION, chosen=chosen))

    await here.fake.say(here.alice, here.general, said, mention=True)
    await here.fake.until(lambda: message.edits, "the question settled")

    assert message.buttons() == []
    assert message.text() == f"Look:\n\n{words.format(who=f'<@{here.alice.id}>')}"
    assert not message.pings | message.edit_pings
    assert (other.edits, other.buttons()) == (0, ["Yes"])


async def test_where_the_history_cannot_be_read_an_answer_in_words_counts_all_the_same(
    here: Town, caplog: pytest.LogCaptureFixture
) -> None:
    message = await here.post(here.general, AnswerButton(QUESTION, YES))
    here.answers("yes", CommandReply(text="Thanks.", answered=QUESTION))
    here.fake.fail("GET", "/channels/{channel}/messages", code=50001)

    await here.fake.say(here.alice, here.general, "yes", mention=True)
    await here.fake.until(lambda: "still has its buttons" in caplog.text, "a line in the log")

    assert [each.text() for each in here.fake.answers(here.general)][-1] == "Thanks."
    assert message.buttons() == ["Yes"]


# --- who, and when --------------------------------------------------------------------------------


async def test_a_question_as_long_as_discord_allows_can_be_answered(here: Town) -> None:
    message = await ask(here, "x" * 4_000)

    clicked = await (await here.fake.click(here.alice, message, "No")).done()
    await here.fake.until(lambda: clicked.messages, "the result")

    assert message.buttons() == []
    assert message.text().endswith("said no.")


async def test_somebody_elses_answer_is_refused_and_changes_nothing(here: Town) -> None:
    message = await ask(here)

    clicked = await (await here.fake.click(here.bob, message, "Yes")).done()

    assert (clicked.text(), clicked.ephemeral) == (GONE, True)
    assert (message.edits, message.buttons()) == (0, ["Yes", "No"])


async def test_of_two_answers_the_second_is_refused(here: Town) -> None:
    message = await ask(here)

    clicks = [await here.fake.click(here.alice, message, each) for each in ("Yes", "No")]
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

        assert here.inbound.answered[0].admin
        assert message.text().endswith(f"<@{bob.id}> said no.")


async def test_an_answer_that_the_core_could_not_take_can_be_given_again(here: Town) -> None:
    message = await ask(here)
    here.inbound.failure = BotError("The database is away; try again in a minute.")

    clicked = await (await here.fake.click(here.alice, message, "Yes")).done()

    assert clicked.text() == "The database is away; try again in a minute."
    assert (message.edits, message.buttons()) == (0, ["Yes", "No"])


async def test_what_was_confirmed_and_then_failed_is_answered(here: Town) -> None:
    assert isinstance(here.inbound, OneOwner)
    here.inbound.result = CommandReply(text="It is not there.", failed=True)
    message = await ask(here)

    clicked = await (await here.fake.click(here.alice, message, "Yes")).done()
    await here.fake.until(lambda: clicked.messages, "the result")

    assert clicked.text() == "It is not there."
    assert message.buttons() == []


async def test_a_question_that_is_gone_when_it_is_answered_breaks_nothing(
    here: Town, caplog: pytest.LogCaptureFixture
) -> None:
    message = await ask(here)
    go_on = asyncio.Event()
    here.fake.fail("PATCH", EDIT, hold=go_on)

    clicked = await here.fake.click(here.alice, message, "Yes")
    await here.fake.until(lambda: here.fake.requests("PATCH", EDIT), "the question settled")
    await here.fake.delete(message)
    go_on.set()
    await here.fake.until(lambda: clicked.messages, "the result")

    assert clicked.text() == "Deleted 3 files."
    assert "still has its buttons" in caplog.text


async def test_a_question_is_settled_also_when_the_click_has_expired(here: Town) -> None:
    message = await ask(here)
    here.fake.fail("POST", "/interactions/{id}/{token}/callback", code=10062)

    await here.fake.click(here.alice, message, "Yes")
    *_, said = await here.said(here.general, 2)

    assert message.buttons() == []
    assert said.text() == "Deleted 3 files."


async def test_the_same_click_in_another_process_says_nothing_more(here: Town) -> None:
    message = await ask(here)
    first = await (await here.fake.click(here.alice, message, "Yes")).done()
    here.fake.fail("POST", "/interactions/{id}/{token}/callback", code=40060)

    await here.fake.click(here.alice, await ask(here), "Yes")
    await here.inbound.until(lambda: len(here.inbound.answered) == 2, "the answer")
    other = await (await here.fake.click(here.bob, await ask(here), "No")).done()

    assert (first.text(), other.text()) == ("Deleted 3 files.", GONE)
    assert len(here.fake.requests("POST", "/webhooks/{application}/{token}")) == 2

"""Buttons, menus and forms: who clicks what, what is heard, and where the answer is."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bot.errors import BotError
from bot.platforms.base import NO, YES, Choice, CommandReply, Confirmation, Incoming, Weight
from bot.platforms.messaging.intake import NOT_YOU, TROUBLE
from bot.platforms.slack import blocks
from bot.platforms.slack.actions import CLOSED, LONGEST_ERROR, OLD, WHICH
from bot.platforms.slack.sending import Draft
from bot.platforms.slack.texts import EMPTY
from bot.values import Identity, Json, Place, RunStatus
from tests.bot.platforms.slack.hearing import Here, Town, connected, counter, listening, people
from tests.bot.platforms.slack.speaking import RUN
from tests.bot.platforms.slack.test_home import opened, run_of, seen
from tests.fakes.inbound import Answered, FakeInboundHandler
from tests.fakes.slack.answers import Answer
from tests.fakes.slack.delivery import Delivery
from tests.fakes.slack.messages import Message
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.surfaces import View

OTHER = "2b3c4d5e-0000-4000-8000-000000000002"
QUESTION = "0f" * 16
GONE = "There is nothing to confirm: it was answered already, has expired, or is not yours."
AWAY = "My memory is away; try again in a minute."


class OneOwner(FakeInboundHandler):
    """Takes answers from one user, once."""

    def __init__(self) -> None:
        super().__init__()
        self.owner = Identity("", "", "")
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
        before = any(each.user == self.owner for each in self.answered)
        await super().answer(user, confirmation_id, choice=choice, admin=admin)
        if before or user != self.owner:
            return CommandReply(text=GONE, failed=True, refused=True)
        return self.result


@pytest.fixture
async def here(slack: FakeSlack, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Here]:
    caplog.set_level(logging.INFO, logger="bot")
    inbound = OneOwner()
    async with listening(slack, inbound) as opened:
        inbound.owner = opened.who(opened.alice)
        yield opened


async def thread(here: Here) -> Place:
    """Let Alice say something, and return the place of its answer."""
    return here.place(await here.fake.say(here.alice, here.general, "what is new?", mention=True))


async def card(here: Here, place: Place | None = None) -> Message:
    """Show the card of a run of Alice's, in a thread unless it is said."""
    at = place or await thread(here)
    here.platform.outlet.show_card(replace(run_of(here.who(here.alice)), place=at))
    return (await here.said(here.fake.world.channels[at.channel]))[-1]


async def ask(
    here: Here, text: str = "Shall I delete it?", choices: tuple[Choice, ...] = (YES, NO)
) -> Message:
    """Ask Alice a question in a thread."""
    place = await thread(here)
    question = Confirmation(
        id=QUESTION,
        owner=here.who(here.alice),
        place=place,
        text=text,
        expires_in_seconds=600,
        choices=choices,
    )
    await here.platform.outlet.ask(question)
    return here.fake.said(here.general)[-1]


async def post(here: Here, *below: Json) -> Message:
    """Post any buttons in the channel."""
    place = Place("slack", here.fake.team.id, here.general.id)
    draft = Draft(blocks=(blocks.section("Look:"), *below), mrkdwn="Look:")
    message_id = await here.platform.outlet.sender.post(place, draft)
    return here.general.messages[message_id]


def button(action: str, value: str, label: str = "Go") -> Json:
    """Return a row with a button."""
    text = {"type": "plain_text", "text": label}
    element = {"type": "button", "text": text, "action_id": action, "value": value}
    return {"type": "actions", "elements": [element]}


async def home(here: Here) -> View:
    """Let Alice, who has a run, open her Home tab."""
    alice = here.who(here.alice)
    here.inbound.overviews[alice] = seen(run_of(alice))
    return await opened(here)


async def click(here: Town, where: Message | View, what: str, **more: str) -> Answer:
    """Let Alice click something, and wait for what she sees of it."""
    return await (await here.fake.click(here.alice, where, what, **more)).done()  # type: ignore[arg-type]


async def send_raw(here: Here, *actions: Json, **more: object) -> Delivery:
    """Tell the app of a click that no message of ours could have led to."""
    payload: Json = {
        "type": "block_actions",
        "user": here.alice.brief(),
        "team": here.fake.team.to_json(),
        "enterprise": None,
        "is_enterprise_install": False,
        "trigger_id": here.fake.world.new_id("trigger"),
        "container": {"type": "message", "channel_id": here.general.id},
        "actions": list(actions),
        **more,
    }
    delivery = Delivery("interactive", "block_actions", payload)
    await here.fake.deliveries.send(delivery)
    return delivery


def chosen(block_id: str, value: object) -> Json:
    """Return a choice from a menu."""
    option = {"text": {"type": "plain_text", "text": "x"}, "value": value}
    kind = "static_select"
    return {
        "type": kind,
        "action_id": "run:choice",
        "block_id": block_id,
        "selected_option": option,
    }


# --- stop and log ---------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["Stop", "Log"])
async def test_a_click_is_heard_as_a_command_and_answered_in_its_thread_for_the_one_alone(
    here: Here, label: str
) -> None:
    command = f"/subagents {label.lower()} {RUN}"
    here.answers(command, "As you wish.")
    message = await card(here)
    edits = message.edits

    clicked = await here.fake.click(here.alice, message, label)
    (told,) = await here.whispered(here.alice)

    assert here.inbound.heard[1:] == [
        Incoming(
            event_id=f"interaction:{clicked.trigger.id}",
            user=here.who(here.alice),
            user_name="alice",
            place=Place("slack", here.fake.team.id, here.general.id, message.root_ts),
            text=command,
        )
    ]
    assert told.readable(here.alice) == "As you wish."
    assert here.fake.called("chat.postEphemeral")[-1].args["thread_ts"] == message.root_ts
    assert (message.edits, len(here.fake.said(here.general))) == (edits, 1)


async def test_a_click_outside_of_threads_is_answered_where_slack_shows_it_best(
    here: Here,
) -> None:
    here.answers(f"/subagents stop {RUN}", "Stopping it.")

    clicked = await click(here, await post(here, button("run:stop", RUN)), "Go")

    assert (clicked.text(), clicked.ephemeral) == ("Stopping it.", True)
    assert not here.fake.called("chat.postEphemeral")


async def test_a_click_in_direct_messages_is_answered_there(here: Here) -> None:
    here.answers(f"/subagents stop {RUN}", "Stopping it.")
    private = here.fake.dm(here.alice)
    asked = await here.fake.say(here.alice, private, "hello")
    message = await card(here, here.place(asked))

    await here.fake.click(here.alice, message, "Stop")
    said = await here.said(private, 2)

    assert said[-1].readable() == "Stopping it."
    assert said[-1].thread_ts == asked.ts


async def test_a_stranger_is_heard_as_themselves_and_never_as_the_owner(here: Here) -> None:
    message = await card(here)
    for label in ("Stop", "Log"):
        await here.fake.click(here.bob, message, label, force=True)
    await here.fake.click(here.bob, message, "Send", force=True)
    await here.heard(3)

    assert [each.user for each in here.inbound.heard[1:]] == [here.who(here.bob)] * 2
    assert [each.user_name for each in here.inbound.heard[1:]] == ["bob"] * 2


async def test_buttons_work_that_a_process_posted_which_is_gone(slack: FakeSlack) -> None:
    async with listening(slack) as before:
        message = await card(before)
    async with listening(slack) as after:
        after.answers(f"/subagents stop {RUN}", "Stopping it.")

        await slack.click(after.alice, message, "Stop")

        assert (await after.whispered(after.alice))[0].readable() == "Stopping it."


async def test_below_a_page_of_a_log_is_a_button_for_the_next_which_works_for_whoever_reads_it(
    here: Here,
) -> None:
    first, second = f"/subagents log {RUN}", "/subagents log 1a2b3c4d 2"
    here.answers(first, CommandReply(text="Page 1 of 2", more=second))
    here.answers(second, CommandReply(text="Page 2 of 2"))

    page = await click(here, await post(here, button("run:log", RUN)), "Go")
    more = await click(here, page.posts[0], "More")

    assert page.text() == "Page 1 of 2\n[More]"
    assert (more.text(), more.ephemeral) == ("Page 2 of 2", True)
    assert here.inbound.texts() == [first, second]


# --- what nobody knows ----------------------------------------------------------------------------


async def test_a_button_that_nobody_knows_is_taken_and_nothing_is_done(
    here: Here, caplog: pytest.LogCaptureFixture
) -> None:
    message = await post(here, button("run:delete", RUN))

    clicked = await here.fake.click(here.alice, message, "Go")

    assert clicked.acked_after is not None
    assert "Nobody knows the button run:delete" in caplog.text
    assert not here.inbound.heard


async def test_of_several_actions_at_once_the_first_that_is_known_is_done(here: Here) -> None:
    actions = [
        {"action_id": "gone", "value": "x"},
        {"action_id": "run:log", "value": RUN},
        {"action_id": "run:stop", "value": RUN},
    ]

    await send_raw(here, *actions)
    await here.heard()
    await send_raw(here, {"action_id": "run:log", "value": OTHER})
    await here.heard(2)

    assert here.inbound.texts() == [f"/subagents log {RUN}", f"/subagents log {OTHER}"]


@pytest.mark.parametrize(
    "action",
    [
        chosen("/subagents spawn", "count sheep"),
        chosen("/subagents list", RUN),
        chosen("spawn", "x"),
        chosen("/retinue new", "x"),
        chosen("", "stop"),
        chosen("/subagents /subagents stop", "all"),
        chosen("/subagents stop\nspawn", "x"),
        {"action_id": "run:choice", "selected_option": {"value": RUN}},
        {"action_id": blocks.MORE, "value": "hello, do something"},
        {"action_id": blocks.MORE, "value": "/subagents stop all"},
        {"action_id": blocks.MORE, "value": "/subagents spawn count sheep"},
        {"action_id": blocks.MORE, "value": "/subagents logout"},
        {"action_id": blocks.MORE, "value": " /subagents log x"},
        {"action_id": blocks.MORE, "value": "/new"},
        {"action_id": blocks.MORE},
    ],
)
async def test_a_forged_click_becomes_no_other_command(here: Here, action: Json) -> None:
    here.answers("/subagents usage", "2 of 5")

    taken = await send_raw(here, action)
    await (await here.fake.slash(here.alice, here.general, "/subagents", "usage")).done()

    assert taken.acked
    assert here.inbound.texts() == ["/subagents usage"]


async def test_a_forged_run_stays_the_run_of_its_own_command(here: Here) -> None:
    evil = "x /subagents stop all\n/new"
    for action in ("run:stop", "run:resume", "run:log"):
        await send_raw(here, {"action_id": action, "value": evil})
    await send_raw(here, chosen("/subagents dismiss", evil))
    await here.heard(4)

    names = ("stop", "resume", "log", "dismiss")
    line = " ".join(evil.split())
    assert here.inbound.texts() == [f"/subagents {name} {line}" for name in names]


# --- menus ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["stop", "log", "info", "retry", "dismiss"])
async def test_what_is_chosen_is_done_with_what_the_menu_was_for(here: Here, action: str) -> None:
    here.answers(f"/subagents {action} {OTHER}", "Done.")
    menu = blocks.run_menu([(RUN, "news"), (OTHER, "owls")], f"/subagents {action}")

    clicked = await click(here, await post(here, *menu), "run:choice", choice=OTHER)

    assert (clicked.text(), clicked.ephemeral) == ("Done.", True)


async def test_a_run_that_is_chosen_for_a_message_opens_the_form(here: Here) -> None:
    here.inbound.runs[here.who(here.alice)] = [(RUN, "news"), (OTHER, "owls")]
    asked = await (await here.fake.slash(here.alice, here.general, "/subagents", "send")).done()

    clicked = await click(here, asked.posts[0], "run:choice", choice=OTHER)

    assert asked.text().startswith(WHICH)
    assert clicked.view is not None
    assert "What should run 2b3c4d5e know?" in clicked.view.readable()
    assert not here.inbound.heard


# --- forms ----------------------------------------------------------------------------------------


async def test_send_opens_a_form_and_what_is_written_is_heard_in_the_thread(here: Here) -> None:
    text = "Use euros.\nNot pounds."
    here.answers(f"/subagents send {RUN} {text}", "It will read that.")
    message = await card(here)

    form = await click(here, message, "Send")
    sent = await here.fake.submit(here.alice, form, {"text": text})
    (told,) = await here.whispered(here.alice)

    assert form.view is not None
    assert (form.view.title, form.view.open) == ("Message to a run", False)
    assert "What should run 1a2b3c4d know?" in form.view.readable()
    assert not sent.errors
    assert told.readable() == "It will read that."
    assert here.fake.called("chat.postEphemeral")[-1].args["thread_ts"] == message.root_ts
    heard = here.inbound.heard[-1]
    assert heard.place == Place("slack", here.fake.team.id, here.general.id, message.root_ts)
    assert heard.event_id == f"interaction:{sent.trigger.id}"


async def test_what_is_wrong_is_shown_in_the_form_which_stays_open(here: Here) -> None:
    here.answers(
        f"/subagents send {RUN} hello", CommandReply(text="x" * 5_000 + "end", failed=True)
    )
    form = await click(here, await card(here), "Send")

    sent = await here.fake.submit(here.alice, form, {"text": "hello"})
    again = await here.fake.submit(here.alice, form, {"text": "something else"})

    assert sent.errors == {"message": "x" * LONGEST_ERROR}
    assert not again.errors
    assert not here.fake.ephemerals(here.alice)


@pytest.mark.parametrize(("error", "words"), [(BotError(AWAY), AWAY), (ValueError("bug"), TROUBLE)])
async def test_what_the_core_cannot_do_is_shown_in_the_form(
    here: Here, error: Exception, words: str
) -> None:
    form = await click(here, await card(here), "Send")
    here.inbound.failure = error

    sent = await here.fake.submit(here.alice, form, {"text": "hello"})

    assert sent.errors == {"message": words}


async def test_what_turns_out_to_be_wrong_when_the_form_is_closed_is_said(
    slack: FakeSlack,
) -> None:
    go_on = asyncio.Event()

    class Slow(FakeInboundHandler):
        async def receive(self, incoming: Incoming) -> CommandReply | None:
            await super().receive(incoming)
            await go_on.wait()
            return CommandReply(text="It is over already.", failed=True)

    async with counter(slack, Slow(), ack_seconds=0.05) as at, connected(at):
        channel = {"run": RUN, "channel": at.general.id, "thread": ""}
        trigger = slack.surfaces.trigger(at.alice)
        form = blocks.send_form(RUN, remembered=json.dumps(channel))
        assert at.fake.team.grant is not None
        view = slack.surfaces.show(form, trigger.user, at.fake.team.grant)
        sent = await slack.submit(at.alice, view, {"text": "hello"})
        go_on.set()
        (told,) = await at.whispered(at.alice)

        assert sent.acked_after is not None
        assert not sent.errors
        assert told.readable() == "It is over already."


async def test_a_form_that_another_process_takes_is_closed(here: Here) -> None:
    form = await click(here, await card(here), "Send")

    sent = await here.fake.submit(here.alice, form, {"text": "hello"})

    assert sent.acked_after is not None
    assert form.view is not None
    assert not form.view.open
    assert here.inbound.texts()[-1] == f"/subagents send {RUN} hello"


async def test_a_form_is_taken_that_a_process_opened_which_is_gone(slack: FakeSlack) -> None:
    async with listening(slack) as before:
        form = await click(before, await card(before), "Send")
    async with listening(slack) as after:
        after.answers(f"/subagents send {RUN} hello", "It will read that.")

        await slack.submit(after.alice, form, {"text": "hello"})

        assert (await after.whispered(after.alice))[0].readable() == "It will read that."


@pytest.mark.parametrize("metadata", ["", RUN, "12345678", "[]", "null", "{", '{"run": {"a": 1}}'])
async def test_a_form_of_another_version_says_what_to_do(here: Here, metadata: str) -> None:
    form = await click(here, await card(here), "Send")
    assert form.view is not None
    form.view.content["private_metadata"] = metadata
    before = len(here.inbound.heard)

    sent = await here.fake.submit(here.alice, form, {"text": "hello"})

    assert sent.errors == {"message": OLD}
    assert len(here.inbound.heard) == before


async def test_a_form_with_forged_contents_is_heard_as_whoever_sent_it(here: Here) -> None:
    form = await click(here, await card(here), "Send")
    assert form.view is not None
    forged = {"run": "all\n/new", "channel": 7, "thread": ["x"], "user": here.bob.id}
    form.view.content["private_metadata"] = json.dumps(forged)

    await here.fake.submit(here.alice, form, {"text": "hello"})

    heard = here.inbound.heard[-1]
    assert (heard.user, heard.text) == (
        here.who(here.alice),
        "/subagents send all\n/new hello",
    )
    assert heard.place == Place("slack", here.fake.team.id)


async def test_an_empty_form_is_left_to_the_core(here: Here) -> None:
    usage = CommandReply(text="Usage: /subagents send ID MESSAGE", failed=True)
    here.answers(f"/subagents send {RUN} ", usage)
    form = await click(here, await card(here), "Send")
    assert form.view is not None
    form.view.content["blocks"][0]["optional"] = True

    sent = await here.fake.submit(here.alice, form)

    assert sent.errors == {"message": usage.text}


async def test_a_form_that_nobody_knows_is_passed_over(
    here: Here, caplog: pytest.LogCaptureFixture
) -> None:
    form = await click(here, await card(here), "Send")
    assert form.view is not None
    form.view.content["callback_id"] = "run:other"
    before = len(here.inbound.heard)

    sent = await here.fake.submit(here.alice, form, {"text": "hello"})

    assert (sent.acked_after is not None, sent.errors) == (True, {})
    assert "Nobody knows the form run:other" in caplog.text
    assert len(here.inbound.heard) == before


async def test_when_slack_opens_no_form_it_is_said_how_else(here: Here) -> None:
    here.fake.fail("views.open", error="expired_trigger_id")

    clicked = await here.fake.click(here.alice, await card(here), "Send")
    (told,) = await here.whispered(here.alice)

    assert clicked.view is None
    assert told.readable() == CLOSED.format(run=RUN)


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (YES, "✅ alice said yes."),
        (NO, "❌ alice said no."),
        (Choice("all", "Allow for this run", Weight.GOOD), "✅ alice: Allow for this run"),
        (Choice("2", "A < B & C <!channel>"), "💬 alice: A < B & C <!channel>"),
        (Choice("skip", "Skip"), "💬 alice: Skip"),
    ],
)
async def test_an_answered_question_loses_its_buttons_and_says_who_decided_what(
    here: Here, choice: Choice, words: str
) -> None:
    message = await ask(here, choices=(choice, Choice("x", "Something else")))

    await here.fake.click(here.alice, message, f"ask:{choice.key}")
    (told,) = await here.whispered(here.alice)

    assert here.inbound.answered == [Answered(here.who(here.alice), QUESTION, choice.key)]
    assert len(message.pings) == 1
    assert told.readable() == "Deleted 3 files."
    assert message.buttons() == []
    assert message.readable().endswith(f"Shall I delete it?\n{words}")
    assert message.edits == 1


async def test_a_question_that_another_process_asked_keeps_its_text_when_it_is_answered(
    slack: FakeSlack,
) -> None:
    async with listening(slack) as before:
        message = await ask(before, text="Shall I delete <it> & **that**?")
        shown = message.readable().partition("\nThe question ends")[0]
    async with listening(slack) as after:
        await slack.click(after.alice, message, "No")
        await slack.until(lambda: message.edits, "an answered question")

        assert message.buttons() == []
        assert message.readable() == f"{shown}\n❌ alice said no."


async def test_somebody_elses_answer_is_refused_and_changes_nothing(here: Here) -> None:
    message = await ask(here)

    await here.fake.click(here.bob, message, "Yes", force=True)
    (told,) = await here.whispered(here.bob)

    assert told.readable() == GONE
    assert (message.edits, len(message.buttons())) == (0, 2)
    assert [each.user for each in here.inbound.answered] == [here.who(here.bob)]


async def test_of_two_answers_the_second_is_refused(here: Here) -> None:
    message = await ask(here)

    for action in ("ask:yes", "ask:no"):
        await send_raw(here, {"action_id": action, "value": QUESTION}, message=message.to_json())
    told = await here.whispered(here.alice, 2)

    assert sorted(each.readable() for each in told) == sorted(["Deleted 3 files.", GONE])
    assert message.edits == 1


@pytest.mark.parametrize(("error", "words"), [(BotError(AWAY), AWAY), (ValueError("bug"), TROUBLE)])
async def test_an_answer_that_the_core_could_not_take_can_be_given_again(
    here: Here, error: Exception, words: str
) -> None:
    message = await ask(here)
    here.inbound.failure = error

    await here.fake.click(here.alice, message, "Yes")
    (told,) = await here.whispered(here.alice)

    assert told.readable() == words
    assert (message.edits, len(message.buttons())) == (0, 2)


async def test_what_was_confirmed_and_then_failed_is_answered(here: Here) -> None:
    assert isinstance(here.inbound, OneOwner)
    here.inbound.result = CommandReply(text="It is not there.", failed=True)
    message = await ask(here)

    await here.fake.click(here.alice, message, "Yes")
    (told,) = await here.whispered(here.alice)

    assert told.readable() == "It is not there."
    assert message.buttons() == []


async def test_a_question_that_is_gone_when_it_is_answered_breaks_nothing(
    here: Here, caplog: pytest.LogCaptureFixture
) -> None:
    message = await ask(here)
    here.fake.fail("chat.update", error="message_not_found")

    await here.fake.click(here.alice, message, "Yes")
    (told,) = await here.whispered(here.alice)

    assert told.readable() == "Deleted 3 files."
    assert "still has its buttons" in caplog.text


async def test_an_answer_without_the_message_is_taken_and_told(here: Here) -> None:
    action = {"action_id": "ask:yes", "value": QUESTION}

    await send_raw(here, action)
    (told,) = await here.whispered(here.alice)

    assert told.readable() == "Deleted 3 files."
    assert not here.fake.called("chat.update")


@pytest.mark.parametrize(
    "action",
    [
        {"action_id": "ask:overlongkey", "value": QUESTION},
        {"action_id": "ask:", "value": QUESTION},
        {"action_id": "ask:yes", "value": "0" * 81},
        {"action_id": "ask:yes", "value": "a b"},
        {"action_id": "ask:yes"},
    ],
)
async def test_an_answer_that_no_button_of_ours_gives_does_nothing(
    here: Here, action: Json, caplog: pytest.LogCaptureFixture
) -> None:
    message = await ask(here)

    await send_raw(here, action, message=message.to_json())
    await here.fake.until(lambda: "Nobody knows the button" in caplog.text, "a line in the log")

    assert not here.inbound.answered
    assert message.edits == 0


async def test_a_choice_that_the_core_does_not_know_is_refused_in_a_sentence(here: Here) -> None:
    assert isinstance(here.inbound, OneOwner)
    here.inbound.result = CommandReply(text=GONE, failed=True, refused=True)
    message = await ask(here)

    action = {"action_id": "ask:whatever", "value": QUESTION}
    await send_raw(here, action, message=message.to_json())
    (told,) = await here.whispered(here.alice)

    assert told.readable() == GONE
    assert (message.edits, len(message.buttons())) == (0, 2)


async def test_a_question_without_blocks_keeps_the_text_it_had(here: Here) -> None:
    message = await ask(here)
    text = {"ts": message.ts, "text": "Shall I delete it?", "blocks": [{"type": "rich_text"}]}

    here.platform.outlet._questions.clear()
    await send_raw(here, {"action_id": "ask:no", "value": QUESTION}, message=text)
    await here.fake.until(lambda: message.edits, "an answered question")

    assert message.readable() == "Shall I delete it?\n❌ alice said no."


# --- the Home tab ---------------------------------------------------------------------------------


async def test_a_click_at_home_opens_a_window_and_shows_the_tab_anew(here: Here) -> None:
    here.answers(
        f"/subagents stop {RUN}", CommandReply(text="Stopping **it**.", more="/subagents log 1a 2")
    )
    view = await home(here)
    alice = here.who(here.alice)
    here.inbound.overviews[alice] = seen(ended=(run_of(alice, RunStatus.CANCELLED),))

    clicked = await click(here, view, "Stop")
    await here.fake.until(lambda: view.versions == 2, "the tab anew")

    assert clicked.view is not None
    assert clicked.view.readable() == ("Retinue\nStopping *it*.\n\nMore: `/subagents log 1a 2`")
    assert "Recently finished" in view.readable()
    assert [each.label for each in view.buttons()] == ["Resume", "Log"]
    assert here.inbound.heard[0].place == Place("slack", here.fake.team.id)
    assert not here.fake.said(here.fake.dm(here.alice))


async def test_a_form_from_home_is_answered_in_a_direct_message(here: Here) -> None:
    here.answers(f"/subagents send {RUN} hello", "It will read that.")
    form = await click(here, await home(here), "Send")

    await here.fake.submit(here.alice, form, {"text": "hello"})
    (told,) = await here.said(here.fake.dm(here.alice))

    assert told.readable() == "It will read that."
    assert form.view is not None


async def test_when_no_window_opens_the_answer_is_a_direct_message(here: Here) -> None:
    here.answers(f"/subagents log {RUN}", "Page 1 of 1")
    view = await home(here)
    here.fake.fail("views.open", error="expired_trigger_id")

    await here.fake.click(here.alice, view, "Log")
    (told,) = await here.said(here.fake.dm(here.alice))

    assert told.readable() == "Page 1 of 1"
    await here.fake.until(lambda: view.versions == 2, "the tab anew")


@pytest.mark.parametrize("text", ["", "word " * 20_000, f"{'line ' * 40}\n" * 900])
async def test_a_window_takes_long_answers(here: Here, text: str) -> None:
    here.answers(f"/subagents log {RUN}", text)

    clicked = await click(here, await home(here), "Log")

    assert clicked.view is not None
    assert clicked.view.readable().split()[1:-1] == (text or EMPTY).split()[:-1]


async def test_what_is_too_long_for_a_window_is_a_direct_message(here: Here) -> None:
    here.answers(f"/subagents log {RUN}", "word " * 60_000)

    clicked = await here.fake.click(here.alice, await home(here), "Log")
    first, *_ = await here.said(here.fake.dm(here.alice), 2)

    assert clicked.view is None
    assert first.readable().startswith("word word")


async def test_what_the_core_cannot_do_is_said_at_home(here: Here) -> None:
    view = await home(here)
    here.inbound.failure = BotError(AWAY)

    clicked = await click(here, view, "Stop")

    assert clicked.view is not None
    assert clicked.view.readable() == f"Retinue\n{AWAY}"


async def test_what_another_process_does_opens_no_window(here: Here) -> None:
    view = await home(here)

    clicked = await here.fake.click(here.alice, view, "Stop")
    await here.heard()
    await here.fake.click(here.alice, view, "Log")
    await here.heard(2)

    assert clicked.view is None
    assert not here.fake.called("views.open")


# --- who may --------------------------------------------------------------------------------------


async def test_clicks_and_forms_pass_the_same_gate_as_messages(slack: FakeSlack) -> None:
    _, _, bob = people(slack)
    async with listening(slack) as before:
        message, question = await card(before), await ask(before)
        form = await click(before, message, "Send")
    async with listening(slack, users=(bob.id,)) as here:
        for where, what in ((message, "Stop"), (message, "Send"), (question, "Yes")):
            await slack.click(here.alice, where, what)
        sent = await slack.submit(here.alice, form, {"text": "hello"})
        told = await here.whispered(here.alice, 4)

        assert {each.readable() for each in told} == {NOT_YOU}
        assert not here.inbound.heard
        assert not here.inbound.answered
        assert not sent.errors
        assert question.edits == 0

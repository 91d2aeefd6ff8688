import asyncio
import re
import time

import pytest

from bot.errors import LimitReachedError, NotPresentError
from bot.platforms.base import CommandReply, Incoming
from bot.platforms.terminal.people import place_of
from bot.platforms.terminal.texts import number_of
from bot.values import Identity, RunStatus
from tests.bot.platforms.terminal.pipes import idle
from tests.bot.platforms.terminal.things import (
    ALLOW,
    OPTIONS,
    RUN,
    announcement,
    card,
    person,
    question,
)
from tests.fakes.inbound import Answered, DrainedInboundHandler, FakeInboundHandler
from tests.fakes.terminal import Sitting, sit_down

ENTER, CTRL_C, CTRL_D, ESCAPE, UP = "\r", "\x03", "\x04", "\x1b", "\x1b[A"


async def command_done(sitting: Sitting) -> None:
    """Wait until everything that was sent before this has been worked off."""
    sitting.inbound.commands["/mark"] = CommandReply(text="Marked.")
    before = sitting.screen.count("Marked.")
    sitting.send("/mark")
    await sitting.screen.until(lambda: sitting.screen.count("Marked.") > before, "the mark")


async def left(sitting: Sitting) -> str:
    async with asyncio.timeout(5):
        await sitting.chat
    return sitting.screen.text


async def test_the_welcome_comes_first_and_the_prompt_after_it() -> None:
    async with sit_down() as sitting:
        text = sitting.screen.text

    assert text.startswith("Retinue · you are me, talking with a fake model. Try:")
    assert text.endswith("\n>")


async def test_a_message_is_heard_and_stays_to_be_read() -> None:
    async with sit_down("alice") as sitting:
        sitting.send("What is **x**?")
        await sitting.inbound.until(lambda: len(sitting.inbound.heard) == 1)
        await sitting.screen.shows("alice> What is **x**?\n")

        [heard] = sitting.inbound.heard
        assert (heard.text, heard.user, heard.user_name) == (
            "What is **x**?",
            person("alice"),
            "alice",
        )
        assert heard.place == place_of(person("alice"))
        assert sitting.screen.last_line == "alice>"


async def test_every_message_has_an_event_id_of_its_own() -> None:
    async with sit_down() as sitting:
        sitting.send("same")
        sitting.send("same")
        await sitting.inbound.until(lambda: len(sitting.inbound.heard) == 2)

        first, second = sitting.inbound.heard
        assert first.event_id != second.event_id


async def test_a_pasted_text_of_several_lines_is_one_message() -> None:
    async with sit_down() as sitting:
        sitting.type("\x1b[200~first\nsecond\x1b[201~")
        sitting.type(f" and{ESCAPE}{ENTER}third{ENTER}")
        await sitting.inbound.until(lambda: len(sitting.inbound.heard) == 1)

        assert sitting.inbound.texts() == ["first\nsecond and\nthird"]


async def test_an_answer_grows_above_the_prompt_and_then_stays_once() -> None:
    async with sit_down("alice") as sitting:
        outlet, place = sitting.terminal.outlet, place_of(person("alice"))
        await outlet.acknowledge(place)
        await sitting.screen.until(
            lambda: bool(re.search(r"thinking… \d s", sitting.screen.text)), "how long it thinks"
        )
        stream = outlet.open_reply(place, person("alice"))
        stream.update("It is **forty")
        await sitting.screen.shows("It is **forty")
        await sitting.screen.shows("answering…")

        await stream.finish("It is **forty-two**.")

        await sitting.screen.until(lambda: "answering" not in sitting.screen.text, "the end")
        assert sitting.screen.count("It is") == 1
        assert "It is forty-two." in sitting.screen.text
        assert sitting.screen.last_line == "alice>"


async def test_a_fast_answer_is_not_drawn_for_every_word() -> None:
    async with sit_down("alice") as sitting:
        stream = sitting.terminal.outlet.open_reply(place_of(person("alice")), person("alice"))
        started, before = time.monotonic(), sitting.screen.frames
        for number in range(200):
            stream.update(f"word {number}")
            await asyncio.sleep(0.002)
        frames = sitting.screen.frames - before
        await sitting.screen.shows("word 199")

        assert frames <= 10 * (time.monotonic() - started) + 2


async def test_what_arrives_while_typing_does_not_touch_the_line() -> None:
    async with sit_down("alice") as sitting:
        sitting.type("half a li")
        await sitting.screen.shows("alice> half a li")

        sitting.terminal.outlet.show_card(card(line="Reading page 3"))
        await sitting.screen.shows("↳ Subagent: Reading page 3")
        await sitting.terminal.outlet.announce(announcement())
        assert sitting.screen.last_line == "alice> half a li"
        sitting.type("ne\r")

        await sitting.inbound.until(lambda: sitting.inbound.texts() == ["half a line"])
        assert "│ There is some." in sitting.screen.text


async def test_a_card_moves_in_place_and_its_end_is_printed_once() -> None:
    async with sit_down("alice") as sitting:
        outlet = sitting.terminal.outlet
        outlet.show_card(card(line="Reading page 3"))
        await sitting.screen.shows("page 3")
        outlet.show_card(card(line="Reading page 4"))
        await sitting.screen.shows("page 4")
        assert sitting.screen.count("1a2b3c4d") == 1
        assert "page 3" not in sitting.screen.text

        outlet.show_card(card(status=RunStatus.COMPLETED))
        outlet.show_card(card(line="Reading page 5"))
        await outlet.announce(announcement())

        lines = sitting.screen.text.split("\n")
        ended = next(i for i, line in enumerate(lines) if "🟢 Subagent completed" in line)
        assert lines[ended + 1].startswith("╭─ Subagent Result: news completed (1a2b3c4d)")
        assert sitting.screen.count("Subagent completed") == 1
        assert "page" not in sitting.screen.text


async def test_a_command_is_answered_at_once_with_the_way_to_the_next_page() -> None:
    async with sit_down() as sitting:
        sitting.inbound.commands["/subagents list"] = CommandReply(
            text="- **news**", more="/subagents list 2"
        )
        sitting.send("/subagents list")

        await sitting.screen.shows(" • news")
        await sitting.screen.shows("There is more: /subagents list 2")


async def test_help_tells_the_terminals_own_commands_too() -> None:
    async with sit_down() as sitting:
        sitting.inbound.commands["/help"] = CommandReply(text="Everyone's commands.")
        sitting.send("/help")

        await sitting.screen.shows("Everyone's commands.")
        await sitting.screen.shows("/as NAME")


async def test_what_cannot_be_done_is_said_and_the_chat_goes_on() -> None:
    async with sit_down() as sitting:
        sitting.inbound.failure = LimitReachedError("3 of your 3 runs are going.", limit="x")
        sitting.send("one more")
        await sitting.screen.shows("✗ 3 of your 3 runs are going.")
        sitting.inbound.failure = RuntimeError("a secret of ours")
        sitting.send("one more")
        await sitting.screen.shows("✗ Something went wrong on our side")

        await command_done(sitting)
        assert "a secret" not in sitting.screen.text


async def test_a_command_that_was_acknowledged_leaves_nobody_thinking() -> None:
    class Polite(FakeInboundHandler):
        async def receive(self, incoming: Incoming) -> CommandReply | None:
            await sitting.terminal.outlet.acknowledge(incoming.place)
            return await super().receive(incoming)

    async with sit_down("alice", inbound=Polite()) as sitting:
        await command_done(sitting)
        await sitting.screen.until(lambda: "thinking" not in sitting.screen.text)
        sitting.send("a message")

        await sitting.screen.shows("thinking…")


# --- stopping and leaving -----------------------------------------------------------------------


@pytest.mark.parametrize("keys", ["/stop\r", CTRL_C])
async def test_a_turn_under_way_can_be_stopped(keys: str) -> None:
    async with sit_down("alice") as sitting:
        await sitting.terminal.outlet.acknowledge(place_of(person("alice")))
        sitting.type(keys)

        await sitting.inbound.until(lambda: bool(sitting.inbound.stopped))
        assert sitting.inbound.stopped == [(person("alice"), place_of(person("alice")))]
        await sitting.screen.shows("Stopped.")
        await sitting.screen.until(lambda: "thinking" not in sitting.screen.text)


async def test_stop_with_a_run_is_a_command_like_others() -> None:
    async with sit_down() as sitting:
        sitting.send("/stop last")
        await sitting.inbound.until(lambda: sitting.inbound.texts() == ["/stop last"])

        assert sitting.inbound.stopped == []


async def test_ctrl_c_drops_the_line_and_then_tells_how_to_leave() -> None:
    async with sit_down() as sitting:
        sitting.type("nonsense")
        await sitting.screen.shows("> nonsense")
        sitting.type(CTRL_C)
        await sitting.screen.until(lambda: sitting.screen.last_line == ">", "an empty line")
        assert "leaves" not in sitting.screen.text.partition("Ctrl-D leaves.")[2]

        sitting.type(CTRL_C)

        await sitting.screen.shows("Nothing is under way. /quit or Ctrl-D leaves.")
        assert sitting.inbound.stopped == []


@pytest.mark.parametrize("keys", ["/quit\r", "/exit\r", CTRL_D])
async def test_leaving_says_what_goes_on(keys: str) -> None:
    async with sit_down("alice") as sitting:
        sitting.terminal.outlet.show_card(card())
        sitting.type(keys)

        text = await left(sitting)

        assert text.endswith("1 run is still going: resumed at the next start, nothing is lost.")
        with pytest.raises(NotPresentError):
            await sitting.terminal.outlet.announce(announcement())


async def test_leaving_says_nothing_when_nothing_goes_on() -> None:
    async with sit_down("alice") as sitting:
        sitting.send("/quit")

        assert (await left(sitting)).endswith("alice> /quit")


async def test_a_line_sent_just_before_leaving_is_heard_to_its_end() -> None:
    stored: list[str] = []
    may_store = asyncio.Event()

    async def store(incoming: Incoming) -> None:
        await may_store.wait()
        stored.append(incoming.text)

    async with sit_down() as sitting:
        sitting.inbound.on_message = store
        sitting.send("remember this")
        await sitting.screen.shows("> remember this\n>")
        sitting.type(CTRL_D)
        await sitting.screen.until(lambda: sitting.screen.last_line != ">", "no prompt")
        await idle()
        may_store.set()
        await left(sitting)

        assert stored == ["remember this"]


async def test_a_chat_that_is_cancelled_leaves_the_terminal_usable() -> None:
    async with sit_down("alice") as sitting:
        sitting.chat.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sitting.chat

        with pytest.raises(NotPresentError):
            await sitting.terminal.outlet.announce(announcement())
        assert "alice>" not in sitting.screen.last_line


# --- being somebody else ------------------------------------------------------------------------


async def test_what_waits_for_a_user_is_delivered_when_they_come() -> None:
    waiting = [announcement("alice"), announcement("bob", text="For bob only.")]
    came: list[Identity] = []

    async def deliver(user: Identity) -> None:
        came.append(user)
        for said in [said for said in waiting if said.owner == user]:
            await sittings[0].terminal.outlet.announce(said)

    sittings: list[Sitting] = []

    async def deliver_later(user: Identity) -> None:
        if sittings:
            await deliver(user)

    async with sit_down("alice", on_present=deliver_later) as sitting:
        sittings.append(sitting)
        sitting.send("/as bob")
        await sitting.screen.shows("For bob only.")

        assert came == [person("bob")]
        assert "There is some." not in sitting.screen.text
        assert sitting.screen.last_line == "bob>"


async def test_the_first_user_is_greeted_with_what_waits_for_them() -> None:
    came: list[Identity] = []

    async def deliver(user: Identity) -> None:
        came.append(user)

    async with sit_down("alice", on_present=deliver):
        assert came == [person("alice")]


async def test_a_delivery_that_fails_does_not_end_the_chat() -> None:
    async def fail(_: Identity) -> None:
        raise RuntimeError("no database")

    async with sit_down("alice", on_present=fail) as sitting:
        await command_done(sitting)


async def test_nobody_sees_what_belongs_to_the_one_before() -> None:
    async with sit_down("alice") as sitting:
        outlet = sitting.terminal.outlet
        outlet.show_card(card("alice"))
        await outlet.ask(question("alice", text="Shall I?"))
        await sitting.screen.shows("1a2b3c4d")
        sitting.send("/as bob")
        await sitting.screen.until(lambda: sitting.screen.last_line == "bob>", "bob>")
        await sitting.screen.until(lambda: RUN[:8] not in sitting.screen.text, "no card")

        with pytest.raises(NotPresentError):
            await outlet.announce(announcement("alice"))
        sitting.send("yes")
        await sitting.inbound.until(lambda: sitting.inbound.texts() == ["yes"])

        assert sitting.inbound.heard[0].user == person("bob")
        assert sitting.inbound.answered == []


async def test_nobody_recalls_what_the_one_before_typed() -> None:
    async with sit_down("alice") as sitting:
        sitting.send("a secret of alice")
        sitting.send("/as bob")
        await sitting.screen.until(lambda: sitting.screen.last_line == "bob>", "bob>")
        sitting.type(UP * 3)
        sitting.send(" hello")
        sitting.send("/as alice")
        await sitting.screen.until(lambda: sitting.screen.last_line == "alice>", "alice>")
        sitting.type(UP * 2 + ENTER)
        await sitting.inbound.until(lambda: len(sitting.inbound.heard) == 3)

        assert sitting.inbound.texts() == ["a secret of alice", "hello", "a secret of alice"]


async def test_the_one_who_is_back_finds_their_runs_and_questions() -> None:
    async with sit_down("alice") as sitting:
        outlet = sitting.terminal.outlet
        outlet.show_card(card("alice"))
        await outlet.ask(question("alice", text="Shall I?"))
        sitting.send("/as bob")
        await sitting.screen.until(lambda: sitting.screen.last_line == "bob>", "bob>")
        outlet.show_card(card("alice", status=RunStatus.COMPLETED))

        sitting.send("/as alice")

        await sitting.screen.shows("🟢 Subagent completed · news 1a2b3c4d")
        await sitting.screen.until(lambda: sitting.screen.count("Shall I?") == 2, "the question")


async def test_a_name_that_is_none_changes_nobody() -> None:
    async with sit_down("alice") as sitting:
        sitting.send("/as b@d")
        await sitting.screen.shows("✗ A name is 1 to 64 letters")

        assert sitting.screen.last_line == "alice>"


# --- questions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "choice"),
    [("yes", "yes"), ("No", "no"), ("/yes", "yes"), ("all", "all"), ("/all", "all")],
)
async def test_a_word_answers_the_question_that_is_open(typed: str, choice: str) -> None:
    async with sit_down("alice") as sitting:
        asked = question(choices=ALLOW)
        await sitting.terminal.outlet.ask(asked)
        sitting.send(typed)

        await sitting.screen.shows("Not done." if choice == "no" else "Done.")
        assert sitting.inbound.answered == [Answered(person("alice"), asked.id, choice)]
        await sitting.screen.until(lambda: "waits for you" not in sitting.screen.text)


async def test_with_several_questions_the_answer_has_to_name_one() -> None:
    async with sit_down("alice") as sitting:
        first, second = question(), question()
        await sitting.terminal.outlet.ask(first)
        await sitting.terminal.outlet.ask(second)
        sitting.send("yes")
        await sitting.screen.shows("✗ 2 questions wait for you: say which with /yes")
        assert sitting.inbound.answered == []

        sitting.send(f"/no {number_of(second)}")

        await sitting.screen.shows("Not done.")
        assert sitting.inbound.answered == [Answered(person("alice"), second.id, "no")]


async def test_a_word_answers_the_one_question_that_offers_it() -> None:
    async with sit_down("alice") as sitting:
        outlet = sitting.terminal.outlet
        plain, allow, open_one = (
            question(),
            question(choices=ALLOW),
            question(choices=OPTIONS, open_ended=True),
        )
        for each in (plain, allow, open_one):
            await outlet.ask(each)
        sitting.send("all")
        await sitting.screen.shows("Done.")
        sitting.send("no")
        await sitting.screen.shows("Not done.")

        assert sitting.inbound.answered == [
            Answered(person("alice"), allow.id, "all"),
            Answered(person("alice"), plain.id, "no"),
        ]
        assert sitting.terminal.outlet._state.questions_of(person("alice")) == [open_one]


async def test_a_word_that_a_question_does_not_offer_is_no_answer_to_it() -> None:
    async with sit_down("alice") as sitting:
        asked = question()
        await sitting.terminal.outlet.ask(asked)
        sitting.send("all")
        await sitting.inbound.until(lambda: sitting.inbound.texts() == ["all"])
        sitting.send(f"/all {number_of(asked)}")

        await sitting.screen.shows(
            f"✗ Question {number_of(asked)} cannot be answered with all: Type"
        )
        assert sitting.inbound.answered == []


@pytest.mark.parametrize("line", ["2", "yes", "skip", "Use euros, please."])
async def test_every_line_may_answer_an_open_question_and_then_it_waits_no_more(line: str) -> None:
    async with sit_down("alice") as sitting:
        asked = question(choices=OPTIONS, open_ended=True)
        sitting.inbound.commands["/subagents list"] = CommandReply(text="No runs.")
        sitting.inbound.commands[line] = CommandReply(text="It goes on.", answered=asked.id)
        await sitting.terminal.outlet.ask(asked)
        sitting.send("/subagents list")
        await sitting.screen.shows("No runs.")
        await sitting.screen.shows("waits for you: the number, any text or skip")

        sitting.send(line)

        await sitting.screen.shows("It goes on.")
        await sitting.screen.until(lambda: "waits for you" not in sitting.screen.text)
        assert (sitting.inbound.texts()[-1], sitting.inbound.answered) == (line, [])


async def test_without_a_question_the_words_are_a_message() -> None:
    async with sit_down() as sitting:
        sitting.send("yes")
        await sitting.inbound.until(lambda: sitting.inbound.texts() == ["yes"])
        sitting.send("/yes")

        await sitting.screen.shows("✗ No question waits for your answer.")
        assert sitting.inbound.answered == []


async def test_a_question_of_an_earlier_chat_can_be_answered_by_its_id() -> None:
    async with sit_down("alice") as sitting:
        sitting.send("/yes 0190aabb")

        await sitting.screen.shows("Done.")
        assert sitting.inbound.answered == [Answered(person("alice"), "0190aabb", "yes")]


async def test_a_process_that_ends_answers_the_line_at_hand_and_leaves() -> None:
    inbound = DrainedInboundHandler()
    async with sit_down(inbound=inbound, ended=inbound.ended) as sitting:
        sitting.send("/drain")

        assert "I end." in await left(sitting)

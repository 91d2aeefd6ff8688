import asyncio
from pathlib import Path

import pytest

from bot.errors import DeliveryError
from bot.platforms.base import CommandReply, Incoming
from bot.platforms.terminal.people import identity_of, place_of
from bot.platforms.terminal.plain import plain_text
from bot.platforms.terminal.surface import FinalReply
from bot.platforms.terminal.terminal import Terminal
from bot.values import RunStatus, StepState, Stopper
from tests.bot.platforms.terminal.pipes import Output, Piped, from_file, idle, piped
from tests.bot.platforms.terminal.things import OPTIONS, announcement, card, person, question, steps
from tests.fakes.inbound import DrainedInboundHandler, FakeInboundHandler
from tests.fakes.terminal import nothing_waits


async def reply(chat: Piped, text: str) -> None:
    stream = chat.terminal.outlet.open_reply(place_of(person()), person())
    stream.update(text[:3])
    await stream.finish(text)


async def test_a_message_is_answered_as_it_was_written_and_the_chat_ends_with_the_pipe() -> None:
    async with piped(FakeInboundHandler()) as chat:
        chat.send("What is `x`?\n")
        chat.end()
        await chat.inbound.until(lambda: len(chat.inbound.heard) == 1)
        assert not chat.chat.done()

        await reply(chat, "**x** is [a](http://b)")

        assert await chat.ended() == "**x** is [a](http://b)\n"
        [heard] = chat.inbound.heard
        assert (heard.text, heard.user, heard.place) == (
            "What is `x`?",
            person(),
            place_of(person()),
        )


async def test_the_next_line_is_heard_when_the_reply_is_there() -> None:
    async with piped(FakeInboundHandler()) as chat:
        chat.send("first\nsecond\n")
        await chat.inbound.until(lambda: len(chat.inbound.heard) == 1)
        await chat.terminal.outlet.acknowledge(place_of(person()))
        stream = chat.terminal.outlet.open_reply(place_of(person()), person())
        assert chat.inbound.texts() == ["first"]
        watched = asyncio.get_running_loop().remove_reader(chat.read_end)
        assert not watched, "The loop would turn without end while a line is worked on."

        await stream.finish("one")

        await chat.inbound.until(lambda: chat.inbound.texts() == ["first", "second"])
        assert chat.written.getvalue() == "one\n"


async def test_a_last_line_without_an_end_and_letters_cut_in_two_are_understood() -> None:
    async with piped(FakeInboundHandler()) as chat:
        chat.inbound.commands["żółw"] = CommandReply(text="a tortoise")
        whole = "żółw".encode()
        chat.send_bytes(whole[:3])
        chat.send_bytes(whole[3:])
        chat.end()

        assert await chat.ended() == "a tortoise\n"


async def test_lines_can_come_from_a_file(tmp_path: Path) -> None:
    inbound = FakeInboundHandler()
    inbound.commands["/new"] = CommandReply(text="A new conversation.")
    path = tmp_path / "lines.txt"
    path.write_text("/new\n\n/new")

    assert await from_file(path, inbound) == "A new conversation.\n" * 2


async def test_help_tells_the_terminals_own_commands_too() -> None:
    inbound = FakeInboundHandler()
    inbound.commands["/help"] = CommandReply(text="Everyone's commands.", more="/help 2")
    async with piped(inbound) as chat:
        chat.send("/help\n")
        chat.end()

        text = await chat.ended()

    assert text.startswith("Everyone's commands.\n\n**At this terminal**")
    assert "/as NAME" in text
    assert "There is more: /help 2" in text


async def test_each_new_state_of_a_run_is_one_line() -> None:
    async with piped(FakeInboundHandler()) as chat:
        chat.send("/as alice\n")
        await chat.written.shows("You are alice already.")
        for state in (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.RUNNING, RunStatus.FAILED):
            chat.terminal.outlet.show_card(card(status=state, line="page 7"))

        assert chat.written.getvalue().split("\n")[1:] == [
            "⚪ news 1a2b3c4d: queued",
            "🔵 news 1a2b3c4d: running",
            "🔴 Subagent failed: news 1a2b3c4d after 0:42",
            "↳ Subagent: page 7",
            "",
        ]


async def test_the_chat_ends_only_when_its_runs_have_ended_and_are_announced() -> None:
    async with piped(FakeInboundHandler()) as chat:

        async def spawn(_: Incoming) -> None:
            chat.terminal.outlet.show_card(card(status=RunStatus.ACCEPTED))
            await reply(chat, "It is under way.")

        chat.inbound.on_message = spawn
        chat.send("Find news in the background.\n")
        chat.end()
        await chat.written.shows("It is under way.")
        await idle()
        assert not chat.chat.done()
        chat.terminal.outlet.show_card(card(status=RunStatus.COMPLETED))
        await chat.written.shows("Subagent completed")
        await idle()
        assert not chat.chat.done()

        stopper = Stopper(identity_of("root"), "Root")
        news = announcement(footer="12,345 tokens", stopped_by=stopper)
        await chat.terminal.outlet.announce(news)

        text = await chat.ended()
    assert text.endswith(
        "Subagent Result: news completed (1a2b3c4d)\nThere is some.\nStopped by @Root.\n"
        "12,345 tokens\n"
    )


async def test_a_run_of_which_nothing_is_announced_is_not_waited_for_long() -> None:
    async with piped(FakeInboundHandler(), idle_seconds=0.05) as chat:

        async def delegate(_: Incoming) -> None:
            chat.terminal.outlet.show_card(card(status=RunStatus.RUNNING))
            chat.terminal.outlet.show_card(card(status=RunStatus.COMPLETED))
            await reply(chat, "It says so.")

        chat.inbound.on_message = delegate
        chat.send("Delegate it.\n")
        chat.end()

        assert (await chat.ended()).endswith("It says so.\n")


async def test_a_reply_that_comes_by_itself_is_waited_for() -> None:
    async with piped(FakeInboundHandler(), idle_seconds=0) as chat:

        async def spawn(_: Incoming) -> None:
            chat.terminal.outlet.show_card(card(status=RunStatus.COMPLETED))
            await reply(chat, "It is done.")
            await chat.terminal.outlet.acknowledge(place_of(person()))

        chat.inbound.on_message = spawn
        chat.send("Find news, and sum them up.\n")
        chat.end()
        await chat.written.shows("It is done.")
        await idle()
        assert not chat.chat.done()

        await reply(chat, "The sum of it.")

        assert (await chat.ended()).endswith("The sum of it.\n")


async def test_leaving_does_not_wait_and_says_what_goes_on() -> None:
    async with piped(FakeInboundHandler()) as chat:
        chat.send("/as alice\n")
        await chat.written.shows("already")
        chat.terminal.outlet.show_card(card())

        chat.send("/quit\n")

        assert "1 run is still going: resumed at the next start" in await chat.ended()


async def test_being_interrupted_says_what_goes_on() -> None:
    async with piped(FakeInboundHandler()) as chat:
        chat.send("/as alice\n")
        await chat.written.shows("already")
        chat.terminal.outlet.show_card(card())

        chat.chat.cancel()
        with pytest.raises(asyncio.CancelledError):
            await chat.chat

        assert "1 run is still going: resumed at the next start" in chat.written.getvalue()


async def test_nobody_can_be_asked_through_a_pipe() -> None:
    async with piped(FakeInboundHandler()) as chat:
        chat.send("/as alice\n")
        await chat.written.shows("already")

        with pytest.raises(DeliveryError, match="nobody to ask") as refused:
            await chat.terminal.outlet.ask(question())

        assert refused.value.permanent
        assert "Shall I" not in chat.written.getvalue()


async def test_another_user_takes_over_in_the_middle_of_a_pipe() -> None:
    inbound = FakeInboundHandler()
    inbound.commands["/subagents list"] = CommandReply(text="None.")
    async with piped(inbound) as chat:
        chat.send("/subagents list\n/as bob\n/as b@d\n/subagents list\n")
        chat.end()

        text = await chat.ended()

    assert [heard.user for heard in inbound.heard] == [person("alice"), person("bob")]
    assert "A name is 1 to 64 letters" in text


async def test_a_reader_that_has_gone_is_told_to_whoever_speaks() -> None:
    class Closed(Output):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    async with piped(FakeInboundHandler(), written=Closed()) as chat:
        chat.send("first\n")
        await chat.inbound.until(lambda: len(chat.inbound.heard) == 1)

        with pytest.raises(DeliveryError, match="Nobody reads") as refused:
            await reply(chat, "one")

        assert refused.value.permanent
        chat.end()
        await chat.ended()


@pytest.mark.parametrize("end", ["stdin", "stdout"])
def test_a_pipe_at_either_end_is_no_user(end: str) -> None:
    class Screen(Output):
        def isatty(self) -> bool:
            return True

    streams = {"stdin": Screen(), "stdout": Screen()} | {end: Output()}

    terminal = Terminal(model_name="", on_present=nothing_waits, **streams)  # type: ignore[arg-type]

    assert not terminal.interactive


def test_hostile_text_does_nothing_to_whatever_reads_it() -> None:
    text = plain_text(FinalReply("a \x1b]0;title\x07 \x1b[2J \x9b31m \x00 [red]b[/red]"))

    assert text.split() == ["a", "\ufffd", "[red]b[/red]"]


def test_a_question_is_plain_text_with_its_choices() -> None:
    assert plain_text(question()) == "Question: Shall I delete it?"
    assert plain_text(question(text="Which?", choices=OPTIONS, open_ended=True)) == (
        "Question: Which?\n1: Euros\n2: Pounds [red]\nskip: Skip"
    )


async def test_the_tool_calls_of_a_run_are_told_with_its_end() -> None:
    ended = card(status=RunStatus.COMPLETED, awaited=True, steps=steps(StepState.DONE))

    assert plain_text(ended).split("\n") == [
        "🟢 Subagent completed: news 1a2b3c4d after 0:42",
        "  ├ … 4 earlier",
        "  └ ✓ grep",
    ]


async def test_the_chat_ends_at_once_when_the_result_of_its_run_is_in_the_reply() -> None:
    async with piped(FakeInboundHandler(), idle_seconds=60.0) as chat:

        async def delegate(_: Incoming) -> None:
            chat.terminal.outlet.show_card(card(status=RunStatus.RUNNING, awaited=True))
            chat.terminal.outlet.show_card(card(status=RunStatus.COMPLETED, awaited=True))
            await reply(chat, "It says so.")

        chat.inbound.on_message = delegate
        chat.send("Delegate it.\n")
        chat.end()

        assert (await chat.ended()).endswith("It says so.\n")


class Stumbling(FakeInboundHandler):
    """Ears that answer every line at once, and stumble over all but short ones."""

    async def receive(self, incoming: Incoming) -> CommandReply:
        await super().receive(incoming)
        if len(incoming.text) != 5:
            raise ValueError("an odd line")
        return CommandReply(text="Yes, still here.")


async def test_bytes_that_are_no_text_and_endless_lines_end_nothing(tmp_path: Path) -> None:
    lines = [b"\xff\xfe\xfd\x00", b"\x00", b"\xed\xa0\x80", b"x" * 2_000_000, b"\x1b[2J", b"hello"]
    path = tmp_path / "lines"
    path.write_bytes(b"\n".join(lines))

    written = await from_file(path, Stumbling())

    assert written.endswith("Yes, still here.\n")


async def test_a_process_that_ends_answers_the_line_at_hand_and_reads_no_other() -> None:
    inbound = DrainedInboundHandler()
    async with piped(inbound, ended=inbound.ended) as chat:
        chat.send("/drain\n")

        assert await chat.ended() == "I end.\n"

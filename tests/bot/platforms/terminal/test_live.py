import re
import uuid

from bot.platforms.terminal.live import TAIL_CHARACTERS, answer_lines, live_region, tail_of
from bot.platforms.terminal.people import place_of
from bot.platforms.terminal.state import TerminalState
from bot.values import RunStatus, StepState
from tests.bot.platforms.terminal.things import ALLOW, card, person, question, steps

COLOURS = re.compile("\x1b\\[[0-9;]*m")


class Watch:
    """A clock in seconds that a test turns."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def region(state: TerminalState, name: str = "alice", *, width: int = 100, height: int = 12) -> str:
    return COLOURS.sub("", live_region(state, person(name), width=width, height=height))


def test_nothing_is_drawn_when_nothing_goes_on() -> None:
    assert region(TerminalState()) == ""


def test_a_running_card_ticks_and_a_waiting_one_does_not() -> None:
    watch = Watch()
    state = TerminalState(monotonic=watch)
    state.move_card(card())
    state.move_card(card(run_id=str(uuid.uuid4()), status=RunStatus.WAITING_APPROVAL))

    watch.seconds += 10

    first, second = region(state).split("\n")
    assert "· 0:52 ·" in first
    assert "· 0:42 ·" in second


def test_thinking_and_answering_are_shown_with_the_time_they_take() -> None:
    watch = Watch()
    state = TerminalState(monotonic=watch)
    state.receive_message(place_of(person()))
    watch.seconds += 2
    assert region(state) == "thinking… 2 s (Ctrl-C stops it)"

    reply = state.open_reply(person(), place_of(person()))
    reply.text, reply.drawn = "It is", ("It is",)
    watch.seconds += 1

    assert region(state) == "It is\nanswering… 3 s (Ctrl-C stops it)"


def test_an_open_question_is_kept_in_sight_until_it_expires() -> None:
    watch = Watch()
    state = TerminalState(monotonic=watch)
    state.add_question(question(seconds=60))
    assert "waits for you: yes or no" in region(state)

    state.add_question(question(choices=ALLOW))
    assert "waits for you: yes, all or no" in region(state)
    state.drop_question(state.questions_of(person())[-1].id)

    watch.seconds += 61

    assert region(state) == ""


def test_nobody_sees_what_goes_on_for_others() -> None:
    state = TerminalState()
    state.move_card(card("alice"))
    state.receive_message(place_of(person("alice")))
    state.open_reply(person("alice"), place_of(person("alice"))).drawn = ("secret",)
    state.add_question(question("alice"))

    assert region(state, "bob") == ""


def test_the_region_keeps_to_its_height_and_shows_the_end_of_the_answer() -> None:
    state = TerminalState()
    for number in range(20):
        state.move_card(card(run_id=str(uuid.uuid4()), label=f"run{number}", line="going"))
    reply = state.open_reply(person(), place_of(person()))
    reply.text, reply.drawn = "…", tuple(f"line{number}" for number in range(50))

    lines = region(state, height=12).split("\n")

    assert len(lines) == 12
    assert "line49" in lines
    assert any(re.search(r"… and \d+ more: /subagents list", line) for line in lines)


def test_a_line_that_is_too_long_is_cut_and_not_wrapped() -> None:
    state = TerminalState()
    state.move_card(card(line="x" * 90))

    lines = region(state, width=40).split("\n")

    assert len(lines) == 2
    assert all(len(line) <= 40 for line in lines)


def test_only_the_end_of_a_growing_answer_is_laid_out() -> None:
    text = "word\n" * 5000 + "the end"

    lines = answer_lines(text, 80)

    assert "the end" in lines[-1]
    assert len("\n".join(lines)) < 2 * TAIL_CHARACTERS


def test_the_end_of_an_answer_keeps_an_open_fence_open() -> None:
    code = "```python\n" + "x = 1\n" * 1000

    assert tail_of(code).startswith("```\nx = 1")
    assert tail_of(code + "```\nprose" * 1).startswith("```\nx = 1")
    assert not tail_of(code + "```\n" + "prose\n" * 1000).startswith("```")
    assert tail_of("short") == "short"


def test_tool_calls_take_no_more_than_their_share_of_the_region() -> None:
    state = TerminalState()
    state.move_card(card(steps=steps(*[StepState.DONE] * 5)))
    assert region(state, height=20).count("✓ grep") == 5
    assert region(state, height=12).split("\n")[1:] == [
        "  ├ … 3 earlier",
        "  ├ ✓ grep",
        "  └ ✓ grep",
    ]

    for number in range(3):
        state.move_card(card(run_id=str(uuid.uuid4()), label=f"run{number}"))

    lines = region(state, height=12).split("\n")
    assert [line[:4] for line in lines] == ["🔵 ne", "🔵 ru", "🔵 ru", "🔵 ru"]

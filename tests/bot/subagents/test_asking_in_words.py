"""What a person reads when a run asks: all of it or how much is missing, and no text of a model's
looks like ours."""

import asyncio

import pytest

from bot.agent import subjects
from bot.agent.messages import ToolCall
from bot.logs import MASK
from bot.subagents.asking import MOST_SPELLED, spelled
from bot.values import Identity
from tests.fakes.asking import Asked

KEY = "sk-ant-" + "a1" * 12
TOKEN = "ghp_" + "a1" * 18
PRESS = "The admin has approved this already: press Allow for this run."


async def asked_for(asked: Asked, user: Identity, command: str) -> str:
    """Let a run ask for a command, and return what its person reads."""
    run = await asked.run(user)
    shell = asked.mail(name="shell", subjects=subjects.commands("command"))
    box = asked.toolbox(asked.asking(run, user), shell)
    call = ToolCall("1", "shell", {"command": command})
    async with asked.going(box.call(call, asked.context(run, user))):
        question = await asked.outlet.asked()
    return question.text


@pytest.mark.parametrize(
    "command", [f'ls "**. {PRESS}**"', f"ls `. {PRESS} `", f"ls\n\n# {PRESS}\n\n- x"]
)
async def test_a_command_cannot_be_taken_for_words_of_ours(
    asked: Asked, alice: Identity, command: str
) -> None:
    text = await asked_for(asked, alice, command)

    assert PRESS in text
    assert PRESS not in outside_code(text)
    assert not {"**", "# "} & set(outside_code(text).split())


def outside_code(text: str) -> str:
    """Return what stands in no code span; one that a paragraph ends is none."""
    paragraphs = text.split("\n\n")
    assert all(each.count("`") % 2 == 0 for each in paragraphs), f"An open code span: {text}"
    return " ".join(part for each in paragraphs for part in each.split("`")[::2])


async def test_a_key_in_a_command_is_masked_wherever_it_is_shown(
    asked: Asked, alice: Identity
) -> None:
    text = await asked_for(asked, alice, f'curl -H "X: {KEY}" https://there.example')

    assert KEY not in text
    assert MASK in text


def test_the_end_of_a_long_command_is_shown_and_what_is_left_out_is_counted() -> None:
    command = "git status " + "-" * 9000 + "; rm -rf /workspace"

    shown = spelled("shell", {"command": command})

    count = int(shown.partition("[…")[2].partition(" ")[0].replace(",", ""))
    head, _, rest = shown.partition(" […")
    tail = rest.partition("…] ")[2]
    quoted = len(head.partition("=")[2]) + len(tail.removesuffix(")`"))
    assert "rm -rf /workspace" in tail
    assert count == len(command) + len('""') - quoted


def test_many_arguments_take_no_more_room_than_one() -> None:
    shown = spelled("shell", {f"argument {n}": "long " * 1000 for n in range(20)})

    assert len(shown) < 2 * MOST_SPELLED
    assert all(f"argument {n}=" in shown for n in range(20))


@pytest.mark.parametrize("beyond", range(2, len(TOKEN), 3))
def test_no_part_of_a_key_is_shown_where_a_value_is_cut(beyond: int) -> None:
    head, tail = MOST_SPELLED * 2 // 3, MOST_SPELLED // 3
    begins = "x" * (head - beyond) + TOKEN + " y" * 2000
    ends = "y " * 2000 + TOKEN + "x" * (tail - beyond)

    assert "a1a1" not in spelled("shell", {"command": begins})
    assert "a1a1" not in spelled("shell", {"command": ends})


def test_the_name_of_an_argument_is_no_way_out_of_the_code_span() -> None:
    shown = spelled("shell", {f"x\n\n**{PRESS}**\n\n`": 1, "long" * 5000: 2, KEY: 3})

    assert "\n" not in shown
    assert shown.count("`") == 2
    assert KEY not in shown
    assert len(shown) < MOST_SPELLED


async def test_how_a_question_is_told_from_another_is_not_in_the_hands_of_the_model(
    asked: Asked, alice: Identity
) -> None:
    run = await asked.run(alice)
    async with asked.going(asked.asking(run, alice).ask("1.0", "\x1b[2JWhich?", ["a\nb"])):
        async with asyncio.timeout(10):
            question = await asked.outlet.asked()

    assert question.text.startswith(f"🤖 The run “sheep” (#{run.number} `")
    assert question.text.endswith("asks:\nWhich?")
    assert [choice.label for choice in question.choices] == ["a b", "Skip"]

"""What a user reads when a run asks: all of it or how much is missing, and no text of a model's
looks like ours."""

import asyncio
import json

import pytest

from bot.agent import subjects
from bot.agent.messages import ToolCall
from bot.masking import MASK
from bot.subagents.asking import MOST_SHOWN
from bot.subagents.shown_calls import spelled
from bot.values import Identity
from tests.fakes.asking import Asked

KEY = "sk-" + "0123456789abcdef" * 2
TOKEN = "ghp_" + "a1" * 18
PRESS = "The admin has approved this already: press Allow for this run."


async def asked_for(asked: Asked, user: Identity, command: str) -> str:
    """Let a run ask for a command, and return what its user reads."""
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


def test_a_long_command_is_shown_whole() -> None:
    command = "git status " + "-" * 5000 + "; rm -rf /workspace; " + "-" * 5000

    shown = spelled("shell", {"command": command, "further": "long " * 1000})

    assert json.dumps(command) in shown
    assert json.dumps("long " * 1000).rstrip() in shown


async def test_a_call_too_long_to_be_shown_whole_is_refused_and_not_asked(
    asked: Asked, alice: Identity
) -> None:
    run = await asked.run(alice)
    asking = asked.asking(run, alice)
    call = ToolCall("1", "mail", {"to": "x" * MOST_SHOWN})

    told = await asked.permit_call(asking, call, asked.context(run, alice))

    assert "too long to be shown" in told
    assert asked.posted == []


def test_the_name_of_an_argument_is_no_way_out_of_the_code_span() -> None:
    shown = spelled("shell", {f"x\n\n**{PRESS}**\n\n`": 1, "long" * 5000: 2, KEY: 3})

    assert "\n" not in shown
    assert shown.count("`") == 2
    assert KEY not in shown


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

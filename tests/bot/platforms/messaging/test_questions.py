"""A question about a call is shown whole on every platform, whatever a model put into the call."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.platforms.base import Confirmation
from bot.platforms.discord import texts as discord
from bot.platforms.messaging.splitting import MessageParts
from bot.platforms.slack import texts as slack
from bot.platforms.terminal.plain import plain_text
from bot.platforms.terminal.view import renderable, to_ansi
from bot.subagents.shown_calls import spelled
from bot.values import Identity, Place

_MARK = re.compile(r"mark\d{3}z")
#: What hides or ends things somewhere: markup, links, code, comments, controls, long lines.
_HIDING = st.sampled_from(
    [
        *(
            "||",
            "`",
            "```",
            "\n",
            "\r",
            "\t",
            "~~",
            "**",
            "# ",
            "> ",
            "-# ",
            "<!--",
            "-->",
            "<",
            ">",
        ),
        *(
            "[a](http://b.example/",
            ")",
            "<@1>",
            "<#2>",
            "|",
            "\\",
            "&lt;",
            "\x1b[2J",
            "\x1b[8m",
            "\b",
        ),
        *(
            "\x90",
            "\x9c",
            "\x9d",
            "\u202e",
            "\u200b",
            "\u2028",
            "\0",
            " " * 300,
            "x" * 3000,
            "; rm -rf *; ",
            "'",
            '"',
            "$(",
        ),
    ]
)
_PARTS = st.lists(st.one_of(_HIDING, st.text(max_size=20)), min_size=1, max_size=25)


def question(parts: list[str]) -> tuple[Confirmation, list[str]]:
    """Return a question about a command, and the marks that stand between its parts."""
    marks = [f"mark{number:03}z" for number in range(len(parts) + 1)]
    command = marks[0] + "".join(
        f"{part}{mark}" for part, mark in zip(parts, marks[1:], strict=True)
    )
    asked = Confirmation(
        id="q",
        owner=Identity("discord", "", "1"),
        place=Place("discord", channel="1"),
        text=f"Shall I do this? {spelled('shell', {'command': command})}",
        expires_in_seconds=600,
    )
    return asked, marks


def shown_of(parts: MessageParts) -> str:
    return parts.whole if parts.long else "\n".join(parts.texts)


def on_discord(asked: Confirmation) -> str:
    text = discord.harmless(discord.question_text(asked), links=False)
    return shown_of(discord.parts_of(text, name="question.md", tail="t"))


def on_slack(asked: Confirmation) -> str:
    return shown_of(slack.parts_of(slack.harmless(asked.text), name="question.md"))


def on_a_screen(asked: Confirmation) -> str:
    """Return what a terminal shows: a mark may go over the end of a line, where the frame is."""
    shown = re.sub(r"\x1b\[[\d;]*m", "", to_ansi(renderable(asked), 80))
    return re.sub(r"[\s│]", "", shown)


@pytest.mark.parametrize("shown", [on_discord, on_slack, on_a_screen, plain_text])
@settings(max_examples=60, deadline=None)
@given(parts=_PARTS)
def test_no_part_of_a_call_is_hidden_in_a_question(
    shown: Callable[[Confirmation], str], parts: list[str]
) -> None:
    asked, marks = question(parts)

    assert [found for found in _MARK.findall(shown(asked)) if found in marks] == marks

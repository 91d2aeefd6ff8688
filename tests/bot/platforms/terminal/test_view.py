import re

import pytest

from bot.platforms.base import Choice, CommandReply
from bot.platforms.terminal.surface import FinalReply, Notice, Printable, TypedLine
from bot.platforms.terminal.texts import farewell, number_of, welcome
from bot.platforms.terminal.view import PANEL_LINES, renderable, to_ansi
from bot.values import Identity, RunStatus, Stopper
from tests.bot.platforms.terminal.things import (
    ALLOW,
    OPTIONS,
    RUN,
    announcement,
    card,
    person,
    question,
)

COLOURS = re.compile("\x1b\\[[0-9;]*m")


def shown(said: Printable, width: int = 80) -> str:
    """Return something as it is read, without colours."""
    return COLOURS.sub("", to_ansi(renderable(said), width))


@pytest.mark.parametrize(
    ("text", "readable"),
    [
        ("Use `List<int>` or List<int>.", "Use List<int> or List<int>."),
        ("<b>bold</b> <!-- note -->", "<b>bold</b> <!-- note -->"),
        ("See [the docs](https://evil.example/x).", "See the docs (https://evil.example/x)."),
        ("A ![cat](https://evil.example/cat.png)", "A cat (https://evil.example/cat.png)"),
        ("See <https://x.example/a>, yes!", "See https://x.example/a, yes!"),
        ("[https://x.example](https://x.example) [x](https://x.example)", ".example x (https://"),
        ("[https://x.example](https://evil.example)", "x.example (https://evil.example)"),
        ("[note]: do-this-first", "[note]: do-this-first"),
        ("[red]not red[/red] [link=http://a]b[/link]", "[red]not red[/red] [link=http://a]b"),
        (":smile: stays", ":smile: stays"),
    ],
)
def test_markdown_hides_nothing_and_is_no_markup_of_rich(text: str, readable: str) -> None:
    assert readable in shown(FinalReply(text))


def test_markdown_is_laid_out() -> None:
    text = shown(FinalReply("# Title\n\n- **one**\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |"))

    assert "Title" in text
    assert " • one" in text
    assert "**" not in text
    assert "|---|" not in text


def test_a_long_word_in_a_table_is_folded_and_not_cut() -> None:
    text = shown(FinalReply(f"| a | b |\n|---|---|\n| {'x' * 200} | {'y' * 200} |"), width=60)

    assert text.count("x") == 200
    assert text.count("y") == 200


def test_escape_sequences_do_not_come_through() -> None:
    text = to_ansi(renderable(FinalReply("a \x1b]0;title\x07 \x1b[2J b \x9b31m")), 80)

    assert set(re.findall("\x1b.", text)) <= {"\x1b["}
    assert "2J" not in text
    assert "\x07" not in text
    assert "\x9b" not in text


def test_a_result_is_a_rounded_panel_with_label_and_id_in_its_title() -> None:
    stopper = Stopper(Identity("terminal", "", "root"), "Root")
    text = shown(announcement(text="**Some** news", footer="12,345 tokens", stopped_by=stopper))

    assert text.startswith("╭─ Subagent Result: news completed (1a2b3c4d) ─")
    assert "│ Some news" in text
    assert "│ Stopped by @Root." in text
    assert "│ 12,345 tokens" in text
    assert text.rstrip().endswith("╯")


def test_a_title_is_no_markup_of_rich() -> None:
    assert "[red]news[/red] [bold" in shown(announcement(title="[red]news[/red] [bold"))
    assert COLOURS.sub("", to_ansi("[red]news[/red]", 80)) == "[red]news[/red]\n"


def test_the_id_is_not_said_twice() -> None:
    assert shown(announcement(title="news (1a2b3c4d)")).count("1a2b3c4d") == 1


def test_what_is_about_no_run_is_not_headed_as_a_result() -> None:
    text = shown(announcement(key="0190aa-turn", title="Your answer"))

    assert "╭─ Your answer ─" in text
    assert "Subagent" not in text


def test_a_very_long_result_is_cut_and_the_log_has_the_rest() -> None:
    text = shown(announcement(text="\n\n".join(f"line{number}" for number in range(300))))

    assert len(text.splitlines()) < PANEL_LINES + 5
    assert "line299" not in text
    assert "/subagents log 1a2b3c4d shows all" in text


def test_a_long_text_that_no_log_holds_is_not_cut() -> None:
    text = "\n\n".join(f"line{number}" for number in range(300))

    assert "line299" in shown(announcement(key="turn", text=text))


def test_a_possible_repetition_says_so() -> None:
    assert "may be a repetition" in shown(announcement(maybe_repeated=True))
    assert "may be a repetition" not in shown(announcement())


def test_a_question_says_how_and_until_when_to_answer() -> None:
    asked = question(text="Shall I delete **it**?")

    text = shown(asked, width=120)

    assert "Shall I delete it?" in text
    assert f"Type yes or no (or /yes {number_of(asked)}, /no {number_of(asked)})." in text
    assert "No answer within 10 min counts as no." in text


def test_a_question_names_its_choices_and_the_words_for_them() -> None:
    asked = question(choices=ALLOW)
    number = number_of(asked)

    text = shown(asked, width=120)

    assert [line for line in text.splitlines() if ": " in line][:3] == [
        f"│ {each:<116} │" for each in ("yes: Allow once", "all: Allow for this run", "no: Deny")
    ]
    assert f"Type yes, all or no (or /yes {number}, /all {number}, /no {number})." in text
    coloured = to_ansi(renderable(asked), 120)
    assert "\x1b[32myes: Allow once" in coloured
    assert "\x1b[31mno: Deny" in coloured


def test_an_open_question_takes_the_number_of_an_option_or_any_text() -> None:
    text = shown(question(choices=OPTIONS, open_ended=True))
    without = shown(question(choices=OPTIONS[2:], open_ended=True))

    assert "│ 1: Euros" in text
    assert "│ 2: Pounds [red]" in text
    assert "2J" not in text
    assert "Type the number, any text or skip. The question ends in 10 min." in text
    assert "Type any text or skip." in without


def test_a_label_is_one_line_of_seventy_characters_at_most() -> None:
    text = shown(question(choices=(Choice("1", "x\n" * 100), Choice("2", ""))), width=120)

    assert f"│ 1: {'x ' * 34}x…" in text
    assert "│ 2: 2" in text


def test_a_reply_to_a_command_says_when_it_failed_and_where_it_goes_on() -> None:
    failed = shown(CommandReply(text="There is no such run.", failed=True))
    more = shown(CommandReply(text="- one", more="/subagents list 2"))

    assert "✗ There is no such run." in failed
    assert "There is more: /subagents list 2" in more
    assert "✗" not in more


def test_what_was_typed_is_shown_as_it_was_typed() -> None:
    assert shown(TypedLine(person(), "**hi** [red]")) == "alice> **hi** [red]\n"
    assert shown(TypedLine(person("me"), "hi")) == "> hi\n"


def test_the_end_of_a_run_is_shown() -> None:
    assert shown(card(status=RunStatus.COMPLETED)).startswith("🟢 Subagent completed · news")


def test_the_welcome_says_who_you_are_and_who_answers() -> None:
    text = shown(Notice(welcome(person(), "offline demo")))

    assert "you are alice" in text
    assert "offline demo" in text
    assert "/help" in text
    assert text.count(" • ") == 3


def test_the_last_words_tell_what_goes_on() -> None:
    assert farewell(0, answering=False) == ""
    assert farewell(1, answering=False).startswith("1 run is still going: resumed at the next")
    assert farewell(2, answering=True).startswith("2 runs and an answer are still going")
    assert RUN not in farewell(2, answering=True)

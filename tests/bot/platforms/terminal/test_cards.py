from dataclasses import replace

import pytest

from bot.platforms.messaging.texts import stop_watch
from bot.platforms.terminal.cards import (
    ended_lines,
    live_lines,
    progress_text,
)
from bot.values import RunStatus, StepState
from tests.bot.platforms.terminal.things import card, steps


def test_a_live_card_says_what_there_is_to_know_about_a_run() -> None:
    head, below = live_lines(card(tool="web_fetch", line="Reading page 3"), elapsed=65)

    assert head.plain == (
        "🔵 news 1a2b3c4d · running · 1:05 · web_fetch · 5 tool calls · 12,345 of 50,000 tokens"
    )
    assert below.plain == "  ↳ Subagent: Reading page 3"


def test_a_card_without_anything_to_report_is_one_line() -> None:
    assert len(live_lines(card(), elapsed=0)) == 1


def test_a_progress_line_is_cut_at_100_characters() -> None:
    text = progress_text(card(line="x" * 300))

    assert text == "↳ Subagent: " + "x" * 99 + "…"


@pytest.mark.parametrize(
    ("changes", "colour"),
    [
        ({"line": "half done"}, "white"),
        ({"tool": "web_fetch"}, "cyan"),
        ({"line": "no such page", "status": RunStatus.FAILED}, "red"),
        ({"line": "half done", "status": RunStatus.QUEUED}, "bright_black"),
    ],
)
def test_the_colour_of_a_progress_line_tells_its_kind(
    changes: dict[str, object], colour: str
) -> None:
    moved = card(**changes)  # type: ignore[arg-type]

    assert str(live_lines(moved, elapsed=1)[1].style) == colour


def test_a_run_that_did_its_job_ends_in_one_line() -> None:
    [line] = ended_lines(card(status=RunStatus.COMPLETED, line="half done", tool="web_fetch"))

    assert line.plain == (
        "🟢 Subagent completed · news 1a2b3c4d · 0:42 · 5 tool calls · 12,345 of 50,000 tokens"
    )


def test_a_run_that_failed_ends_with_its_last_words() -> None:
    head, below = ended_lines(card(status=RunStatus.TIMEOUT, line="page 7 of 9"))

    assert head.plain.startswith("🔴 Subagent ran out of time · news 1a2b3c4d")
    assert below.plain == "  ↳ Subagent: page 7 of 9"


def test_a_label_is_one_harmless_line() -> None:
    head = live_lines(card(label="[red]a\n\x1b[2Jb\x07[/red]" + "x" * 100), elapsed=0)[0]

    assert head.plain.startswith("🔵 [red]a b[/red]xxx")
    assert "\x1b" not in head.plain
    assert "\n" not in head.plain


def test_time_is_shown_as_on_a_stop_watch() -> None:
    assert [stop_watch(seconds) for seconds in (0, 59.9, 61, 3723)] == [
        "0:00",
        "0:59",
        "1:01",
        "1:02:03",
    ]


def test_the_tool_calls_of_a_run_hang_below_it() -> None:
    going = card(steps=steps(StepState.DONE, StepState.FAILED, StepState.RUNNING), tool="grep")

    lines = [line.plain for line in live_lines(going, elapsed=1)]

    assert lines[1:] == ["  ├ … 2 earlier", "  ├ ✓ grep", "  ├ ✗ grep", "  └ ● grep"]


def test_a_run_without_its_tools_says_so() -> None:
    head, *_ = ended_lines(replace(card(status=RunStatus.COMPLETED), degraded=True))

    assert head.plain.startswith("🟡 Subagent finished without its tools")


def test_they_are_still_there_when_it_has_ended() -> None:
    over = card(
        status=RunStatus.COMPLETED, steps=steps(StepState.DONE), awaited=True, line="page 7"
    )

    lines = [line.plain for line in ended_lines(over)]

    assert lines[0].startswith("🟢 Subagent completed")
    assert lines[1:] == ["  ├ … 4 earlier", "  └ ✓ grep"]


def test_a_run_in_an_answer_that_was_stopped_is_one_line_and_its_calls() -> None:
    over = card(status=RunStatus.CANCELLED, steps=steps(StepState.FAILED), awaited=True, line="x")

    assert [line.plain for line in ended_lines(over)][1:] == ["  ├ … 4 earlier", "  └ ✗ grep"]

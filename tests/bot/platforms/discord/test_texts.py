"""What the bot says on Discord: readable, harmless, and never too long."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.agent.sanitizer import one_line
from bot.platforms.base import Announcement, CardStep, Confirmation, RunCard
from bot.platforms.discord import texts
from bot.platforms.discord.texts import (
    ELSEWHERE,
    EMPTY,
    MOST_CHARACTERS,
    announcement_tail,
    announcement_text,
    card_text,
    code,
    harmless,
    inline,
    mention,
    newest,
    parts_of,
    question_tail,
    question_text,
    start_of,
    thread_name,
)
from bot.platforms.messaging.splitting import MessageParts
from bot.values import Identity, Place, RunStatus, StepState
from tests.bot.platforms.discord.hostile import WHOLE, corpus, words_of
from tests.fakes.corpus import over
from tests.fakes.readers import discord_finds, discord_pings

ALICE = Identity("discord", "", "123456789012345678")
PLACE = Place("discord", "1", "2", "3", "3")
RUN = "1a2b3c4d-0000-4000-8000-000000000001"
VICTIM = 123456789012345678
NEWS = Announcement(
    key=RUN, place=PLACE, owner=ALICE, title="news completed", text="There is some."
)
RUNNING = RunCard(
    run_id=RUN,
    owner=ALICE,
    place=PLACE,
    label="the news",
    agent="general",
    status=RunStatus.RUNNING,
    elapsed_seconds=42.0,
    tool="web_fetch",
    tool_calls=3,
    tokens=12345,
    token_budget=100000,
    line="Reading the second page.",
)

STEPS = (
    CardStep("glob", StepState.DONE, "1.0"),
    CardStep("gr`ep", StepState.RUNNING, "2.0"),
)

_ESCAPE_OR_ADDRESS = re.compile(r"\\[\\*_~|]|<https?://[^\s<>]*>", re.IGNORECASE)

anything = st.text(max_size=6000) | st.sampled_from(corpus(VICTIM))
statuses = st.sampled_from(list(RunStatus))


def card(**changes: object) -> RunCard:
    values = {name: getattr(RUNNING, name) for name in RUNNING.__slots__}
    return RunCard(**(values | changes))


def announcement(**changes: object) -> Announcement:
    values = {name: getattr(NEWS, name) for name in NEWS.__slots__}
    return Announcement(**(values | changes))


def sent(said: Announcement, head: str = "") -> MessageParts:
    tail = announcement_tail(said, shared=True)
    return parts_of(harmless(announcement_text(said)), name="result.md", head=head, tail=tail)


# --- cards --------------------------------------------------------------------------------------


def test_a_card_says_everything_about_a_run_that_is_going() -> None:
    assert card_text(RUNNING, 1_700_000_000).split("\n") == [
        "🔵 **the news** · `1a2b3c4d` · running",
        "`general` · started <t:1700000000:R> · 3 tool calls · 12,345 of 100,000 tokens",
        "🔧 `web_fetch`",
        "↳ Reading the second page.",
    ]


def test_a_card_of_a_run_that_ended_says_how_long_it_took_and_no_tool() -> None:
    ended = card(status=RunStatus.COMPLETED, elapsed_seconds=3723.9, tool_calls=1, line="")

    assert card_text(ended, 0).split("\n") == [
        "🟢 **the news** · `1a2b3c4d` · completed",
        "`general` · 1:02:03 · 1 tool call · 12,345 of 100,000 tokens",
    ]


def test_the_tool_calls_of_a_run_hang_below_its_card() -> None:
    shown = card_text(card(steps=STEPS, line="", tool_calls=6), 0).split("\n")

    assert shown[2:] == ["├ … 4 earlier", "├ ✓ `glob`", "└ ● `gr'ep`"]


def test_the_card_of_a_run_in_an_answer_ends_as_one_line_and_its_tool_calls() -> None:
    ended = card(status=RunStatus.CANCELLED, awaited=True, steps=STEPS[:1], tool_calls=1)

    assert card_text(ended, 0).split("\n") == [
        "⚫ **the news** · `1a2b3c4d` · stopped · `general` · 0:42 · 1 tool call · "
        "12,345 of 100,000 tokens",
        "└ ✓ `glob`",
    ]


def test_a_card_names_the_admin_who_stopped_the_run() -> None:
    stopped = card(status=RunStatus.CANCELLED, stopped_by="@everyone **Root**")

    assert " · stopped by @" in card_text(stopped, 0)
    assert "@everyone" not in card_text(stopped, 0)
    assert "**Root**" not in card_text(stopped, 0)


def test_a_card_of_a_run_without_label_or_budget_does_without() -> None:
    waiting = card(status=RunStatus.QUEUED, label="", elapsed_seconds=0.0, token_budget=0, tokens=0)

    assert card_text(waiting, 0).startswith("⚪ **general** · `1a2b3c4d` · queued\n`general` · 3")
    assert "0 tokens" in card_text(waiting, 0)


@pytest.mark.parametrize("status", RunStatus)
def test_every_state_has_a_colour(status: RunStatus) -> None:
    colour = texts.COLOURS.get(status, texts.RED)

    assert 0 < colour <= 0xFFFFFF
    assert (colour == texts.GREEN) == (status is RunStatus.COMPLETED)


@given(statuses, anything, anything, anything, anything, st.floats(0, 1e9), st.integers(0, 10**18))
@example(RunStatus.RUNNING, "L" * 4000, "A" * 4000, "`" * 4000, "|" * 4000, 1e9, 10**18)
@example(RunStatus.RUNNING, "*" * 4000, "https://a.b/c " * 40, "_~" * 99, "@here" * 40, 0.0, 0)
def test_no_card_passes_the_limits_or_pings(
    status: RunStatus, label: str, agent: str, tool: str, line: str, seconds: float, number: int
) -> None:
    shown = card_text(
        card(
            status=status,
            label=label,
            agent=agent,
            tool=tool,
            line=line,
            elapsed_seconds=seconds,
            tokens=number,
            token_budget=number,
            tool_calls=number,
            steps=tuple(CardStep(tool, state) for state in (*StepState, *StepState)),
        ),
        start_of(RUNNING, 1_700_000_000.0),
    )

    assert 1 <= len(shown.strip()) <= 1500
    assert len(shown.split("\n")) <= 11
    assert discord_pings(shown) == []
    assert discord_finds(shown, "masked") == []


@over("text", corpus(VICTIM))
def test_no_label_opens_what_it_does_not_close(text: str) -> None:
    shown = card_text(card(label=text, line=text, agent=text, tool=text), 0)

    spans = re.findall(r"`[^`]+`", shown)
    bare = _ESCAPE_OR_ADDRESS.sub("", re.sub(r"`[^`]+`", "", shown))
    assert len(spans) == (3 if one_line(text) else 1)
    assert [bare.count(mark) for mark in ("`", "**", "||", "~~", "__")] == [0, 2, 0, 0, 0]


def test_the_start_of_a_run_stands_still_while_it_hardly_moves() -> None:
    first = start_of(card(elapsed_seconds=10.0), 1000.0)

    assert first == 990
    assert start_of(card(elapsed_seconds=12.0), 1004.9, first) == 990
    assert start_of(card(elapsed_seconds=12.0), 1060.0, first) == 1048


# --- short texts ----------------------------------------------------------------------------------


def test_formatting_in_a_short_text_is_shown_as_it_is_written() -> None:
    assert inline("my_file *is* `x` ~~y~~ ||z|| \\", 100) == (
        "my\\_file \\*is\\* 'x' \\~\\~y\\~\\~ \\|\\|z\\|\\| \\\\"
    )


def test_an_address_in_a_short_text_stays_whole() -> None:
    assert harmless(inline("see https://a.example/b_c_d now", 100)) == (
        "see <https://a.example/b_c_d> now"
    )


def test_code_cannot_be_left() -> None:
    assert code("a` **b** `c", 40) == "`a' **b** 'c`"
    assert code(" \n", 40) == ""


def test_a_thread_is_called_after_the_message_that_it_begins_with() -> None:
    assert thread_name("<@123> what is\nnew?") == "what is new?"
    assert thread_name("<@!123> <@&4>") == "Conversation"
    assert thread_name("") == "Conversation"


@given(anything)
def test_every_name_of_a_thread_is_one_that_discord_takes(said: str) -> None:
    assert 1 <= len(thread_name(said)) <= 100


# --- growing and long texts -----------------------------------------------------------------------


def test_a_text_that_fits_is_shown_whole_while_it_grows() -> None:
    assert newest("Hello **there**") == "Hello **there**"
    assert newest(" \n ") == ""


def test_a_fence_that_is_still_open_is_closed_while_the_text_grows() -> None:
    assert newest("```py\nx = 1") == "```py\nx = 1\n```"


def test_of_a_text_that_is_too_long_the_end_is_shown_while_it_grows() -> None:
    text = "\n".join(f"line {number}" for number in range(1000))

    shown = newest(text)

    assert shown.startswith("…\n")
    assert shown.endswith("line 999")
    assert MOST_CHARACTERS / 2 < len(shown) <= MOST_CHARACTERS


def test_the_end_of_a_long_program_is_shown_as_code() -> None:
    shown = newest("```py\n" + "x = 1\n" * 1000)

    assert shown.startswith("…\n```py\n")
    assert shown.endswith("\n```")
    assert shown.count("```") % 2 == 0


@given(anything)
@example("```py\n" + "x" * 6000)
def test_no_growing_text_is_too_long_for_one_message(text: str) -> None:
    assert len(newest(harmless(text))) <= MOST_CHARACTERS


def test_the_head_stands_in_the_first_message_and_the_tail_in_the_last() -> None:
    text = "\n".join(f"line {number}" for number in range(500))

    parts = parts_of(text, name="x.md", head="HEAD ", tail="TAIL")

    assert len(parts.texts) == 3
    assert [part.startswith("HEAD ") for part in parts.texts] == [True, False, False]
    assert [part.endswith("\nTAIL") for part in parts.texts] == [False, False, True]


def test_the_tail_never_moves_what_stands_before_it() -> None:
    text = "x" * 1990

    assert parts_of(text, name="x.md", tail="TAIL OF WORDS").texts == (text, "TAIL OF WORDS")


def test_nothing_is_said_in_words() -> None:
    assert parts_of(" \n", name="x.md").texts == (EMPTY,)


def test_five_messages_are_messages_and_six_are_a_file() -> None:
    assert not parts_of("x" * 10_000, name="x.md").long
    assert parts_of("x" * 10_001, name="x.md").long


def test_the_file_holds_the_whole_text() -> None:
    text = "\n".join(f"line {number}" for number in range(5000))

    assert harmless(text) == text
    assert parts_of(text, name="x.md").whole == f"{text}\n"


@given(anything, st.sampled_from(["", "<@123456789012345678> "]), st.sampled_from(["", "-# x"]))
def test_every_part_of_every_paper_is_one_that_discord_takes(
    text: str, head: str, tail: str
) -> None:
    parts = parts_of(harmless(text), name="x.md", head=head, tail=tail)

    assert all(1 <= len(part.strip()) <= MOST_CHARACTERS for part in parts.texts)


@over("text", WHOLE)
def test_no_word_of_a_text_is_lost(text: str) -> None:
    parts = parts_of(harmless(text), name="x.md", empty="")

    assert words_of("\n".join(parts.texts)) == words_of(text)


# --- announcements and questions ------------------------------------------------------------------


def test_an_announcement_has_a_title_a_text_and_a_quiet_footer() -> None:
    parts = sent(announcement(footer="12,345 tokens · 0:42"), mention(ALICE.account))

    assert parts.texts == (
        "<@123456789012345678> **news completed**\nThere is some.\n-# 12,345 tokens · 0:42",
    )


def test_an_announcement_that_may_be_a_repetition_says_so() -> None:
    parts = sent(announcement(maybe_repeated=True))

    assert parts.texts[-1].endswith(f"\n{texts.REPEATED}")


def test_an_announcement_without_title_begins_with_its_text() -> None:
    assert sent(announcement(title=" ")).texts == ("There is some.",)


@given(anything, anything, anything, st.booleans())
@example("T" * 4000, "", "F" * 4000, True)
@example("*" * 4000, "```\n" * 900, "|" * 4000, True)
@example("`", "```\n[label](https://evil.example)\n```", "`", False)
def test_no_announcement_passes_the_limits_or_pings(
    title: str, text: str, footer: str, repeated: bool
) -> None:
    said = announcement(title=title, text=text, footer=footer, maybe_repeated=repeated)
    head = f"{mention(ALICE.account)}{ELSEWHERE}\n"

    parts = sent(said, head)

    assert all(1 <= len(part.strip()) <= MOST_CHARACTERS for part in parts.texts)
    assert parts.texts[0].startswith(head)
    ours = len(head)
    assert discord_pings(parts.texts[0][ours:]) == []
    assert not any(discord_pings(part) for part in parts.texts[1:])
    assert discord_pings(parts.whole) == []


def test_a_backtick_in_a_title_lets_no_link_out_of_its_fence() -> None:
    text = "```\n```\n[bank.example](https://evil.example)"

    assert "](" not in harmless(announcement_text(announcement(title="`", text=text)))


def test_nothing_in_a_question_can_be_hidden() -> None:
    asked = Confirmation(
        id="1", owner=ALICE, place=PLACE, text="`rm(` ||all=True|| `)`", expires_in_seconds=600
    )

    shown = harmless(question_text(asked), links=False)

    assert "||" not in shown
    assert "all=True" in shown


def test_a_question_says_until_when() -> None:
    assert "<t:1700000600:R>; no answer counts as no." in question_tail(1_700_000_600)
    assert "<t:1700000600:R>." in question_tail(1_700_000_600, open_ended=True)


def test_nobody_is_mentioned_by_no_name() -> None:
    assert mention("") == ""

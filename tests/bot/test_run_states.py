"""The state of a run is said in the same words, with the same icon, wherever it is shown."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bot.conversations.run_lines import info_text, named_state, run_line
from bot.platforms.discord import texts as discord
from bot.platforms.slack import texts as slack
from bot.platforms.terminal.cards import ended_lines, live_lines
from bot.platforms.terminal.plain import plain_text
from bot.run_texts import status_text
from bot.subagents.cards import card_of
from bot.subagents.endings import wrap
from bot.subagents.records import RunDetails, ending_line
from bot.subagents.wording import footer, title
from bot.values import Identity, RunStatus
from db.runs import Run
from tests.bot.subagents.test_wording import NOW, RUN

ALICE = Identity("discord", "", "1001")


def terminal_card(run: Run) -> str:
    card = card_of(run, ALICE)
    lines = ended_lines(card) if run.status.final else live_lines(card, 1.0)
    return "\n".join(line.plain for line in lines)


#: Where the state of a run is shown, with the icon.
WITH_ICON: dict[str, Callable[[Run], str]] = {
    "card on Discord": lambda run: discord.card_text(card_of(run, ALICE), 0),
    "card on Slack": lambda run: slack.card_text(card_of(run, ALICE)),
    "card in the terminal": terminal_card,
    "card in a pipe": lambda run: plain_text(card_of(run, ALICE)),
    "list": lambda run: run_line(run, NOW),
    "info": lambda run: info_text(RunDetails(run=run, steps=1, messages=())),
    "announcement": title,
}
#: Where it is said in a sentence or a line of a list.
IN_WORDS: dict[str, Callable[[Run], str]] = {
    "notification of Slack": lambda run: slack.card_notice([card_of(run, ALICE)]),
    "run that continues it": named_state,
    "log": ending_line,
}


@pytest.mark.parametrize("status", list(RunStatus))
@pytest.mark.parametrize("where", [*WITH_ICON, *IN_WORDS])
def test_every_state_is_shown_alike(where: str, status: RunStatus) -> None:
    run = replace(RUN, status=status, tool_call_count=1)
    icon, words = status_text(status)

    shown = (WITH_ICON | IN_WORDS)[where](run)

    assert words in shown
    assert (icon in shown) == (where in WITH_ICON)
    assert "_" not in shown
    assert "1 tool calls" not in shown
    others = {status_text(each).icon for each in RunStatus} - {icon}
    assert not [each for each in others if each in shown]


@pytest.mark.parametrize("status", [each for each in RunStatus if each.final])
async def test_the_model_reads_the_state_of_a_result_in_words(status: RunStatus) -> None:
    envelope = await wrap(RUN, status, "Twelve.")

    assert f'status="{status_text(status).words}"' in envelope
    assert "_exceeded" not in envelope


def test_the_footer_of_an_announcement_counts_one_tool_call() -> None:
    assert "· 1 tool call ·" in footer(replace(RUN, tool_call_count=1))

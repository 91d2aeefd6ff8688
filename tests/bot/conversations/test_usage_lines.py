"""Tokens and costs are shown in dollars by kind, and are written to a CSV file."""

import csv
import io

import pytest

from bot.conversations.usage_lines import HEAD, spending_text, usage_csv
from bot.subagents.requests import SpendingReport
from db.spending import SpendingSum


def spent(*group: str, cost: int = 12_345, unpriced: int = 0) -> SpendingSum:
    return SpendingSum(group=group, fresh=1_200, cached=30, output=4, cost=cost, unpriced=unpriced)


def test_a_user_reads_today_and_this_month_in_tokens_and_money() -> None:
    text = spending_text(SpendingReport(today=spent(cost=0), month=spent(unpriced=1)))

    assert text.splitlines() == [
        "- Today (UTC): $0.00 (1,200 new, 30 cached, 4 output tokens)",
        "- This month (UTC): $0.0124, and 1 turn or run without a price "
        "(1,200 new, 30 cached, 4 output tokens)",
    ]


def test_an_admin_reads_the_groups_that_cost_most() -> None:
    report = SpendingReport(
        today=spent(),
        month=spent(),
        top={"user": [spent("discord::1")], "channel": [spent("slack", "T1", "C1")], "agent": []},
        names={"discord::1": "Alice"},
    )

    text = spending_text(report)

    assert "**Everyone this month, by user**\n- Alice (`discord::1`): $0.0124 (" in text
    assert "by channel**\n- `slack T1 C1`: $0.0124 (" in text
    assert "by agent**\n- Nothing yet." in text


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t"])
def test_no_cell_of_the_file_is_a_formula(sign: str) -> None:
    evil = f'{sign}HYPERLINK("http://x.example")'

    head, row = csv.reader(io.StringIO(usage_csv([spent(evil, "p", "w", "c", evil, "m")])))

    assert tuple(head) == HEAD
    assert row[0] == row[4] == f"'{evil}"
    assert row[6:] == ["1200", "30", "4", "0.012345", "0"]

"""Formats tokens and costs for the answers to commands, as Markdown or as CSV (pure)."""

import csv
import io
from collections.abc import Sequence

from bot.agent.sanitizer import one_line
from bot.run_texts import counted, dollars, token_kinds
from bot.subagents.requests import SpendingReport
from db.spending import SpendingSum

#: Characters with which a spreadsheet takes a cell for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
HEAD = (
    "user",
    "platform",
    "workspace",
    "channel",
    "agent",
    "model",
    "new_tokens",
    "cached_tokens",
    "output_tokens",
    "dollars",
    "without_price",
)


def spending_text(report: SpendingReport) -> str:
    """Return the lines about a user's costs, and about the groups that cost most."""
    lines = [
        f"- Today (UTC): {_amount(report.today)}",
        f"- This month (UTC): {_amount(report.month)}",
    ]
    if report.last is not None:
        lines.insert(0, f"- The last answer to you here: {_amount(report.last)}")
    for by, found in report.top.items():
        lines += ["", f"**Everyone this month, by {by}**"]
        for each in found:
            key = f"`{one_line(' '.join(filter(None, each.group)), 100) or 'none'}`"
            name = report.names.get(each.group[0])
            lines.append(f"- {f'{name} ({key})' if name else key}: {_amount(each)}")
        if not found:
            lines.append("- Nothing yet.")
    return "\n".join(lines)


def _amount(spent: SpendingSum) -> str:
    kinds = token_kinds(spent.fresh, spent.cached, spent.output)
    unknown = counted(spent.unpriced, "turn or run", "turns and runs")
    more = f", and {unknown} without a price" * bool(spent.unpriced)
    return f"{dollars(spent.cost)}{more} ({kinds} tokens)"


def usage_csv(rows: Sequence[SpendingSum]) -> str:
    """Return sums by user, place, agent and model as CSV that no spreadsheet executes."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(HEAD)
    for row in rows:
        cost = f"{row.cost // 1_000_000}.{row.cost % 1_000_000:06d}"
        cells = (f"'{each}" if each.startswith(FORMULA) else each for each in row.group)
        counts = (row.fresh, row.cached, row.output, cost, row.unpriced)
        writer.writerow([*cells, *counts])
    return text.getvalue()

"""Formats tokens and costs for the answers to commands, as Markdown or as CSV (pure)."""

import csv
import io
from collections.abc import Mapping, Sequence

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
        lines += [f"- {_named(each.group, report.names)}: {_amount(each)}" for each in found]
        if not found:
            lines.append("- Nothing yet.")
    return "\n".join(lines)


def _amount(spent: SpendingSum) -> str:
    kinds = token_kinds(spent.fresh, spent.cached, spent.output)
    unknown = counted(spent.unpriced, "turn or run", "turns and runs")
    more = f", and {unknown} without a price" * bool(spent.unpriced)
    return f"{dollars(spent.cost)}{more} ({kinds} tokens)"


def _named(group: tuple[str, ...], names: Mapping[str, str]) -> str:
    """Return the name of a group, Markdown."""
    key = f"`{one_line(' '.join(filter(None, group)), 100) or 'none'}`"
    name = names.get(group[0])
    return f"{name} ({key})" if name else key


def usage_csv(rows: Sequence[SpendingSum]) -> str:
    """Return sums by user, place, agent and model as CSV that no spreadsheet executes."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(HEAD)
    for row in rows:
        cost = f"{row.cost // 1_000_000}.{row.cost % 1_000_000:06d}"
        counts = (row.fresh, row.cached, row.output, cost, row.unpriced)
        writer.writerow([*map(_cell, row.group), *counts])
    return text.getvalue()


def _cell(value: str) -> str:
    return f"'{value}" if value.startswith(FORMULA) else value

"""Retention: deletes old rows of every table in small batches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, delete, exists, or_, select, update

from bot.values import UNFINISHED
from db.database import Transaction
from db.tables import (
    approvals,
    audit,
    changes,
    commands,
    conversations,
    files,
    listeners,
    messages,
    metadata,
    outbox,
    schedule_fires,
    schedules,
    seen_events,
    slack_states,
    steps,
    subagent_runs,
    todos,
    turns,
    users,
    web_addresses,
)

#: Rows deleted per transaction: 50 runs with their transcripts take about 5 ms.
BATCH = 50
#: Files have megabytes each.
BATCH_OF_FILES = 5
#: Rows checked for references per transaction.
WINDOW = 100

#: Tables whose rows no rule deletes, with the reason.
KEPT = {
    "workers": "a row per start of a process: `workers.forget`, by the database's clock",
    "run_messages": "deleted with its run",
    "run_questions": "deleted with its run",
    "whiteboard": "deleted with its run",
    "notes": "the user's own: kept until the user deletes it",
    "memories": "the user's own: kept until the user deletes it",
    "slack_installs": "kept until the app is removed from the workspace",
    "mcp_pins": "a row per tool that a configured server offers",
    "skill_data": "kept until the skill deletes it; limited in number and size for each skill",
}

_UNFINISHED = [str(status) for status in UNFINISHED]


@dataclass(frozen=True, slots=True)
class Rule:
    """The condition under which rows of a table are old.

    Attributes:
        of: The key of the moment that counts, among those that `retention` computes.
        table: The table.
        old: The condition, given that moment.
        batch: Most rows that one transaction deletes.
    """

    of: str
    table: Table
    old: Callable[[datetime], ColumnElement[bool]]
    batch: int = BATCH


def _said(moment: datetime) -> ColumnElement[bool]:
    """Return the condition for items that were delivered or dismissed, or that wait for a user."""
    over = outbox.c.status.in_(("delivered", "dismissed", "waiting"))
    return (outbox.c.created_at < moment) & over


#: In this order: rows that refer to other rows are deleted before them.
RULES = (
    Rule("steps", steps, lambda moment: steps.c.created_at < moment),
    Rule("files", files, lambda moment: files.c.created_at < moment, BATCH_OF_FILES),
    Rule("runs", outbox, _said),
    Rule(
        "undelivered",
        outbox,
        lambda moment: (outbox.c.status == "blocked") & (outbox.c.first_tried_at < moment),
    ),
    Rule("runs", subagent_runs, lambda moment: subagent_runs.c.completed_at < moment),
    Rule("runs", schedule_fires, lambda moment: schedule_fires.c.due_at < moment),
    Rule("runs", schedules, lambda moment: schedules.c.ended_at < moment),
    Rule("runs", todos, lambda moment: todos.c.updated_at < moment),
    Rule("conversations", messages, lambda moment: messages.c.created_at < moment),
    Rule("conversations", turns, lambda moment: turns.c.ended_at < moment),
    Rule("conversations", listeners, lambda moment: listeners.c.last_event_at < moment),
    Rule("conversations", approvals, lambda moment: approvals.c.created_at < moment),
    Rule("addresses", web_addresses, lambda moment: web_addresses.c.created_at < moment),
    Rule("undo", changes, lambda moment: changes.c.created_at < moment),
    Rule("events", seen_events, lambda moment: seen_events.c.created_at < moment),
    Rule("events", slack_states, lambda moment: slack_states.c.created_at < moment),
    Rule("events", commands, lambda moment: commands.c.created_at < moment),
    Rule("audit", audit, lambda moment: audit.c.created_at < moment),
)

#: Tables whose rows are deleted when no other row refers to them and they are older than the moment
#: `conversations`: a conversation without messages, a user without any rows.
UNREFERENCED = (conversations, users)


async def forget(tx: Transaction, rule: Rule, moment: datetime) -> bool:
    """Delete a batch of old rows, and return True if there may be more.

    Dependent rows are deleted too: the results of runs, the files of messages.
    """
    keys = list(rule.table.primary_key.columns)
    # Locked rows are skipped: workers at the same rows would wait for one another.
    batch = select(*keys).where(rule.old(moment)).limit(rule.batch)
    if rule.table is steps:
        batch = batch.where(steps.c.work_id.not_in(await _at_work(tx)))
    rows = [tuple(row) for row in await tx.execute(batch.with_for_update(skip_locked=True))]
    if not rows:
        return False
    if rule.table is subagent_runs:
        await _delete_messages(tx, messages.c.run_id.in_([row[0] for row in rows]))
    if rule.table is messages:
        await tx.execute(delete(files).where(files.c.message_id.in_([row[0] for row in rows])))
    await tx.execute(delete(rule.table).where(_among(keys, rows)))
    return len(rows) == rule.batch


async def _at_work(tx: Transaction) -> list[str]:
    """Return the ids of unfinished turns and runs, which resume from their steps."""
    unfinished = subagent_runs.c.status.in_(_UNFINISHED)
    runs = await tx.scalars(select(subagent_runs.c.id).where(unfinished))
    going = turns.c.status.in_(("queued", "running"))
    return [*runs, *await tx.scalars(select(turns.c.id).where(going))]


async def _delete_messages(tx: Transaction, which: ColumnElement[bool]) -> None:
    ids = select(messages.c.id).where(which)
    await tx.execute(delete(files).where(files.c.message_id.in_(ids)))
    await tx.execute(delete(messages).where(which))


def _among(keys: Sequence[ColumnElement[Any]], rows: Sequence[tuple[Any, ...]]) -> Any:
    if len(keys) == 1:
        return keys[0].in_([row[0] for row in rows])
    # SQLite reads the whole table for `(a, b) IN (…)`.
    return or_(*(and_(*(key == part for key, part in zip(keys, row, strict=True))) for row in rows))


async def forget_unreferenced(tx: Transaction, table: Table, moment: datetime, after: str) -> str:
    """Delete the old rows of a window to which no row refers.

    Args:
        tx: The transaction.
        table: One of `UNREFERENCED`.
        moment: Rows created since then are kept.
        after: The key after which the window begins; empty for the first.

    Returns:
        The key after which the next window begins; empty when this was the last.
    """
    key = table.c.id
    window = select(key).where(key > after).order_by(key).limit(WINDOW)
    ids = list(await tx.scalars(window))
    old = (key.in_(ids), table.c.created_at < moment, ~_referenced(table))
    # Locked until the commit: a transaction that is about to refer to a row waits, and then finds
    # it deleted.
    found = select(key).where(*old).with_for_update(skip_locked=True)
    gone = list(await tx.scalars(found)) if ids else []
    if gone:
        await tx.execute(delete(table).where(key.in_(gone)))
    return ids[-1] if len(ids) == WINDOW else ""


def _referenced(table: Table) -> ColumnElement[bool]:
    """Return the condition for rows to which others refer."""
    references = [
        exists().where(key.parent == key.column)
        for other in metadata.sorted_tables
        for key in other.foreign_keys
        if key.column.table is table
    ]
    if table is conversations:
        # The result of a run is stored in its conversation at its end.
        references.append(exists().where(subagent_runs.c.conversation_id == conversations.c.id))
    return or_(*references)


async def archive(tx: Transaction, moment: datetime, now: datetime) -> bool:
    """Archive a batch of runs that ended before `moment`: short lists leave them out.

    Returns:
        True if there may be more.
    """
    ended = (subagent_runs.c.completed_at < moment, subagent_runs.c.archived_at.is_(None))
    batch = select(subagent_runs.c.id).where(*ended).limit(BATCH)
    ids = list(await tx.scalars(batch.with_for_update(skip_locked=True)))
    if ids:
        this = subagent_runs.c.id.in_(ids)
        await tx.execute(update(subagent_runs).where(this).values(archived_at=now))
    return len(ids) == BATCH


#: The moments before which rows are old, by `Rule.of`.
Moments = Mapping[str, datetime]

"""Retention: deletes old rows of every table in small batches."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Column, ColumnElement, Table, and_, exists, or_, select

from bot.values import OPEN_TURN, UNFINISHED
from db import holds, tables
from db.database import Transaction
from db.rows import change, remove
from db.tables import messages, metadata, outbox, subagent_runs

#: Rows deleted per transaction: 50 runs with their transcripts take about 5 ms.
BATCH = 50
#: Files have megabytes each.
BATCH_OF_FILES = 5
#: Rows checked for references per transaction.
WINDOW = 100


@dataclass(frozen=True, slots=True)
class Rule:
    """The condition under which rows of a table are old.

    Attributes:
        of: The key of the moment that counts, among those that `retention` computes.
        time: The column of the table with a time before that moment.
        only: A further condition.
        batch: Most rows that one transaction deletes.
    """

    of: str
    time: Column[datetime]
    only: ColumnElement[bool] | None = None
    batch: int = BATCH

    @property
    def table(self) -> Table:
        """The table."""
        return self.time.table


#: The states of items that were delivered or dismissed, or that wait for a user.
_SAID = outbox.c.status.in_(("delivered", "dismissed", "waiting"))

#: In this order: rows that refer to other rows are deleted before them.
RULES = (
    Rule("steps", tables.steps.c.created_at),
    Rule("steps", tables.step_media.c.created_at, batch=BATCH_OF_FILES),
    Rule("files", tables.files.c.created_at, batch=BATCH_OF_FILES),
    Rule("runs", outbox.c.created_at, only=_SAID),
    Rule("undelivered", outbox.c.first_tried_at, only=outbox.c.status == "blocked"),
    Rule("runs", subagent_runs.c.completed_at),
    Rule("runs", tables.schedule_fires.c.due_at),
    Rule("runs", tables.schedules.c.ended_at),
    Rule("runs", tables.todos.c.updated_at),
    Rule("context", messages.c.created_at, only=messages.c.overheard),
    Rule("conversations", messages.c.created_at),
    Rule("conversations", tables.turns.c.ended_at),
    Rule("conversations", tables.listeners.c.last_event_at),
    Rule("conversations", tables.approvals.c.created_at),
    Rule("addresses", tables.web_addresses.c.created_at),
    Rule("uses", tables.place_choices.c.day),
    Rule("uses", tables.tool_uses.c.day),
    Rule("undo", tables.changes.c.created_at),
    Rule("events", tables.grants.c.expires_at),
    Rule("events", tables.standing_grants.c.expires_at),
    Rule("events", tables.seen_events.c.created_at),
    Rule("events", tables.sentences.c.begun_at),
    Rule("events", tables.slack_states.c.created_at),
    Rule("events", tables.commands.c.created_at),
    Rule("events", tables.pools.c.ends_at),
    Rule("events", tables.pairings.c.created_at, only=tables.pairings.c.confirmed_at.is_(None)),
    Rule("runs", tables.admin_notices.c.created_at),
    # Without a sign-in there is nothing but an attempt that was given up.
    Rule("events", tables.mcp_tokens.c.used_at, only=tables.mcp_tokens.c.secret == ""),
    Rule("conversations", tables.mcp_tokens.c.used_at),
)

#: Tables whose rows are deleted when no other row refers to them and they are older than the moment
#: `conversations`: a conversation without messages, a user without any rows.
UNREFERENCED = (tables.conversations, tables.users)


async def forget(tx: Transaction, rule: Rule, moment: datetime) -> bool:
    """Delete a batch of old rows, and return True if there may be more.

    Dependent rows are deleted too: the results of runs, the files of messages.
    """
    keys = list(rule.table.primary_key.columns)
    # Locked rows are skipped: workers at the same rows would wait for one another.
    batch = select(*keys).where(rule.time < moment).limit(rule.batch)
    if rule.only is not None:
        batch = batch.where(rule.only)
    batch = batch.where(*await holds.free(tx, rule.table))
    if rule.table in (tables.steps, tables.step_media):
        # Unfinished turns and runs resume from their steps.
        unfinished = subagent_runs.c.status.in_(UNFINISHED)
        runs = await tx.scalars(select(subagent_runs.c.id).where(unfinished))
        going = tables.turns.c.status.in_(OPEN_TURN)
        at_work = [*runs, *await tx.scalars(select(tables.turns.c.id).where(going))]
        batch = batch.where(rule.table.c.work_id.not_in(at_work))
    rows = (await tx.execute(batch.with_for_update(skip_locked=True))).all()
    if not rows:
        return False
    ids = [row[0] for row in rows]
    if rule.table is subagent_runs:
        results = messages.c.run_id.in_(ids)
        with_files = select(messages.c.id).where(results)
        await remove(tx, tables.files, tables.files.c.message_id.in_(with_files))
        await remove(tx, messages, results)
    if rule.table is messages:
        await remove(tx, tables.files, tables.files.c.message_id.in_(ids))
    # SQLite reads the whole table for `(a, b) IN (…)`.
    these = (and_(*(key == part for key, part in zip(keys, row, strict=True))) for row in rows)
    await remove(tx, rule.table, keys[0].in_(ids) if len(keys) == 1 else or_(*these))
    return len(rows) == rule.batch


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
    references = [
        exists().where(other_key.parent == other_key.column)
        for other in metadata.sorted_tables
        for other_key in other.foreign_keys
        if other_key.column.table is table and other_key.ondelete != "CASCADE"
    ]
    if table is tables.conversations:
        # The result of a run is stored in its conversation at its end.
        references.append(exists().where(subagent_runs.c.conversation_id == key))
    free = await holds.free(tx, table)
    old = (key.in_(ids), table.c.created_at < moment, ~or_(*references), *free)
    # Locked until the commit: a transaction that is about to refer to a row waits, and then finds
    # it deleted.
    found = select(key).where(*old).with_for_update(skip_locked=True)
    gone = list(await tx.scalars(found)) if ids else []
    if gone:
        await remove(tx, table, key.in_(gone))
    return ids[-1] if len(ids) == WINDOW else ""


async def archive(tx: Transaction, moment: datetime, now: datetime) -> bool:
    """Archive a batch of runs that ended before `moment`: short lists leave them out.

    Returns:
        True if there may be more.
    """
    ended = (subagent_runs.c.completed_at < moment, subagent_runs.c.archived_at.is_(None))
    batch = select(subagent_runs.c.id).where(*ended).limit(BATCH)
    ids = list(await tx.scalars(batch.with_for_update(skip_locked=True)))
    if ids:
        await change(tx, subagent_runs, subagent_runs.c.id.in_(ids), archived_at=now)
    return len(ids) == BATCH

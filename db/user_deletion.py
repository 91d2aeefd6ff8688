"""Deletes the rows about a user, and leaves the words of others as they are.

On SQLite nothing else runs while a statement does, and nobody writes during a transaction. So most
of it is done in `parts`, each in a transaction of its own, and the rest in `delete_user`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Table, bindparam, cast, delete, exists, func, select, update
from sqlalchemy import String as SqlString
from sqlalchemy import literal_column as written

from bot.values import OPEN_TURN, UNFINISHED, RunStatus
from db import audit
from db.database import Transaction
from db.rows import PLACE, change, count_rows, has_row, insert_new, remove
from db.tables import (
    commands,
    conversations,
    files,
    messages,
    metadata,
    participants,
    run_files,
    run_messages,
    scratch,
    subagent_runs,
    turns,
    users,
    whiteboard,
)
from db.user_data import BATCH, HOLDINGS, NAMED_ELSEWHERE, Owner, personal_of, runs_of, written_by
from db.users import lock

#: The shown name of a deleted author, and the user who owns what a deleted user had opened for all.
DELETED = "deleted"
#: Tables that are deleted as a whole, with no further rule.
_WHOLE = (
    "steps", "step_media", "web_addresses", "run_questions", "outbox", "approvals", "grants",
    "pairings", "standing_grants", "changes", "notes", "memories", "todos", "schedules", "files",
    "admin_notices", "mcp_tokens",
)  # fmt: skip
#: Tables whose rows are deleted with those of runs, and the columns with the ids of runs.
_OF_RUNS = (
    (run_messages, "run_id"),
    (whiteboard, "board_id"),
    (scratch, "run_id"),
    (run_files, "run_id"),
)
#: Tables whose rows have megabytes each, and the number of them that a part deletes.
_LARGE, BATCH_OF_FILES = ("files", "step_media", "run_files"), 5
#: States of runs that a process works on.
_AT_WORK = (RunStatus.RUNNING, RunStatus.WAITING_APPROVAL, RunStatus.WAITING_INPUT)


#: Deletes some rows about a user, and returns True if there may be more.
Part = Callable[[Transaction], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Work:
    """The unfinished work of a user.

    Attributes:
        runs: The ids of the runs that a process works on.
        turns: The ids of the turns that are in progress.
    """

    runs: Sequence[str] = field(default_factory=list)
    turns: Sequence[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.runs or self.turns)


async def stop_work(tx: Transaction, key: str, now: datetime) -> Work:
    """Request the end of a user's runs and turns, and return those that are at work."""
    mine = (subagent_runs.c.user_id == key, subagent_runs.c.status.in_(UNFINISHED))
    unasked = subagent_runs.c.cancel_requested_at.is_(None)
    await change(tx, subagent_runs, *mine, unasked, cancel_requested_at=now, cancelled_by=key)
    running = (turns.c.user_id == key, turns.c.status == "running")
    await change(tx, turns, *running, stop_requested_at=now)
    at_work = select(subagent_runs.c.id).where(mine[0], subagent_runs.c.status.in_(_AT_WORK))
    return Work(
        runs=list(await tx.scalars(at_work)),
        turns=list(await tx.scalars(select(turns.c.id).where(*running))),
    )


def parts(owner: Owner, counted_since: datetime, now: datetime) -> Iterator[Part]:
    """Yield the parts of a deletion that come before `delete_user`, in this order.

    Args:
        owner: The user, whose work has been stopped.
        counted_since: See `delete_user`.
        now: The time.
    """
    for name in _WHOLE:
        for condition in HOLDINGS[name](owner):
            yield partial(_remove_some, table=metadata.tables[name], condition=condition)
    yield partial(audit.erase_of, owner=owner.key, now=now)
    for table, name in _OF_RUNS:
        yield partial(_remove_some, table=table, condition=table.c[name].in_(runs_of(owner)))
    personal = messages.c.conversation_id.in_(personal_of(owner))
    for condition in (personal, messages.c.run_id.in_(runs_of(owner))):
        yield partial(_remove_some, table=messages, condition=condition)
    yield partial(_empty_messages, owner=owner)
    ended = turns.c.status.not_in(OPEN_TURN)
    condition = (turns.c.user_id == owner.key) & ended
    yield partial(_remove_some, table=turns, condition=condition)
    over = (subagent_runs.c.user_id == owner.key) & subagent_runs.c.status.not_in(UNFINISHED)
    condition = over & (subagent_runs.c.created_at <= counted_since)
    yield partial(_remove_some, table=subagent_runs, condition=condition)
    yield partial(_empty_runs, condition=over, now=now)


async def delete_user(
    tx: Transaction, owner: Owner, *, counted_since: datetime, now: datetime, command_id: str = ""
) -> int:
    """Delete the rest of the rows about a user.

    Args:
        tx: The transaction.
        owner: The user.
        counted_since: Runs that began since then count towards limits: they lose all but their
            numbers.
        now: The time.
        command_id: The user's command that is being carried out; it is deleted when it is answered.

    Returns:
        The number of runs whose numbers stay for the limits.
    """
    # A message that is being stored waits for the commit, and is then the first of a new user.
    await lock(tx, owner.key)
    their = turns.c.user_id == owner.key
    spoken = conversations.c.id.in_(select(turns.c.conversation_id).where(their))
    busy = conversations.c.active_turn_id.in_(select(turns.c.id).where(their))
    await change(tx, conversations, spoken, busy, active_turn_id=None)
    mine = subagent_runs.c.user_id == owner.key
    unfinished = subagent_runs.c.status.in_(UNFINISHED)
    await change(tx, subagent_runs, mine, unfinished, status=str(RunStatus.CANCELLED))
    await change(tx, turns, their, status="stopped")
    for part in parts(owner, counted_since, now):
        more = True
        while more:
            more = await part(tx)
            # On SQLite nothing above yields to other tasks.
            await asyncio.sleep(0)
    kept = await count_rows(tx, subagent_runs, mine)
    others = commands.c.id != command_id
    await remove(tx, commands, commands.c.user_id == owner.key, others)
    # The summaries of a conversation may hold the user's words.
    this = participants.c.author == owner.key
    shared = select(participants.c.conversation_id).where(this)
    await remove(tx, messages, _summary(), messages.c.conversation_id.in_(shared))
    # Unique in the conversation, and no account of a platform.
    anonymous = DELETED + ":" + cast(participants.c.number, SqlString)
    await change(tx, participants, this, author=anonymous, name=DELETED, model="")
    # A conversation that others share stays without its owner.
    mine = conversations.c.user_id == owner.key
    await tx.execute(delete(conversations).where(mine, ~conversations.c.shared))
    if await has_row(tx, conversations, mine):
        nobody = {"id": DELETED, "platform": "", "account": DELETED, "name": DELETED}
        await insert_new(tx, users, nobody | {"workspace": "", "created_at": now})
        await change(tx, conversations, mine, user_id=DELETED, model="")
    await _delete_names(tx, owner)
    return kept


async def _remove_some(tx: Transaction, table: Table, condition: ColumnElement[bool]) -> bool:
    """Delete some of the rows that meet a condition; messages with their files."""
    keys, most = list(table.primary_key), BATCH_OF_FILES if table.name in _LARGE else BATCH
    rows = (await tx.execute(select(*keys).where(condition).limit(most))).all()
    if not rows:
        return False
    if table is messages:
        await remove(tx, files, files.c.message_id.in_([row.id for row in rows]))
    # With many conditions in one statement, building it would take longer than running it.
    one = delete(table).where(*(key == bindparam(f"b_{key.name}") for key in keys))
    names = [f"b_{key.name}" for key in keys]
    await tx.execute(one, [dict(zip(names, row, strict=True)) for row in rows])
    return len(rows) == most


async def _empty_messages(tx: Transaction, owner: Owner) -> bool:
    """Take the words out of some of the user's messages, and out of replies that quote them.

    A message stays as an empty row: without its id on the platform the next look there would store
    it again. Summaries go, and the next turn makes them again without these words.
    """
    columns = (messages.c.id, messages.c.conversation_id, messages.c.reference)
    rows = (await tx.execute(select(*columns).where(written_by(owner)).limit(BATCH))).all()
    if not rows:
        return False
    ids, here = [row.id for row in rows], {row.conversation_id for row in rows}
    said = {(row.conversation_id, row.reference) for row in rows}
    replies = await tx.execute(
        select(messages.c.id, messages.c.conversation_id, messages.c.reply_to, messages.c.quoted)
        .where(messages.c.reply_to.in_([row.reference for row in rows]))
        .where(messages.c.reply_to != written("''"), messages.c.quoted.is_not(None))
    )
    left = [
        {"b_id": row.id, "b_quoted": [each for each in row.quoted if each.get("kind") == "note"]}
        for row in replies
        if (row.conversation_id, row.reply_to) in said
    ]
    if left:
        one = update(messages).where(messages.c.id == bindparam("b_id"))
        await tx.execute(one.values(quoted=bindparam("b_quoted")), left)
    await remove(tx, files, files.c.message_id.in_(ids))
    await remove(tx, messages, _summary(), messages.c.conversation_id.in_(here))
    nobody = {"author": "", "author_name": DELETED, "text": "", "quoted": None}
    await change(tx, messages, messages.c.id.in_(ids), **nobody)
    return len(rows) == BATCH


def _summary() -> ColumnElement[bool]:
    """Return the condition for summaries."""
    return messages.c.role == written("'summary'")


async def _empty_runs(tx: Transaction, condition: ColumnElement[bool], now: datetime) -> bool:
    """Take all but the numbers out of some runs."""
    # An emptied run has no place.
    full = select(subagent_runs.c.id).where(condition, subagent_runs.c.channel != "")
    ids = list(await tx.scalars(full.limit(BATCH)))
    emptied: dict[str, Any] = dict.fromkeys(
        ("conversation_id", "parent_message_id", "batch_id", "context", "instructions", *PLACE), ""
    )
    emptied |= dict.fromkeys(("parent_run_id", "result", "error", "allowed_tools", "blocked_tools"))
    emptied |= {"label": DELETED, "task": DELETED, "transcript": [], "metadata": {}}
    emptied |= {"card_message_id": "", "archived_at": now}
    emptied["completed_at"] = func.coalesce(subagent_runs.c.completed_at, now)
    await tx.execute(update(subagent_runs).where(subagent_runs.c.id.in_(ids)).values(**emptied))
    return len(ids) == BATCH


async def _delete_names(tx: Transaction, owner: Owner) -> None:
    """Delete the user, unless rows refer to the user, and the user's name in rows of others."""
    for (table, column), value in NAMED_ELSEWHERE.items():
        name = metadata.tables[table].c[column]
        named = (name == owner.key, name != written("''"))
        await change(tx, metadata.tables[table], *named, **{column: value})
    await change(tx, users, users.c.id == owner.key, name="", notify="")
    referred = [
        exists().where(each.parent == users.c.id)
        for table in metadata.sorted_tables
        for each in table.foreign_keys
        if each.column.table is users
    ]
    await remove(tx, users, users.c.id == owner.key, *(~each for each in referred))

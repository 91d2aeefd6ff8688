"""Deletes the rows about a user, and leaves the words of others as they are."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import String as SqlString
from sqlalchemy import cast, delete, exists, func, select, update

from bot.values import UNFINISHED, RunStatus
from db.database import Transaction
from db.rows import PLACE, change, insert_new, remove
from db.tables import (
    commands,
    conversations,
    files,
    messages,
    metadata,
    participants,
    run_files,
    run_messages,
    run_questions,
    scratch,
    subagent_runs,
    turns,
    users,
    whiteboard,
)
from db.user_data import HOLDINGS, NAMED_ELSEWHERE, Owner, personal_of, runs_of
from db.users import lock

#: The shown name of a deleted author, and the user who owns what a deleted user had opened for all.
DELETED = "deleted"
#: Tables that are deleted as a whole, with no further rule.
_WHOLE = (
    "steps", "step_media", "web_addresses", "run_questions", "outbox", "approvals", "grants",
    "changes", "notes", "memories", "todos", "schedules", "files",
)  # fmt: skip
#: Tables whose rows are deleted with those of runs, and the columns with the ids of runs.
_OF_RUNS = (
    (run_messages, "run_id"),
    (whiteboard, "board_id"),
    (scratch, "run_id"),
    (run_files, "run_id"),
)
#: States of runs that a process works on.
_AT_WORK = (RunStatus.RUNNING, RunStatus.WAITING_APPROVAL, RunStatus.WAITING_INPUT)


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


async def delete_user(
    tx: Transaction, owner: Owner, *, counted_since: datetime, now: datetime, command_id: str = ""
) -> int:
    """Delete the rows about a user, and return the number of numbers that stay for the limits.

    Args:
        tx: The transaction.
        owner: The user.
        counted_since: Runs that began since then count towards limits: they lose all but their
            numbers.
        now: The time.
        command_id: The user's command that is being carried out; it is deleted when it is answered.
    """
    # A message that is being stored waits for the commit, and is then the first of a new user.
    await lock(tx, owner.key)
    await _cut_quotations(tx, owner)
    for name in _WHOLE:
        for condition in HOLDINGS[name](owner):
            await remove(tx, metadata.tables[name], condition)
    await _delete_messages(tx, owner)
    theirs = select(turns.c.id).where(turns.c.user_id == owner.key)
    busy = conversations.c.active_turn_id.in_(theirs)
    await change(tx, conversations, busy, active_turn_id=None)
    await remove(tx, turns, turns.c.user_id == owner.key)
    kept = await _delete_runs(tx, owner, counted_since, now)
    others = commands.c.id != command_id
    await remove(tx, commands, commands.c.user_id == owner.key, others)
    await _delete_conversations(tx, owner, now)
    await _delete_names(tx, owner)
    return kept


async def _delete_names(tx: Transaction, owner: Owner) -> None:
    """Delete the user, unless rows refer to the user, and the user's name in rows of others."""
    for (table, column), value in NAMED_ELSEWHERE.items():
        named = metadata.tables[table].c[column] == owner.key
        await change(tx, metadata.tables[table], named, **{column: value})
    await change(tx, users, users.c.id == owner.key, name="")
    referred = [
        exists().where(each.parent == users.c.id)
        for table in metadata.sorted_tables
        for each in table.foreign_keys
        if each.column.table is users
    ]
    await remove(tx, users, users.c.id == owner.key, *(~each for each in referred))


async def _cut_quotations(tx: Transaction, owner: Owner) -> None:
    """Remove the user's words from the replies of others that quote them."""
    mine = messages.alias()
    said = select(mine.c.reference).where(
        mine.c.author == owner.key,
        mine.c.reference != "",
        mine.c.conversation_id == messages.c.conversation_id,
    )
    rows = await tx.execute(
        select(messages.c.id, messages.c.quoted).where(
            messages.c.reply_to.in_(said), messages.c.quoted.is_not(None)
        )
    )
    for row in rows.all():
        left = [each for each in row.quoted if each.get("kind") == "note"]
        await change(tx, messages, messages.c.id == row.id, quoted=left or None)


async def _delete_messages(tx: Transaction, owner: Owner) -> None:
    """Delete the user's personal messages and results; take the words out of the shared ones.

    A shared message stays as an empty row: without its id on the platform the next look there
    would store it again. Summaries go, and the next turn makes them again without these words.
    """
    results = messages.c.run_id.in_(runs_of(owner))
    with_files = select(messages.c.id).where(results)
    await remove(tx, files, files.c.message_id.in_(with_files))
    await remove(tx, messages, messages.c.conversation_id.in_(personal_of(owner)) | results)
    shared = select(participants.c.conversation_id).where(participants.c.author == owner.key)
    spoken = select(messages.c.conversation_id).where(messages.c.author == owner.key)
    there = messages.c.conversation_id.in_(shared) | messages.c.conversation_id.in_(spoken)
    await remove(tx, messages, messages.c.role == "summary", there)
    nobody = {"author": "", "author_name": DELETED, "text": "", "quoted": None}
    await change(tx, messages, messages.c.author == owner.key, **nobody)
    # Unique in the conversation, and no account of a platform.
    anonymous = DELETED + ":" + cast(participants.c.number, SqlString)
    this = participants.c.author == owner.key
    await change(tx, participants, this, author=anonymous, name=DELETED, model="")


async def _delete_runs(tx: Transaction, owner: Owner, since: datetime, now: datetime) -> int:
    """Delete the user's runs; those that limits count keep their numbers."""
    mine = subagent_runs.c.user_id == owner.key
    await remove(tx, subagent_runs, mine, subagent_runs.c.created_at <= since)
    for table, name in _OF_RUNS:
        await remove(tx, table, table.c[name].in_(runs_of(owner)))
    await remove(tx, run_questions, run_questions.c.run_id.in_(runs_of(owner)))
    unfinished = subagent_runs.c.status.in_(UNFINISHED)
    await change(tx, subagent_runs, mine, unfinished, status=str(RunStatus.CANCELLED))
    emptied: dict[str, Any] = dict.fromkeys(
        ("conversation_id", "parent_message_id", "batch_id", "context", "instructions", *PLACE), ""
    )
    emptied |= dict.fromkeys(("parent_run_id", "result", "error", "allowed_tools", "blocked_tools"))
    emptied |= {"label": DELETED, "task": DELETED, "transcript": [], "metadata": {}}
    emptied |= {"card_message_id": "", "archived_at": now}
    emptied["completed_at"] = func.coalesce(subagent_runs.c.completed_at, now)
    statement = update(subagent_runs).where(mine).values(**emptied)
    return (await tx.execute(statement)).rowcount


async def _delete_conversations(tx: Transaction, owner: Owner, now: datetime) -> None:
    """Delete the user's conversations; one that others share stays without its owner."""
    mine = conversations.c.user_id == owner.key
    await tx.execute(delete(conversations).where(mine, ~conversations.c.shared))
    shared = select(conversations.c.id).where(mine).limit(1)
    if await tx.scalar(shared) is not None:
        nobody = {"id": DELETED, "platform": "", "account": DELETED, "name": DELETED}
        await insert_new(tx, users, nobody | {"workspace": "", "created_at": now})
        await change(tx, conversations, mine, user_id=DELETED, model="")

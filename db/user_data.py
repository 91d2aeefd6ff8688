"""Names the rows of each table that are about a user, and reads them for an export."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    LargeBinary,
    Row,
    Select,
    Table,
    and_,
    literal_column,
    or_,
    select,
)

from bot.values import Json, Place
from db.database import Transaction
from db.rows import PLACE, count_rows, has_row
from db.tables import (
    admin_notices,
    approvals,
    audit,
    changes,
    commands,
    conversations,
    files,
    grants,
    held_copies,
    holds,
    mcp_pins,
    mcp_tokens,
    memories,
    messages,
    metadata,
    notes,
    outbox,
    pairings,
    participants,
    pauses,
    run_files,
    run_messages,
    run_questions,
    schedule_fires,
    schedules,
    scratch,
    standing_grants,
    step_media,
    steps,
    subagent_runs,
    todos,
    turns,
    users,
    web_addresses,
    whiteboard,
)

#: Most ids in one statement.
MOST_IDS = 500
#: Rows that one statement reads or deletes: on SQLite nothing else runs meanwhile.
BATCH = 50


@dataclass(frozen=True, slots=True)
class Owner:
    """The account whose rows are meant.

    Attributes:
        key: The `Identity.key` of the account, of a user of the bot or not.
        works: The ids of the user's turns and runs.
    """

    key: str
    works: tuple[str, ...] = ()

    @property
    def batches(self) -> list[tuple[str, ...]]:
        """The ids of the works, so many at a time that a statement takes them."""
        return [self.works[at : at + MOST_IDS] for at in range(0, len(self.works), MOST_IDS)]


#: Returns the conditions for the rows of a table that are about a user: any of them suffices.
Conditions = Callable[[Owner], list[ColumnElement[bool]]]


def _of_user(table: Table, name: str = "user_id") -> Conditions:
    """Return the condition for rows that belong to the user."""
    return lambda owner: [table.c[name] == owner.key]


def _of_work(table: Table, name: str) -> Conditions:
    """Return the conditions for rows of the user's turns and runs, whose ids are text here."""
    return lambda owner: [table.c[name].in_(batch) for batch in owner.batches]


def _of_run(table: Table, name: str = "run_id") -> Conditions:
    """Return the condition for rows of the user's runs."""
    return lambda owner: [table.c[name].in_(runs_of(owner))]


def runs_of(owner: Owner) -> Select[Any]:
    """Return a select of the ids of the user's runs."""
    return select(subagent_runs.c.id).where(subagent_runs.c.user_id == owner.key)


def personal_of(owner: Owner) -> Select[Any]:
    """Return a select of the ids of the user's personal conversations."""
    mine = (conversations.c.user_id == owner.key, ~conversations.c.shared)
    return select(conversations.c.id).where(*mine)


def written_by(owner: Owner) -> ColumnElement[bool]:
    """Return the condition for messages of the user."""
    # Written out: with a parameter the partial index would not be used.
    return (messages.c.author == owner.key) & (messages.c.author != literal_column("''"))


def _messages(owner: Owner) -> list[ColumnElement[bool]]:
    """Return the conditions for messages to, of and for the user; no message meets two of them."""
    personal = messages.c.conversation_id.in_(personal_of(owner))
    results = messages.c.run_id.in_(runs_of(owner))
    answered = messages.c.turn_id.in_(select(turns.c.id).where(turns.c.user_id == owner.key))
    elsewhere = (~personal, messages.c.author != owner.key)
    without_run = or_(messages.c.run_id.is_(None), ~results)
    return [
        personal,
        written_by(owner) & ~personal,
        and_(results, *elsewhere),
        and_(answered, messages.c.role == "assistant", without_run, *elsewhere),
    ]


def _files(owner: Owner) -> list[ColumnElement[bool]]:
    sent = (select(messages.c.id).where(condition) for condition in _messages(owner))
    return [files.c.message_id.in_(each) for each in sent]


#: Actions in the audit log that a user does not read about: of operators on legal holds.
OF_HOLDS = ("hold", "release hold")


def _audit(owner: Owner) -> list[ColumnElement[bool]]:
    """Return the conditions for entries by the user, and for those about the user.

    Those about legal holds on the user are left out: an export does not show them to the user.
    """
    # The texts of others go as soon as they are sealed.
    kept = audit.c.erased_at.is_(None)
    mine = audit.c.user_id == owner.key
    about = (audit.c.owner_id == owner.key, audit.c.action.not_in(OF_HOLDS))
    return [and_(mine, kept), and_(*about, audit.c.user_id != owner.key, kept)]


#: The rows about a user, by table. `db.user_deletion` deletes them, apart from those of `STAYS`.
HOLDINGS: Mapping[str, Conditions] = {
    "users": lambda owner: [users.c.id == owner.key],
    "conversations": _of_user(conversations),
    "participants": _of_user(participants, "author"),
    "messages": _messages,
    "files": _files,
    "turns": _of_user(turns),
    "subagent_runs": _of_user(subagent_runs),
    "steps": _of_work(steps, "work_id"),
    "step_media": _of_work(step_media, "work_id"),
    "run_files": _of_run(run_files),
    "run_messages": _of_run(run_messages),
    "run_questions": _of_user(run_questions),
    "whiteboard": _of_run(whiteboard, "board_id"),
    "scratch": _of_run(scratch),
    "outbox": _of_user(outbox),
    "approvals": _of_user(approvals),
    "grants": _of_user(grants),
    "pairings": _of_user(pairings),
    "standing_grants": _of_user(standing_grants),
    "commands": _of_user(commands),
    "notes": _of_user(notes),
    "memories": _of_user(memories),
    "todos": _of_user(todos),
    "schedules": _of_user(schedules),
    "schedule_fires": lambda owner: [
        schedule_fires.c.schedule_id.in_(
            select(schedules.c.id).where(schedules.c.user_id == owner.key)
        )
    ],
    "changes": _of_user(changes),
    "web_addresses": _of_work(web_addresses, "root_id"),
    "audit": _audit,
    "admin_notices": _of_user(admin_notices),
    "pauses": _of_user(pauses),
    "mcp_pins": _of_user(mcp_pins, "approved_by"),
    "mcp_tokens": _of_user(mcp_tokens),
}

#: Columns that name a user in the rows of other users, with the value that replaces the name.
NAMED_ELSEWHERE: Mapping[tuple[str, str], str | None] = {
    ("subagent_runs", "cancelled_by"): "deleted",
    ("approvals", "answered_by"): None,
    ("pairings", "confirmed_by"): "deleted",
    ("standing_grants", "granted_by"): "deleted",
    ("run_questions", "answered_by"): None,
    ("pauses", "paused_by"): "deleted",
    ("holds", "held_by"): "deleted",
}

#: Tables whose rows about a user are not deleted with the rest, with the reason for the user.
STAYS = {
    "audit": "what this account did to others, until it is too old (`retention.audit_days`)",
    "mcp_pins": "which admin approved a tool",
    "pauses": "an admin has paused your work, until an admin resumes it",
}

#: The rows about a user under a legal hold, by table: only an operator's export has them, and no
#: deletion takes place before the hold is released.
WITHHELD: Mapping[str, Conditions] = {
    "holds": _of_user(holds),
    "held_copies": _of_user(held_copies),
}

#: Columns that are not exported: permissions of the bot, encrypted or for a short time.
NOT_EXPORTED = frozenset(
    {users.c.search_token, mcp_tokens.c.secret, mcp_tokens.c.pending, mcp_tokens.c.state_hash}
)

#: Tables without rows about a user, with the reason.
IMPERSONAL = {
    "workers": "a row per start of a process",
    "listeners": "a row per connection to a platform",
    "seen_events": "ids of events, for a day",
    "skill_data": "documents of skills, which know whose they are",
    "slack_installs": "a row per workspace",
    "slack_states": "a random value per installation that has begun",
    "sentences": "a time per place in which a run was worked on",
    "place_choices": "names of tools and agents, per channel",
    "tool_uses": "numbers of calls per channel and day, for a month",
    "pools": "amounts per limit until it resets; a user is a pseudonym there",
    "reservations": "amounts of model calls in progress",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFile:
    """A file that a user sent with a message.

    Attributes:
        place: The place of a shared conversation, which has the file too; `None` for the user's
            own.
    """

    id: str
    name: str
    place: Place | None


async def owner_of(tx: Transaction, key: str) -> Owner:
    """Return an account with the ids of its turns and runs."""
    mine = select(turns.c.id).where(turns.c.user_id == key)
    found = [*await tx.scalars(mine), *await tx.scalars(runs_of(Owner(key)))]
    return Owner(key, tuple(found))


async def known(tx: Transaction, key: str) -> bool:
    """Return True if anything is stored under an account: of a user, or of another author."""
    return (
        await has_row(tx, users, users.c.id == key)
        or await has_row(tx, messages, written_by(Owner(key)))
        or await has_row(tx, participants, participants.c.author == key)
    )


async def rows_of(tx: Transaction, table: Table, owner: Owner) -> AsyncIterator[list[Json]]:
    """Yield the rows of a table that are about a user, as JSON; of a file, without the content.

    They come in order, some at a time: on SQLite nothing else runs while a statement does.
    """
    columns = [
        each
        for each in table.c
        if not isinstance(each.type, LargeBinary) and each not in NOT_EXPORTED
    ]
    names, keys = [column.name for column in columns], list(table.primary_key)
    # Whole rows are not sorted; a table with several keys is read by its primary key.
    read = keys if len(keys) == 1 else columns
    for condition in {**HOLDINGS, **WITHHELD}[table.name](owner):
        found = await tx.stream(select(*read).where(condition).order_by(*keys))
        async for rows in found.partitions(BATCH):
            whole: Iterable[Row[Any]] = rows
            if len(keys) == 1:
                some = keys[0].in_([row[0] for row in rows])
                whole = await tx.execute(select(*columns).where(some).order_by(*keys))
            yield [
                {
                    name: value.isoformat() if isinstance(value, datetime) else value
                    for name, value in zip(names, row, strict=True)
                }
                for row in whole
            ]


#: The tables that a deletion concerns.
DELETED = tuple(name for name in HOLDINGS if name not in STAYS)


async def counts(
    tx: Transaction, owner: Owner, names: Iterable[str] = DELETED
) -> AsyncIterator[tuple[str, int]]:
    """Yield numbers of rows about a user in some tables, with the name of their table."""
    for name in names:
        for condition in HOLDINGS[name](owner):
            yield name, await count_rows(tx, metadata.tables[name], condition)


async def sent_files(tx: Transaction, owner: Owner) -> AsyncIterator[Sequence[SentFile]]:
    """Yield the files that a user sent, some at a time, or none after a while."""
    route = [conversations.c[name] for name in PLACE[:-1]]
    for condition in _files(owner):
        found = await tx.stream(
            select(files.c.id, files.c.name, conversations.c.shared, *route)
            .join(messages, messages.c.id == files.c.message_id)
            .join(conversations, conversations.c.id == messages.c.conversation_id)
            .where(condition)
        )
        async for rows in found.partitions(BATCH):
            yield [
                SentFile(id=row.id, name=row.name, place=Place(*row[3:]) if row.shared else None)
                for row in rows
            ]
        yield []

"""Queries on questions of runs to their users: for a permission, or for missing facts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import bindparam, func, select, update

from bot.values import Place
from db.database import Transaction
from db.rows import RowMapper, change, count_rows, has_row, insert_new, is_at, place_columns
from db.tables import run_questions as asked

_WITHDRAW = (
    update(asked)
    .where(asked.c.run_id == bindparam("b_run"), asked.c.status == "open")
    .values(status="withdrawn", answered_at=bindparam("b_now"))
    .returning(asked.c.id)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuestion:
    """A question of a run to its user.

    Attributes:
        kind: `permit` for a call, `input` for facts that only the user knows.
        fingerprint: A hash over tool and arguments; empty for `input`.
        text: The text for the user, in Markdown.
        options: Answers to choose from.
        status: `open`, `yes` (an answer, for `input`), `no`, `expired`, `withdrawn`.
        whole_run: The permission covers every call of this tool by the run.
        used_at: When the permitted call began.
        answered_by: The key of the answering user; `None` or empty without an answer.
        message_id: The platform's id of the message that shows it; empty while none does.
        asked_at: When it was stored; `None` before.
        approver: The role that decides; empty for the owner.
        rule: The rule that asks, as it is spelled; empty for another reason.
        shown_with: The question whose text covers this call too; empty for one that is shown.
    """

    id: str
    run_id: str
    user_id: str
    kind: str
    tool: str = ""
    fingerprint: str = ""
    text: str
    options: tuple[str, ...] = ()
    status: str = "open"
    whole_run: bool = False
    answer: str = ""
    used_at: datetime | None = None
    answered_by: str | None = None
    message_id: str = ""
    shown_with: str = ""
    approver: str = ""
    rule: str = ""
    expires_at: datetime
    asked_at: datetime | None = field(default=None, compare=False)

    @property
    def is_open(self) -> bool:
        """True while the question has no answer and has not been closed."""
        return self.status == "open"

    def meant_by(self, text: str) -> str:
        """Return the option with the number in the text, or the text itself."""
        number = text.strip().rstrip(".)")
        if number.isdecimal() and 1 <= int(number[:3]) <= len(self.options):
            return self.options[int(number[:3]) - 1]
        return text


_QUESTIONS = RowMapper(
    RunQuestion, asked, others={"asked_at": asked.c.created_at}, convert={"options": tuple}
)


async def put(tx: Transaction, question: RunQuestion, place: Place, now: datetime) -> bool:
    """Store a question; `False` if its id is stored already."""
    row = _QUESTIONS.values(question) | {"created_at": now, **place_columns(place)}
    return await insert_new(tx, asked, row)


async def get(tx: Transaction, question_id: str) -> RunQuestion | None:
    """Return the question with this id."""
    return await _QUESTIONS.find_one(tx, asked.c.id == question_id)


async def open_in(
    tx: Transaction, user_id: str, place: Place, now: datetime, *, reply_to: str = ""
) -> tuple[list[RunQuestion], bool]:
    """Return the open questions that a user's message may answer, newest first.

    A message outside of threads may answer a question asked in the channel. A question asked in
    the channel can also be answered in the thread below its message.

    Args:
        tx: The transaction.
        user_id: The user.
        place: The place of the message.
        now: The time.
        reply_to: The message that it replies to; then only the question in that message.

    Returns:
        The questions, and True if another question to this user is being sent to this channel.
    """
    threads = {place.thread, ""} if place.thread == place.message else {place.thread}
    shown_as = {message for message in (place.thread, reply_to) if message}
    query = _QUESTIONS.query.add_columns(asked.c.shown_at, asked.c.place_thread).where(
        asked.c.user_id == user_id,
        asked.c.status == "open",
        asked.c.expires_at > now,
        *is_at(asked, place, "channel", "place_channel"),
    )
    rows = (await tx.execute(query.order_by(asked.c.created_at.desc()))).all()
    found = [
        _QUESTIONS.of(row)
        for row in rows
        if row.shown_at is not None
        and (row.place_thread in threads or row.message_id in shown_as)
        and (not reply_to or row.message_id == reply_to)
    ]
    return found, any(row.shown_at is None for row in rows)


async def open_of(tx: Transaction, run_id: str, kind: str) -> list[RunQuestion]:
    """Return the open questions of a run, oldest first."""
    conditions = (asked.c.run_id == run_id, asked.c.kind == kind, asked.c.status == "open")
    return await _QUESTIONS.find_all(tx, *conditions, order=[asked.c.created_at])


async def open_of_many(tx: Transaction, run_ids: Sequence[str]) -> dict[str, str]:
    """Return the text of an open question for each of these runs that has one."""
    if not run_ids:
        return {}
    rows = await tx.execute(
        select(asked.c.run_id, asked.c.text)
        .where(asked.c.run_id.in_(run_ids), asked.c.status == "open")
        .order_by(asked.c.created_at.desc())
    )
    return {row.run_id: row.text for row in rows}


async def count(
    tx: Transaction, run_id: str, kind: str | None = None, *, status: str | None = None
) -> int:
    """Return the number of questions of a run, of one kind or in one status if given."""
    of_kind = [] if kind is None else [asked.c.kind == kind]
    in_status = [] if status is None else [asked.c.status == status]
    return await count_rows(tx, asked, asked.c.run_id == run_id, *of_kind, *in_status)


async def permitted(tx: Transaction, run_id: str, tool: str, *, approver: str = "") -> bool:
    """Return True if a tool was permitted to a run for all its calls that this approver decides.

    The yes of the owner does not answer the question to a role, and neither the other way round.
    """
    calls = (asked.c.run_id == run_id, asked.c.tool == tool, asked.c.kind == "permit")
    by_approver = (asked.c.approver == approver, asked.c.status == "yes", asked.c.whole_run)
    return await has_row(tx, asked, *calls, *by_approver)


async def show(tx: Transaction, question_id: str, message_id: str, now: datetime) -> None:
    """Record that a question was shown, and in which message if the platform has messages."""
    values = {"message_id": message_id, "shown_at": func.coalesce(asked.c.shown_at, now)}
    await change(tx, asked, asked.c.id == question_id, **values)


async def answer(
    tx: Transaction,
    question_id: str,
    *,
    status: str,
    by: str,
    now: datetime,
    text: str = "",
    whole_run: bool = False,
) -> bool:
    """Answer a question that is still open; `False` when it is not."""
    this = (asked.c.id == question_id, asked.c.status == "open", asked.c.expires_at > now)
    values = {"status": status, "answer": text, "whole_run": whole_run}
    return await change(tx, asked, *this, **values, answered_by=by, answered_at=now)


async def follow(tx: Transaction, leader: RunQuestion) -> None:
    """Apply the permission of a question to the other calls that it covered."""
    covered = (asked.c.run_id == leader.run_id, asked.c.shown_with == leader.id)
    values = {"status": "yes", "whole_run": leader.whole_run, "answered_by": leader.answered_by}
    await change(tx, asked, *covered, asked.c.status == "withdrawn", **values, answer="")


async def use(tx: Transaction, question_id: str, now: datetime) -> bool:
    """Record that a permitted call begins; `False` if it had begun before."""
    this = (asked.c.id == question_id, asked.c.status == "yes", asked.c.used_at.is_(None))
    return await change(tx, asked, *this, used_at=now)


async def expire(tx: Transaction, now: datetime) -> list[str]:
    """Close all questions past their deadline, and return the ids of their runs."""
    rows = await tx.execute(
        update(asked)
        .where(asked.c.status == "open", asked.c.expires_at <= now)
        .values(status="expired", answered_at=now)
        .returning(asked.c.run_id)
    )
    return [row.run_id for row in rows]


async def withdraw(tx: Transaction, run_id: str, now: datetime) -> list[str]:
    """Close the open questions of a run that has ended, and return their ids."""
    rows = await tx.execute(_WITHDRAW, {"b_run": run_id, "b_now": now})
    return [row.id for row in rows]

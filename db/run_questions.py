"""Queries on what runs ask their people: for a permission, or for what only they know."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from sqlalchemy import func, select, update

from bot.values import Place
from db.database import Transaction
from db.places import place_columns
from db.tables import run_questions as asked
from db.upsert import insert_into


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuestion:
    """What a run asks.

    Attributes:
        kind: `permit` for a call, `input` for what only its person can know.
        fingerprint: A hash over tool and arguments; empty for `input`.
        text: What the person reads, Markdown.
        options: Answers to pick from.
        status: `open`, `yes` (an answer, for `input`), `no`, `expired`, `withdrawn`.
        whole_run: The yes counts for every call of this tool that the run makes.
        used_at: When the call that was permitted began.
        answered_by: The key of who answered; `None` or empty when nobody did.
        message_id: The platform's id of the message that shows it; empty while there is none.
        shown_with: The question whose text is about this call too; empty for one that is shown.
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
    expires_at: datetime

    @property
    def is_open(self) -> bool:
        """Whether nobody has answered it."""
        return self.status == "open"

    def meant_by(self, text: str) -> str:
        """Return the option that a number stands for, or the text as it is."""
        number = text.strip().rstrip(".)")
        if number.isdecimal() and 1 <= int(number[:3]) <= len(self.options):
            return self.options[int(number[:3]) - 1]
        return text


_NAMES = [field.name for field in fields(RunQuestion)]
_QUERY = select(*(asked.c[name] for name in _NAMES))


def _question(row: object) -> RunQuestion:
    values = {name: getattr(row, name) for name in _NAMES}
    values["options"] = tuple(values["options"])
    return RunQuestion(**values)


async def put(tx: Transaction, question: RunQuestion, place: Place, now: datetime) -> bool:
    """Store a question; `False` when this very one is there already."""
    row = {name: getattr(question, name) for name in _NAMES}
    row |= {"options": list(question.options), "created_at": now, **place_columns(place)}
    return (await tx.execute(insert_into(tx, asked).on_conflict_do_nothing(), row)).rowcount > 0


async def get(tx: Transaction, question_id: str) -> RunQuestion | None:
    """Return one question."""
    row = (await tx.execute(_QUERY.where(asked.c.id == question_id))).first()
    return _question(row) if row else None


async def open_in(
    tx: Transaction, user_id: str, place: Place, now: datetime, *, reply_to: str = ""
) -> tuple[list[RunQuestion], bool]:
    """Return the questions that wait for this person where they said something, newest first.

    What stands in no thread yet is said in the channel itself: it may answer what was asked there.
    A question that was asked in the channel is answered below its message too.

    Args:
        tx: The transaction.
        user_id: The person.
        place: Where they said it.
        now: The time.
        reply_to: The message that it answers; then only the question in that.

    Returns:
        The questions, and whether something is just being asked of this person in this channel.
    """
    threads = {place.thread, ""} if place.thread == place.message else {place.thread}
    shown_as = {message for message in (place.thread, reply_to) if message}
    query = _QUERY.add_columns(asked.c.shown_at, asked.c.place_thread).where(
        asked.c.user_id == user_id,
        asked.c.status == "open",
        asked.c.expires_at > now,
        asked.c.channel == place.platform,
        asked.c.place_channel == place.channel,
    )
    rows = (await tx.execute(query.order_by(asked.c.created_at.desc()))).all()
    found = [
        _question(row)
        for row in rows
        if row.shown_at is not None
        and (row.place_thread in threads or row.message_id in shown_as)
        and (not reply_to or row.message_id == reply_to)
    ]
    return found, any(row.shown_at is None for row in rows)


async def open_of(tx: Transaction, run_id: str, kind: str) -> list[RunQuestion]:
    """Return what a run is waiting to hear, oldest first."""
    conditions = (asked.c.run_id == run_id, asked.c.kind == kind, asked.c.status == "open")
    rows = await tx.execute(_QUERY.where(*conditions).order_by(asked.c.created_at))
    return [_question(row) for row in rows]


async def open_of_many(tx: Transaction, run_ids: Sequence[str]) -> dict[str, str]:
    """Return what each of these runs waits to hear, as its person reads it."""
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
    """Return how many questions a run has asked, of one kind or in one status if that is given."""
    query = select(func.count()).where(asked.c.run_id == run_id)
    if kind is not None:
        query = query.where(asked.c.kind == kind)
    if status is not None:
        query = query.where(asked.c.status == status)
    return await tx.scalar(query) or 0


async def permitted(tx: Transaction, run_id: str, tool: str) -> bool:
    """Whether a tool was permitted to a run for as long as it goes on."""
    query = select(asked.c.id).where(
        asked.c.run_id == run_id,
        asked.c.tool == tool,
        asked.c.kind == "permit",
        asked.c.status == "yes",
        asked.c.whole_run,
    )
    return await tx.scalar(query.limit(1)) is not None


async def show(tx: Transaction, question_id: str, message_id: str, now: datetime) -> None:
    """Take note that a question can be read, in which message if the platform has such."""
    await tx.execute(
        update(asked)
        .where(asked.c.id == question_id)
        .values(message_id=message_id, shown_at=func.coalesce(asked.c.shown_at, now))
    )


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
    done = await tx.execute(
        update(asked)
        .where(asked.c.id == question_id, asked.c.status == "open", asked.c.expires_at > now)
        .values(status=status, answer=text, whole_run=whole_run, answered_by=by, answered_at=now)
    )
    return done.rowcount > 0


async def follow(tx: Transaction, leader: RunQuestion) -> None:
    """Store the yes to a question for the other calls that it was about."""
    await tx.execute(
        update(asked)
        .where(
            asked.c.run_id == leader.run_id,
            asked.c.shown_with == leader.id,
            asked.c.status == "withdrawn",
        )
        .values(status="yes", whole_run=leader.whole_run, answered_by=leader.answered_by, answer="")
    )


async def use(tx: Transaction, question_id: str, now: datetime) -> bool:
    """Take note that a permitted call begins; `False` when it had begun before."""
    done = await tx.execute(
        update(asked)
        .where(asked.c.id == question_id, asked.c.status == "yes", asked.c.used_at.is_(None))
        .values(used_at=now)
    )
    return done.rowcount > 0


async def expire(tx: Transaction, now: datetime) -> list[str]:
    """Close every question whose time is over, and return the runs that asked."""
    rows = await tx.execute(
        update(asked)
        .where(asked.c.status == "open", asked.c.expires_at <= now)
        .values(status="expired", answered_at=now)
        .returning(asked.c.run_id)
    )
    return [row.run_id for row in rows]


async def withdraw(tx: Transaction, run_id: str, now: datetime) -> list[str]:
    """Close what a run that has ended still wanted to know, and return the questions."""
    rows = await tx.execute(
        update(asked)
        .where(asked.c.run_id == run_id, asked.c.status == "open")
        .values(status="withdrawn", answered_at=now)
        .returning(asked.c.id)
    )
    return [row.id for row in rows]

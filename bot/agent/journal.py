"""Stores the steps of one turn or run, and its usage as columns of its row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from bot.agent.messages import (
    NO_CONTENTS,
    Answer,
    Contents,
    ToolCall,
    ToolResult,
    ToolResults,
    Usage,
    from_json,
    to_json,
)
from bot.agent.protocols import AnswerEntry, Counters, Entry, ResultEntry
from bot.values import Clock, Json, RunStatus
from db import steps
from db.database import Database


@dataclass(slots=True)
class StoredJournal:
    """A `Journal` that stores its entries in the database.

    Attributes:
        attempt: The number of the attempt that writes; a stale attempt is refused.
        seconds_used: Returns the working time so far, stored with every step of a run.
        begun: Whether the first step was stored before the first attempt.
    """

    database: Database
    writer: steps.StepWriter
    table: Literal["runs", "turns"]
    work_id: str
    attempt: int
    now: Clock
    seconds_used: Callable[[], float] = lambda: 0.0
    begun: bool = False
    _next: int = 0
    _answers: int = 0

    async def load(self) -> list[Entry]:
        """Return the entries of earlier attempts, in order."""
        if self.attempt <= 1 and not self.begun:
            return []
        async with self.database.snapshot() as tx:
            rows = await steps.load(tx, self.work_id)
            contents = await steps.media(tx, self.work_id)
        if rows:
            self._next = rows[-1][0] + 1
        entries = entries_of(rows, contents)
        self._answers = sum(isinstance(entry, AnswerEntry) for entry in entries)
        return entries

    async def write(self, entry: Entry, counters: Counters) -> None:
        """Store one entry and return once it is committed.

        Raises:
            FencedError: Another process has taken over this turn or run.
        """
        seq, self._next = self._next, self._next + 1
        is_answer = isinstance(entry, AnswerEntry)
        self._answers += is_answer
        results: Sequence[ToolResult] = ()
        if isinstance(entry, ResultEntry):
            results = (entry.result,)
        elif isinstance(entry.received, ToolResults):
            results = entry.received.results
        await self.writer.write(
            steps.Step(
                table=self.table,
                work_id=self.work_id,
                attempt=self.attempt,
                seq=seq,
                kind="answer" if is_answer else "result",
                body=_body(entry),
                media={each.digest: each.data for result in results for each in result.media},
                now=self.now(),
                counts=run_columns(counters.usage),
                reserved_tokens=counters.reserved,
                tool_calls=counters.tool_calls,
                seconds_used=self.seconds_used(),
                read=entry.read if isinstance(entry, AnswerEntry) else (),
                number=self._answers,
            )
        )


def entries_of(
    rows: Sequence[tuple[int, str, Json]], contents: Contents = NO_CONTENTS
) -> list[Entry]:
    """Return the entries in rows of the steps table, in order.

    Args:
        rows: The rows.
        contents: The contents of the media in results.
    """
    entries: list[Entry] = []
    for _, kind, body in rows:
        if kind == "result":
            entries.append(
                ResultEntry(body["step"], body["index"], ToolResult.read(body, contents))
            )
            continue
        answer = from_json(body["answer"])
        if not isinstance(answer, Answer):
            raise TypeError(f"No answer: {body!r}")
        received = from_json(body["received"], contents) if body["received"] else None
        limit = RunStatus(body["limit"]) if body["limit"] else None
        # Steps of version 0.2 have no reason.
        reason = body.get("reason", "")
        entries.append(AnswerEntry(received, answer, limit, tuple(body["read"]), reason))
    return entries


def first_step(calls: Sequence[ToolCall]) -> Json:
    """Return the first step of a turn that begins with given calls instead of a request."""
    return _body(AnswerEntry(None, Answer("", tuple(calls))))


def only_step(text: str) -> Json:
    """Return the only step of a turn whose answer is known without a model."""
    return _body(AnswerEntry(None, Answer(text)))


def _body(entry: Entry) -> Json:
    if isinstance(entry, AnswerEntry):
        return {
            "received": to_json(entry.received) if entry.received else None,
            "answer": to_json(entry.answer),
            "limit": entry.limit,
            "read": list(entry.read),
            **({"reason": entry.reason} if entry.reason else {}),
        }
    return {"step": entry.step, "index": entry.index, **entry.result.document}


class UsageRow(Protocol):
    """The row of a turn or a run: its tokens, and its cost in micro-dollars."""

    @property
    def input_tokens(self) -> int:
        """Input tokens, those of the cache included."""

    @property
    def cached_tokens(self) -> int:
        """Input tokens that were read from a cache."""

    @property
    def output_tokens(self) -> int:
        """Output tokens."""

    @property
    def cost(self) -> int | None:
        """Micro-dollars; `None` if a call had no price."""


def usage_of(row: UsageRow, *, discount: int = 0) -> Usage:
    """Return the usage in the row of a turn or a run."""
    fresh = row.input_tokens - row.cached_tokens
    usage = Usage(fresh, row.output_tokens, row.cached_tokens)
    return replace(usage, discount=discount, cost=row.cost)


def columns(usage: Usage) -> Json:
    """Return a usage as the columns of a turn."""
    return {
        "input_tokens": usage.all_input,
        "cached_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "cost": usage.money,
    }


def run_columns(usage: Usage) -> Json:
    """Return a usage as the columns of a run."""
    return {**columns(usage), "discounted_tokens": usage.discount}

"""What an agent is given by whoever lets it work, in memory: see `bot.agent.protocols`."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from bot.agent.budget import UNLIMITED, TokenBudget
from bot.agent.messages import Usage
from bot.agent.protocols import (
    AgentContext,
    Counters,
    Entry,
    Journal,
    MessageInbox,
    Report,
    Timer,
)
from bot.errors import FencedError
from bot.values import Identity, Place, Role
from skills.base import ToolContext
from tests.fakes.clock import FakeClock


async def _go_on(entry: Entry) -> None:
    await asyncio.sleep(0)


@dataclass(slots=True)
class Shelf:
    """Where the steps of one piece of work stand, whoever writes them.

    Attributes:
        attempt: The attempt that has the work; all others are refused.
    """

    attempt: int = 1
    rows: dict[int, Entry] = field(default_factory=dict)
    counters: list[Counters] = field(default_factory=list)

    @property
    def entries(self) -> list[Entry]:
        """What is stored, in order."""
        return [self.rows[seq] for seq in sorted(self.rows)]


@dataclass(slots=True)
class MemoryJournal:
    """A `Journal` on a shelf in memory.

    Attributes:
        before: Awaited before an entry is stored, where a test can hold it up or end the process.
        after: Awaited once it is stored.
    """

    shelf: Shelf = field(default_factory=Shelf)
    attempt: int = 1
    before: Callable[[Entry], Awaitable[None]] = _go_on
    after: Callable[[Entry], Awaitable[None]] = _go_on
    _next: int = 0

    async def load(self) -> list[Entry]:
        await asyncio.sleep(0)
        self._next = max(self.shelf.rows, default=-1) + 1
        return self.shelf.entries

    async def write(self, entry: Entry, counters: Counters) -> None:
        seq, self._next = self._next, self._next + 1
        await self.before(entry)
        if self.attempt != self.shelf.attempt or seq in self.shelf.rows:
            raise FencedError("this work has been taken over")
        self.shelf.rows[seq] = entry
        self.shelf.counters.append(counters)
        await self.after(entry)


@dataclass(slots=True)
class FakeTimer:
    """A `Timer` that stands where the test puts it, or runs out at a moment."""

    fraction: float = 0.0
    seconds: float = inf
    over_at: float | None = None

    def left(self) -> float:
        return self.seconds if self.over_at is None else self.over_at - time.monotonic()


class FakeBudget(TokenBudget):
    """A budget without limit that records its calls, and whose used share a test sets."""

    def __init__(self, fraction: float = 0.0) -> None:
        super().__init__(UNLIMITED)
        self.charged: list[Usage] = []
        self.asked: list[int] = []
        self._fraction = fraction

    @property
    def fraction(self) -> float:
        return self._fraction

    def allow(self, input_tokens: int, max_output: int) -> int | None:
        self.asked.append(input_tokens)
        return super().allow(input_tokens, max_output)

    def charge(self, usage: Usage) -> None:
        self.charged.append(usage)
        super().charge(usage)


@dataclass(slots=True)
class FakeInbox:
    """An `MessageInbox` into which a test puts messages; each is taken once."""

    waiting: list[tuple[str, str]] = field(default_factory=list)
    private: bool = False
    foreign: bool = False
    read: list[str] = field(default_factory=list)

    async def take(self) -> Sequence[tuple[str, str]]:
        await asyncio.sleep(0)
        taken, self.waiting = self.waiting, []
        return taken

    def mark_read(self, read: Sequence[str]) -> None:
        self.read += read


@dataclass(slots=True)
class FakeReporter:
    """A `Report` that remembers what it heard, as (part, content, tool)."""

    heard: list[tuple[str, str, str]] = field(default_factory=list)
    counters: list[Counters] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def __call__(
        self, *, part: str, content: str, tool: str, counters: Counters, call: str = ""
    ) -> None:
        self.heard.append((part, content, tool))
        self.counters.append(counters)
        self.calls.append(call)


def caller(*, run_id: str | None = "run-1", clock: FakeClock | None = None) -> ToolContext:
    """Return who a run's tools act for; with `run_id=None`, the main agent's."""
    return ToolContext(
        user=Identity("discord", "", "1001"),
        role=Role.USER,
        place=Place("discord", channel="general"),
        conversation_id="c1",
        work_id=run_id or "turn-1",
        call_id="",
        run_id=run_id,
        now=clock or FakeClock(),
        depth=0 if run_id is None else 1,
    )


def surroundings(
    *,
    journal: Journal | None = None,
    budget: TokenBudget | None = None,
    timer: Timer | None = None,
    inbox: MessageInbox | None = None,
    reporter: Report | None = None,
    spent_before: int = 0,
) -> AgentContext:
    """Return what a run is given: no limit of any kind, unless one is named."""
    return AgentContext(
        journal=journal or MemoryJournal(),
        budget=budget or TokenBudget(UNLIMITED),
        timer=timer or FakeTimer(),
        inbox=inbox or FakeInbox(),
        report=reporter or FakeReporter(),
        caller=caller(),
        spent_before=Usage(spent_before),
    )

"""Publishes the progress of runs, and shows it on cards, whose messages are stored."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

from bot.agent.budget import WorkClock
from bot.agent.progress import WAITING
from bot.agent.protocols import Counters
from bot.agent.sanitizer import one_line
from bot.events import (
    EventBus,
    RunEnded,
    RunEvent,
    RunProgress,
    RunStarted,
    RunStatusChanged,
    SubAgentEnd,
    SubAgentProgress,
    SubAgentStart,
)
from bot.platforms.base import CardStep, Outlet, RunCard
from bot.subagents.requests import Caller, RunRequest
from bot.tasks import Tasks
from bot.values import Identity, RunStatus, StepState
from db import run_cards
from db.database import Database, patiently
from db.runs import Run

log = logging.getLogger(__name__)

RESUMED = "Going on after an interruption."
PAUSED = "Paused for a restart; continues by itself."
#: Most characters of the result of a run in an event of the run around it.
RESULT_CHARACTERS = 300
#: Tool calls shown on a card.
STEPS_SHOWN = 6
#: A delegated task that ends within this time and calls no tool needs no card.
QUICK_SECONDS = 1.5


def card_of(run: Run, owner: Identity) -> RunCard:
    """Return the card of a run, built from its row."""
    return RunCard(
        run_id=run.id,
        owner=owner,
        place=run.place,
        label=run.label,
        agent=run.agent,
        status=run.status,
        elapsed_seconds=run.seconds_used,
        tool_calls=run.tool_call_count,
        tokens=run.weighted_tokens,
        token_budget=run.token_budget,
        awaited=run.mode == "sync",
        message_id=run.card_message_id,
        degraded=run.degraded,
        batch=run.batch_id if run.mode == "async" else "",
    )


@dataclass(slots=True)
class Cards:
    """Holds the card of every run that this process spawned or executes.

    The card of a delegated task is held back until the run calls a tool or takes a while.

    Attributes:
        show: Shows a card in its place; the newest state wins. Never waits.
        later: Calls a function once, after a number of seconds.
    """

    show: Callable[[RunCard], None]
    later: Callable[[float, Callable[[], None]], object]
    _cards: dict[str, RunCard] = field(default_factory=dict)
    _held_back: set[str] = field(default_factory=set)
    _paused: set[str] = field(default_factory=set)

    def has(self, run_id: str) -> bool:
        """Return True if this process shows the card of a run that has not ended."""
        return run_id in self._cards

    def track(self, run: Run, owner: Identity) -> None:
        """Create the card of a run, unless it exists; show the end of a run that is over."""
        if run.id in self._cards:
            if run.status.final:
                # Its end was stored, and not published.
                self.refresh(self._cards[run.id], run)
            return
        card = card_of(run, owner)
        if run.status.final:
            self.show(card)
            return
        self._cards[run.id] = card
        if card.awaited and not card.message_id:
            self._held_back.add(run.id)
            self.later(QUICK_SECONDS, lambda: self._reveal(run.id))
        else:
            self.show(card)

    def track_batch(self, batch: Iterable[Run], run: Run, owner: Identity) -> None:
        """Create the card of a run, and those of the runs that share its message."""
        for each in batch:
            self.track(run if each.id == run.id else each, owner)
        self.track(run, owner)

    def _reveal(self, run_id: str) -> None:
        if run_id in self._held_back:
            self._held_back.discard(run_id)
            self.show(self._cards[run_id])

    def watched(self, at_work: Sequence[str]) -> dict[str, RunCard]:
        """Return the cards, by run, that are shown here while another process executes the run."""
        return {run_id: card for run_id, card in self._cards.items() if run_id not in at_work}

    def refresh(self, card: RunCard, run: Run, *, stopped_by: str = "") -> None:
        """Update a card from the run's row, unless an event has changed the card since `watched`.

        Args:
            card: As `watched` returned it before the row was read.
            run: The row; events that changed the card since are newer.
            stopped_by: The shown name of the admin who stopped the run; empty for its owner.
        """
        if self._cards.get(run.id) is not card:
            return
        moved = replace(
            card,
            status=run.status,
            elapsed_seconds=run.seconds_used,
            tool_calls=run.tool_call_count,
            tokens=run.weighted_tokens,
            stopped_by=stopped_by,
            degraded=run.degraded,
        )
        self._keep(card, moved)

    def pause(self, run_ids: Iterable[str], why: str = PAUSED) -> None:
        """Show that runs are paused until a process resumes them, and show the reason."""
        for run_id in run_ids:
            if run_id in self._cards:
                self._paused.add(run_id)
                self._keep(self._cards[run_id], replace(self._cards[run_id], line=why))

    def tools_at_work(self, run_id: str) -> list[str]:
        """Return the tools whose calls by a run are in progress."""
        card = self._cards.get(run_id)
        steps = card.steps if card else ()
        return [step.tool for step in steps if step.state is StepState.RUNNING]

    def handle(self, event: RunEvent) -> None:
        """Update the card of the run that an event belongs to."""
        card = self._cards.get(event.run_id)
        if card is None:
            return
        moved = _moved(card, event)
        if card.run_id in self._paused:
            if isinstance(event, RunProgress):
                return  # published before the run was released, and handled late
            if isinstance(event, RunStarted | RunEnded):
                self._paused.discard(card.run_id)
                moved = replace(moved, line="") if isinstance(event, RunEnded) else moved
        self._keep(card, moved)

    def _keep(self, card: RunCard, moved: RunCard) -> None:
        if moved == card:
            return
        self._cards[card.run_id] = moved
        if moved.steps:
            self._held_back.discard(card.run_id)
        if card.run_id not in self._held_back:
            self.show(moved)
        if moved.status.final:
            del self._cards[card.run_id]
            self._held_back.discard(card.run_id)
            self._paused.discard(card.run_id)


def _moved(card: RunCard, event: RunEvent) -> RunCard:
    match event:
        case RunStarted(resumed=True):
            return replace(card, line=RESUMED)
        case RunStatusChanged(new=status) if not status.final:
            return replace(card, status=status)
        case RunProgress(part="text" | "waiting"):
            return replace(card, line=event.content, elapsed_seconds=event.elapsed_seconds)
        case RunProgress():
            steps = card.steps
            if event.part == "tool":
                steps = (*steps, CardStep(event.tool, StepState.RUNNING, event.call))
            elif event.part in {"tool_end", "error"}:
                state = StepState.FAILED if event.part == "error" else StepState.DONE
                steps = tuple(_over(s, state) if s.call == event.call else s for s in steps)
            running = [step.tool for step in steps if step.state is StepState.RUNNING]
            return replace(
                card,
                steps=steps[-STEPS_SHOWN:],
                tool=running[-1] if running else "",
                tool_calls=event.tool_calls,
                tokens=event.tokens,
                elapsed_seconds=event.elapsed_seconds,
                line=event.content or _lasting(card.line),
            )
        case RunEnded():
            return replace(
                card,
                status=event.status,
                line=_lasting(card.line),
                steps=tuple(_over(step, StepState.FAILED) for step in card.steps),
                tool="",
                tool_calls=event.tool_calls,
                tokens=event.tokens,
                elapsed_seconds=event.duration_seconds,
                stopped_by=event.stopped_by,
                degraded=event.degraded,
            )
        case _:
            return card


def _lasting(line: str) -> str:
    """Return the line of a card after progress: drop a line about a wait, which is over."""
    return "" if line.startswith(WAITING) else line


def _over(step: CardStep, state: StepState) -> CardStep:
    return replace(step, state=state) if step.state is StepState.RUNNING else step


@dataclass(frozen=True, slots=True)
class ShownCards:
    """The run cards that this process shows."""

    database: Database
    outlets: Mapping[str, Outlet]
    tasks: Tasks

    def show(self, card: RunCard) -> None:
        """Show a card in its place, if this process serves the platform."""
        outlet = self.outlets.get(card.place.platform)
        if outlet is None:
            return

        def begun(message_id: str) -> None:
            store = partial(self.database.write, run_cards.set_message, card.run_id, message_id)
            self.tasks.start(patiently(store, seconds=inf), name="store a card's id", brief=True)

        def drawn() -> None:
            store = partial(self.database.write, run_cards.mark_drawn, card.run_id)
            drawing = patiently(store, seconds=inf)
            self.tasks.start(drawing, name="store that a card is drawn", brief=True)

        try:
            outlet.show_card(card, begun=begun, drawn=drawn)
        except Exception:
            # A failure to show a card must not stop its run.
            log.exception("The card of run %s could not be shown", card.run_id)


@dataclass(frozen=True, slots=True)
class RunReporter:
    """The `Report` of one run: publishes its progress."""

    events: EventBus
    run: Run
    clock: WorkClock

    def update(
        self, *, part: str, content: str, tool: str, counters: Counters, call: str = ""
    ) -> None:
        """Publish the current state of the run."""
        self._publish(
            part=part,
            content=one_line(content) if part in {"error", "waiting"} else "",
            tool=tool,
            call=call,
            tool_calls=counters.tool_calls,
            tokens=counters.usage.weighted,
        )

    async def report(self, message: str) -> None:
        """Publish the run's own message about its progress."""
        self._publish(part="text", content=one_line(message))

    def _publish(self, **progress: Any) -> None:
        run, elapsed = self.run, self.clock.used()
        self.events.publish(
            RunProgress(run_id=run.id, user_id=run.user_id, elapsed_seconds=elapsed, **progress)
        )


@dataclass(slots=True)
class InnerRun:
    """A run that a caller waits for, and its outcome; no status while the run is unfinished."""

    known: dict[str, str]
    status: RunStatus | None = None
    result: str = ""

    def over(self, status: RunStatus, result: str) -> None:
        """Record the outcome."""
        self.status, self.result = status, one_line(result, RESULT_CHARACTERS)


class InnerRuns:
    """Publishes `sub_agent_start`, `_progress` and `_end` (features J6, E18).

    Args:
        events: The bus on which the runs publish and this class publishes too.
    """

    def __init__(self, events: EventBus) -> None:
        self._events = events
        self._open: dict[str, InnerRun] = {}
        events.subscribe(RunEvent, self._handle)

    @contextmanager
    def track(self, run: Run, request: RunRequest, caller: Caller) -> Iterator[InnerRun]:
        """Publish the start, the progress and the end of a run that a caller waits for.

        If the run is left to another process, that process publishes the end.
        """
        parent, call = caller.call_key or ("", "")
        known = {
            "run_id": run.id,
            "user_id": run.user_id,
            "agent": run.agent,
            "parent": parent,
            "call": call,
        }
        inner = self._open[run.id] = InnerRun(known)
        self._events.publish(SubAgentStart(**known, input=request.given or {"task": run.task}))
        try:
            yield inner
        finally:
            del self._open[run.id]
            if inner.status is not None:
                self._events.publish(SubAgentEnd(**known, status=inner.status, result=inner.result))

    def _handle(self, event: RunEvent) -> None:
        inner = self._open.get(event.run_id)
        match event:
            case RunProgress() if inner is not None:
                self._events.publish(SubAgentProgress(**inner.known, event=event))
            case RunEnded() if inner is not None:
                inner.over(event.status, event.error)

"""Publishes the progress of runs as events."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bot.agent.budget import WorkClock
from bot.agent.protocols import Counters
from bot.agent.sanitizer import one_line
from bot.events import (
    EventBus,
    RunEnded,
    RunEvent,
    RunProgress,
    SubAgentEnd,
    SubAgentProgress,
    SubAgentStart,
)
from bot.subagents.requests import Caller, RunRequest
from bot.values import RunStatus
from db.runs import Run

RESULT_CHARACTERS = 300


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

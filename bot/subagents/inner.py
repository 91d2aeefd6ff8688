"""What goes on in the runs that somebody waits for, told as events of their own."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

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


@dataclass(slots=True)
class InnerRun:
    """A run that is being waited for, and what it came to; no status while it goes on."""

    known: dict[str, str]
    status: RunStatus | None = None
    result: str = ""

    def over(self, status: RunStatus, result: str) -> None:
        """Take what it came to."""
        self.status, self.result = status, one_line(result, RESULT_CHARACTERS)


class InnerRuns:
    """Publishes `sub_agent_start`, `_progress` and `_end` (features J6, E18).

    Args:
        events: What the runs publish, and where this goes.
    """

    def __init__(self, events: EventBus) -> None:
        self._events = events
        self._open: dict[str, InnerRun] = {}
        events.subscribe(RunEvent, self._handle)

    @contextmanager
    def told(self, run: Run, request: RunRequest, caller: Caller) -> Iterator[InnerRun]:
        """Tell that a run is waited for, what it does meanwhile, and what it came to.

        Of one that is left to another process no end is told: whoever goes on with it does.
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

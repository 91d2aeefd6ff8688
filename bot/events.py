"""What happens to a run, as typed events."""

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from bot.values import Place, RunStatus

log = logging.getLogger(__name__)


class Severity(StrEnum):
    """How much an event asks for an admin's eye."""

    LOW = "low"
    MEDIUM = "medium"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """Something that happened to one run (features M1–M8).

    Attributes:
        user_id: The owner's `Identity.key`.
    """

    name: ClassVar[str] = "subagent"
    severity: ClassVar[Severity] = Severity.LOW

    run_id: str
    user_id: str

    @property
    def payload(self) -> dict[str, Any]:
        """The event's fields for a log line or a metric."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpawned(RunEvent):
    """A run was admitted or queued."""

    name = "subagent.spawned"

    agent: str
    label: str
    place: Place
    status: RunStatus
    conversation_id: str
    mode: str
    token_budget: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatusChanged(RunEvent):
    """A run went from one state to another, stored before this is published."""

    name = "subagent.status"

    old: RunStatus
    new: RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(RunEvent):
    """An attempt of a run began; `resumed` when an earlier one was interrupted."""

    name = "subagent.running"

    resumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress(RunEvent):
    """A run took a step, called a tool, or reported.

    Attributes:
        part: `text` (a report), `tool`, `step` or `error`.
        tool: The tool at work now; empty for none.
    """

    name = "subagent.progress"

    part: str
    content: str = ""
    tool: str = ""
    tool_calls: int = 0
    tokens: int = 0
    elapsed_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(RunEvent):
    """A run has its final status; the subclasses carry names and severities."""

    status: RunStatus
    tokens: int = 0
    tool_calls: int = 0
    duration_seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCompleted(RunEnded):
    """A run did its job."""

    name = "subagent.completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(RunEnded):
    """A run ended in an error, at a limit other than time, stalled or lost."""

    name = "subagent.failed"
    severity = Severity.MEDIUM


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimedOut(RunEnded):
    """A run used up its time."""

    name = "subagent.timeout"
    severity = Severity.MEDIUM


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCancelled(RunEnded):
    """A run was stopped by a person."""

    name = "subagent.cancelled"


_ENDS: dict[RunStatus, type[RunEnded]] = {
    RunStatus.COMPLETED: RunCompleted,
    RunStatus.CANCELLED: RunCancelled,
    RunStatus.TIMEOUT: RunTimedOut,
}


def ended(status: RunStatus, **fields: Any) -> RunEnded:
    """Return the event that tells of a final status."""
    return _ENDS.get(status, RunFailed)(status=status, **fields)


Subscriber = Callable[[RunEvent], None]


@dataclass(slots=True)
class EventBus:
    """Hands each event to every subscriber, in order, at once.

    A subscriber must not wait; one that raises is logged and does not keep the others from hearing.
    """

    _subscribers: list[Subscriber] = field(default_factory=list)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with every event from now on."""
        self._subscribers.append(subscriber)

    def publish(self, event: RunEvent) -> None:
        """Tell every subscriber. Called after the change is stored, never before."""
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception:
                log.exception("A subscriber failed on %s", event.name)

"""Typed events, and the bus that passes each event to its subscribers."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

from bot.values import Identity, Place, RunStatus

log = logging.getLogger(__name__)


class Severity(StrEnum):
    """The level of attention that an event needs from an admin."""

    LOW = "low"
    MEDIUM = "medium"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events. An event is published after its change was committed."""

    name: ClassVar[str] = "event"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAdmitted(Event):
    """A run got a slot and may start; a delegated run is executed by the turn that waits for it."""

    name = "run.admitted"

    run_id: str
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncementDue(Event):
    """The outbox holds an announcement under this key that can be sent now."""

    name = "announcement.due"

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnWaiting(Event):
    """A conversation may have a turn that waits and no turn that is running."""

    name = "turn.waiting"

    conversation_id: str
    platform: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesAttached(Event):
    """The files of a message are stored.

    Attributes:
        user: The user who sent them.
        place: The place of the message.
        files_of: The owner of the workspace for them: see `ToolContext.files_of`.
    """

    name = "files.attached"

    message_id: str
    user: Identity
    place: Place
    files_of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesDeleted(Event):
    """The files of a message are deleted, since its author deleted the message.

    Attributes:
        files: Their names, each with the SHA-256 digest of the content.
        files_of: The owner of the workspace that has copies: see `ToolContext.files_of`.
    """

    name = "files.deleted"

    files: tuple[tuple[str, str], ...]
    files_of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTroubled(Event):
    """A service that tools use cannot be reached, or waits for an admin.

    Attributes:
        service: Its name for admins.
    """

    name = "service.troubled"

    service: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSettled(Event):
    """A question of a run was answered, expired, or withdrawn with its run."""

    name = "question.settled"

    question_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent(Event):
    """An event of one run (features M1–M8).

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
    """A run changed its status, which is stored before this event is published."""

    name = "subagent.status"

    old: RunStatus
    new: RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(RunEvent):
    """An attempt at a run began; `resumed` is True after an interrupted attempt."""

    name = "subagent.running"

    resumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress(RunEvent):
    """A run took a step, called a tool, or reported.

    Attributes:
        part: `text` (a report), `step`, `waiting` (for a busy provider), or `tool` at a call,
            followed by `tool_end` or `error`.
        tool: The tool that was called; empty for none.
        call: The id of the tool call, unique within the run.
    """

    name = "subagent.progress"

    part: str
    content: str = ""
    tool: str = ""
    call: str = ""
    tool_calls: int = 0
    tokens: int = 0
    elapsed_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(RunEvent):
    """A run has its final status; the subclasses carry names and severities.

    Attributes:
        stopped_by: The shown name of the admin who stopped the run; empty for its owner.
        degraded: Whether it completed although every tool call was refused or failed.
    """

    status: RunStatus
    tokens: int = 0
    tool_calls: int = 0
    duration_seconds: float = 0.0
    error: str = ""
    stopped_by: str = ""
    degraded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCompleted(RunEnded):
    """A run completed its task."""

    name = "subagent.completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(RunEnded):
    """A run failed, reached a limit other than time, stalled, or was lost."""

    name = "subagent.failed"
    severity = Severity.MEDIUM


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimedOut(RunEnded):
    """A run used up its time."""

    name = "subagent.timeout"
    severity = Severity.MEDIUM


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCancelled(RunEnded):
    """A run was stopped by a user."""

    name = "subagent.cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentEvent(RunEvent):
    """Base of the events of a run that a turn or another run waits for (features J6, E18).

    Attributes:
        agent: The name of the agent: `name` in the payload.
        parent: The id of the turn or run that waits.
        call: The id of the waiting tool call.
    """

    name = "sub_agent_event"

    agent: str
    parent: str = ""
    call: str = ""

    @property
    def payload(self) -> dict[str, Any]:
        """The event's fields, the agent's name under `name`."""
        fields = asdict(self)
        return {"name": fields.pop("agent"), **fields}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentStart(SubAgentEvent):
    """A turn or run begins to wait for a run.

    Attributes:
        input: The input of the agent: its own input, or its task.
    """

    name = "sub_agent_start"

    input: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentProgress(SubAgentEvent):
    """The run that is waited for made progress."""

    name = "sub_agent_progress"

    event: RunProgress

    @property
    def payload(self) -> dict[str, Any]:
        """The event's fields, with the name of the inner event."""
        fields = asdict(self) | {"event": {"name": self.event.name, **self.event.payload}}
        return {"name": fields.pop("agent"), **fields}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentEnd(SubAgentEvent):
    """The run that was waited for has ended.

    Attributes:
        result: The beginning of the result.
    """

    name = "sub_agent_end"

    status: RunStatus
    result: str = ""


_ENDS: dict[RunStatus, type[RunEnded]] = {
    RunStatus.COMPLETED: RunCompleted,
    RunStatus.CANCELLED: RunCancelled,
    RunStatus.TIMEOUT: RunTimedOut,
}


def ended(status: RunStatus, **fields: Any) -> RunEnded:
    """Return the event for a final status."""
    return _ENDS.get(status, RunFailed)(status=status, **fields)


Published = TypeVar("Published", bound=Event)


@dataclass(slots=True)
class EventBus:
    """Calls the handlers of an event at once, in the order in which they subscribed.

    A handler must not wait. An exception of a handler is logged and does not reach the publisher
    or the other handlers.
    """

    _handlers: list[tuple[type[Event], Callable[[Any], None]]] = field(default_factory=list)

    def subscribe(self, kind: type[Published], handler: Callable[[Published], None]) -> None:
        """Call `handler` with every event of this class or a subclass from now on."""
        self._handlers.append((kind, handler))

    @contextmanager
    def listening(
        self, kind: type[Published], handler: Callable[[Published], None]
    ) -> Iterator[None]:
        """Call `handler` with every event of this class or a subclass during the block."""
        entry = (kind, handler)
        self._handlers.append(entry)
        try:
            yield
        finally:
            self._handlers.remove(entry)

    def publish(self, event: Event) -> None:
        """Call the handlers of an event. Must be called after the change is stored, not before."""
        for kind, handler in tuple(self._handlers):
            if not isinstance(event, kind):
                continue
            try:
                handler(event)
            except Exception:
                log.exception("A handler failed on %s", event.name)


def log_event(event: RunEvent) -> None:
    """Log an event of a run, except events that carry words of users and are logged elsewhere.

    A change of status that `RunStarted` or `RunEnded` follows is not logged, since their lines tell
    it. The payload becomes plain fields of the line, without empty ones.
    """
    level = logging.INFO if event.severity is Severity.LOW else logging.WARNING
    logged_elsewhere = isinstance(event, SubAgentEvent) or event.name == "subagent.progress"
    if isinstance(event, RunStatusChanged):
        logged_elsewhere = event.old is RunStatus.ACCEPTED or event.new.final
    if logged_elsewhere or not log.isEnabledFor(level):
        return
    fields: dict[str, Any] = {"severity": str(event.severity)}
    for name, value in event.payload.items():
        parts = value.items() if isinstance(value, dict) else [("", value)]
        for part, each in parts:
            if each not in (None, ""):
                field_name = f"{name}_{part}" if part else name
                fields[field_name] = str(each) if isinstance(each, StrEnum) else each
    log.log(level, "%s", event.name, extra=fields)

"""What an agent needs from above, as small protocols, so that it knows neither runs nor people."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bot.agent.messages import Answer, Message, ToolCall, ToolResult, Usage
from bot.errors import BotError
from bot.values import Json, RunStatus
from skills.base import Tool, ToolContext


@dataclass(frozen=True, slots=True)
class AnswerEntry:
    """One step: what the model was told since its last answer, and what it answered.

    Attributes:
        received: Results and notes; `None` at the first step, which sees only the task.
        limit: The limit at which this was the last step, without tools.
        read: Ids of the messages to the run that `received` carries.
    """

    received: Message | None
    answer: Answer
    limit: RunStatus | None = None
    read: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResultEntry:
    """The result of a call that must not be made twice, stored at once.

    Attributes:
        step: The step that asked for the call.
        index: Which of its calls.
    """

    step: int
    index: int
    result: ToolResult


Entry = AnswerEntry | ResultEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """How far a piece of work has come; stored with every step."""

    usage: Usage = field(default_factory=Usage)
    tool_calls: int = 0
    reserved: int = 0


class Journal(Protocol):
    """The steps of one piece of work: the truth that a resumed attempt starts from."""

    async def load(self) -> list[Entry]:
        """Return what earlier attempts stored, in order."""
        ...

    async def write(self, entry: Entry, counters: Counters) -> None:
        """Store one entry before anything else happens.

        Raises:
            FencedError: Another process has taken the work over.
        """
        ...


class Meter(Protocol):
    """A budget of weighted tokens: reserved before each call, settled after it."""

    @property
    def fraction(self) -> float:
        """How much is used, 0 to 1; 0 without a budget."""
        ...

    def set_aside(self, input_tokens: int) -> None:
        """Keep enough for a last step with so much input, within bounds."""
        ...

    def allow(self, input_tokens: int, max_output: int) -> int | None:
        """Return the most output tokens of an ordinary step; `None` when only the last is left."""
        ...

    def allow_last(self, max_output: int) -> tuple[int, int] | None:
        """Return the most input and output tokens of the last step; `None` when none fits."""
        ...

    def settle(self, usage: Usage) -> None:
        """Count what a call cost."""
        ...

    def reservation(self, input_tokens: int, max_output: int) -> int:
        """Return what the next call may cost at most, within the budget."""
        ...


class Timer(Protocol):
    """The working time of a piece of work."""

    @property
    def fraction(self) -> float:
        """How much is used, 0 to 1."""
        ...

    def left(self) -> float | None:
        """Return the seconds until the last step must begin; `None` for no limit."""
        ...


class Inbox(Protocol):
    """Messages that people send to a piece of work while it goes on."""

    @property
    def private(self) -> bool:
        """True once private material has come with a message."""
        ...

    async def take(self) -> Sequence[tuple[str, str]]:
        """Return (id, text) of what has arrived; they count as read once the step is stored."""
        ...


class Reporter(Protocol):
    """Hears what the agent is doing, to move a card. Never waits."""

    def moved(
        self, *, part: str, content: str, tool: str, counters: Counters, call: str = ""
    ) -> None:
        """Take note: `part` is `step` or `waiting`, or `tool` and then `tool_end` or `error`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Holds the collaborators of one agent at work.

    Attributes:
        caller: Who the tools act for, with the flags of the prompt at the start; the id of each
            call is filled in, and the flags include the results so far.
        spent_before: Tokens charged to earlier attempts, a call that was under way when the
            process died included: it was paid for, or may have been.
        discount_before: What these tokens count less against the budget.
    """

    journal: Journal
    meter: Meter
    timer: Timer
    inbox: Inbox
    reporter: Reporter
    caller: ToolContext
    spent_before: int = 0
    discount_before: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCall:
    """A call that needs the user's yes.

    Attributes:
        reason: Why it needs a yes, for a sentence; empty when its tool always asks.
    """

    tool: Tool
    call: ToolCall
    context: ToolContext
    reason: str = ""


class Approver(Protocol):
    """Asks the user of a turn before calls that need a yes."""

    async def ask(self, asked: Sequence[AskedCall]) -> Sequence[Json | BotError]:
        """Store and show one question about all calls of a step that need a yes.

        Returns:
            At once, in order, what the model is told of each call; an error for a call that makes
            no sense, about which nobody is asked.
        """
        ...


class Gate(Protocol):
    """Asks the owner of a run before calls that need a yes."""

    async def permit(self, asked: Sequence[AskedCall]) -> Sequence[str]:
        """Ask one question about calls of a step, and wait for the answer.

        Returns:
            For each call, in order, nothing for a yes; else what the model is told.
        """
        ...

    async def begin(self, tool: Tool, call: ToolCall, context: ToolContext) -> str:
        """Record that a permitted call begins; return why it must not be made, or nothing."""
        ...

    async def may_have_begun(self, call: ToolCall, context: ToolContext) -> bool:
        """Whether an attempt that was interrupted may have made this call."""
        ...

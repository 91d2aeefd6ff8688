"""The configuration of an agent, and the protocols that it depends on instead of runs and users."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bot.agent.activity import Activity
from bot.agent.budget import TokenBudget
from bot.agent.messages import Answer, Message, ToolCall, ToolResult, Usage
from bot.counted_events import ToolCalled
from bot.errors import BotError
from bot.models.capabilities import cached_weight
from bot.values import Json, RunStatus
from skills.base import Tool, ToolContext


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """Holds the prompt, the model and the limits of one agent at work.

    Attributes:
        max_response_tokens: Output tokens of one answer.
        cached_weight: Returns the weight of a token that a model, given by name, reads from its
            cache.
        effort: Reasoning effort of the model, from `low` to `max`; `None` for its default.
        user_hash: An opaque hash of the user, sent to the provider.
        background: Whether requests of users' turns take precedence over this agent's requests.
    """

    prompt: str
    model: str
    max_steps: int
    max_tool_calls: int
    max_response_tokens: int = 16_000
    context_tokens: int = 100_000
    tool_result_characters: int = 16_000
    effort: str | None = None
    user_hash: str = ""
    background: bool = False
    cached_weight: Callable[[str], float] = cached_weight


@dataclass(frozen=True, slots=True)
class AnswerEntry:
    """One step: the input of the model since its previous answer, and its new answer.

    Attributes:
        received: Results and notes; `None` for neither, as in a first step that sees only the task.
        limit: The limit that made this the last step, without tools; `None` for an ordinary step.
        reason: The spending limit that was reached, as sentences for users; empty for none.
        read: Ids of the messages to the turn or run that `received` contains.
    """

    received: Message | None
    answer: Answer
    limit: RunStatus | None = None
    read: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ResultEntry:
    """The result of a call that must not be made twice, stored at once.

    Attributes:
        step: The step that asked for the call.
        index: The position of the call in that step.
    """

    step: int
    index: int
    result: ToolResult


Entry = AnswerEntry | ResultEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The counters of a turn or run, stored with every step."""

    usage: Usage = field(default_factory=Usage)
    tool_calls: int = 0
    reserved: int = 0


class Journal(Protocol):
    """Stores the steps of one turn or run; a resumed attempt starts from them."""

    async def load(self) -> list[Entry]:
        """Return the entries of earlier attempts, in order."""

    async def write(self, entry: Entry, counters: Counters) -> None:
        """Store one entry; the work continues only once it is stored.

        Raises:
            FencedError: Another process has taken over this turn or run.
        """


class Timer(Protocol):
    """The working time of a turn or run."""

    @property
    def fraction(self) -> float:
        """The used share, 0 to 1."""

    def left(self) -> float:
        """Return the seconds until the last step must begin; infinite for no limit."""


class MessageInbox(Protocol):
    """The messages sent to a turn or run while it works."""

    @property
    def private(self) -> bool:
        """True once a message has brought private material."""

    @property
    def foreign(self) -> bool:
        """True once a message has brought content that its sender did not write."""

    async def take(self) -> Sequence[tuple[str, str]]:
        """Return (id, text) of new messages; they count as read once the step is stored."""

    def mark_read(self, read: Sequence[str]) -> None:
        """Receive the ids of messages once the step that has read them is stored."""


class Report(Protocol):
    """Receives the progress of an agent to update a card; never blocks."""

    def __call__(
        self, *, part: str, content: str, tool: str, counters: Counters, call: str = ""
    ) -> None:
        """Report: `part` is `step` or `waiting`, or `tool` followed by `tool_end` or `error`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentContext:
    """Holds the collaborators of one agent at work.

    Attributes:
        inbox: The messages to a turn or run; `None` for a turn that no user began.
        report: Updates the card of a run; the reply of a turn shows its progress itself.
        activity: Records events, and interrupts the work when none comes for too long.
        caller: The context of tool calls, with the flags of the prompt at the start. Each call gets
            its own id, and flags that include the results so far.
        tool_called: Receives the outcome of each tool call.
        spent_before: The usage charged to earlier attempts, including a call that was in progress
            when the process died: it was paid for, or may have been.
    """

    journal: Journal
    budget: TokenBudget
    timer: Timer
    caller: ToolContext
    inbox: MessageInbox | None = None
    report: Report = lambda **_: None
    activity: Activity = field(default_factory=Activity)
    tool_called: Callable[[ToolCalled], None] = lambda _: None
    spent_before: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCall:
    """A call that needs approval.

    Attributes:
        reason: The reason for asking, as a clause; empty if its tool always asks.
        approver: The role that decides; empty for the user.
        rule: The rule that asks, as it is spelled; empty for another reason.
    """

    tool: Tool
    call: ToolCall
    context: ToolContext
    reason: str = ""
    approver: str = ""
    rule: str = ""


class TurnApprover(Protocol):
    """Asks the user of a turn to approve calls."""

    async def ask(self, asked: Sequence[AskedCall]) -> Sequence[Json | BotError]:
        """Store and show one question about all calls of a step that need approval.

        Returns:
            Without waiting for the answer, a message for the model about each call, in order; an
            error for an invalid call, which the question leaves out.
        """


class RunApprover(Protocol):
    """Asks the owner of a run to approve calls."""

    async def permit(self, asked: Sequence[AskedCall]) -> Sequence[str]:
        """Ask one question about calls of a step, and wait for the answer.

        Returns:
            For each call, in order, an empty text for a yes; else the message for the model.
        """

    async def begin(self, tool: Tool, call: ToolCall, context: ToolContext) -> str:
        """Record that a permitted call begins; return the reason if it must not, else empty."""

    async def may_have_begun(self, call: ToolCall, context: ToolContext) -> bool:
        """Return True if an interrupted attempt may have made this call."""

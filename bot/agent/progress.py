"""The state of one turn or run between its steps."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bot.agent.budget import TokenBudget
from bot.agent.messages import (
    Answer,
    Message,
    StopReason,
    ToolCall,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
    to_json,
)
from bot.agent.protocols import AnswerEntry, Counters, Entry
from bot.values import Json, RunStatus

#: The beginning of the one warning before a limit, and the used share that triggers it.
WARNING = "You have used"
WARN_AT = 0.8
#: The beginning of a line about a wait.
WAITING = "⏳"
#: Shorter waits are not shown: the line would disappear before it was read.
WORTH_TELLING_SECONDS = 3

_REACHED = {
    RunStatus.TIMEOUT: "Your time is up.",
    RunStatus.BUDGET_EXCEEDED: "Your budget is used up.",
    RunStatus.MAX_TOOL_CALLS: "You have made all the tool calls you may make.",
    RunStatus.MAX_STEPS: "You have taken all the steps you may take.",
    RunStatus.STALLED: "Nothing was heard of you for too long, so you were interrupted.",
}

EMPTY = "The model sent an empty answer."
REFUSED = "The model refused to go on with this."
CUT_ANSWER = "\n\n[The answer was cut here: it reached its greatest length.]"
TOO_LONG = (
    "Your answer was cut at its greatest length before it said or called anything. "
    "Write less at a time."
)
ONLY_THOUGHTS = (
    "Only your thoughts arrived, no answer. Write the answer now, or call the tools that you need."
)
NO_ANSWER = "The model did not get to the end of its answer."
MALFORMED = "wrote arguments that are no JSON object"
#: Most continuations of an answer: after a pause, and after an answer with thoughts only.
GO_ON = 2
GO_ON_AFTER_THOUGHTS = 1


@dataclass(frozen=True, slots=True)
class Halt:
    """The end of a turn or run: its status and the reason of a failure.

    Attributes:
        reason: For a failure or a spending limit, sentences fit for users; empty otherwise.
    """

    status: RunStatus
    reason: str = ""
    refused: bool = False


@dataclass(frozen=True, slots=True)
class LastStep:
    """The limit that makes a step the last one, without tools.

    Attributes:
        reason: The spending limit that was reached, as sentences for users; empty for another one.
        report: The most input and output tokens that the spending limit leaves; `None` for any.
    """

    limit: RunStatus
    reason: str = ""
    report: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """The result of a turn or run.

    Attributes:
        status: `completed`, `failed`, or the limit that was reached.
        text: The last answer; without one, the text of all steps so far.
        said: The text of all steps.
        error: The reason of a failure, or the spending limit that was reached; empty otherwise.
        model: The model that gave the last answer, as `provider/model` if it was a fallback.
        fallback: The `provider/model` that gave the last answer instead of the usual one.
        transcript: Every message after the start, as JSON.
        refused: Whether the model refused; its input must not be sent to it again.
        degraded: Whether the work completed although all tool calls that it made were refused or
            failed.
    """

    status: RunStatus
    text: str
    said: str = ""
    error: str = ""
    usage: Usage = field(default_factory=Usage)
    tool_calls: int = 0
    steps: int = 0
    model: str = ""
    fallback: str = ""
    transcript: tuple[Json, ...] = ()
    refused: bool = False
    degraded: bool = False


@dataclass(slots=True)
class Progress:
    """The state of the loop; all of it can be restored from the journal.

    Attributes:
        foreign: Whether the prompt holds content that neither the user nor the bot wrote.
        private: Whether the prompt holds private material.
        beside: Tokens reserved for requests that are made beside the loop.
        results: The results of calls in this attempt or an earlier one, by step and index; those
            of the newest answer before all of them have arrived.
    """

    messages: list[Message] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    tool_calls: int = 0
    extra: Usage = field(default_factory=Usage)
    beside: int = 0
    halt: Halt | None = None
    warned: bool = False
    note: str = ""
    resumed_at: int = -1
    foreign: bool = False
    private: bool = False
    results: dict[tuple[int, int], ToolResult] = field(default_factory=dict)
    _last_calls: list[str] = field(default_factory=list)
    _pauses: int = 0
    _only_thoughts: int = 0

    @property
    def steps(self) -> int:
        """The number of answers so far."""
        return len(self.answers)

    @property
    def model(self) -> str:
        """The model of the last answer; empty before the first."""
        return (self.answers[-1].fallback or self.answers[-1].model) if self.answers else ""

    @property
    def usage(self) -> Usage:
        """The usage of all calls, including a call that a crash interrupted."""
        return sum((answer.usage for answer in self.answers), self.extra)

    def charge_earlier(self, charged: Usage) -> None:
        """Add what was charged to earlier attempts beyond the answers that they stored."""
        self.extra = charged.beyond(sum((answer.usage for answer in self.answers), Usage()))

    def spend(self, budget: TokenBudget, usage: Usage) -> None:
        """Add usage outside of the stored answers, such as that of a tool."""
        self.extra += usage
        budget.charge(usage)

    def counters(self, reserved: int) -> Counters:
        """Return the counters to store with a step."""
        reserved += self.beside
        return Counters(usage=self.usage, tool_calls=self.tool_calls, reserved=reserved)

    def begin(self, messages: Sequence[Message], entries: Sequence[Entry]) -> None:
        """Restore the state from the initial messages and the entries of earlier attempts."""
        for message in messages:
            self._show(message)
        for entry in entries:
            if isinstance(entry, AnswerEntry):
                match entry.received:
                    case ToolResults(note=text) | UserMessage(text=text):
                        # A user's message follows a line of ours, so it looks like a warning only
                        # on purpose.
                        parts = text.split("\n\n")
                        self.warned |= any(part.startswith(WARNING) for part in parts)
                calls = self.open_calls()
                self.tool_calls += len(calls)
                self.repeated(calls, len(calls) + 1)
                self.add(entry)
                self.note = ""
                self.halt = self.halt_after(entry)
            else:
                self.results[entry.step, entry.index] = entry.result
                self.entries.append(entry)
        if entries:
            self.resumed_at = self.steps

    def add(self, entry: AnswerEntry) -> None:
        """Add a step to the state."""
        if entry.received is not None:
            self._show(entry.received)
        if entry.answer.text.strip() or entry.answer.calls or entry.answer.native:
            self.messages.append(entry.answer)
        self.answers.append(entry.answer)
        self.entries.append(entry)

    def _show(self, message: Message) -> None:
        """Add a message to the prompt, with its flags."""
        self.messages.append(message)
        if isinstance(message, ToolResults):
            self.foreign |= any(result.foreign for result in message.results)
            self.private |= any(result.private for result in message.results)

    def warning(self, used: Mapping[str, float]) -> str:
        """Return a warning when 80 % of any limit is used for the first time; empty otherwise.

        Args:
            used: The used share of each limit, 0 to 1, by the name of the limit.
        """
        name, most = max(used.items(), key=lambda item: item[1])
        if self.warned or most < WARN_AT:
            return ""
        self.warned = True
        return f"{WARNING} {most:.0%} of your {name}. Finish what matters and write your report."

    def open_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls of the newest answer that wait for their results."""
        newest = self.messages[-1] if self.messages else None
        return newest.calls if isinstance(newest, Answer) else ()

    def repeated(self, calls: Sequence[ToolCall], times: int) -> str:
        """Return the reason to halt after `times` equal or malformed calls in a row; else empty."""
        for call in calls:
            spelled = json.dumps([call.name, call.arguments], sort_keys=True)
            if call.malformed:
                spelled = MALFORMED
            if self._last_calls and self._last_calls[-1] != spelled:
                self._last_calls.clear()
            self._last_calls.append(spelled)
            if len(self._last_calls) >= times:
                return MALFORMED if call.malformed else f"made the same call to {call.name}"
        return ""

    def halt_after(self, entry: AnswerEntry) -> Halt | None:
        """Return the `Halt` if this step was the last; `None` if the work continues."""
        answer = entry.answer
        if entry.limit:
            return Halt(entry.limit, entry.reason, refused=answer.stop is StopReason.REFUSAL)
        if answer.stop is StopReason.REFUSAL:
            return Halt(RunStatus.FAILED, REFUSED, refused=True)
        if answer.calls:
            self._pauses = self._only_thoughts = 0
            return None
        if answer.stop is StopReason.PAUSE:
            self._pauses += 1
            return None if self._pauses <= GO_ON else Halt(RunStatus.FAILED, NO_ANSWER)
        cut = answer.stop is StopReason.MAX_TOKENS
        if not answer.text.strip() and (cut or answer.thought):
            self._only_thoughts += 1
            if self._only_thoughts > GO_ON_AFTER_THOUGHTS:
                return Halt(RunStatus.FAILED, NO_ANSWER)
            self.note = TOO_LONG if cut else ONLY_THOUGHTS
            return None
        if not self.text():
            return Halt(RunStatus.FAILED, EMPTY)
        return Halt(RunStatus.COMPLETED)

    def text(self) -> str:
        """Return the text of the last answer; without one, the text of all steps so far."""
        if not self.answers:
            return ""
        last = self.answers[-1]
        cut = CUT_ANSWER if last.stop is StopReason.MAX_TOKENS else ""
        if last.text.strip() and not last.calls:
            return last.text.strip() + cut
        return self.partial_text()

    def partial_text(self) -> str:
        """Return the text of all finished steps."""
        return "\n\n".join(text for answer in self.answers if (text := answer.text.strip()))

    def result(self) -> AgentResult:
        """Return the result of the work, once `halt` is set."""
        halt = self.halt or Halt(RunStatus.FAILED, "The work was not finished.")
        received = (entry.received for entry in self.entries if isinstance(entry, AnswerEntry))
        results = [each for one in received if isinstance(one, ToolResults) for each in one.results]
        cut = bool(self.answers) and self.answers[-1].stop is StopReason.MAX_TOKENS
        return AgentResult(
            status=halt.status,
            text=self.text(),
            said=self.partial_text() + CUT_ANSWER * cut,
            error=halt.reason,
            usage=self.usage,
            tool_calls=self.tool_calls,
            steps=self.steps,
            model=self.model,
            fallback=self.answers[-1].fallback if self.answers else "",
            transcript=self.transcript(),
            refused=halt.refused,
            # All calls, of which there were some, were refused or failed.
            degraded=halt.status is RunStatus.COMPLETED
            and bool(results)
            and all(result.failed for result in results),
        )

    def transcript(self) -> tuple[Json, ...]:
        """Return every message after the start, in order.

        Results that no model has read come last: the work ended while other calls were running.
        """
        rows: list[Json] = []
        for entry in self.entries:
            if isinstance(entry, AnswerEntry):
                if entry.received is not None:
                    rows.append(to_json(entry.received))
                rows.append(to_json(entry.answer))
        made = [self.results.get((self.steps, index)) for index in range(len(self.open_calls()))]
        if results := tuple(filter(None, made)):
            rows.append(to_json(ToolResults(results)))
        return tuple(rows)


def last_step(limit: RunStatus) -> str:
    """Return the message to a model before its last answer at a limit."""
    return (
        f"{_REACHED[limit]} This is your last answer, and you cannot call tools any more. Write "
        "down what you found, and say plainly what is unfinished."
    )


def waiting(reason: str, seconds: float) -> str:
    """Return the line about the reason and the length of a wait; empty for a short wait.

    Args:
        reason: The reason, of which the first sentence is shown.
        seconds: The time until the next try; infinite for a wait in a queue.
    """
    if seconds < WORTH_TELLING_SECONDS:
        return ""
    told = reason.split(". ", maxsplit=1)[0].rstrip(".")
    if math.isinf(seconds):
        return f"{WAITING} {told}. I go on when it is my turn."
    whole = math.ceil(seconds)
    long = f"{whole} s" if whole < 100 else f"{math.ceil(whole / 60)} min"
    return f"{WAITING} {told}. I go on by myself in {long}."

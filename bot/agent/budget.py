"""The budget of a run (that of a turn is unlimited): working time, tokens, and their weights.

Input that the provider has cached counts by its price. Tokens are reserved before each call of a
model.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from bot.agent.messages import Answer, Message, Usage, estimate_tokens
from bot.models.base import ModelRequest, ToolDescription, offered

#: Share of a budget that is reserved for the last step from the start, and the largest share that
#: is reserved when the report needs much input.
LAST_STEP_SHARE = 0.2
MOST_LAST_STEP_SHARE = 0.4
#: Smallest reserve of output tokens for the last report.
REPORT_OUTPUT = 2_000
#: The most of what is left that the output of one call may use, and the output that every call
#: may have.
OUTPUT_SHARE = 4
LEAST_OUTPUT = 1_000
#: Reserve for the last step: a share of the total time, and its upper bound in seconds.
RESERVED_SHARE = 0.15
RESERVED_SECONDS = 30.0
#: The tokens of a turn, whose answer to a user is never cut off.
UNLIMITED = 10**12


class WorkClock:
    """Counts the working seconds of a run over all attempts; pauses do not count.

    Args:
        total: The seconds the run may use.
        used: The seconds used by earlier attempts.
        monotonic: A monotonic clock, in seconds.

    Attributes:
        limit: The timeout that cuts the work off; rescheduled with every pause.
    """

    def __init__(
        self, total: float, used: float = 0.0, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.total = total
        self._monotonic = monotonic
        self._began = monotonic() - used
        self._aside = min(RESERVED_SECONDS, total * RESERVED_SHARE)
        self._stopped_at: float | None = None
        self._holders = 0
        self.limit: asyncio.Timeout | None = None

    def used(self) -> float:
        """Return the seconds used so far."""
        now = self._monotonic() if self._stopped_at is None else self._stopped_at
        return now - self._began

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the clock while the work waits for a user. Pauses may overlap."""
        if self._holders == 0:
            self._stopped_at = self._monotonic()
            if self.limit is not None:
                self.limit.reschedule(None)
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if self._holders == 0 and self._stopped_at is not None:
                self._began += self._monotonic() - self._stopped_at
                self._stopped_at = None
                if self.limit is not None:
                    self.limit.reschedule(asyncio.get_running_loop().time() + self.hard_left())

    def lower(self, total: float) -> None:
        """Lower the seconds that the run may use to this total, if they are more."""
        if total >= self.total:
            return
        self.total = total
        self._aside = min(self._aside, total * RESERVED_SHARE)
        if self.limit is not None and self._holders == 0:
            self.limit.reschedule(asyncio.get_running_loop().time() + self.hard_left())

    @property
    def stands_still(self) -> bool:
        """True while the work waits for a user."""
        return self._holders > 0

    @property
    def fraction(self) -> float:
        """The used share of the time before the last step."""
        return self.used() / (self.total - self._aside)

    def left(self) -> float:
        """Return the seconds until the last step must begin."""
        return self.total - self._aside - self.used()

    def hard_left(self) -> float:
        """Return the seconds until the run is cut off."""
        return max(0.0, self.total - self.used())


class TokenBudget:
    """The token budget of one run, in weighted tokens, input and output together.

    Only the attempt that holds the run counts here. Every step stores the count, so the next
    attempt begins with the same number. Spending exceeds the budget by at most one call and the
    requests that were repeated for it.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.spent = 0
        self._aside = int(total * LAST_STEP_SHARE)
        self._most_aside = int(total * MOST_LAST_STEP_SHARE)

    def lower(self, total: int) -> None:
        """Lower the budget to this total, if it is higher."""
        self.total = min(self.total, total)
        self._most_aside = min(self._most_aside, int(self.total * MOST_LAST_STEP_SHARE))
        self._aside = min(self._aside, max(self._most_aside, 1))

    @property
    def fraction(self) -> float:
        """The used share of the tokens for ordinary steps: 0 to 1, more when overspent."""
        return self.spent / (self.total - self._aside)

    @property
    def left(self) -> int:
        """The tokens left of the whole budget."""
        return max(0, self.total - self.spent)

    def charge(self, usage: Usage) -> None:
        """Add the cost of a call."""
        self.spent += usage.weighted

    def set_aside(self, input_tokens: int) -> None:
        """Raise the reserve for the last step to that of this input, up to a maximum."""
        wanted = min(input_tokens + REPORT_OUTPUT, self._most_aside)
        self._aside = max(self._aside, wanted)

    def allow(self, input_tokens: int, max_output: int) -> int | None:
        """Return the most output tokens of an ordinary step; `None` if only the last step fits."""
        left = self.left - self._aside
        room, least = left - input_tokens, min(max_output, LEAST_OUTPUT)
        output = min(max_output, room, max(least, left // OUTPUT_SHARE))
        return output if room >= least else None

    def allow_last(self, max_output: int) -> tuple[int, int] | None:
        """Return the most input and output tokens of the last step; `None` if none fits."""
        least = min(LEAST_OUTPUT, self.left // 2)
        output = min(max_output, max(least, self.left // OUTPUT_SHARE))
        room = self.left - output
        return (room, output) if room > 0 else None

    def reservation(self, input_tokens: int, max_output: int) -> int:
        """Return the most tokens that the next call may cost, within the budget."""
        return min(self.left, input_tokens + max_output)


@dataclass(slots=True)
class Spending:
    """Weighs the requests of one turn or run, each compared with the previous request.

    Attributes:
        weight_of: Returns the weight of a token that a model, given by name, reads from its cache.
    """

    prompt: str
    model: str
    tools: tuple[ToolDescription, ...]
    weight_of: Callable[[str], float]
    _previous: ModelRequest | None = None
    _previous_input: int = 0
    _previous_model: str = ""

    def fixed(self, tools: Sequence[ToolDescription]) -> int:
        """Return the tokens of the system prompt and these tools."""
        return estimate_tokens(self.prompt) + offered(tools).size

    def weighted_fixed(self, tools: Sequence[ToolDescription]) -> int:
        """Return the weighted tokens of the system prompt and these tools in the next request."""
        known = self._previous is not None and self._previous.tools == tuple(tools)
        return int(self.fixed(tools) * (self.weight_of(self.model) if known else 1))

    def expected(self, messages: Sequence[Message], *, most: int | None = None) -> int:
        """Return the weighted input tokens that a request with all tools would cost.

        Args:
            messages: The messages of the request.
            most: The most tokens of messages that are ever sent; `None` for no limit.
        """
        tokens = estimate_tokens(messages)
        if most is not None:
            tokens = min(tokens, most)
        whole = tokens + self.fixed(self.tools)
        cached = self._repeated(messages, self.tools, whole)
        return whole - int(cached * (1 - self.weight_of(self.model)))

    def expected_input(self, request: ModelRequest) -> int:
        """Return an upper estimate of the input tokens of a request, cached or not.

        If the request begins with the previous one, the estimate is what that one was billed, and
        an upper estimate of what was added.
        """
        before, messages = self._previous, request.messages
        if before is not None and before.tools == request.tools and self._previous_input:
            number = len(before.messages)
            if before.messages == messages[:number]:
                added = [each for each in request.found if each not in before.found]
                return (
                    self._previous_input + estimate_tokens(messages[number:]) + offered(added).size
                )
        return self.fixed(request.tools) + estimate_tokens(messages) + offered(request.found).size

    def weighed(self, request: ModelRequest, answer: Answer) -> Usage:
        """Return the usage of an answer with its discount, and remember its request.

        A provider that reports no cached tokens may cache without counting them. In that case the
        part equal to the previous request counts as cached.
        """
        usage = answer.usage
        cached = usage.cache_read
        # Another model that answers as a fallback has cached nothing of the previous request.
        same = self._previous_model in {"", answer.model}
        if same and not usage.cache_read and not usage.cache_write:
            cached = self._repeated(request.messages, request.tools, usage.all_input)
        self._previous, self._previous_input = request, usage.all_input
        self._previous_model = answer.model
        return replace(usage, discount=int(cached * (1 - self.weight_of(answer.model))))

    def lost(self, request: ModelRequest, usage: Usage) -> Usage:
        """Return the usage of a request without an answer, with its discount."""
        cached = usage.cache_read
        # The name of the model in an answer may end with a date.
        same = not self._previous_model or self._previous_model.startswith(request.model)
        if same and not usage.cache_read and not usage.cache_write:
            cached = self._repeated(request.messages, request.tools, usage.all_input)
        return replace(usage, discount=int(cached * (1 - self.weight_of(request.model))))

    def recall(self, messages: Sequence[Message], usage: Usage) -> None:
        """Restore the newest request of an earlier attempt, which held these messages."""
        self._previous = ModelRequest(
            model=self.model, prompt=self.prompt, messages=tuple(messages), tools=self.tools
        )
        self._previous_input = usage.all_input

    def _repeated(
        self, messages: Sequence[Message], tools: Sequence[ToolDescription], whole: int
    ) -> int:
        """Return the number of leading tokens that a request shares with the previous one."""
        before = self._previous
        if before is None or before.tools != tuple(tools):
            return 0
        same = 0
        for one, other in zip(before.messages, messages, strict=False):
            if one is not other and one != other:
                break
            same += 1
        if same == len(before.messages):
            return min(whole, self._previous_input)
        fixed = self.fixed(tools)
        share = (fixed + estimate_tokens(messages[:same])) / (fixed + estimate_tokens(messages))
        return int(whole * share)

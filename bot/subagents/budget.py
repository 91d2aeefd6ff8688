"""Tokens: reserved before each model call, settled after it."""

from bot.agent.messages import Usage

#: The part of a budget that is set aside from the start for the last step, and the most that is set
#: aside when there is much to report on.
LAST_STEP_SHARE = 0.2
MOST_LAST_STEP_SHARE = 0.4
#: Output tokens of a last report, at least.
REPORT_OUTPUT = 2_000
LEAST_OUTPUT = 256
LEAST_LAST_OUTPUT = 64


class Budget:
    """The token budget of one run, in weighted tokens, in and out together.

    Only the attempt that holds the run counts here, and every step stores the count, so it is the
    same number that the next attempt begins with. Spending passes the budget by at most one call
    and the requests that were repeated for it.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.spent = 0
        self._aside = int(total * LAST_STEP_SHARE)
        self._most_aside = int(total * MOST_LAST_STEP_SHARE)

    @property
    def fraction(self) -> float:
        """How much of what ordinary steps may use is used, 0 to 1 and a little beyond."""
        return self.spent / (self.total - self._aside)

    @property
    def left(self) -> int:
        """What is left of the whole."""
        return max(0, self.total - self.spent)

    def settle(self, usage: Usage) -> None:
        """Count what a call cost."""
        self.spent += usage.weighted

    def set_aside(self, input_tokens: int) -> None:
        """Keep enough for a last step with so much input, within bounds; never less than before."""
        wanted = min(input_tokens + REPORT_OUTPUT, self._most_aside)
        self._aside = max(self._aside, wanted)

    def allow(self, input_tokens: int, max_output: int) -> int | None:
        """Return the most output tokens of an ordinary step; `None` when only the last is left."""
        room = self.left - self._aside - input_tokens
        return min(max_output, room) if room >= LEAST_OUTPUT else None

    def allow_last(self, max_output: int) -> tuple[int, int] | None:
        """Return the most input and output tokens of the last step; `None` when none fits."""
        output = min(max_output, max(LEAST_LAST_OUTPUT, self.left // 3))
        room = self.left - output
        return (room, output) if room > 0 else None

    def reservation(self, input_tokens: int, max_output: int) -> int:
        """Return what the next call may cost at most, within the budget."""
        return min(self.left, input_tokens + max_output)


class Unlimited:
    """The meter of a turn: people are not cut off in the middle of an answer."""

    fraction = 0.0

    def settle(self, usage: Usage) -> None:
        """Count nothing here: the turn's row keeps the sum."""

    def set_aside(self, input_tokens: int) -> None:
        """Keep nothing."""

    def allow(self, input_tokens: int, max_output: int) -> int | None:
        """Allow what is asked for."""
        return max_output

    def allow_last(self, max_output: int) -> tuple[int, int] | None:
        """Allow what is asked for."""
        return 10**9, max_output

    def reservation(self, input_tokens: int, max_output: int) -> int:
        """Reserve nothing."""
        return 0

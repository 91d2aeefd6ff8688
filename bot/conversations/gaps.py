"""The settings of catching up on missed messages, and the quote before a late answer."""

from datetime import timedelta

from pydantic import Field

from bot.agent.sanitizer import one_line
from bot.values import Settings

#: Overlap with the time before a gap, for events in flight and for clocks that differ.
MARGIN = timedelta(minutes=2)
#: Longest quote of a message, in characters.
LONGEST_QUOTE = 200


class CatchUpSettings(Settings):
    """Everything under `catch_up:`."""

    enabled: bool = True
    """Read what was said while the bot was not listening."""

    hours: float = Field(1, gt=0, le=24)
    """The most to look back, in hours."""

    places: int = Field(100, ge=1, le=1_000)
    """The most places to read; a thread is a place of its own."""

    messages: int = Field(50, ge=1, le=200)
    """The newest messages to read in a place."""

    days: float = Field(7, gt=0, le=90)
    """Channels and threads are read if the bot said something in so many days; direct messages
    always.
    """

    quote_after_minutes: float = Field(10, gt=0)
    """An answer to a message older than this quotes it."""

    @property
    def quote_after(self) -> timedelta:
        """The age of a message from which on its answer quotes it."""
        return timedelta(minutes=self.quote_after_minutes)


def quote(text: str) -> str:
    """Return the beginning of an old message as a quote, to precede its answer."""
    return f"> {one_line(text, LONGEST_QUOTE)}\n\n"

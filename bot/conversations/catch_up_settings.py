"""Settings for messages that were sent while the bot was not listening."""

from pydantic import Field

from bot.values import Settings


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

"""Settings for messages that were sent while the bot was not listening."""

from pydantic import Field

from bot.values import Settings


class CatchUpSettings(Settings):
    """Everything under `catch_up:`."""

    enabled: bool = Field(
        default=True, description="Read what was said while the bot was not listening."
    )
    hours: float = Field(1, gt=0, le=24, description="The most to look back, in hours.")
    places: int = Field(
        100, ge=1, le=1_000, description="The most places to read; a thread is a place of its own."
    )
    messages: int = Field(50, ge=1, le=200, description="The newest messages to read in a place.")
    days: float = Field(
        7,
        gt=0,
        le=90,
        description="Channels and threads are read if the bot said something in so many days; "
        "direct messages always.",
    )
    quote_after_minutes: float = Field(
        10, gt=0, description="An answer to a message older than this quotes it."
    )

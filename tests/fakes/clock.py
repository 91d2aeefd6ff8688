"""A clock that moves when a test says so."""

from datetime import UTC, datetime, timedelta


class FakeClock:
    """A `bot.values.Clock` that stands still until it is told to go on."""

    def __init__(self, now: datetime = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)) -> None:
        self._now = now

    def __call__(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += timedelta(seconds=seconds)

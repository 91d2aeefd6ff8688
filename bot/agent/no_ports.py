"""The inbox and the reporter of a turn, which has neither a run's messages nor a card."""


class NoInbox:
    """An inbox that is always empty: a message received during a turn begins the next turn."""

    private = False

    async def take(self) -> list[tuple[str, str]]:
        """Return an empty list."""
        return []


class NoReporter:
    """A reporter that does nothing: the reply of a turn shows its progress."""

    def moved(self, **_: object) -> None:
        """Do nothing."""

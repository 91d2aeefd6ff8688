"""The inbox and the reporter of work that has neither a run's messages nor a card."""


class NoInbox:
    """A turn has no inbox: what people say meanwhile is the next turn."""

    private = False

    async def take(self) -> list[tuple[str, str]]:
        """Return nothing."""
        return []


class NoReporter:
    """A turn has no card: its reply is what moves."""

    def moved(self, **_: object) -> None:
        """Do nothing."""

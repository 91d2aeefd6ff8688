"""What a turn shows of itself: its reply, while it grows and after it was sent."""

from dataclasses import dataclass
from enum import StrEnum

from bot.agent.progress import Progress
from bot.platforms.base import ReplyStream

#: How a model's thoughts begin while they are all that there is to show.
THOUGHT = "💭"


class NoInbox:
    """A turn has no inbox: what people say meanwhile is the next turn."""

    async def take(self) -> list[tuple[str, str]]:
        """Return nothing."""
        return []


class NoReporter:
    """A turn has no card: its reply is what moves."""

    def moved(self, **_: object) -> None:
        """Do nothing."""


@dataclass(slots=True)
class Shown:
    """What a reply shows while it grows: the finished steps and the one that is streaming."""

    reply: ReplyStream | None
    progress: Progress
    text: str = ""
    quote: str = ""

    def grow(self, text: str) -> None:
        """Take the text of the step that is streaming."""
        whole = f"{self.progress.partial_text()}\n\n{text}".strip()
        if self.reply is not None:
            self.reply.update(self.quote + whole)
        if not text.startswith(THOUGHT):
            self.text = whole


class Fate(StrEnum):
    """What became of a reply that was sent."""

    ARRIVED = "arrived"
    FAILED = "failed"
    UNKNOWN = "unknown"

"""The reply of a turn, while it grows and after it was sent."""

import asyncio
import logging
from dataclasses import dataclass
from enum import StrEnum

from bot.agent.progress import Progress
from bot.errors import DeliveryError
from bot.platforms.base import ReplyStream
from bot.values import RunStatus

log = logging.getLogger(__name__)

#: Longest wait for a platform to take a reply.
SEND_SECONDS = 60.0
STOPPED = "_(stopped)_"
LIMITS = {
    RunStatus.MAX_STEPS: "_(I stopped here: a turn has only so many steps. Say “go on”.)_",
    RunStatus.MAX_TOOL_CALLS: "_(I stopped here: a turn has only so many tool calls.)_",
    RunStatus.TIMEOUT: "_(I stopped here: a turn has only so much time. Say “go on”.)_",
}
#: How a model's thoughts begin while they are all that there is to show.
THOUGHT = "💭"


class Fate(StrEnum):
    """The outcome of sending a reply."""

    ARRIVED = "arrived"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Shown:
    """Shows the finished steps of a turn and the one that is streaming."""

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

    async def say(self, text: str) -> Fate:
        """Show the final text; return what became of it."""
        if self.reply is None:
            return Fate.FAILED
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self.reply.finish(self.quote + text)
        except TimeoutError:
            log.warning("The platform did not say whether it took a reply")
            return Fate.UNKNOWN
        except DeliveryError as error:
            log.info("A reply goes to the outbox: %s", error)
            return Fate.UNKNOWN if error.fate_unknown else Fate.FAILED
        except Exception:
            log.exception("A reply could not be given")
            return Fate.UNKNOWN
        return Fate.ARRIVED

"""Shows the reply of a turn, while it streams and when it is final."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bot.agent.progress import WAITING, AgentResult, Progress
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
FALLBACK = "_(`{}` answered: the usual model was unavailable.)_"
AWAY = "⚠️ Not reachable now: {}. {} tools were missing."
#: Beginning of a model's thoughts, which are shown while no other text has arrived.
THOUGHT = "💭"


class Fate(StrEnum):
    """The outcome of sending a reply."""

    ARRIVED = "arrived"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Outages:
    """Stores the conversations notified of an unreachable MCP server, until it is back."""

    _told: set[tuple[str, str]] = field(default_factory=set)

    def untold(self, conversation_id: str, away: Sequence[str]) -> tuple[str, ...]:
        """Return the unreachable servers of which a conversation was not notified."""
        self._told = {each for each in self._told if each[1] in away}
        return tuple(name for name in away if (conversation_id, name) not in self._told)

    def told(self, conversation_id: str, away: Sequence[str]) -> None:
        """Record that a conversation was notified."""
        self._told |= {(conversation_id, name) for name in away}


@dataclass(slots=True)
class Shown:
    """Shows the finished steps of a turn and the one that is streaming.

    Attributes:
        away: The MCP servers that the answer names as not reachable.
    """

    reply: ReplyStream | None
    progress: Progress
    text: str = ""
    quote: str = ""
    away: tuple[str, ...] = ()

    def cost(self, before: int) -> tuple[int, int] | None:
        """Return all input and output tokens of the turn; `None` if no more than `before`.

        They include the tokens of requests without an answer, which belong to no step.
        """
        usage = self.progress.usage
        return (usage.all_input, usage.output) if usage.total > before else None

    def whole(self, said: str, result: AgentResult) -> str:
        """Return the text of a turn with notes on limits, errors, fallbacks and outages."""
        parts = [said, LIMITS.get(result.status, "")]
        if result.error:
            parts.append(f"⚠ {result.error}")
        if result.fallback:
            parts.append(FALLBACK.format(result.fallback))
        if self.away:
            their = "Its" if len(self.away) == 1 else "Their"
            parts.append(AWAY.format(", ".join(self.away), their))
        return "\n\n".join(part for part in parts if part)

    def grow(self, text: str) -> None:
        """Show the text so far of the step that is streaming."""
        whole = f"{self.progress.partial_text()}\n\n{text}".strip()
        if self.reply is not None:
            self.reply.update(self.quote + whole)
        if not text.startswith((THOUGHT, WAITING)):
            self.text = whole

    async def say(self, text: str, *, failed: bool = False) -> Fate:
        """Show the final text; return the outcome."""
        if self.reply is None:
            return Fate.FAILED
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self.reply.finish(self.quote + text, failed=failed)
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

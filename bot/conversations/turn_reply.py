"""Sends the reply of a turn, while it streams and when it is final."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from bot.agent.journal import columns, usage_of
from bot.agent.progress import WAITING, AgentResult, Progress
from bot.agent.sanitizer import one_line
from bot.errors import DeliveryError
from bot.platforms.base import ReplyStream
from bot.values import Json, RunStatus
from db.outbox import NewOutboxEntry
from db.turns import Turn

log = logging.getLogger(__name__)

#: Longest wait for a platform to take a reply.
SEND_SECONDS = 60.0
STOPPED = "_(stopped)_"
LIMITS = {
    RunStatus.MAX_STEPS: "_(I reached my limit of steps for one reply. Say “go on” to continue.)_",
    RunStatus.MAX_TOOL_CALLS: "_(I reached my limit of tool calls for one reply.)_",
    RunStatus.STALLED: "_(I was interrupted, since nothing came for too long. Say “go on” to "
    "continue.)_",
    RunStatus.TIMEOUT: "_(I ran out of time for this reply. Say “go on” to continue.)_",
}
FALLBACK = "_(`{}` answered: the usual model was unavailable.)_"
AWAY = "⚠️ Not reachable now: {}. {} tools were missing."
#: Longest quote of a message, in characters.
LONGEST_QUOTE = 200
#: Beginning of a model's thoughts, which are shown while no other text has arrived.
THOUGHT = "💭"


class DeliveryStatus(StrEnum):
    """The outcome of sending a reply."""

    DELIVERED = "delivered"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class OutageNotices:
    """Stores the conversations notified of an unreachable MCP server, until it is back."""

    _notified: set[tuple[str, str]] = field(default_factory=set)

    def new(self, conversation_id: str, away: Sequence[str]) -> tuple[str, ...]:
        """Return the unreachable servers of which a conversation was not notified."""
        self._notified = {each for each in self._notified if each[1] in away}
        return tuple(name for name in away if (conversation_id, name) not in self._notified)

    def notified(self, conversation_id: str, away: Sequence[str]) -> None:
        """Record that a conversation was notified."""
        self._notified |= {(conversation_id, name) for name in away}


@dataclass(slots=True)
class TurnReply:
    """Sends the finished steps of a turn and the step that is streaming.

    Attributes:
        stream: The reply on the platform; `None` if it cannot be sent from here.
        text: The newest text that was shown.
        quote: The quote that precedes the answer to an old message.
        away: The MCP servers that the answer names as not reachable.
    """

    progress: Progress
    stream: ReplyStream | None = None
    text: str = ""
    quote: str = ""
    away: tuple[str, ...] = ()

    def counts(self, turn: Turn) -> Json | None:
        """Return the columns of all tokens of the turn; `None` if its row has as many.

        They include the tokens of requests without an answer, which belong to no step.
        """
        usage = self.progress.usage
        return columns(usage) if usage.total > usage_of(turn).total else None

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

    def update(self, text: str) -> None:
        """Show the text so far of the step that is streaming."""
        whole = f"{self.progress.partial_text()}\n\n{text}".strip()
        if self.stream is not None:
            self.stream.update(self.quote + whole)
        if not text.startswith((THOUGHT, WAITING)):
            self.text = whole

    async def finish(self, text: str, *, failed: bool = False) -> DeliveryStatus:
        """Send the final text; return the outcome."""
        if self.stream is None:
            return DeliveryStatus.FAILED
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self.stream.finish(self.quote + text, failed=failed)
        except TimeoutError:
            log.warning("The platform did not confirm a reply in time")
            return DeliveryStatus.UNKNOWN
        except DeliveryError as error:
            log.info("A reply goes to the outbox: %s", error)
            return DeliveryStatus.UNKNOWN if error.fate_unknown else DeliveryStatus.FAILED
        except Exception:
            log.exception("A reply could not be sent")
            return DeliveryStatus.UNKNOWN
        return DeliveryStatus.DELIVERED

    async def abandon(self) -> None:
        """Leave the reply as it is, since this or another process resumes the turn."""
        if self.stream is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(SEND_SECONDS):
                    await self.stream.abandon()


def quote(text: str) -> str:
    """Return the beginning of an old message as a quote, to precede its answer."""
    return f"> {one_line(text, LONGEST_QUOTE)}\n\n"


def late_reply(turn: Turn, text: str, asked: str, *, unsure: bool) -> NewOutboxEntry:
    """Return a reply that did not arrive, as an item of the outbox."""
    return NewOutboxEntry(
        key=turn.id,
        user_id=turn.user.key,
        place=turn.place,
        run_id=None,
        title=f"↩ To “{asked}”" if asked else "↩ To what you sent",
        text=text,
        maybe_repeated=unsure,
    )

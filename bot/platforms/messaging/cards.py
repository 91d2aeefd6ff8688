"""Shows the card of a run in a message that is updated."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic

from bot.errors import DeliveryError
from bot.platforms.base import OnBegun, RunCard
from bot.platforms.messaging.live import DraftT, LiveMessage
from bot.platforms.messaging.pacing import Pace, Paced
from bot.platforms.messaging.texts import nested
from bot.run_texts import StatusText, counted
from bot.tasks import Tasks
from bot.values import short

log = logging.getLogger(__name__)

#: Backoff before each further attempt to show the final state of a card, in seconds.
LAST_PAUSES = (5.0, 20.0, 60.0)


def tokens_of(card: RunCard) -> str:
    """Return the tokens of a run in words, with its budget if it has one."""
    budget = counted(card.token_budget, "token")
    return f"{card.tokens:,} of {budget}" if card.token_budget else counted(card.tokens, "token")


def card_lines(
    card: RunCard,
    status: StatusText,
    *,
    name: str,
    elapsed: str,
    line: str,
    code: Callable[[str, int], str],
) -> list[str]:
    """Return the lines of a run card in the format of a platform.

    Args:
        card: The state of the run.
        status: The icon and the words of its status.
        name: The name of the run, formatted.
        elapsed: The elapsed time or the start; empty for none.
        line: The progress report, escaped.
        code: Returns a text of limited length as inline code.
    """
    head = f"{status.icon} {name} · `{short(card.run_id)}` · {status.words}"
    calls = counted(card.tool_calls, "tool call")
    found = (code(card.agent, 40), elapsed, calls, tokens_of(card))
    facts = " · ".join(fact for fact in found if fact)
    collapsed = card.awaited and card.status.final
    lines = [f"{head} · {facts}"] if collapsed else [head, facts]
    if (tool := code(card.tool, 80)) and not card.status.final and not card.steps:
        lines.append(f"🔧 {tool}")
    if line and not collapsed:
        lines.append(f"↳ {line}")
    steps = [(code(step.tool, 40), step.state) for step in card.steps]
    return [*lines, *nested(steps, earlier=card.earlier_steps)]


class CardMessage(ABC, Generic[DraftT]):
    """The message that shows one run: the newest state wins, the final state is retried.

    Args:
        message: The message.
        pace: The pace of its updates.
        tasks: Owns the task that updates the message.
        pauses: Backoff before each further attempt to show the final state, in seconds.

    Attributes:
        final: Whether the newest state is final.
    """

    def __init__(
        self,
        message: LiveMessage[DraftT],
        pace: Pace,
        tasks: Tasks,
        *,
        pauses: tuple[float, ...] = LAST_PAUSES,
    ) -> None:
        self.message = message
        self.final = False
        self._pauses = pauses
        self._shown: tuple[str, bool] | None = None
        self._ended: Callable[[], object] = lambda: None
        self._paced = Paced(self._send, pace, tasks, name="update a run card")

    @abstractmethod
    def render(self, card: RunCard) -> tuple[str, DraftT]:
        """Return the text of a state and the content of its message."""

    def show(self, card: RunCard, begun: OnBegun, ended: Callable[[], object]) -> None:
        """Show a state, unless a newer one replaces it. Never waits.

        Args:
            card: The state of the run.
            begun: Called with the id of each message that is posted.
            ended: Called after the attempts to show the final state.
        """
        self.final = card.status.final
        self.message.begun = begun
        self._ended = ended
        if self.final and self._paced.refused:
            ended()
        self._paced.put(card)

    async def draw(self, card: RunCard) -> None:
        """Show a state, unless the message shows it already.

        Raises:
            DeliveryError: The state cannot be shown now; permanent if it can never be shown.
        """
        text, draft = self.render(card)
        if (shown := (text, card.status.final)) != self._shown:
            await self.message.show(draft)
            self._shown = shown

    async def _send(self, card: RunCard) -> None:
        """Draw a state, the final one in several attempts."""
        try:
            for pause in self._pauses if card.status.final else ():
                try:
                    await self.draw(card)
                except DeliveryError as error:
                    if error.permanent:
                        raise
                    log.info("The last state of a run card is tried again: %s", error)
                else:
                    return
                await asyncio.sleep(pause)
            await self.draw(card)
        finally:
            if card.status.final:
                self._ended()

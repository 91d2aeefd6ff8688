"""Shows the cards of all runs on a platform: the newest state wins, the final state is retried."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Generic

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
    """The message that shows one run.

    Args:
        message: The message.
        pace: The pace of its updates.

    Attributes:
        final: Whether the newest state is final.
    """

    def __init__(self, message: LiveMessage[DraftT], pace: Pace) -> None:
        self.message = message
        self.pace = pace
        self.final = False
        self._shown: tuple[str, bool] | None = None

    @abstractmethod
    def render(self, card: RunCard) -> tuple[str, DraftT]:
        """Return the text of a state and the content of its message."""

    async def draw(self, card: RunCard) -> None:
        """Show a state, unless the message shows it already.

        Raises:
            DeliveryError: The state cannot be shown now; permanent if it can never be shown.
        """
        text, draft = self.render(card)
        if (shown := (text, card.status.final)) != self._shown:
            await self.message.show(draft)
            self._shown = shown


class CardBoard:
    """Shows and updates the cards of all runs; removes a card after the attempt at its final state.

    Args:
        begin: Creates the message for a run without a message.
        tasks: Owns the drawing tasks.
        pauses: Backoff before each further attempt to show the final state of a card, in seconds.
    """

    def __init__(
        self,
        begin: Callable[[RunCard], CardMessage[Any]],
        tasks: Tasks,
        *,
        pauses: tuple[float, ...] = LAST_PAUSES,
    ) -> None:
        self._begin = begin
        self._tasks = tasks
        self._pauses = pauses
        self._cards: dict[str, _Card] = {}

    def __len__(self) -> int:
        return len(self._cards)

    def show(self, card: RunCard, begun: OnBegun) -> None:
        """Show or update a card; the newest state wins. Never waits."""
        known = self._cards.get(card.run_id)
        if known is None:
            done = partial(self._cards.pop, card.run_id, None)
            known = _Card(self._begin(card), self._tasks, pauses=self._pauses, done=done)
            self._cards[card.run_id] = known
        known.show(card, begun)


class _Card:
    """The card of one run."""

    def __init__(
        self,
        drawing: CardMessage[Any],
        tasks: Tasks,
        *,
        pauses: tuple[float, ...],
        done: Callable[[], object],
    ) -> None:
        self._drawing = drawing
        self._pauses = pauses
        self._done = done
        self._refused = False
        self._paced = Paced(self._send, drawing.pace, tasks, name="move a run card", failed=_failed)

    def show(self, card: RunCard, begun: OnBegun) -> None:
        """Show this state, unless a newer state replaces it or the card was refused permanently."""
        self._drawing.final = card.status.final
        self._drawing.message.begun = begun
        if not self._refused:
            self._paced.put(card)
        elif card.status.final:
            self._done()

    async def _send(self, card: RunCard) -> None:
        try:
            for pause in self._pauses if card.status.final else ():
                try:
                    await self._drawing.draw(card)
                except DeliveryError as error:
                    if error.permanent:
                        raise
                    log.info("The last state of a run card is tried again: %s", error)
                else:
                    return
                await asyncio.sleep(pause)
            await self._drawing.draw(card)
        except DeliveryError as error:
            # A permanent refusal would repeat, and platforms count refused requests.
            self._refused = error.permanent
            raise
        finally:
            if card.status.final:
                self._done()


def _failed(error: Exception) -> None:
    if isinstance(error, DeliveryError):
        log.info("A run card was not moved: %s", error)
    else:
        log.error("A run card could not be moved", exc_info=error)

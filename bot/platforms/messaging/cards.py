"""Shows the card of a run in a message that is updated."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from bot.errors import DeliveryError
from bot.platforms.base import OnBegun, OnDrawn, RunCard, not_noted
from bot.platforms.messaging.live import DraftT, LiveMessage
from bot.platforms.messaging.pacing import Pace, Paced
from bot.platforms.messaging.texts import call_lines
from bot.run_texts import StatusText, counted
from bot.tasks import Tasks
from bot.values import short

log = logging.getLogger(__name__)

#: Backoff before each further attempt to show the final state of a card, in seconds.
LAST_PAUSES = (5.0, 20.0, 60.0)
#: Most runs that one message shows.
MOST_RUNS = 8


def tokens_of(card: RunCard) -> str:
    """Return the tokens of a run in words, with its budget if it has one."""
    budget = counted(card.token_budget, "token")
    return f"{card.tokens:,} of {budget}" if card.token_budget else counted(card.tokens, "token")


@dataclass(frozen=True, slots=True, kw_only=True)
class CardParts:
    """The parts of a run's card in the format of a platform.

    Attributes:
        status: The icon and the words of its status.
        name: The name of the run, formatted.
        elapsed: The elapsed time or the start; empty for none.
        line: The progress report, escaped.
        code: Returns a text of limited length as inline code.
    """

    status: StatusText
    name: str
    elapsed: str
    line: str
    code: Callable[[str, int], str]

    def head(self, card: RunCard) -> str:
        """Return the icon, the name and the short id of the run, and the words of its status."""
        return f"{self.status.icon} {self.name} · `{short(card.run_id)}` · {self.status.words}"


def card_lines(card: RunCard, parts: CardParts) -> list[str]:
    """Return the lines of a run card in the format of a platform."""
    head, line, code = parts.head(card), parts.line, parts.code
    calls = counted(card.tool_calls, "tool call")
    found = (code(card.agent, 40), parts.elapsed, calls, tokens_of(card))
    facts = " · ".join(fact for fact in found if fact)
    collapsed = card.awaited and card.status.final
    lines = [f"{head} · {facts}"] if collapsed else [head, facts]
    if (tool := code(card.tool, 80)) and not card.status.final and not card.steps:
        lines.append(f"🔧 {tool}")
    if line and not collapsed:
        lines.append(f"↳ {line}")
    steps = [(code(step.tool, 40), step.state) for step in card.steps]
    return [*lines, *call_lines(steps, calls=card.tool_calls)]


def batch_head(cards: Sequence[RunCard]) -> str:
    """Return the first line of a message that shows several runs."""
    ended = sum(card.status.final for card in cards)
    return f"{counted(len(cards), 'sub-agent')} · {ended} of {len(cards)} ended"


def batch_line(card: RunCard, parts: CardParts) -> str:
    """Return one run of several in the format of a platform: its state, time and progress."""
    head = " · ".join(filter(None, (parts.head(card), parts.elapsed)))
    if card.status.final:
        return head
    tool = parts.code(card.tool, 80)
    progress = parts.line or (f"🔧 {tool}" if tool else "")
    return f"{head}\n↳ {progress}" if progress else head


class CardMessage(ABC, Generic[DraftT]):
    """The message that shows one run, or the runs of one turn.

    The newest state wins; the final state is retried.

    Args:
        message: The message.
        pace: The pace of its updates.
        tasks: Owns the task that updates the message.
        pauses: Backoff before each further attempt to show the final state, in seconds.

    Attributes:
        cards: The newest state of each run that the message shows, by the id of the run.
        final: Whether all runs have ended.
        posted: Called after a message was posted.
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
        self.posted: Callable[[], object] = lambda: None
        self._pauses = pauses
        self.cards: dict[str, RunCard] = {}
        self._begun: dict[str, OnBegun] = {}
        #: Of the runs that have ended and whose final state is not shown yet.
        self._drawn: dict[str, OnDrawn] = {}
        self._shown: tuple[str, bool] | None = None
        self._ended: Callable[[], object] = lambda: None
        self._paced = Paced(self._send, pace, tasks, name="update a run card")

    @abstractmethod
    def render(self, cards: Sequence[RunCard]) -> tuple[str, DraftT]:
        """Return the text of the states of all runs, and the content of the message."""

    def takes(self, card: RunCard) -> bool:
        """Return True if the message shows a further run of its turn as well."""
        others = {self.message.message_id, ""}
        return len(self.cards) < MOST_RUNS and card.message_id in others

    def show(
        self,
        card: RunCard,
        begun: OnBegun,
        ended: Callable[[], object],
        drawn: OnDrawn = not_noted,
    ) -> None:
        """Show a state, unless a newer one replaces it. Never waits.

        Args:
            card: The state of a run.
            begun: Called with the id of each message that shows the run.
            ended: Called after the attempts to show the final state of all runs.
            drawn: Called once the final state of this run is shown, or can never be shown.
        """
        shown_already = card.run_id in self.cards
        self.cards[card.run_id] = card
        self._begun[card.run_id] = begun
        if card.status.final:
            self._drawn[card.run_id] = drawn
        message_id = self.message.message_id
        if message_id and not shown_already and message_id != card.message_id:
            begun(message_id)
        self.final = all(each.status.final for each in self.cards.values())
        self.message.begun = self._store
        self._ended = ended
        if self._paced.refused:
            self._note_drawn((card,))
            if self.final:
                ended()
        self._paced.put(tuple(self.cards.values()))

    def _store(self, message_id: str) -> None:
        for begun in self._begun.values():
            begun(message_id)
        self.posted()

    async def draw(self, cards: Sequence[RunCard]) -> None:
        """Show the states, unless the message shows them already.

        Raises:
            DeliveryError: The states cannot be shown now; permanent if they can never be shown.
        """
        text, draft = self.render(cards)
        if (shown := (text, _is_over(cards))) != self._shown:
            await self.message.show(draft)
            self._shown = shown
        self._note_drawn(cards)

    def _note_drawn(self, cards: Sequence[RunCard]) -> None:
        """Report each final state that is shown, or can never be shown, once."""
        for card in cards:
            if card.status.final and (drawn := self._drawn.pop(card.run_id, None)):
                drawn()

    async def _send(self, cards: Sequence[RunCard]) -> None:
        """Draw the states, the final ones in several attempts."""
        over = _is_over(cards)
        try:
            for pause in self._pauses if over else ():
                try:
                    await self.draw(cards)
                except DeliveryError as error:
                    if error.permanent:
                        raise
                    log.info("The last state of a run card is tried again: %s", error)
                else:
                    return
                await asyncio.sleep(pause)
            await self.draw(cards)
        except DeliveryError as error:
            if error.permanent:
                self._note_drawn(cards)
            raise
        finally:
            if over:
                self._ended()


def _is_over(cards: Sequence[RunCard]) -> bool:
    return all(card.status.final for card in cards)

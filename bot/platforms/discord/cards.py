"""Run cards: one message for each run, which moves with it."""

import asyncio
import logging
import time
from collections.abc import Callable

import discord

from bot.errors import DeliveryError
from bot.platforms.base import OnBegun, RunCard
from bot.platforms.discord.buttons import LogButton, SendButton, StopButton, Unkept
from bot.platforms.discord.live import LiveMessage
from bot.platforms.discord.problems import RefusedError
from bot.platforms.discord.sending import Draft, Sender
from bot.platforms.discord.texts import card_text, colour_of, start_of
from bot.platforms.discord.threads import Threads
from bot.platforms.pacing import Paced, Spacing
from bot.tasks import Tasks

log = logging.getLogger(__name__)

#: How long to wait before each further attempt at the last state of a card.
LAST_PAUSES = (5.0, 20.0, 60.0)


class CardView(Unkept, discord.ui.LayoutView):
    """What a card looks like; nothing of it is kept, since the buttons' ids say it all."""

    def __init__(self, card: RunCard, text: str) -> None:
        super().__init__(timeout=None)
        row: discord.ui.ActionRow[CardView] = discord.ui.ActionRow()
        if not card.status.final:
            row.add_item(StopButton(card.run_id))
        row.add_item(LogButton(card.run_id))
        if not card.status.final:
            row.add_item(SendButton(card.run_id))
        shown: discord.ui.TextDisplay[CardView] = discord.ui.TextDisplay(text)
        colour = colour_of(card.status)
        self.add_item(discord.ui.Container(shown, row, accent_colour=colour))


class _Card:
    """The card of one run.

    Args:
        message: The message that shows it.
        tasks: Owns the edits.
        seconds: The least time between two of them.
        pauses: How long to wait before each further attempt at the last one.
        now: The time in seconds since 1970.
        done: Called once nothing more is going to be shown.
    """

    def __init__(
        self,
        message: LiveMessage,
        tasks: Tasks,
        *,
        seconds: float,
        pauses: tuple[float, ...],
        now: Callable[[], float],
        done: Callable[[], None],
    ) -> None:
        self.message = message
        self._pauses = pauses
        self._now = now
        self._done = done
        self._started = 0
        self._shown: tuple[str, bool] | None = None
        self._refused = False
        self._paced = Paced(
            self._send, Spacing(seconds), tasks, name="move a run card", failed=_failed
        )

    def show(self, card: RunCard) -> None:
        """Show this state, unless a newer one comes first or it can be shown nowhere."""
        if not self._refused:
            self._paced.put(card)
        elif card.status.final:
            self._done()

    async def _send(self, card: RunCard) -> None:
        try:
            if card.status.final:
                await self._move_for_good(card)
            else:
                await self._move(card)
        except RefusedError:
            # Nothing that comes later fares better, and Discord counts what it refuses.
            self._refused = True
            raise
        finally:
            if card.status.final:
                self._done()

    async def _move_for_good(self, card: RunCard) -> None:
        for pause in self._pauses:
            try:
                await self._move(card)
            except RefusedError:
                raise
            except DeliveryError as error:
                log.info("The last state of a run card is tried again: %s", error)
            else:
                return
            await asyncio.sleep(pause)
        await self._move(card)

    async def _move(self, card: RunCard) -> None:
        self._started = start_of(card, self._now(), self._started)
        text = card_text(card, self._started)
        shown = (text, card.status.final)
        if shown == self._shown:
            return
        draft = Draft(view=CardView(card, text))
        try:
            await self.message.show(draft)
        except RefusedError:
            if not self.message.leave_thread():
                raise
            await self.message.show(draft)
        self._shown = shown


class Board:
    """Shows and moves the cards of all runs; one that is over is forgotten once it says so.

    Args:
        sender: Takes the messages.
        threads: Where cards go.
        tasks: Owns the edits.
        seconds: The least time between two edits of one card.
        pauses: How long to wait before each further attempt at the last edit.
        now: The time in seconds since 1970.
    """

    def __init__(
        self,
        sender: Sender,
        threads: Threads,
        tasks: Tasks,
        *,
        seconds: float,
        pauses: tuple[float, ...] = LAST_PAUSES,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._sender = sender
        self._threads = threads
        self._tasks = tasks
        self._seconds = seconds
        self._pauses = pauses
        self._now = now
        self._cards: dict[str, _Card] = {}

    def __len__(self) -> int:
        return len(self._cards)

    def show(self, card: RunCard, begun: OnBegun) -> None:
        """Show or move a card; the newest state wins. Never waits."""
        if card.run_id not in self._cards:
            self._cards[card.run_id] = self._begin(card, begun)
        known = self._cards[card.run_id]
        known.message.begun = begun
        known.show(card)

    def _begin(self, card: RunCard, begun: OnBegun) -> _Card:
        message = LiveMessage(
            self._sender,
            self._threads,
            card.place,
            key=f"card {card.run_id}",
            message_id=card.message_id,
            begun=begun,
        )
        return _Card(
            message,
            self._tasks,
            seconds=self._seconds,
            pauses=self._pauses,
            now=self._now,
            done=lambda: self._forget(card.run_id),
        )

    def _forget(self, run_id: str) -> None:
        self._cards.pop(run_id, None)


def _failed(error: Exception) -> None:
    if isinstance(error, DeliveryError):
        log.info("A run card was not moved: %s", error)
    else:
        log.error("A run card could not be moved", exc_info=error)

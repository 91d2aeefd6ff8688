"""Run cards: one message for each run, which moves with it."""

import time
from collections.abc import Callable

import discord

from bot.platforms import board
from bot.platforms.base import OnBegun, RunCard, not_kept
from bot.platforms.discord.buttons import LogButton, ResumeButton, SendButton, StopButton, Unkept
from bot.platforms.discord.live import LiveMessage
from bot.platforms.discord.sending import Draft, Sender
from bot.platforms.discord.texts import card_text, colour_of, start_of
from bot.platforms.discord.threads import Threads
from bot.platforms.pacing import Pace, Spacing
from bot.tasks import Tasks


class CardView(Unkept, discord.ui.LayoutView):
    """What a card looks like; nothing of it is kept, since the buttons' ids say it all."""

    def __init__(self, card: RunCard, text: str) -> None:
        super().__init__(timeout=None)
        row: discord.ui.ActionRow[CardView] = discord.ui.ActionRow()
        if not card.status.final:
            row.add_item(StopButton(card.run_id))
        if card.status.resumable:
            row.add_item(ResumeButton(card.run_id))
        row.add_item(LogButton(card.run_id))
        if not card.status.final:
            row.add_item(SendButton(card.run_id))
        shown: discord.ui.TextDisplay[CardView] = discord.ui.TextDisplay(text)
        colour = colour_of(card.status, degraded=card.degraded)
        self.add_item(discord.ui.Container(shown, row, accent_colour=colour))


class Card:
    """The message that shows one run.

    Args:
        message: Where it is.
        seconds: The least time between two edits.
        now: The time in seconds since 1970.
    """

    def __init__(self, message: LiveMessage, *, seconds: float, now: Callable[[], float]) -> None:
        self._message = message
        self._now = now
        self._started = 0
        self._shown: tuple[str, bool] | None = None
        self._pace = Spacing(seconds)

    @property
    def pace(self) -> Pace:
        """When it may be edited again."""
        return self._pace

    def expect(self, card: RunCard, begun: OnBegun) -> None:
        """Hear of a state that is going to be drawn."""
        self._message.begun = begun

    async def draw(self, card: RunCard) -> None:
        """Show a state.

        Raises:
            DeliveryError: Not now; or nowhere, if it is permanent.
        """
        self._started = start_of(card, self._now(), self._started)
        text = card_text(card, self._started)
        shown = (text, card.status.final)
        if shown == self._shown:
            return
        await self._message.show(Draft(view=CardView(card, text)))
        self._shown = shown


class Board(board.Board):
    """The cards of all runs on Discord.

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
        pauses: tuple[float, ...] = board.LAST_PAUSES,
        now: Callable[[], float] = time.time,
    ) -> None:
        def begin(card: RunCard) -> Card:
            message = LiveMessage(
                sender,
                threads,
                card.place,
                key=f"card {card.run_id}",
                message_id=card.message_id,
                begun=not_kept,
            )
            return Card(message, seconds=seconds, now=now)

        super().__init__(begin, tasks, pauses=pauses)

"""Run cards: one message per run, edited as the run proceeds."""

import time
from collections.abc import Callable

import discord

from bot.platforms.base import OnBegun, RunCard, not_kept
from bot.platforms.discord.buttons import LogButton, ResumeButton, SendButton, StopButton, Unkept
from bot.platforms.discord.live import LiveMessage
from bot.platforms.discord.sending import Draft, Sender
from bot.platforms.discord.texts import card_text, colour_of, start_of
from bot.platforms.discord.threads import Threads
from bot.platforms.messaging import cards
from bot.platforms.messaging.pacing import Pace, Spacing
from bot.tasks import Tasks


class CardView(Unkept, discord.ui.LayoutView):
    """The components of a card; the library does not store them, since the ids suffice."""

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
    """The card of one run.

    Args:
        message: The message that shows the card.
        seconds: Shortest time between two edits.
        now: A clock, in seconds since 1970.
    """

    def __init__(self, message: LiveMessage, *, seconds: float, now: Callable[[], float]) -> None:
        self._message = message
        self._now = now
        self._started = 0
        self._shown: tuple[str, bool] | None = None
        self._pace = Spacing(seconds)

    @property
    def pace(self) -> Pace:
        """The pace of the edits."""
        return self._pace

    def expect(self, card: RunCard, begun: OnBegun) -> None:
        """Set the callback for the message id before a new state is drawn."""
        self._message.begun = begun

    async def draw(self, card: RunCard) -> None:
        """Show a state of the run.

        Raises:
            DeliveryError: The message was not accepted; if permanent, a retry cannot help.
        """
        self._started = start_of(card, self._now(), self._started)
        text = card_text(card, self._started)
        shown = (text, card.status.final)
        if shown == self._shown:
            return
        await self._message.show(Draft(view=CardView(card, text)))
        self._shown = shown


class CardBoard(cards.CardBoard):
    """The cards of all runs on Discord.

    Args:
        sender: Sends and edits the messages.
        threads: Opens the threads of the cards.
        tasks: Owns the tasks of the edits.
        seconds: Shortest time between two edits of one card.
        pauses: Pauses before the retries of the last edit, in seconds.
        now: A clock, in seconds since 1970.
    """

    def __init__(
        self,
        sender: Sender,
        threads: Threads,
        tasks: Tasks,
        *,
        seconds: float,
        pauses: tuple[float, ...] = cards.LAST_PAUSES,
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

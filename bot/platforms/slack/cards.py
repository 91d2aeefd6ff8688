"""Shows run cards on Slack: one message per run, edited within the budget of its workspace."""

from bot.platforms.base import OnBegun, RunCard, not_kept
from bot.platforms.messaging.pacing import Pace, Spacing
from bot.platforms.slack.blocks import card_blocks
from bot.platforms.slack.budget import BudgetedPace, RequestBudget, WorkspaceBudgets
from bot.platforms.slack.live import LiveMessage
from bot.platforms.slack.problems import RefusedError
from bot.platforms.slack.sending import Draft, Sender
from bot.platforms.slack.texts import card_notice, card_text


class Card:
    """The message that shows one run.

    Args:
        sender: Sends the message.
        budgets: Limit the edits per workspace.
        card: The run's first state.
        seconds: The least time between two edits.
    """

    def __init__(
        self, sender: Sender, budgets: WorkspaceBudgets, card: RunCard, *, seconds: float
    ) -> None:
        self._message = LiveMessage(sender, card.place, message_id=card.message_id, begun=not_kept)
        self._budgets = budgets
        self._over = False
        self._shown: tuple[str, bool] | None = None
        self._pace = BudgetedPace(Spacing(seconds), self._budget, urgent=lambda: self._over)

    @property
    def pace(self) -> Pace:
        """The pace of its edits; the final state is urgent."""
        return self._pace

    def _budget(self) -> RequestBudget | None:
        workspace = self._message.place.workspace
        return self._budgets.edits(workspace) if self._message.message_id else None

    def expect(self, card: RunCard, begun: OnBegun) -> None:
        """Receive a state before it is drawn."""
        self._over = card.status.final
        self._message.begun = begun

    async def draw(self, card: RunCard) -> None:
        """Show a state.

        Raises:
            DeliveryError: The state cannot be shown now; permanent if it can never be shown.
        """
        text = card_text(card)
        shown = (text, card.status.final)
        if shown == self._shown:
            return
        draft = Draft(blocks=card_blocks(card, text), mrkdwn=card_notice(card))
        try:
            await self._message.show(draft)
        except RefusedError as error:
            if not error.thread_gone or not self._message.leave_thread():
                raise
            await self._message.show(draft)
        self._shown = shown

"""Shows run cards in their places, and stores the message that shows each card."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from bot.platforms.base import Outlet, RunCard
from bot.tasks import Tasks
from db import run_progress
from db.database import Database, patiently

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShownCards:
    """The run cards that this process shows."""

    database: Database
    outlets: Mapping[str, Outlet]
    tasks: Tasks

    def show(self, card: RunCard) -> None:
        """Show a card in its place, if this process serves the platform."""
        outlet = self.outlets.get(card.place.platform)
        if outlet is None:
            return

        def begun(message_id: str) -> None:
            async def keep() -> None:
                async with self.database.transaction() as tx:
                    await run_progress.set_card(tx, card.run_id, message_id)

            self.tasks.start(patiently(keep, seconds=inf), name="keep a card's id")

        try:
            outlet.show_card(card, begun=begun)
        except Exception:
            # A failure to show a card must not stop its run.
            log.exception("The card of run %s could not be shown", card.run_id)

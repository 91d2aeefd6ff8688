"""Tells users and admins once that a spending limit is nearly or wholly used."""

from dataclasses import dataclass

from bot.spending.ledger import PoolNotice
from bot.values import Clock
from db.database import Transaction


@dataclass(frozen=True, slots=True)
class SpendingNotices:
    """Stores notices about spending limits, for delivery with the outbox."""

    now: Clock

    async def tell(self, tx: Transaction, notice: PoolNotice) -> None:
        """Store the notice about a pool: of a user for the user, of a shared one for the admins."""

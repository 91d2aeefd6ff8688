"""Notifies users and admins once that a spending limit is nearly or wholly used."""

import hashlib
from dataclasses import dataclass

from bot.agent.sanitizer import one_line
from bot.conversations.admin_notices import AdminNotice, AdminNotices
from bot.conversations.spending_commands import Raise, place_of
from bot.spending.ledger import PoolNotice
from bot.spending.pools import WARN_PERCENT, Scope, amounts, limit_name
from bot.values import Clock, Place
from db import outbox, users
from db.database import Transaction

TITLE = "⚠ Spending limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingNotices:
    """Stores notices about spending limits, which the outbox delivers."""

    admins: AdminNotices
    now: Clock

    async def tell(self, tx: Transaction, notice: PoolNotice) -> list[str]:
        """Store the notice about a pool; return the keys of the outbox to deliver.

        At 80 % the user is notified of a limit of one's own, and the admins of a shared one. A
        refusal is notified to the admins, who can raise the limit; the user gets the refusal
        itself.
        """
        pool, state, payer = notice.pool, notice.state, notice.payer
        if pool.scope is Scope.RUN:
            return []
        used, resets = amounts(pool, state), f"It resets at {pool.resets_at:%Y-%m-%d %H:%M} UTC."
        known = await users.get(tx, payer.user.key)
        # A limit that was raised can be reached again.
        raised = f"{state.extra_cost} {state.extra_tokens}"
        if not notice.exhausted and not pool.scope.shared:
            if known is None:  # The user's data were deleted during the call.
                return []
            user, now = payer.user, self.now()
            # The account may be of an organisation, or of a company in which the bot is not.
            place = Place(user.platform, payer.place.workspace if user.platform == "slack" else "")
            text = f"{WARN_PERCENT} % of the limit of {limit_name(pool)} is used: {used}. {resets}"
            digest = hashlib.sha256(f"{pool.id} {raised}".encode()).hexdigest()
            key = f"spending-{digest[:24]}"
            entry = outbox.NewOutboxEntry(
                key=key, user_id=user.key, place=place, run_id=None, title=TITLE, text=text
            )
            await outbox.put(tx, entry, now)
            return [key]
        subject = limit_name(pool)
        if not pool.scope.shared:
            subject = one_line(known.name, 60) if known else payer.user.account
        elif place_of(pool.scope, payer.place):
            title = "the channel" if pool.scope is Scope.CHANNEL else "the server or workspace"
            subject = f"{title} {':'.join(filter(None, pool.subject.split(':')))}"
        state_words = "is reached" if notice.exhausted else f"is at {WARN_PERCENT} %"
        by = Raise.half_of(pool)
        return await self.admins.tell(
            tx,
            AdminNotice(
                key=f"spending {pool.id} {notice.exhausted} {raised}",
                text=f"The spending limit of {subject} {state_words}: {used} used. {resets}",
                place=place_of(pool.scope, payer.place),
                buttons=((f"Raise by {by} for today", f"!retinue raise {pool.id} {by}"),),
            ),
        )

"""A user is notified of a limit of one's own where the bot can reach the user."""

import pytest

from bot.conversations.access import AccessSettings
from bot.conversations.admin_notices import AdminNotices
from bot.conversations.spending_notices import SpendingNotices
from bot.events import EventBus
from bot.spending.amounts import PoolState
from bot.spending.ledger import PoolNotice
from bot.spending.pools import Payer, pools_of
from bot.spending.settings import SpendingSettings
from bot.values import Identity, Place
from db import outbox
from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored


@pytest.mark.parametrize(
    ("user", "place", "told_in"),
    [
        (Identity("discord", "", "1"), Place("discord", "S1", "C1"), Place("discord")),
        (Identity("slack", "T1", "U1"), Place("slack", "T1", "C1"), Place("slack", "T1")),
        (Identity("slack", "E1", "U1"), Place("slack", "T1", "C1"), Place("slack", "T1")),
        (Identity("slack", "T2", "U1"), Place("slack", "E1.T1", "C1"), Place("slack", "E1.T1")),
    ],
)
async def test_a_user_is_told_in_a_workspace_in_which_the_bot_is(
    database: Database, clock: FakeClock, user: Identity, place: Place, told_in: Place
) -> None:
    await Stored(database, clock).person(user)
    admins = AdminNotices(
        access=AccessSettings(),
        outlets={},
        database=database,
        events=EventBus(),
        present=lambda: None,
        now=clock,
    )
    payer = Payer(user=user, place=place, work_id="turn")
    limits = SpendingSettings.model_validate({"user": {"day": {"usd": 1}}})
    (pool,) = pools_of(payer, "", limits, clock())
    notice = PoolNotice(
        payer=payer, pool=pool, state=PoolState(id=pool.id, used_cost=800_000), exhausted=False
    )

    async with database.transaction() as tx:
        (key,) = await SpendingNotices(admins=admins, now=clock).tell(tx, notice)
        item = await outbox.get(tx, key)

    assert item is not None
    assert (item.user, item.place) == (user, told_in)

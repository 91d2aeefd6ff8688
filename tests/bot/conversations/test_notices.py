"""A user is notified of a limit of one's own where the bot can reach the user, once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from bot.conversations.access import AccessSettings
from bot.conversations.admin_notices import AdminNotices
from bot.conversations.notices import Notices, SpendingNotices
from bot.conversations.spending_commands import Raise
from bot.events import EventBus
from bot.spending.amounts import PoolState
from bot.spending.ledger import PoolNotice
from bot.spending.pools import Payer, Pool, Scope, pools_of
from bot.spending.settings import SpendingSettings
from bot.tasks import Tasks
from bot.values import Identity, Place
from db import outbox, tables
from db.database import Database
from db.rows import count_rows
from tests.fakes.bank import DAY
from tests.fakes.clock import FakeClock
from tests.fakes.outlet import FakeOutlet
from tests.fakes.stored import Stored

DISCORD = Place("discord", "S1", "C1")


def spending_notices(database: Database, clock: FakeClock) -> SpendingNotices:
    admins = AdminNotices(
        access=AccessSettings(),
        outlets={},
        database=database,
        events=EventBus(),
        present=lambda: None,
        now=clock,
    )
    return SpendingNotices(admins=admins, now=clock)


def nearly_used(payer: Payer, clock: FakeClock) -> PoolNotice:
    """Return the notice of a limit for each user of which 80 % is used."""
    limits = SpendingSettings.model_validate({"user": {"day": {"usd": 1}}})
    (pool,) = pools_of(payer, "", limits, clock())
    state = PoolState(id=pool.id, used_cost=800_000)
    return PoolNotice(payer=payer, pool=pool, state=state, exhausted=False)


@pytest.mark.parametrize(
    ("user", "place", "told_in"),
    [
        (Identity("discord", "", "1"), DISCORD, Place("discord")),
        (Identity("slack", "T1", "U1"), Place("slack", "T1", "C1"), Place("slack", "T1")),
        (Identity("slack", "E1", "U1"), Place("slack", "T1", "C1"), Place("slack", "T1")),
        (Identity("slack", "T2", "U1"), Place("slack", "E1.T1", "C1"), Place("slack", "E1.T1")),
    ],
)
async def test_a_user_is_told_in_a_workspace_in_which_the_bot_is(
    database: Database, clock: FakeClock, user: Identity, place: Place, told_in: Place
) -> None:
    await Stored(database, clock).person(user)
    notice = nearly_used(Payer(user=user, place=place, work_id="turn"), clock)

    async with database.transaction() as tx:
        (key,) = await spending_notices(database, clock).tell(tx, notice)
        item = await outbox.get(tx, key)

    assert item is not None
    assert (item.user, item.place) == (user, told_in)
    assert item.text.startswith(
        "80 % of the limit of your own work today is used: $0.8000 of $1.00. It resets at "
    )


async def test_a_user_is_told_again_of_a_limit_that_was_raised(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    await Stored(database, clock).person(alice)
    notice = nearly_used(Payer(user=alice, place=DISCORD, work_id="turn"), clock)
    raised = replace(notice, state=replace(notice.state, used_cost=1_600_000, extra_cost=1_000_000))
    notices = spending_notices(database, clock)

    async with database.transaction() as tx:
        keys = [await notices.tell(tx, each) for each in (notice, notice, raised)]
        items = [await outbox.get(tx, key) for (key,) in keys]

    assert keys[0] == keys[1] != keys[2]
    assert [item and "$1.60 of $2.00" in item.text for item in items] == [False, False, True]


async def test_admins_are_told_of_a_month_again_on_a_day_after_a_raise_and_of_another_limit(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    await Stored(database, clock).person(alice)
    payer = Payer(user=alice, place=DISCORD, work_id="turn")
    notices = spending_notices(database, clock)

    async def stored(usd: int) -> int:
        """Tell of a refusal by the month's limit; return the number of notices so far."""
        limits = SpendingSettings.model_validate({"bot": {"month": {"usd": usd}}})
        (pool,) = pools_of(payer, "", limits, clock())
        notice = PoolNotice(
            payer=payer, pool=pool, state=PoolState(id=pool.id, used_cost=1), exhausted=True
        )
        async with database.transaction() as tx:
            await notices.tell(tx, notice)
            return await count_rows(tx, tables.admin_notices)

    numbers = [await stored(1), await stored(1), await stored(2)]
    clock.advance(DAY.total_seconds())

    assert [*numbers, await stored(2)] == [1, 1, 2, 3]


@pytest.mark.parametrize(("usd", "buttons"), [(0, 0), (1, 1)])
async def test_the_notice_of_a_limit_that_allows_nothing_has_no_button_that_raises_by_nothing(
    database: Database, clock: FakeClock, alice: Identity, usd: int, buttons: int
) -> None:
    await Stored(database, clock).person(alice)
    payer = Payer(user=alice, place=DISCORD, work_id="turn")
    limits = SpendingSettings.model_validate({"bot": {"day": {"usd": usd}}})
    (pool,) = pools_of(payer, "", limits, clock())
    state = PoolState(id=pool.id)
    async with database.transaction() as tx:
        notice = PoolNotice(payer=payer, pool=pool, state=state, exhausted=True)
        await spending_notices(database, clock).tell(tx, notice)
        stored = (await tx.scalars(select(tables.admin_notices.c.buttons))).one()

    assert len(stored) == buttons


async def test_a_user_whose_data_were_deleted_during_the_call_is_not_told(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    notice = nearly_used(Payer(user=alice, place=DISCORD, work_id="turn"), clock)

    async with database.transaction() as tx:
        assert await spending_notices(database, clock).tell(tx, notice) == []


@given(tokens=st.none() | st.integers(1, 10**15), cost=st.none() | st.integers(1, 10**15))
def test_the_button_of_a_notice_raises_by_half_of_any_limit(
    tokens: int | None, cost: int | None
) -> None:
    pool = Pool(scope=Scope.BOT, subject="", name="", period="", tokens=tokens, cost=cost)
    half = Raise.half_of(pool)

    assert Raise.read(str(half)) == (half if tokens or cost else None)


@pytest.mark.parametrize("word", ["$999999999", "999999999999999"])
def test_one_raise_is_at_most_the_highest_limit(word: str) -> None:
    assert Raise.read(word)
    assert Raise.read(f"{word} {word}") is None


async def test_the_sign_at_an_answered_message_goes_although_the_process_ends_then() -> None:
    outlet = FakeOutlet("discord")

    async with Tasks() as tasks:
        Notices({"discord": outlet}, tasks).answered(DISCORD)

    assert outlet.answered_places == [DISCORD]

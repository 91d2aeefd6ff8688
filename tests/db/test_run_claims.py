"""An attempt that begins a run knows its owner and its unread messages."""

from bot.values import Identity, new_run_id
from db import run_claims, run_messages
from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored


async def test_a_claim_tells_if_a_message_to_the_run_is_unread(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    written_to, other = await stored.run(alice), await stored.run(alice)
    async with database.transaction() as tx:
        await run_messages.add(
            tx, message_id=new_run_id(), run_id=written_to.id, text="Hurry", now=clock()
        )

    claimed = [
        await database.write(run_claims.claim, run.id, worker_id="w", reserve=10, now=clock())
        for run in (written_to, other)
    ]

    assert [run and run.has_messages for run in claimed] == [True, False]


async def test_a_run_is_held_with_the_account_of_its_owner(
    database: Database, stored: Stored, bob: Identity
) -> None:
    run = await stored.run(bob)

    held = await database.write(run_claims.hold, [run.id, new_run_id()])

    assert {key: each.user for key, each in held.items()} == {run.id: bob}


async def test_only_a_delegated_run_is_claimed_from_another_process(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    """A process that was taken for dead continues with what it was about to begin."""
    taken = await stored.run(alice, status="running", worker_id="other", attempt=1)
    delegated = await stored.run(alice, status="running", worker_id="other", attempt=1, mode="sync")

    for run, attempt in ((taken, None), (delegated, 2)):
        now = clock()
        claimed = await database.write(
            run_claims.claim, run.id, worker_id="me", reserve=10, now=now
        )
        assert (claimed and claimed.attempt) == attempt
    assert (await stored.read_run(taken.id)).worker_id == "other"

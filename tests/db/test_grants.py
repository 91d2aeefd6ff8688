"""A consent is one user's, for one tool in one conversation, and ends."""

from datetime import timedelta

from bot.values import Identity
from db import grants
from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored


async def test_a_consent_holds_for_its_user_and_conversation_until_it_ends(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    here, there = await stored.conversation(alice), await stored.conversation(bob)
    until = clock() + timedelta(hours=24)

    async with database.transaction() as tx:
        await grants.give(tx, here, alice.key, ["note_list", "recall", "recall"], until)

        assert await grants.given(tx, alice.key, clock(), here) == {
            "note_list": until,
            "recall": until,
        }
        assert await grants.given(tx, alice.key, clock(), there) == {}
        assert await grants.given(tx, bob.key, clock()) == {}
        assert await grants.given(tx, alice.key, until) == {}


async def test_a_consent_is_taken_back_by_its_user_alone(
    database: Database, stored: Stored, clock: FakeClock, alice: Identity, bob: Identity
) -> None:
    here = await stored.conversation(alice)
    await stored.person(bob)

    async with database.transaction() as tx:
        until = clock() + timedelta(hours=1)
        await grants.give(tx, here, alice.key, ["note_list", "recall", "todo"], until)

        assert not await grants.revoke(tx, bob.key, None)
        assert await grants.revoke(tx, alice.key, "recall")
        assert not await grants.revoke(tx, alice.key, "recall")
        assert set(await grants.given(tx, alice.key, clock())) == {"note_list", "todo"}
        assert await grants.revoke(tx, alice.key, None)
        assert await grants.given(tx, alice.key, clock()) == {}

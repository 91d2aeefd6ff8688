"""The stages of the inbound path, one at a time."""

import pytest

from bot.conversations.access import AccessSettings, spelled
from bot.conversations.inbound import authorise, store
from bot.errors import NotAllowedError
from bot.values import Identity, Place, Role
from db.database import Database, Transaction
from tests.bot.conversations.hearing import message
from tests.fakes.clock import FakeClock

SERVER = Place("discord", "7001", "room")


def test_a_blocked_user_is_refused_and_others_are_authorised(
    alice: Identity, bob: Identity
) -> None:
    access = AccessSettings(blocked=(spelled(bob),), admins=(spelled(bob),))

    with pytest.raises(NotAllowedError, match="You cannot use this bot"):
        authorise(bob, access, SERVER, admin=True)
    assert authorise(alice, access, SERVER) is Role.USER
    assert authorise(alice, access, SERVER, admin=True) is Role.ADMIN


async def test_an_event_has_its_effect_once_and_none_if_the_effect_fails(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    effects: list[str] = []

    async def fail(_: Transaction) -> str:
        raise ZeroDivisionError

    async def effect(_: Transaction) -> str:
        effects.append("stored")
        return "done"

    event = message(alice, "Hello", event_id="message:1")
    with pytest.raises(ZeroDivisionError):
        await store(database, event, fail, clock)
    first = await store(database, event, effect, clock)
    again = await store(database, event, effect, clock)

    assert (first, again, effects) == ("done", None, ["stored"])

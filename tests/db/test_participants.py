"""The participants of a shared conversation: a number and a name of their own each."""

from bot.values import Identity
from db import participants
from db.database import Database
from tests.fakes.stored import Stored


async def test_participants_are_numbered_in_order_and_keep_number_and_name(
    database: Database, stored: Stored, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)

    async with database.transaction() as tx:
        first = await participants.join(tx, conversation, "discord::1", "Ann")
        second = await participants.join(tx, conversation, "discord::2", "Bob")
        again = await participants.join(tx, conversation, "discord::1", "Anna")

    assert (first, second, again) == ((1, "Ann"), (2, "Bob"), (1, "Ann"))


async def test_a_name_that_looks_like_another_is_followed_by_a_number(
    database: Database, stored: Stored, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)

    async with database.transaction() as tx:
        shown = [
            await participants.join(tx, conversation, f"discord::{number}", name)
            for number, name in enumerate(("Ann", "ANN", "Ａｎｎ", "x" * 90, "x" * 80))
        ]

    assert [name for _, name in shown] == [
        "Ann",
        "ANN (2)",
        "Ａｎｎ (3)",
        "x" * 40,
        "x" * 40 + " (2)",
    ]

"""A summary stands for all that was said before it, whoever takes part."""

import pytest

from bot.values import Identity
from db import conversations, history
from db.conversations import StoredMessage
from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored

END = "~"


@pytest.fixture
async def conversation(stored: Stored, alice: Identity) -> str:
    return await stored.conversation(alice)


async def say(database: Database, conversation: str, *texts: str, clock: FakeClock) -> None:
    for text in texts:
        async with database.transaction() as tx:
            await conversations.say(tx, conversation, role="user", text=text, now=clock())


async def read(database: Database, conversation: str, *, shared: bool) -> list[StoredMessage]:
    async with database.snapshot() as tx:
        if shared:
            return await history.shared(tx, conversation, until=END)
        return await history.personal(tx, conversation, before=END)


@pytest.mark.parametrize("shared", [True, False])
async def test_a_summary_stands_before_what_was_said_after_it(
    database: Database, conversation: str, clock: FakeClock, shared: bool
) -> None:
    await say(database, conversation, "one", "two", "three", clock=clock)
    known = await read(database, conversation, shared=shared)
    async with database.transaction() as tx:
        await history.put_summary(
            tx, conversation, "one and two", behind=known[1], foreign=True, now=clock()
        )
    await say(database, conversation, "four", clock=clock)

    found = await read(database, conversation, shared=shared)

    assert [each.text for each in found] == ["one and two", "three", "four"]
    assert [each.role for each in found] == ["summary", "user", "user"]
    assert found[0].foreign


async def test_a_deleted_summary_brings_nothing_back(
    database: Database, conversation: str, clock: FakeClock
) -> None:
    await say(database, conversation, "one", "two", clock=clock)
    first, _ = await read(database, conversation, shared=True)
    async with database.transaction() as tx:
        await history.put_summary(tx, conversation, "one", behind=first, foreign=False, now=clock())
        assert await history.forget_summary(tx, conversation)
        assert not await history.forget_summary(tx, conversation)

    assert [each.text for each in await read(database, conversation, shared=True)] == ["two"]

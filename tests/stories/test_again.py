"""One process that opens the bot again, as it does after the database was out of reach."""

import asyncio

from sqlalchemy import select

from db.database import Database, DatabaseSettings
from db.tables import workers
from db.workers import count_crashes
from tests.fakes.anthropic_server import Reply
from tests.stories.stage import ALICE, Play, call, said, stage


async def test_a_bot_that_is_opened_again_in_the_same_process_works_like_the_first(
    database_url: str,
) -> None:
    saving = Play(main=[call("note_save", text="The owl sleeps."), Reply(text="Saved.")])
    reading = Play(main=[call("note_search", query="owl"), Reply(text="It sleeps.")])

    async with stage(database_url, saving) as it:
        await it.say(ALICE, "Keep that in mind")
        first = await it.outlet.replied()
        # A turn that has not ended would be gone on with, and its reply shown once more.
        await it.bot.drain()
    between = await asyncio.to_thread(lambda: "a thread")
    async with stage(database_url, reading) as it:
        await it.say(ALICE, "What about the owl?")
        second = await it.outlet.replied()

    assert (first.final, between, second.final) == ("Saved.", "a thread", "It sleeps.")
    assert "The owl sleeps." in said(reading.asked[1]["messages"][-1])


async def test_a_process_that_ended_in_good_order_has_not_crashed(database_url: str) -> None:
    async with stage(database_url, Play()):
        pass

    settings = DatabaseSettings(url=database_url)
    async with Database.open(settings) as database, database.transaction() as tx:
        ended = list(await tx.scalars(select(workers.c.stopped_at)))
        crashed = await count_crashes(tx, [])
    assert len(ended) == 1
    assert None not in ended
    assert crashed == 0

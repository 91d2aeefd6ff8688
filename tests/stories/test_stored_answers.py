"""Work whose final answer is stored gives that answer, whatever would else have ended it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Insert, insert, update

from bot.agent.messages import Answer, Usage, to_json
from bot.values import Json, RunStatus, new_run_id, utc_now
from db.rows import place_columns
from db.tables import steps, turns
from tests.fakes.stored import Stored
from tests.stories.stage import ALICE, ROOM, Play, Stage, stage

pytestmark = pytest.mark.timeout(120)


def final_answer_of(work_id: str) -> Insert:
    """Return the statement that stores a final answer as the only step of some work."""
    answer = to_json(Answer(text="The barn is red.", usage=Usage(input=5, output=5)))
    body: Json = {"received": None, "answer": answer, "limit": None, "read": []}
    row = {"work_id": work_id, "seq": 0, "kind": "answer", "body": body}
    return insert(steps).values(**row, created_at=utc_now())


async def store_answered_run(it: Stage, **values: Any) -> str:
    """Store a run under way whose last step is its final answer, and return its id."""
    stored, run_id = Stored(it.bot.database, utc_now), new_run_id()
    async with it.bot.database.transaction() as tx:
        await tx.execute(final_answer_of(run_id))
    state = {"status": "running", "attempt": 4, "agent": "general", **place_columns(ROOM)}
    await stored.run(ALICE, id=run_id, **state | values)
    return run_id


async def test_a_run_whose_final_answer_is_stored_is_completed_however_late(
    database_url: str,
) -> None:
    async with stage(database_url, Play()) as it:
        long_ago = utc_now() - timedelta(hours=3)
        run_id = await store_answered_run(
            it, crashes=3, updated_at=long_ago, cancel_requested_at=long_ago
        )
        await it.bot.upkeep.recover()
        announced = await it.outlet.announced(run_id)

        assert "The barn is red." in announced.text
        assert (await it.run_of("Count sheep")).status is RunStatus.COMPLETED
        assert it.play.asked == []


async def test_a_run_whose_final_answer_is_stored_is_completed_however_often_it_crashed(
    database_url: str,
) -> None:
    async with stage(database_url, Play()) as it:
        lately = utc_now() - timedelta(minutes=1)
        run_id = await store_answered_run(it, crashes=3, updated_at=lately)
        await it.bot.upkeep.recover()
        announced = await it.outlet.announced(run_id)

        assert "The barn is red." in announced.text
        assert (await it.run_of("Count sheep")).status is RunStatus.COMPLETED


async def test_a_run_whose_final_answer_is_stored_is_completed_where_nobody_takes_it_up(
    database_url: str,
) -> None:
    async with stage(database_url, Play()) as it:
        lately = utc_now() - timedelta(minutes=1)
        elsewhere = place_columns(replace(ROOM, platform="elsewhere"))
        run_id = await store_answered_run(
            it, updated_at=lately, cancel_requested_at=lately, **elsewhere
        )
        await it.bot.upkeep.release()

        ended = await Stored(it.bot.database, utc_now).read_run(run_id)
        assert ended.status is RunStatus.COMPLETED
        assert ended.result == "The barn is red."


async def test_a_turn_whose_answer_is_stored_gives_it_however_often_it_crashed(
    database_url: str,
) -> None:
    async with stage(database_url, Play()) as it:
        stored = Stored(it.bot.database, utc_now)
        conversation = await stored.conversation(ALICE)
        turn = await stored.turn(ALICE, conversation)
        await stored.claim_turn(conversation)
        async with it.bot.database.transaction() as tx:
            await tx.execute(final_answer_of(turn))
            long_ago = {"created_at": utc_now() - timedelta(hours=1)}
            crashed = update(turns).where(turns.c.id == turn)
            await tx.execute(crashed.values(attempt=4, crashes=3, **long_ago))
        await it.bot.upkeep.recover()

        reply = await it.outlet.replied()
        assert str(reply.final).endswith("The barn is red.")
        assert it.play.asked == []

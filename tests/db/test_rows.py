"""The conditions on owner and place select the same rows as the access rule."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.conversations.access import can_read
from bot.values import Place
from db import runs
from db.database import Database
from db.rows import place_columns
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored

PLACES = st.builds(
    Place,
    platform=st.sampled_from(["discord", "slack"]),
    workspace=st.sampled_from(["", "W1"]),
    channel=st.sampled_from(["C1", "D1"]),
    thread=st.sampled_from(["", "1", "2"]),
    message=st.sampled_from(["", "1", "2", "3"]),
)


@settings(max_examples=20)  # Each makes many transactions.
@given(started_in=st.lists(PLACES, min_size=1, max_size=4), place=PLACES)
async def test_runs_are_selected_by_the_place_that_can_be_read_and_by_their_owner(
    database: Database, stored: Stored, clock: FakeClock, started_in: list[Place], place: Place
) -> None:
    owner, stranger = await stored.somebody(), await stored.somebody()
    mine = [await stored.run(owner, **place_columns(each)) for each in started_in]
    ended = [
        await stored.run(owner, status="failed", completed_at=clock(), **place_columns(each))
        for each in started_in
    ]
    await stored.run(stranger, **place_columns(place))
    begin = clock() - timedelta(hours=1)

    async with database.snapshot() as tx:
        active = await runs.active(tx, owner.key, read_in=place)
        over = await runs.ended_since(tx, owner.key, begin, read_in=place, limit=9)
        found = await runs.find(tx, "sheep", user_id=owner.key, read_in=place, limit=9)
        everywhere = await runs.active(tx, owner.key)

    readable = {run.id for run in mine if can_read(place, run.place)}
    assert {run.id for run in active} == readable
    assert {run.id for run in over} == {run.id for run in ended if can_read(place, run.place)}
    assert readable >= ({run.id for run in found} & {run.id for run in mine})
    assert {run.id for run in everywhere} == {run.id for run in mine}

"""Where on Slack the bot is installed, and installations that are under way, each finished once."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from db import slack_installs
from db.database import Database
from db.slack_installs import Install
from tests.fakes.clock import FakeClock

OURS = Install(
    client_id="111.222", workspace="T1", enterprise="E1", bot_user="U9", bot="B9", token="one"
)
TEN_MINUTES = timedelta(minutes=10)


async def put(database: Database, clock: FakeClock, *installs: Install) -> None:
    async with database.transaction() as tx:
        for install in installs:
            await slack_installs.put(tx, install, clock())


async def find(database: Database, workspace: str, client_id: str = "111.222") -> Install | None:
    async with database.snapshot() as tx:
        return await slack_installs.find(tx, client_id, workspace)


async def test_what_is_installed_is_found_by_its_app_and_its_workspace(
    database: Database, clock: FakeClock
) -> None:
    other, foreign = replace(OURS, workspace="T2"), replace(OURS, client_id="333.444")
    await put(database, clock, OURS, other, foreign)

    assert await find(database, "T1") == OURS
    assert await find(database, "T2") == other
    assert await find(database, "T1", "333.444") == foreign
    assert await find(database, "E1") is None
    assert await find(database, "T2", "333.444") is None


async def test_what_is_installed_again_takes_the_place_of_the_older_one(
    database: Database, clock: FakeClock
) -> None:
    newer = replace(OURS, enterprise="", bot_user="U8", bot="B8", token="two")
    await put(database, clock, OURS, newer)

    assert await find(database, "T1") == newer


async def test_what_was_replaced_is_not_removed_in_place_of_the_newer_one(
    database: Database, clock: FakeClock
) -> None:
    newer, other = replace(OURS, token="two"), replace(OURS, workspace="T2")
    await put(database, clock, OURS, newer, other)

    async with database.transaction() as tx:
        await slack_installs.remove(tx, OURS)
    kept = await find(database, "T1")
    async with database.transaction() as tx:
        await slack_installs.remove(tx, newer)
        await slack_installs.remove(tx, newer)

    assert kept == newer
    assert await find(database, "T1") is None
    assert await find(database, "T2") == other


async def test_of_many_who_finish_an_installation_at_once_one_does(
    database: Database, clock: FakeClock
) -> None:
    async with database.transaction() as tx:
        await slack_installs.issue_state(tx, "mine", clock())
        await slack_installs.issue_state(tx, "theirs", clock())

    async def finish() -> bool:
        async with database.transaction() as tx:
            return await slack_installs.consume_state(tx, "mine", clock() - TEN_MINUTES)

    async with asyncio.TaskGroup() as group:
        finishing = [group.create_task(finish()) for _ in range(5)]

    assert sorted(task.result() for task in finishing) == [False] * 4 + [True]


async def test_an_installation_is_finished_in_time_or_not_at_all(
    database: Database, clock: FakeClock
) -> None:
    begun = clock()
    async with database.transaction() as tx:
        await slack_installs.issue_state(tx, "old", begun)
        await slack_installs.issue_state(tx, "young", begun + timedelta(seconds=1))

        assert not await slack_installs.consume_state(tx, "old", begun)
        assert not await slack_installs.consume_state(tx, "unknown", begun)
        assert not await slack_installs.consume_state(tx, "\0", begun)
        assert await slack_installs.consume_state(tx, "young", begun)


async def test_what_was_never_finished_is_forgotten_in_time(
    database: Database, clock: FakeClock
) -> None:
    begun = clock()
    long_ago = begun - TEN_MINUTES
    async with database.transaction() as tx:
        await slack_installs.issue_state(tx, "old", begun)
        await slack_installs.issue_state(tx, "young", begun + timedelta(seconds=1))

        await slack_installs.forget_states(tx, begun)

        assert not await slack_installs.consume_state(tx, "old", long_ago)
        assert await slack_installs.consume_state(tx, "young", long_ago)

"""Three processes that draw from the same pools, one of which is killed."""

import asyncio
import json
import signal
import sys

import pytest

from bot.tasks import Tasks
from bot.values import Identity, Json
from db import pools
from db.database import Database
from tests.fakes.bank import Bank, noon, payer
from tests.fakes.spender import AT_ONCE

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

LIMIT = 100_000


async def started(url: str, name: str) -> asyncio.subprocess.Process:
    arguments = (url, name, "10000", str(LIMIT))
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.fakes.spender", *arguments),
        stdout=asyncio.subprocess.PIPE,
    )


async def lines(process: asyncio.subprocess.Process, most: int | None = None) -> list[Json]:
    """Return what a process prints, until it ends or has printed so many lines."""
    assert process.stdout is not None
    found: list[Json] = []
    while (most is None or len(found) < most) and (line := await process.stdout.readline()):
        found.append(json.loads(line))
    return found


async def test_three_processes_of_which_one_is_killed_keep_a_limit(
    database: Database, database_url: str
) -> None:
    killed, *others = [await started(database_url, name) for name in ("one", "two", "three")]
    told = await lines(killed, 5)
    killed.send_signal(signal.SIGKILL)
    told += await lines(killed)
    for process in others:
        told += await lines(process)
        assert await process.wait() == 0
    await killed.wait()

    async with Tasks() as tasks:
        bank = Bank(database, noon, tasks)
        bank.limit(bot={"day": {"tokens": LIMIT}})
        async with database.transaction() as tx:
            lost = await pools.settle_lost(tx, ["two", "three"], noon())
        (state,) = await bank.states(payer(Identity("discord", "", "1")))

    billed = sum(each["billed"] for each in told)
    assert lost <= AT_ONCE, "more than the calls in flight were left open"
    assert state.reserved_tokens == 0
    assert billed <= state.used_tokens, "a call was not counted"
    assert state.used_tokens <= LIMIT + sum(each["excess"] for each in told)
    assert state.used_tokens > 0.9 * LIMIT - 3_000, "the limit was not even approached"

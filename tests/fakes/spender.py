"""A process that makes model calls within the limits of a database, and prints what each cost.

Arguments: the database's URL, the name of the process, the number of calls, the tokens that a day
allows.
"""

import asyncio
import json
import random
import sys

from bot.agent.messages import Usage
from bot.errors import SpendingLimitError
from bot.tasks import Tasks
from bot.values import Identity
from db.database import Database
from db.settings import DatabaseSettings
from tests.fakes.bank import Bank, call, noon, payer

#: The most by which the billed input differs from its estimate.
ERROR = 0.3
#: Calls in progress at once.
AT_ONCE = 10
#: Refused calls after which a task gives up: a smaller call may still fit.
REFUSALS = 10


async def spend(url: str, name: str, calls: int, limit: int) -> None:
    """Make calls in the name of three users, until all are made or the limit refuses one."""
    dice = random.Random(name)
    async with Database.open(DatabaseSettings(url=url)) as database, Tasks() as tasks:
        bank = Bank(database, noon, tasks)
        bank.limit(bot={"day": {"tokens": limit}}, user={"day": {"tokens": limit}})
        left = iter(range(calls))

        async def work() -> None:
            refused = 0
            for _ in left:
                size, user = dice.randint(100, 2_000), Identity("discord", "", dice.choice("123"))
                real = round(size * dice.uniform(1 - ERROR, 1 + ERROR))
                try:
                    reserved = bank.call(payer(user), call(size), worker=name)
                    async with reserved as made:
                        await asyncio.sleep(dice.uniform(0, 0.01))
                        usage = Usage(real, made.max_output, cost=0)
                        made.charge(usage, "model")
                except SpendingLimitError:
                    refused += 1
                    if refused == REFUSALS:
                        return
                    continue
                told = {"billed": usage.total, "excess": max(0, real - size)}
                print(json.dumps(told), flush=True)  # noqa: T201

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work())


if __name__ == "__main__":
    asyncio.run(spend(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))

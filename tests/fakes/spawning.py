"""A process that asks for runs of one user, all at once, when it is told to begin.

Writes `ready`, waits for a line, and writes what came of each request as one JSON document.
"""

import asyncio
import json
import sys

from bot.errors import LimitReachedError
from bot.values import Identity, utc_now
from db.database import Database, DatabaseSettings
from tests.fakes.office import FakeOffice, limits


async def main(url: str, account: str, wanted: int) -> None:
    """Ask for so many runs."""
    async with Database.open(DatabaseSettings(url=url)) as database:
        office = FakeOffice(database, limits(per_user=3, queued=2), utc_now)
        await database.checkpoint()
        async with database.snapshot():
            sys.stdout.write("ready\n")
            sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(_ask(office, account)) for _ in range(wanted)]
    sys.stdout.write(json.dumps([task.result() for task in asked]) + "\n")


async def _ask(office: FakeOffice, account: str) -> str:
    try:
        return (await office.spawn(Identity("discord", "", account))).status
    except LimitReachedError:
        return "refused"


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

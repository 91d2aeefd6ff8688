"""A real database whose process dies at a named point of a transaction."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import event

from db.database import Database, Transaction


class CrashingDatabase(Database):
    """Kills its process before or after the commit of a transaction with a certain statement.

    Attributes:
        crash_at: Such as `after INSERT INTO commands`; empty for never.
    """

    crash_at = ""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Write, and die at the point that was named."""
        moment, _, wanted = self.crash_at.partition(" ")
        found: list[str] = []

        def look(_: object, __: object, statement: str, *___: Any) -> None:
            if wanted and statement.startswith(wanted):
                found.append(statement)

        async with super().transaction() as tx:
            connection = tx.sync_connection
            event.listen(connection, "before_cursor_execute", look)
            try:
                yield tx
            finally:
                event.remove(connection, "before_cursor_execute", look)
            if found and moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
        if found and moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)

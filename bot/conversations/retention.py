"""Deletes old rows, in transactions so short that no other work waits for them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from bot.subagents.limits import SubagentSettings
from bot.subagents.retention import RetentionSettings
from bot.values import Clock, Live
from db import audit, retention, workers
from db.database import Database, Transaction

#: Days that web addresses are stored; longer than any turn with its runs.
ADDRESSES_DAYS = 2
#: Days that the uses of tools are stored.
USES_DAYS = 31
#: Days that processes are stored.
RECORD_DAYS = 1
#: Pause after each full batch, for other work.
PAUSE_SECONDS = 0.01
#: Windows of a table that one pass searches for rows without references.
WINDOWS = 5

#: Deletes a batch and returns True if more rows may be left.
Batch = Callable[[Transaction], Awaitable[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Deletes old rows of every table: see `db.retention`.

    Attributes:
        runs: The settings of runs, with the time after which ended ones leave short lists.
    """

    database: Database
    settings: Live[RetentionSettings]
    runs: Live[SubagentSettings]
    now: Clock
    #: For each table without an index of ages: the key at which the next pass begins.
    _after: dict[str, str] = field(default_factory=dict)

    async def apply(self) -> None:
        """Delete all rows that are old by now."""
        now, kept = self.now(), self.settings()
        archived_before = now - timedelta(minutes=self.runs().archive_ttl_minutes)
        moments = {
            "runs": now - timedelta(days=kept.runs_days),
            "steps": now - timedelta(days=kept.steps_days),
            "conversations": now - timedelta(days=kept.conversations_days),
            "context": now - timedelta(days=kept.context_days),
            "files": now - timedelta(days=kept.files_days),
            "undo": now - timedelta(days=kept.undo_days),
            "undelivered": now - timedelta(days=kept.undelivered_days),
            "events": now - timedelta(hours=kept.events_hours),
            "uses": now - timedelta(days=USES_DAYS),
            "addresses": now - timedelta(days=ADDRESSES_DAYS),
        }
        batches: list[Batch] = [
            lambda tx: retention.archive(tx, archived_before, now),
            lambda tx: audit.erase_before(tx, now - timedelta(days=kept.audit_days), now),
            *(
                partial(retention.forget, rule=rule, moment=moments[rule.of])
                for rule in retention.RULES
            ),
        ]
        for batch in batches:
            more = True
            while more:
                more = await self.database.write(batch)
                # On SQLite nothing above yields to other tasks.
                await asyncio.sleep(PAUSE_SECONDS if more else 0)
        for table in retention.UNREFERENCED:
            for _ in range(WINDOWS):
                after = await self.database.write(
                    retention.forget_unreferenced,
                    table,
                    moments["conversations"],
                    self._after.get(table.name, ""),
                )
                self._after[table.name] = after
                await asyncio.sleep(0)
                if not after:
                    break
        await self.database.write(workers.forget, timedelta(days=RECORD_DAYS))

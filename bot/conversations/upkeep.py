"""What a process does at regular times: beat, look for stops, take over, deliver, sweep."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from bot.conversations.announcements import Announcements
from bot.conversations.approvals import Approvals
from bot.conversations.orchestrator import Orchestrator
from bot.engine import Engine
from bot.subagents.active import ActiveRuns
from bot.subagents.endings import Endings
from bot.subagents.limits import SubagentSettings
from bot.subagents.progress import Cards
from bot.subagents.retention import RetentionSettings
from bot.subagents.wording import Outcome
from bot.values import Clock, Identity, RunStatus
from db import conversations, outbox, run_messages, runs, steps, turns, workers
from db.database import Database

log = logging.getLogger(__name__)

BEAT_SECONDS = 2.0
POLL_SECONDS = 1.0
SWEEP_SECONDS = 5.0
DEAD_AFTER = timedelta(seconds=10)
#: Work that has been silent for so long and is unknown to the engine is handed to it again.
OVERDUE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """The regular duties of one process.

    Attributes:
        active: The runs at work in this process; `turns` holds the turns.
        present: Who sits at this process's terminal, if anybody does.
        platforms: Those whose work this process may do.
    """

    database: Database
    engine: Engine
    worker_id: str
    platforms: Sequence[str]
    active: ActiveRuns
    turns: ActiveRuns
    cards: Cards
    endings: Endings
    announcements: Announcements
    approvals: Approvals
    orchestrator: Orchestrator
    settings: SubagentSettings
    retention: RetentionSettings
    present: Callable[[], Identity | None]
    now: Clock

    async def run(self) -> None:
        """Do all of it until cancelled."""
        async with asyncio.TaskGroup() as group:
            for seconds, duty in (
                (BEAT_SECONDS, self.beat),
                (POLL_SECONDS, self.poll),
                (SWEEP_SECONDS, self.sweep),
                (self.settings.cleanup_interval_seconds, self.clean_up),
            ):
                group.create_task(_every(seconds, duty), name=duty.__name__)

    # -- being alive -----------------------------------------------------------------------------

    async def enter(self) -> None:
        """Enter this process, and take over at once what earlier ones left."""
        async with self.database.transaction() as tx:
            await workers.start(tx, self.worker_id, list(self.platforms), self.now())

    async def beat(self) -> None:
        """Say that this process is alive."""
        async with self.database.transaction() as tx:
            await workers.beat(tx, self.worker_id, self.now())

    async def leave(self) -> None:
        """Enter that this process ends in good order."""
        async with self.database.transaction() as tx:
            await workers.stop(tx, self.worker_id, self.now())

    # -- stops and messages from other processes -------------------------------------------------

    async def poll(self) -> None:
        """Look for stops and messages that other processes stored for the work at hand."""
        at_work, answering = list(self.active.by_id), list(self.turns.by_id)
        # On SQLite no other process can move a card that is shown here.
        watched = [] if self.database.is_sqlite else self.cards.watched(at_work)
        if not (at_work or answering or watched):
            return
        async with self.database.snapshot() as tx:
            to_stop = await runs.cancel_requested(tx, at_work)
            mail = await run_messages.having_unread(tx, at_work)
            to_end = await turns.stop_requested(tx, answering)
            moved = await runs.get_many(tx, watched)
        for run_id in to_stop:
            self.active.stop(run_id)
        for run_id in mail:
            self.active.mail_for(run_id)
        for turn_id in to_end:
            self.turns.stop(turn_id)
        for run in moved:
            self.cards.refresh(run)

    # -- taking over, delivering -----------------------------------------------------------------

    async def sweep(self) -> None:
        """Take over dead processes' work, deliver what is due, close what has expired."""
        await self.take_over()
        await self.database.checkpoint()
        await self.announcements.sweep()
        await self.approvals.expire()
        person = self.present()
        if person is not None:
            await self.announcements.deliver_waiting(person)

    async def take_over(self) -> None:
        """Queue again what processes left that have not been heard of for a while.

        On SQLite there is one process at a time: every other one is dead.
        """
        async with self.database.transaction() as tx:
            if not await workers.try_take_over_lock(tx):
                return
            heard_since = self.now() - DEAD_AFTER
            alive = [self.worker_id]
            if not self.database.is_sqlite:
                alive += await workers.alive(tx, heard_since)
            unsure = await outbox.recover(tx, alive)
            left = await self.engine.take_over(alive)
        if left:
            log.info("Took over %d pieces of work", len(left))
        if unsure:
            log.info("%d announcements may have been sent before; they are sent again", unsure)

    # -- sweeping --------------------------------------------------------------------------------

    async def clean_up(self) -> None:
        """Hand forgotten work to the engine again, end what cannot go on, forget what is old."""
        await self.endings.promote()
        await self._revive_runs()
        await self._revive_turns()
        await self._end_orphans()
        await self._forget()

    async def _revive_runs(self) -> None:
        """Hand runs to the engine that it was never given, or has given up on."""
        overdue = self.now() - OVERDUE
        async with self.database.snapshot() as tx:
            waiting = await runs.admitted(tx, before=overdue)
            begun = [run for run in await runs.unfinished(tx) if run.updated_at < overdue]
        mine = [
            run
            for run in (*waiting, *begun)
            if run.mode == "async"
            and run.place.platform in self.platforms
            and run.id not in self.active.by_id
        ]
        unknown = set(await self.engine.unknown([run.id for run in mine]))
        for run in mine:
            if run.id in unknown:
                log.info("Run %s is handed to the engine again", run.id)
                await self.engine.revive("run", run.id, run.place.platform)

    async def _revive_turns(self) -> None:
        overdue = self.now() - OVERDUE
        async with self.database.snapshot() as tx:
            waiting = await turns.waiting_conversations(tx)
            begun = await turns.running(tx, before=overdue)
        for conversation_id, platform in waiting:
            if platform in self.platforms:
                await self.orchestrator.next_turn(conversation_id, platform)
        mine = {
            turn_id: platform
            for turn_id, platform in begun
            if platform in self.platforms and turn_id not in self.turns.by_id
        }
        for turn_id in await self.engine.unknown(list(mine)):
            await self.engine.revive("turn", turn_id, mine[turn_id])

    async def _end_orphans(self) -> None:
        """End delegated tasks whose turn is over: nobody waits for them any more."""
        age = timedelta(seconds=self.settings.sync_timeout_seconds + 300)
        async with self.database.snapshot() as tx:
            begun = [*await runs.unfinished(tx), *await runs.admitted_sync(tx)]
        for run in begun:
            orphan = run.mode == "sync" and run.updated_at < self.now() - age
            if orphan and run.id not in self.active.by_id:
                await self.endings.end(run, Outcome(status=RunStatus.LOST), attempt=run.attempt)

    async def _forget(self) -> None:
        now, kept = self.now(), self.retention
        runs_before = now - timedelta(days=kept.runs_days)
        async with self.database.transaction() as tx:
            archived = timedelta(minutes=self.settings.archive_ttl_minutes)
            await runs.archive_before(tx, now - archived, now)
            await steps.forget_before(tx, now - timedelta(days=kept.steps_days))
            await outbox.delete_before(tx, runs_before, now - timedelta(days=kept.undelivered_days))
            await runs.delete_before(tx, runs_before)
            await conversations.forget_events_before(tx, now - timedelta(hours=kept.events_hours))
            await workers.forget_before(tx, now - timedelta(days=1))
        await self.engine.forget_before(now - timedelta(days=1))


async def _every(seconds: float, duty: Callable[[], Awaitable[None]]) -> None:
    """Do a duty again and again; one failure is logged and does not end it."""
    while True:
        try:
            await duty()
        except Exception:
            log.exception("The regular duty %s failed; it is tried again", duty.__name__)
        await asyncio.sleep(seconds)

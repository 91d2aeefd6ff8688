"""The periodic duties of a process: heartbeat, stops, takeover, delivery, cleanup."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from bot.conversations.announcements import Announcements
from bot.conversations.answers import Answers
from bot.conversations.durable_commands import DurableCommands
from bot.conversations.inbound import TurnQueue
from bot.conversations.retention import Retention
from bot.engine import Engine
from bot.subagents.active import ActiveRuns
from bot.subagents.cards import Cards
from bot.subagents.endings import Endings
from bot.subagents.limits import SubagentSettings
from bot.subagents.runner import LOST_AFTER_SECONDS
from bot.subagents.wording import Outcome, shown_name
from bot.tasks import Tasks
from bot.values import Clock, Identity, Live, RunStatus
from db import (
    admission,
    audit,
    deliveries,
    outbox,
    pools,
    run_cards,
    run_messages,
    runs,
    turns,
    users,
    workers,
)
from db.audit import CONSOLE, SYSTEM, AuditEntry
from db.database import Database, Transaction, is_connection_trouble
from db.runs import Run

log = logging.getLogger(__name__)

BEAT_SECONDS = 2.0
POLL_SECONDS = 1.0
SWEEP_SECONDS = 5.0
DEAD_AFTER = timedelta(seconds=10)
#: A final state that its card does not show after this time is drawn here.
OVERDUE = timedelta(seconds=10)
#: A stop that no process has carried out within this time is carried out here.
STOP_OVERDUE = timedelta(seconds=10)
#: Time in which the final state of a card is drawn, if that failed or its process died.
CARDS_DRAWN_FOR = timedelta(hours=1)
LOST_AFTER = timedelta(seconds=LOST_AFTER_SECONDS)


#: Regular work.
Duty = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Heartbeat:
    """Tracks the gaps between the heartbeats that this process has stored."""

    monotonic: Callable[[], float] = time.monotonic
    _last: float | None = None
    _since: float = 0.0

    def beat(self) -> None:
        """Record that a heartbeat was stored."""
        now = self.monotonic()
        if self._last is None or now - self._last > DEAD_AFTER.total_seconds() / 2:
            self._since = now
        self._last = now

    @property
    def recent(self) -> bool:
        """True if the last heartbeat is so young that other processes take this one for alive."""
        return self._last is not None and (
            self.monotonic() - self._last < DEAD_AFTER.total_seconds()
        )

    @property
    def steady(self) -> bool:
        """True if other processes had the time for a heartbeat since the last gap."""
        if self._last is None:
            return False
        now = self.monotonic()
        gap = DEAD_AFTER.total_seconds()
        return now - self._since >= gap / 2 and now - self._last <= gap / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """Does the periodic duties of one process.

    Attributes:
        typed: Carries out commands that a dead process left.
        active: The runs at work in this process; `turns` holds the turns.
        present: Returns the user at this process's terminal; `None` without one.
        stored_outcome: Returns the outcome of a run without a worker, by its steps: see `Runner`.
        on_crashes: Called with the number of processes that ended without being asked to.
        configuration: Returns the fingerprint of the configuration in force.
        version: The version of the bot, with that of its tables.
        further: Returns the duties of other modules, done as often as the sweep.
        platforms: The platforms whose work this process may do.
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
    answers: Answers
    queue: TurnQueue
    typed: DurableCommands
    settings: Live[SubagentSettings]
    retention: Retention
    tasks: Tasks
    present: Callable[[], Identity | None]
    now: Clock
    stored_outcome: Callable[[Run, Outcome], Awaitable[Outcome]]
    configuration: Callable[[], str] = str
    version: str = ""
    on_crashes: Callable[[int], None] = lambda _: None
    further: Callable[[], Sequence[Duty]] = tuple
    _logged: dict[str, str] = field(default_factory=dict)
    _further: set[Duty] = field(default_factory=set)
    heartbeat: Heartbeat = field(default_factory=Heartbeat)

    async def run(self) -> None:
        """Do all duties until cancelled."""
        async with asyncio.TaskGroup() as group:
            for seconds, duty in (
                (BEAT_SECONDS, self.beat),
                (BEAT_SECONDS, self.notice_deaths),
                (POLL_SECONDS, self.poll),
                (POLL_SECONDS, self.interrupt_silent),
                (SWEEP_SECONDS, self.recover),
                (SWEEP_SECONDS, self.sweep),
                (SWEEP_SECONDS, self.release),
                (SWEEP_SECONDS, self.checkpoint),
                (None, self.retention.apply),
            ):
                group.create_task(self._every(seconds, duty), name=f"upkeep: {duty.__name__}")
            while True:
                self.do_further(group)
                await asyncio.sleep(SWEEP_SECONDS)

    async def _every(self, seconds: float | None, duty: Duty) -> None:
        """Repeat a duty after so many seconds; `None` for the configured interval."""
        while True:
            await self._do(duty)
            await asyncio.sleep(seconds or self.settings().cleanup_interval_seconds)

    async def _do(self, duty: Duty) -> None:
        """Do a duty once; a failure is logged once and ends nothing."""
        name = duty.__name__
        try:
            await duty()
            self._logged.pop(name, None)
        except Exception as error:
            if is_connection_trouble(error):
                self.database.outages.failed(error)
            elif repr(error) != self._logged.get(name):
                self._logged[name] = repr(error)
                log.exception("The regular duty %s failed; it is tried again", name)

    def do_further(self, group: asyncio.TaskGroup) -> None:
        """Begin the duties of other modules that exist now, except those that are under way.

        One that takes long, such as a request to a model, delays no other.
        """
        for duty in self.further():
            if duty not in self._further:
                self._further.add(duty)
                group.create_task(self._finish(duty), name=f"upkeep: {duty.__name__}")

    async def _finish(self, duty: Duty) -> None:
        try:
            await self._do(duty)
        finally:
            self._further.discard(duty)

    # -- being alive -----------------------------------------------------------------------------

    async def enter(self) -> None:
        """Register this process as running."""
        configuration = self.configuration()
        async with self.database.transaction() as tx:
            before = await workers.newest_configuration(tx)
            await self._start(tx)
            if configuration != before:
                entry = AuditEntry(
                    actor=SYSTEM,
                    action="configuration",
                    place=CONSOLE,
                    subject=configuration[:16],
                    effect="in force since a start",
                    created_at=self.now(),
                )
                await audit.record(tx, entry)

    async def _start(self, tx: Transaction) -> None:
        await workers.start(
            tx,
            self.worker_id,
            list(self.platforms),
            self.configuration(),
            version=self.version,
        )

    async def beat(self) -> None:
        """Store a heartbeat of this process."""
        async with self.database.heartbeat() as tx:
            if not await workers.heartbeat(tx, self.worker_id):
                # The registration was deleted while the machine slept.
                await self._start(tx)
        self.heartbeat.beat()

    async def announce_leaving(self) -> None:
        """Record that this process was asked to end, so that its end counts as no crash."""
        async with self.database.heartbeat() as tx:
            await workers.leave(tx, self.worker_id)

    async def leave(self) -> None:
        """Record that this process ends in good order."""
        await self.database.write(workers.stop, self.worker_id)

    # -- stops and messages from other processes -------------------------------------------------

    async def poll(self) -> None:
        """Check for stops and messages that other processes stored for work in this process."""
        at_work, answering = list(self.active.by_id), list(self.turns.by_id)
        # On SQLite no other process can update a card that is shown here.
        watched = {} if self.database.is_sqlite else self.cards.watched(at_work)
        if not (at_work or answering or watched):
            return
        async with self.database.snapshot() as tx:
            to_stop = await runs.cancel_requested(tx, at_work)
            mail = await run_messages.having_unread(tx, at_work)
            to_end = await turns.stop_requested(tx, answering)
            moved = await runs.get_many(tx, list(watched))
            stoppers = {
                run.id: shown_name(await users.stopper_of(tx, run.id))
                for run in moved
                if run.status is RunStatus.CANCELLED
            }
        for run_id in to_stop:
            self.active.stop(run_id)
        for run_id in mail:
            self.active.notify_of_message(run_id)
        for turn_id in to_end:
            self.turns.stop(turn_id)
        for run in moved:
            self.cards.refresh(watched[run.id], run, stopped_by=stoppers.get(run.id, ""))

    async def interrupt_silent(self) -> None:
        """Interrupt work without an event for too long: it reports, and ends as stalled."""
        for kind, active in (("run", self.active), ("turn", self.turns)):
            for work_id in active.interrupt_silent():
                log.warning("The %s %s is interrupted: no event for too long", kind, work_id)

    async def notice_deaths(self) -> None:
        """Take over at once from a process that has just become silent for too long."""
        lately = timedelta(seconds=SWEEP_SECONDS)
        if not self.database.is_sqlite and await self.database.read(
            workers.died_lately, DEAD_AFTER, lately
        ):
            await self.take_over()

    # -- taking over, delivering -----------------------------------------------------------------

    async def recover(self) -> None:
        """Take over abandoned work, and begin work that no process has begun."""
        await self.take_over()
        await self.engine.resume()
        for waiting in await self.database.read(turns.waiting_conversations):
            await self.queue.start_next(*waiting)

    async def sweep(self) -> None:
        """Deliver announcements that are due, and close questions that have expired."""
        await self.announcements.sweep()
        await self.answers.expire()
        # The cards of ended runs that do not show it: the process that drew them died.
        now = self.now()
        async with self.database.snapshot() as tx:
            left = await run_cards.not_drawn(
                tx, self.platforms, since=now - CARDS_DRAWN_FOR, before=now - OVERDUE
            )
            owners = {run.user_id: await users.get(tx, run.user_id) for run in left}
            batches_left = {
                run.batch_id or run.id: await deliveries.in_batch(tx, run) for run in left
            }
        for run in left:
            if owner := owners[run.user_id]:
                batch = batches_left[run.batch_id or run.id]
                same = [each for each in batch if each.card_message_id == run.card_message_id]
                self.cards.track_batch(same, run, owner.identity)
        user = self.present()
        if user is not None:
            waiting = self.announcements.deliver_waiting(user)
            self.tasks.start(waiting, name="deliver waiting announcements")

    async def take_over(self) -> None:
        """Take the work of processes without a recent heartbeat from them.

        On SQLite only one process runs at a time: every other process is dead. On PostgreSQL a
        process without steady heartbeats of its own judges no other: the cause was the database.
        """
        if not self.database.is_sqlite and not self.heartbeat.steady:
            return
        async with self.database.transaction() as tx:
            if not await workers.try_take_over_lock(tx):
                return
            alive = await self._alive(tx)
            crashes = await workers.count_crashes(tx, alive)
            under_way = self.announcements.under_way
            await pools.settle_lost(tx, alive, self.now())
            unsure = await outbox.recover(tx, alive, me=self.worker_id, under_way=under_way)
            commands_left = await self.typed.take_over(tx, alive, self.platforms)
            left = await self.engine.take_over(tx, alive)
        self.typed.carry_out_again(commands_left)
        if crashes:
            self.on_crashes(crashes)
        if left:
            log.info("%d pieces of work of dead processes can be taken", left)
            self.engine.offer()
        if unsure:
            log.info("%d announcements may have been sent before; they are sent again", unsure)

    async def _alive(self, tx: Transaction) -> list[str]:
        if self.database.is_sqlite:
            return [self.worker_id]
        return [self.worker_id, *await workers.alive(tx, DEAD_AFTER)]

    async def checkpoint(self) -> None:
        """Shorten the log of a SQLite file."""
        await self.database.checkpoint()

    async def release(self) -> None:
        """End runs that cannot continue, and admit queued runs: an outage may have lost either.

        A run that no process will continue holds a slot until it ends. A run of another live
        process is left to that one: one tool of it may take hours, and clocks may differ.
        """
        now = self.now()
        before = now - STOP_OVERDUE
        async with self.database.snapshot() as tx:
            left = [
                *await runs.unfinished(tx, before=before),
                *await runs.admitted(tx, before=before),
                *await admission.admitted_sync(tx),
            ]
            delegated = [run.id for run in left if run.mode == "sync"]
            alone = await admission.without_caller(tx, delegated)
            others = {*await self._alive(tx)} - {self.worker_id}
        most_sync = timedelta(seconds=self.settings().sync_timeout_seconds + 300)
        for run in left:
            if run.worker_id in others:
                continue
            silent, asked = now - run.updated_at, run.cancel_requested_at
            if asked and run.id in alone:
                outcome = Outcome(status=RunStatus.CANCELLED)
            elif run.id in alone or (run.mode == "sync" and silent > most_sync):
                error = "The work that asked for it is over."
                outcome = Outcome(status=RunStatus.FAILED, error=error)
            elif silent > LOST_AFTER:
                outcome = Outcome(status=RunStatus.LOST)
            elif asked and asked < before:
                outcome = Outcome(status=RunStatus.CANCELLED)
            else:
                continue
            if not self.active.holds(run.id):
                outcome = await self.stored_outcome(run, outcome)
                await self.endings.end(run, outcome, attempt=run.attempt)
        await self.endings.promote()

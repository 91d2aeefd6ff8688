"""Admits, delegates, resumes, messages and stops runs."""

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from bot.agent.plain import plain
from bot.agent.sanitizer import stored
from bot.conversations.access import is_operator, own_scope
from bot.errors import BadRequestError, LimitReachedError, NotAllowedError
from bot.events import EventBus, RunAdmitted, RunSpawned
from bot.rights.effective import UNLIMITED_RIGHTS, Rights, RightsOf, unlimited
from bot.spending.pools import Payer
from bot.subagents import resuming
from bot.subagents.active import ActiveRuns
from bot.subagents.cards import Cards, InnerRuns
from bot.subagents.endings import Endings, wrap
from bot.subagents.limits import Admission, SubagentSettings, decide
from bot.subagents.planning import PlannedRun, RunPlanner, within_parent
from bot.subagents.records import Records
from bot.subagents.requests import (
    PRIVATE,
    RIGHTS,
    Caller,
    RunRequest,
    Spawned,
    UsageReport,
)
from bot.subagents.wording import Outcome, for_caller
from bot.values import Clock, Identity, Live, RunStatus, derived_run_id, new_run_id, short
from db import (
    admission,
    commands,
    deliveries,
    pauses,
    run_messages,
    run_questions,
    runs,
    scratch,
    steps,
    users,
    whiteboard,
)
from db.database import Database, Transaction
from db.runs import Run

log = logging.getLogger(__name__)

MAX_MESSAGE = 4000
WAITS = "An admin has paused new work here: it begins after the pause."
NOT_DELEGATED = (
    "An admin has paused new work here, so nothing can be delegated. Answer without it, or use "
    "sessions_spawn: that run begins after the pause."
)
#: The handle of all runs that were started together with a run.
_BATCH = re.compile(r"(?P<run>[0-9a-f-]{4,36})\+")
LONGEST_WAIT_SECONDS = 6 * 3600.0


#: Returns the refusal of a new run for a payer, read in a transaction; empty for none.
Exhausted = Callable[[Transaction, Payer], Awaitable[str]]


@dataclass(kw_only=True)
class SubagentManager:
    """Admits runs, and lets their owners resume, message and stop them.

    Attributes:
        settings: The caps on runs.
        work: Executes a run in place, for a delegated task whose caller waits.
        rights: Returns the rights of a user in a place, which narrow the caps.
        exhausted: Returns the refusal of a new run whose payer has used up a limit, or nothing.
    """

    database: Database
    settings: Live[SubagentSettings]
    planner: RunPlanner
    records: Records
    endings: Endings
    active: ActiveRuns
    events: EventBus
    inner: InnerRuns
    cards: Cards
    work: Callable[[str], Awaitable[None]]
    now: Clock
    exhausted: Exhausted
    rights: RightsOf = unlimited

    @property
    def longest_wait_seconds(self) -> float:
        """The longest wait for a delegated task; the run's own limits end it earlier.

        It is `subagents.sync_timeout_seconds` and an allowance for the waits for the owner.
        """
        return self.settings().sync_timeout_seconds + LONGEST_WAIT_SECONDS

    # -- admission -------------------------------------------------------------------------------

    async def spawn(self, request: RunRequest, caller: Caller, *, mode: str = "async") -> Spawned:
        """Admit or queue a background run; its result will be announced.

        A run of the mode `sync`, whose caller waits for it, is admitted or refused.

        Raises:
            LimitReachedError: A cap refuses it.
            NotAllowedError: Subagents are off, the caller is a run that may not start runs, or the
                user may not use the agent or the model.
            BadRequestError: The request is invalid.
        """
        rights = await self.rights(caller.user, caller.place)
        if caller.run_id is not None:
            spawner = await self.database.read(runs.get, caller.run_id)
            if spawner is not None:
                rights = Rights.of_json(spawner.metadata.get(RIGHTS)).within(rights)
        self._guard(caller, rights)
        plan = self.planner.within(rights).plan(request, caller, mode=mode)
        async with self.database.admission() as tx:
            if caller.run_id is not None:
                parent = await runs.get(tx, caller.run_id)
                plan = replace(plan, run=within_parent(plan.run, parent))
            spawned = await self._admit(tx, plan, rights, caller.user)
            if not spawned.new:
                return spawned
            await self.records.record(tx, "spawn", spawned.run, caller, spawned.run.agent)
            for key, value in request.whiteboard.items():
                await whiteboard.write(tx, spawned.run.id, stored(key), stored(value), self.now())
        self._publish(spawned.run, caller.user)
        return spawned

    async def delegate(self, request: RunRequest, caller: Caller) -> str:
        """Execute a task within the turn and return its wrapped result.

        Raises:
            LimitReachedError: A cap refuses it; a delegated task is never queued.
            NotAllowedError: Subagents are off, or the caller is a run that may not start runs.
            BadRequestError: The request is invalid.
        """
        spawned = await self.spawn(request, caller, mode="sync")
        with self.inner.track(spawned.run, request, caller) as inner:
            await self.work(spawned.run.id)
            over = await self.database.read(runs.get, spawned.run.id)
            if over is None or not over.status.final:
                raise BadRequestError("The delegated task was interrupted. Delegate it again.")
            text = for_caller(over, over.result or "", over.summary)
            if over.error:
                text = f"{over.error}\n\n{text}".strip()
            inner.over(over.status, text)
            result = await wrap(over, over.status, text)
        return "".join(f"{note}\n" for note in spawned.notes) + result

    async def resume(self, handle: str, caller: Caller) -> Spawned:
        """Start a new run with a fresh budget that continues an uncompleted run.

        The new run belongs to the owner of the other run and works in the same place. A run is
        continued once: a repeated request returns the run that continues it already.

        Raises:
            NotFoundError: No such run exists, or it belongs to another user.
            AmbiguousError: Several runs match the handle.
            BadRequestError: The run is unfinished or completed, or its steps are no longer stored.
            LimitReachedError: A cap refuses the new run.
            NotAllowedError: Subagents are off.
        """
        self._guard(caller, UNLIMITED_RIGHTS)
        before = await self.records.find(handle, caller, action="")
        resuming.check(before)
        async with self.database.snapshot() as tx:
            owner = await users.get(tx, before.user_id)
            carried, flags = await resuming.carried(tx, before)
        if owner is None:
            raise LookupError(f"run {before.id} belongs to nobody")
        now = await self.rights(owner.identity, before.place)
        rights = Rights.of_json(before.metadata.get(RIGHTS)).within(now)
        planner = self.planner.within(rights)
        plan = planner.again(before, resuming.continuation_id(before.id))
        plan.run.metadata.update(flags)
        async with self.database.admission() as tx:
            spawned = await self._admit(tx, plan, rights, owner.identity)
            if not spawned.new:
                return spawned
            await self.records.record(tx, "resume", spawned.run, caller, f"continues {before.id}")
            await steps.carry(tx, spawned.run.id, carried, self.now())
            await whiteboard.copy(tx, before.id, spawned.run.id)
            await scratch.copy(tx, before.id, spawned.run.id)
            await commands.apply(tx, caller.command_id, self.now())
        self._publish(spawned.run, owner.identity)
        return spawned

    def _guard(self, caller: Caller, rights: Rights) -> None:
        """Refuse runs for a run that may not start any; such a run should not even see the tool."""
        settings = rights.narrowed(self.settings())
        if not settings.enabled:
            raise NotAllowedError("Subagents are switched off here (`subagents.enabled`).")
        if caller.depth >= settings.max_depth or (caller.run_id is not None and caller.depth == 0):
            log.warning("Run %s tried to start a run", caller.run_id)
            raise NotAllowedError("A subagent cannot start subagents. Do the task yourself.")

    async def _admit(
        self, tx: Transaction, plan: PlannedRun, rights: Rights, owner: Identity
    ) -> Spawned:
        """Insert a run, or return the run that an earlier, identical request has inserted."""
        may_queue = plan.run.mode == "async"
        now, settings = self.now(), rights.narrowed(self.settings())
        rate = settings.spawn_rate_limit if may_queue else settings.delegation_rate_limit
        window = now - timedelta(seconds=rate.window_seconds)
        before = await admission.before(tx, plan.run, window)
        if before.known and (known := await runs.get(tx, before.known)):
            waits = known.status is RunStatus.QUEUED
            position = await admission.queue_position(tx, known) if waits else None
            return Spawned(run=known, position=position, notes=tuple(plan.notes), new=False)
        payer = Payer(user=owner, place=plan.run.place, work_id=plan.run.id)
        if refusal := await self.exhausted(tx, payer):
            raise LimitReachedError(refusal, limit="spending")
        paused = await pauses.listed(tx) if before.any_pause else []
        held = pauses.covering(paused, plan.run.user_id, plan.run.place) is not None
        if held and not may_queue:
            raise NotAllowedError(NOT_DELEGATED)
        usage = before.usage
        if paused and usage.queued and not held:
            # Runs that a pause holds elsewhere neither come first nor fill the queue here.
            queued = await admission.unpaused(tx, plan.run.user_id, paused)
            usage = replace(usage, queued=queued)
        decision = decide(settings, usage, now, may_queue=may_queue, paused=held)
        waits = decision is Admission.QUEUED
        status = RunStatus.QUEUED if waits else RunStatus.ACCEPTED
        run = await admission.insert_run(tx, plan.run, status, now)
        position = await admission.queue_position(tx, run) if waits else None
        notes = (*plan.notes, WAITS) if held else tuple(plan.notes)
        return Spawned(run=run, position=position, notes=notes)

    def _publish(self, run: Run, owner: Identity) -> None:
        self.cards.track(run, owner)
        self.events.publish(
            RunSpawned(
                run_id=run.id,
                user_id=run.user_id,
                agent=run.agent,
                label=run.label,
                place=run.place,
                status=run.status,
                conversation_id=run.conversation_id,
                mode=run.mode,
                token_budget=run.token_budget,
            )
        )
        if run.status is RunStatus.ACCEPTED and run.mode == "async":
            self.events.publish(RunAdmitted(run_id=run.id, mode=run.mode))

    # -- messages and stopping -------------------------------------------------------------------

    async def send(self, handle: str, text: str, caller: Caller) -> str:
        """Store a message for a run: the answer to its open question, or input for its next step.

        Raises:
            NotFoundError: No such run exists, or it belongs to another user.
            AmbiguousError: Several runs match the handle.
            BadRequestError: The message is empty or too long.
        """
        cleaned = plain(text, limit=None).strip()
        if not cleaned or len(cleaned) > MAX_MESSAGE:
            raise BadRequestError(f"A message to a run has 1 to {MAX_MESSAGE:,} characters.")
        run = await self.records.find(handle, caller, action="")
        message_id = derived_run_id(*caller.key) if caller.key else new_run_id()
        async with self.database.transaction() as tx:
            current = await runs.hold(tx, run.id)
            if current is None or current.status.final:
                over = current.status if current else "gone"
                return f"“{run.label}” ({short(run.id)}) is over ({over}): it cannot read this."
            await commands.apply(tx, caller.command_id, self.now())
            if run.user_id != caller.user.key:
                await self.records.record(tx, "send", run, caller)
            if caller.private:
                # The message may repeat private material.
                await runs.add_metadata(tx, current, {PRIVATE: True})
            waiting = await run_questions.open_of(tx, run.id, "input")
            answered = bool(waiting) and await run_questions.answer(
                tx,
                waiting[0].id,
                status="yes",
                # A message that the main agent passes on is no answer by the user directly.
                by=caller.user.key if caller.call_key is None else "",
                now=self.now(),
                text=waiting[0].meant_by(cleaned),
            )
            if not answered:
                await run_messages.add(
                    tx, message_id=message_id, run_id=run.id, text=cleaned, now=self.now()
                )
        if answered:
            self.active.notify(run.id)
            return f"“{run.label}” ({short(run.id)}) has your answer and goes on."
        self.active.notify_of_message(run.id)
        return f"Queued for “{run.label}” ({short(run.id)}): it reads this at its next step."

    async def stop(self, handle: str, caller: Caller) -> list[Run]:
        """Stop a run, or `all` runs of the caller, and return the runs that were stopped.

        The id of a run with a `+` means the run and all others that its turn started.

        A run that has begun is cancelled at once in this process and within 2 s in another. A run
        that has not begun has ended when this returns.

        Raises:
            NotFoundError: No such run exists, or it belongs to another user.
            AmbiguousError: Several runs match the handle.
        """
        if handle.strip().lower() == "all":
            scope = own_scope(caller)
            wanted = await self.database.read(
                runs.active, scope.owner, parent=caller.run_id, read_in=scope.read_in
            )
        else:
            together = _BATCH.fullmatch(handle.strip())
            run = await self.records.find(
                together["run"] if together else handle, caller, action=""
            )
            wanted = [run]
            if together:
                others = await self.database.read(deliveries.in_batch, run)
                going = [each for each in others if each.id != run.id and not each.status.final]
                # Each is looked up, since the caller may not have access to all of them.
                wanted += [await self.records.find(each.id, caller, action="") for each in going]
        # The last stop completes the command: after an earlier crash the rest is stopped again.
        stopped = [await self._stop(run, caller, last=run is wanted[-1]) for run in wanted]
        return [run for run in stopped if run is not None]

    async def stop_run(self, run: Run, caller: Caller) -> Run | None:
        """Stop a run within the powers of an admin; `None` if it is over."""
        return await self._stop(run, caller, last=False)

    async def _stop(self, run: Run, caller: Caller, *, last: bool) -> Run | None:
        async with self.database.transaction() as tx:
            if last:
                await commands.apply(tx, caller.command_id, self.now())
            asked = await runs.request_cancel(tx, run.id, by=caller.user.key, now=self.now())
            if asked is not None:
                await self.records.record(tx, "stop", asked, caller, f"it was {asked.status}")
        if asked is None:
            return None
        if not self.active.stop(asked.id) and asked.status in _NOT_BEGUN:
            outcome = Outcome(status=RunStatus.CANCELLED)
            over = await self.endings.end(asked, outcome, attempt=asked.attempt)
            return over or asked
        return asked

    async def usage(self, caller: Caller) -> UsageReport:
        """Return the user's usage and limits; for operators, with the number of all users."""
        rights = await self.rights(caller.user, caller.place)
        settings, user, now = rights.narrowed(self.settings()), caller.user.key, self.now()
        window = now - timedelta(seconds=settings.spawn_rate_limit.window_seconds)
        delegating = now - timedelta(seconds=settings.delegation_rate_limit.window_seconds)
        async with self.database.snapshot() as tx:
            counts = await admission.counts(tx, user, window)
            delegated = await admission.counts(tx, user, delegating, mode="sync")
            tokens, weighted, cost_runs = await admission.tokens_since(
                tx, user, now - timedelta(days=1)
            )
            everyone = await users.count(tx) if is_operator(caller) else None
        return UsageReport(
            settings=settings,
            runs=counts,
            delegated=delegated.started_in_window,
            tokens_today=tokens,
            weighted_today=weighted,
            runs_today=cost_runs,
            people=everyone,
        )


_NOT_BEGUN = {RunStatus.QUEUED, RunStatus.ACCEPTED}

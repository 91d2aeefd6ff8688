"""Executes a run from claim to outcome."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bot.agent.base_agent import INTERRUPTED_OUTPUT, BaseAgent
from bot.agent.messages import Usage, estimate_tokens
from bot.agent.progress import AgentResult, Progress
from bot.errors import BotError, DatabaseUnreachableError, FencedError, LeftError
from bot.events import EventBus, RunStarted, RunStatusChanged
from bot.logs import bound
from bot.models.base import Model
from bot.subagents.active import ActiveRun, ActiveRuns, Why
from bot.subagents.asking import Asking
from bot.subagents.budget import Unlimited
from bot.subagents.clock import WorkClock
from bot.subagents.endings import Endings
from bot.subagents.progress import Cards
from bot.subagents.restarts import Restarts
from bot.subagents.run_factory import RunFactory
from bot.subagents.summaries import Summaries
from bot.subagents.wording import Outcome
from bot.tasks import Tasks
from bot.values import Clock, Identity, RunStatus
from db import run_messages, runs, users
from db.database import Database, is_connection_trouble, patiently
from db.runs import Run

log = logging.getLogger(__name__)

MAX_CRASHES = 3
LOST_AFTER_SECONDS = 2 * 3600
OUR_FAULT = "Something went wrong on our side; the log says more."


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Executes runs; the engine calls `work`, and repeats the call after a crash.

    Attributes:
        turns: The turns executed here: a delegated task pauses the clock of its waiting turn.
        model_of: Returns the model for the provider and the model name of a run's row.
        ask_owner: Creates the `Asking` with which one attempt at a run asks its owner.
    """

    database: Database
    factory: RunFactory
    endings: Endings
    summaries: Summaries
    active: ActiveRuns
    turns: ActiveRuns
    events: EventBus
    cards: Cards
    restarts: Restarts
    tasks: Tasks
    model_of: Callable[[str, str], Model]
    ask_owner: Callable[[Run, Identity, ActiveRun], Asking]
    max_response_tokens: int
    worker_id: str
    now: Clock

    async def work(self, run_id: str) -> None:
        """Make one attempt at a run, until it has ended or this process cannot continue it."""
        try:
            claimed = await self._claim(run_id)
            if claimed is None:
                return
            run, owner, mail = claimed
            with bound(run=run.id, user=run.user_id, conversation=run.conversation_id):
                await self._work(run, owner, mail=mail)
        finally:
            self.restarts.passed(run_id)

    async def _work(self, run: Run, owner: Identity, *, mail: bool) -> None:
        active = self.active.enter(run.id)
        active.mail = mail
        progress = Progress()
        clock = WorkClock(run.timeout_ms / 1000, run.seconds_used)
        active.clocks = (clock, *self._clocks_waiting(run))
        try:
            outcome = await self._attempt(run, owner, active, progress, clock)
        except FencedError:
            log.warning("Run %s has been taken over by another process", run.id)
            return
        except (LeftError, DatabaseUnreachableError) as outage:
            self.cards.pause([run.id], str(outage))
            raise
        except asyncio.CancelledError:
            if await self._leave(run, active, progress):
                raise
            error = "" if active.why is Why.STOPPED else "The turn that waited for it was ended."
            text = progress.partial_text()
            stopped = Outcome(status=RunStatus.CANCELLED, text=text, error=error)
            await self._end(run, self._measured(stopped, progress, clock))
            if active.why is not Why.STOPPED:
                raise  # the cancellation of the turn that waited for this run continues
            return
        finally:
            self.active.leave(run.id, active)
        await self._end(run, outcome)

    def _clocks_waiting(self, run: Run) -> tuple[WorkClock, ...]:
        """Return the clocks of the turn or run that waits for a delegated task."""
        if run.mode != "sync":
            return ()
        waits = self.active.by_id.get(run.parent_run_id or "")
        waits = waits or self.turns.by_id.get(run.batch_id)
        return waits.clocks if waits else ()

    async def _claim(self, run_id: str) -> tuple[Run, Identity, bool] | None:
        """Begin an attempt; return the run, its owner, and True if a message waits for it."""
        run = owner = None
        mail: Sequence[tuple[str, str]] = ()
        async with self.database.transaction() as tx:
            before = await runs.get(tx, run_id)
            if before is None or before.status.final:
                return None
            waits = before.attempt > 0 and await self.restarts.must_wait(tx, run_id)
            if not waits:
                reserve = estimate_tokens(before.task) + min(
                    self.max_response_tokens, INTERRUPTED_OUTPUT
                )
                run = await runs.claim(
                    tx,
                    run_id,
                    worker_id=self.worker_id,
                    reserve=min(reserve, before.token_budget),
                    now=self.now(),
                )
                owner = await users.get(tx, before.user_id)
                mail = await run_messages.unread(tx, run_id)
        if waits:
            await self.restarts.wait(run_id)
            return await self._claim(run_id)
        if run is None or owner is None:
            return None
        silent_for = (self.now() - before.updated_at).total_seconds()
        if silent_for > LOST_AFTER_SECONDS:
            await self._end(run, await self.stored_outcome(run, Outcome(status=RunStatus.LOST)))
            return None
        self.cards.track(run, owner.identity)
        known = {"run_id": run.id, "user_id": run.user_id}
        self.events.publish(RunStatusChanged(old=before.status, new=run.status, **known))
        self.events.publish(RunStarted(resumed=run.attempt > 1, **known))
        return run, owner.identity, bool(mail)

    async def _attempt(
        self,
        run: Run,
        owner: Identity,
        active: ActiveRun,
        progress: Progress,
        clock: WorkClock,
    ) -> Outcome:
        if (over := _over_already(run, clock)) is not None:
            return await self.stored_outcome(run, over)
        try:
            async with asyncio.timeout(clock.hard_left()) as limit:
                clock.cuts_off(limit)
                result = await self._agent_work(run, owner, active, progress)
                outcome = _outcome(result, clock)
                spent = partial(progress.spend, Unlimited())
                return await self.summaries.shorten(run, outcome, clock, spent=spent)
        except Exception as error:  # noqa: BLE001 - unknown kinds are logged
            late = limit.expired()
            return self._measured(
                self._went_wrong(run, progress, error, late=late), progress, clock
            )

    async def _agent_work(
        self, run: Run, owner: Identity, active: ActiveRun, progress: Progress
    ) -> AgentResult:
        asking = self.ask_owner(run, owner, active)
        await asking.resume()
        with active.clocks[0].paused():
            away = await self.factory.servers_away(run)
        toolbox = self.factory.toolbox(run, asking)
        around = self.factory.around(run, owner, active, asking)
        config = self.factory.config(run, toolbox)
        model = self.model_of(run.provider or "", config.model)
        agent = BaseAgent(config, model, toolbox, around, progress=progress)
        result = await agent.run(await self.factory.beginning(run, away))
        lacking = self.factory.lacking(run, away, progress)
        return replace(result, error=result.error or lacking)

    # -- the end ---------------------------------------------------------------------------------

    async def _leave(self, run: Run, active: ActiveRun, progress: Progress) -> bool:
        """Leave the run to another process if its cancellation asks for it; return True then."""
        if active.why is Why.STOPPED or (active.why is None and run.mode == "sync"):
            return False
        if active.why is Why.DRAINING:
            await self._shielded(self._release(run, progress.usage))
        return True

    async def _release(self, run: Run, usage: Usage) -> None:
        """Release a run and store its cost; no step holds the cost of an interrupted request."""
        counts = {
            "input_tokens": usage.all_input,
            "output_tokens": usage.output,
            "discounted_tokens": usage.discount,
        }
        known = counts if usage.total > run.tokens else None
        async with self.database.transaction() as tx:
            await runs.release(tx, run.id, run.attempt, self.now(), known)

    async def _end(self, run: Run, outcome: Outcome) -> None:
        """Store the outcome, even if this task is cancelled meanwhile."""
        await self._shielded(self._write_end(run, outcome))

    async def _write_end(self, run: Run, outcome: Outcome) -> None:
        try:
            ended = await patiently(lambda: self.endings.end(run, outcome, attempt=run.attempt))
        except DatabaseUnreachableError as outage:
            self.cards.pause([run.id], str(outage))
            raise
        if ended is None:
            log.info("Run %s had ended already, or another process has it", run.id)

    async def _shielded(self, work: Coroutine[None, None, None]) -> None:
        await asyncio.shield(self.tasks.start(work, name="end of a run"))

    async def stored_outcome(self, run: Run, otherwise: Outcome) -> Outcome:
        """Return the outcome of earlier attempts: the final answer's, if one is stored.

        Args:
            run: The run.
            otherwise: The outcome of a run without a final answer; its text becomes the partial
                text.
        """
        clock, progress = WorkClock(run.timeout_ms / 1000, run.seconds_used), Progress()
        entries = await self.factory.journal(run, clock).load()
        progress.begin([], entries)
        progress.charge(run.tokens)
        if progress.halt is None:
            return replace(otherwise, text=progress.partial_text())
        return _outcome(progress.result(), clock)

    def _went_wrong(self, run: Run, progress: Progress, error: Exception, *, late: bool) -> Outcome:
        """Return the outcome for an error; re-raise errors that leave the run resumable."""
        text = progress.partial_text()
        if late and isinstance(error, TimeoutError):
            return Outcome(status=RunStatus.TIMEOUT, text=text)
        if isinstance(error, FencedError | LeftError) or is_connection_trouble(error):
            raise error
        if isinstance(error, BotError):
            return Outcome(status=RunStatus.FAILED, text=text, error=str(error))
        log.error("Run %s failed", run.id, exc_info=error)
        return Outcome(status=RunStatus.FAILED, text=text, error=OUR_FAULT)

    def _measured(self, outcome: Outcome, progress: Progress, clock: WorkClock) -> Outcome:
        """Add the counts, if this attempt has any."""
        outcome = replace(outcome, seconds_used=clock.used())
        if not (progress.answers or progress.usage.total):
            return outcome
        return replace(
            outcome,
            input_tokens=progress.usage.all_input,
            output_tokens=progress.usage.output,
            discounted_tokens=progress.usage.discount,
            tool_calls=progress.tool_calls,
            model=progress.model,
            transcript=progress.transcript(),
        )


def _over_already(run: Run, clock: WorkClock) -> Outcome | None:
    """Return the outcome of a run that must not continue; `None` if it may."""
    if run.cancel_requested_at is not None:
        return Outcome(status=RunStatus.CANCELLED)
    if run.crashes >= MAX_CRASHES:
        error = f"Its process ended {MAX_CRASHES} times in a row while it was at work."
        return Outcome(status=RunStatus.FAILED, error=error)
    return Outcome(status=RunStatus.TIMEOUT) if clock.hard_left() <= 0 else None


def _outcome(result: AgentResult, clock: WorkClock) -> Outcome:
    return Outcome(
        status=result.status,
        text=result.text,
        error=result.error,
        degraded=result.degraded,
        input_tokens=result.usage.all_input,
        output_tokens=result.usage.output,
        discounted_tokens=result.usage.discount,
        tool_calls=result.tool_calls,
        seconds_used=clock.used(),
        model=result.model,
        transcript=result.transcript,
    )

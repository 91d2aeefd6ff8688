"""Executes a run from claim to outcome."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bot.agent.activity import Activity
from bot.agent.base_agent import INTERRUPTED_OUTPUT
from bot.agent.budget import UNLIMITED, TokenBudget, WorkClock
from bot.agent.journal import run_columns, usage_of
from bot.agent.messages import Usage, estimate_tokens
from bot.agent.progress import AgentResult, Progress
from bot.agent.settings import AgentSettings
from bot.errors import BotError, DatabaseUnreachableError, FencedError, LeftError
from bot.events import EventBus, RunStarted, RunStatusChanged
from bot.logs import bound
from bot.subagents.active import ActiveRun, ActiveRuns, CancelReason, Restarts
from bot.subagents.asking import OwnerQuestions
from bot.subagents.cards import Cards
from bot.subagents.endings import Endings
from bot.subagents.run_factory import RunFactory, payer_of
from bot.subagents.summaries import Summaries
from bot.subagents.wording import Outcome
from bot.tasks import Tasks
from bot.values import WAITING, Clock, Identity, Live, RunStatus
from db import deliveries, run_claims
from db.database import Database, Transaction, is_connection_trouble, patiently
from db.group_writer import GroupWriter
from db.run_claims import ClaimedRun, OwnedRun
from db.runs import Run

log = logging.getLogger(__name__)

MAX_CRASHES = 3
LOST_AFTER_SECONDS = 2 * 3600
OUR_FAULT = "Something went wrong on our side; the log says more."


@dataclass(frozen=True, slots=True)
class _RunClaim:
    """An attempt to begin a run.

    Attributes:
        before: The run before it.
        run: The run in this attempt; `None` if it has not begun.
        batch: The runs whose cards share the message of this one, if it is not shown here.
        waits: The run must wait for its turn, see `Restarts`.
    """

    before: OwnedRun
    run: ClaimedRun | None = None
    batch: Sequence[Run] = ()
    waits: bool = False


@dataclass(eq=False, slots=True, kw_only=True)
class Runner:
    """Executes runs; the engine calls `work`, and repeats the call after a crash.

    Attributes:
        turns: The turns executed here: a delegated task pauses the clock of its waiting turn.
        ask_owner: Creates the `OwnerQuestions` of one attempt at a run.
        price_of: Returns the price of a usage in micro-dollars, for a provider and a model.
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
    ask_owner: Callable[[Run, Identity, ActiveRun], OwnerQuestions]
    price_of: Callable[[str, str, Usage], int | None]
    agent_settings: Live[AgentSettings]
    worker_id: str
    now: Clock
    monotonic: Callable[[], float] = time.monotonic
    _claims: GroupWriter[str, _RunClaim | None] = field(init=False)

    def __post_init__(self) -> None:
        """Create the writer of claims, which runs that start together share."""
        self._claims = GroupWriter(
            database=self.database,
            tasks=self.tasks,
            name="claim runs",
            store=self._begin,
            # The check for abandoned work repeats it.
            patience_seconds=0,
        )

    async def work(self, run_id: str) -> None:
        """Make one attempt at a run, until it has ended or this process cannot continue it."""
        try:
            claimed = await self._claim(run_id)
            if claimed is None:
                return
            run, owner = claimed
            with bound(run=run.id, user=run.user_id, conversation=run.conversation_id):
                await self._execute(run, owner)
        finally:
            self.restarts.passed(run_id)

    async def _execute(self, run: ClaimedRun, owner: Identity) -> None:
        active = self.active.enter(run.id)
        active.has_messages = run.has_messages
        progress = Progress()
        clock = WorkClock(run.timeout_ms / 1000, run.seconds_used)
        # The turn or run that waits for a delegated task.
        waits = None
        if run.mode == "sync":
            waits = self.active.by_id.get(run.parent_run_id or "")
            waits = waits or self.turns.by_id.get(run.batch_id)
        active.clocks = (clock, *(waits.clocks if waits else ()))
        active.activity = Activity(
            clock.total,
            waits=lambda: clock.stands_still,
            around=waits.activity if waits else None,
            monotonic=self.monotonic,
        )
        try:
            outcome = await self._attempt(run, owner, active, progress, clock)
        except FencedError:
            log.warning("Run %s has been taken over by another process", run.id)
            return
        except (LeftError, DatabaseUnreachableError) as outage:
            self.cards.pause([run.id], str(outage))
            raise
        except asyncio.CancelledError:
            stopped = active.reason is CancelReason.STOPPED
            if active.reason is CancelReason.DRAINING:
                # No step holds the cost of an interrupted request.
                usage = progress.usage
                known = run_columns(usage) if usage.total > run.tokens else None
                release = partial(run_claims.release, run_id=run.id, attempt=run.attempt)
                await self._shielded(self.database.write(release, now=self.now(), counts=known))
            if not stopped and (active.reason is not None or run.mode != "sync"):
                raise  # another process resumes the run
            error = "" if stopped else "The turn that waited for it was ended."
            text = progress.partial_text()
            result = AgentResult(status=RunStatus.CANCELLED, text=text, error=error)
            outcome = _outcome(result, progress, clock)
            await self._shielded(self._end(run, outcome))
            if not stopped:
                raise  # the cancellation of the turn that waited for this run continues
            return
        finally:
            self.active.leave(run.id, active)
        await self._shielded(self._end(run, outcome))

    async def _claim(self, run_id: str) -> tuple[ClaimedRun, Identity] | None:
        """Begin an attempt; return the run and its owner."""
        claim = await self._claims.write(run_id)
        if claim is None:
            return None
        before, run, batch = claim.before, claim.run, claim.batch
        if claim.waits:
            await self.restarts.wait(run_id)
            return await self._claim(run_id)
        if run is None:
            return None
        silent_for = (self.now() - before.updated_at).total_seconds()
        if silent_for > LOST_AFTER_SECONDS:
            outcome = await self.stored_outcome(run, Outcome(status=RunStatus.LOST))
            await self._shielded(self._end(run, outcome))
            return None
        self.cards.track_batch(batch, run, before.user)
        known = {"run_id": run.id, "user_id": run.user_id}
        self.events.publish(RunStatusChanged(old=before.status, new=run.status, **known))
        self.events.publish(RunStarted(resumed=run.attempt > 1, **known))
        return run, before.user

    async def _begin(self, tx: Transaction, run_ids: Sequence[str]) -> list[_RunClaim | None]:
        """Begin attempts at runs that are not over."""
        # Locked, so that their reserved tokens have a price.
        held = await run_claims.hold(tx, run_ids)
        going = {run_id: run for run_id, run in held.items() if not run.status.final}
        return [
            await self._begin_one(tx, going[run_id]) if run_id in going else None
            for run_id in run_ids
        ]

    async def _begin_one(self, tx: Transaction, before: OwnedRun) -> _RunClaim:
        if before.attempt > 0 and await self.restarts.must_wait(tx, before.id):
            return _RunClaim(before, waits=True)
        reserve = estimate_tokens(before.task) + min(
            self.agent_settings().max_response_tokens, INTERRUPTED_OUTPUT
        )
        output = min(before.reserved_tokens, INTERRUPTED_OUTPUT)
        # The price of the request during which the former process ended.
        lost = Usage(input=before.reserved_tokens - output, output=output)
        names = before.provider or "", before.model or ""
        run = await run_claims.claim(
            tx,
            before.id,
            worker_id=self.worker_id,
            reserve=min(reserve, before.token_budget),
            now=self.now(),
            cost=self.price_of(*names, lost) if output else 0,
        )
        batch: Sequence[Run] = ()
        # A message from an earlier process, or another one, that shows the whole batch.
        if run is not None and run.card_message_id and not self.cards.has(run.id):
            batch = await deliveries.in_batch(tx, run)
        return _RunClaim(before, run, batch)

    async def _attempt(
        self,
        run: Run,
        owner: Identity,
        active: ActiveRun,
        progress: Progress,
        clock: WorkClock,
    ) -> Outcome:
        """Return the outcome of an attempt; raise errors that leave the run resumable."""
        over = None
        if run.cancel_requested_at is not None:
            over = Outcome(status=RunStatus.CANCELLED)
        elif run.crashes >= MAX_CRASHES:
            error = f"The process ended {MAX_CRASHES} times in a row during this run."
            over = Outcome(status=RunStatus.FAILED, error=error)
        elif clock.hard_left() <= 0:
            over = Outcome(status=RunStatus.TIMEOUT)
        if over is not None:
            return await self.stored_outcome(run, over)
        try:
            async with asyncio.timeout(clock.hard_left()) as limit:
                clock.limit = limit
                questions = self.ask_owner(run, owner, active)
                if run.status in WAITING:
                    await questions.resume()
                with clock.paused():
                    away = await self.factory.servers_away(run)
                agent = self.factory.agent(run, owner, active, questions, progress)
                result = await agent.run(await self.factory.beginning(run, away))
                outcome = _outcome(result, progress, clock)
                lacked = self.factory.lacked(run, away, progress)
                outcome = replace(outcome, error=outcome.error or lacked)
                spent = partial(progress.spend, TokenBudget(UNLIMITED))
                payer = payer_of(run, owner)
                return await self.summaries.shorten(run, outcome, clock, payer=payer, spent=spent)
        except Exception as error:
            status, text = RunStatus.FAILED, OUR_FAULT
            if limit.expired() and isinstance(error, TimeoutError):
                status, text = RunStatus.TIMEOUT, ""
            elif isinstance(error, FencedError | LeftError) or is_connection_trouble(error):
                raise
            elif isinstance(error, BotError):
                text = str(error)
            else:
                log.error("Run %s failed", run.id, exc_info=error)
            result = AgentResult(status=status, text=progress.partial_text(), error=text)
            return _outcome(result, progress, clock)

    # -- the end ---------------------------------------------------------------------------------

    async def _end(self, run: Run, outcome: Outcome) -> None:
        try:
            ended = await patiently(lambda: self.endings.end(run, outcome, attempt=run.attempt))
        except DatabaseUnreachableError as outage:
            self.cards.pause([run.id], str(outage))
            raise
        if ended is None:
            log.info("Run %s had ended already, or another process has it", run.id)

    async def _shielded(self, work: Coroutine[None, None, None]) -> None:
        """Complete the work, even if this task is cancelled meanwhile."""
        await asyncio.shield(self.tasks.start(work, name="end of a run", brief=True))

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
        progress.charge_earlier(usage_of(run, discount=run.discounted_tokens))
        if progress.halt is None:
            return replace(otherwise, text=progress.partial_text())
        return _outcome(progress.result(), progress, clock)


def _outcome(result: AgentResult, progress: Progress, clock: WorkClock) -> Outcome:
    """Return the outcome of an attempt, with the counts if it has any."""
    outcome = Outcome(
        status=result.status,
        text=result.text,
        error=result.error,
        degraded=result.degraded,
        seconds_used=clock.used(),
    )
    if not (progress.answers or progress.usage.total):
        return outcome
    return replace(
        outcome,
        usage=progress.usage,
        tool_calls=progress.tool_calls,
        model=progress.model,
        transcript=progress.transcript(),
    )

"""What happens inside a run, from claim to outcome."""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from bot.agent.base_agent import AgentConfig, BaseAgent, Surroundings
from bot.agent.context import run_prompt, run_task
from bot.agent.definition import Agents, find
from bot.agent.journal import StoredJournal
from bot.agent.messages import estimate_tokens
from bot.agent.progress import AgentResult, Progress
from bot.agent.protocols import AnswerEntry
from bot.agent.settings import AgentSettings
from bot.agent.toolbox import Toolbox
from bot.errors import BotError, FencedError
from bot.events import EventBus, RunStarted, RunStatusChanged
from bot.logs import bound
from bot.models.base import Model
from bot.subagents.active import ActiveRun, ActiveRuns, RunInbox, Why
from bot.subagents.budget import Budget
from bot.subagents.clock import WorkClock
from bot.subagents.endings import Endings
from bot.subagents.limits import SubagentSettings
from bot.subagents.progress import Cards, RunReporter
from bot.subagents.wording import Outcome
from bot.tasks import Tasks
from bot.values import Clock, Identity, Role, RunStatus, utc_now
from db import run_messages, runs, users
from db.database import Database, is_connection_trouble, patiently
from db.runs import Run
from db.steps import StepWriter
from skills.base import Tool, ToolContext

log = logging.getLogger(__name__)

MAX_CRASHES = 3
LOST_AFTER_SECONDS = 2 * 3600
OUR_FAULT = "Something went wrong on our side; the log says more."


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What every run works with.

    Attributes:
        model_of: Gives the provider that a run's row names.
        tools_of: Gives the tools that a run may have.
    """

    database: Database
    writer: StepWriter
    tasks: Tasks
    events: EventBus
    agents: Agents
    settings: SubagentSettings
    agent_settings: AgentSettings
    cards: Cards
    model_of: Callable[[str], Model]
    tools_of: Callable[[Run], tuple[Tool, ...]]
    worker_id: str
    now: Clock = utc_now


class Runner:
    """Works on runs: `work` is what the engine calls, again after a crash."""

    def __init__(self, shop: Workshop, endings: Endings, active: ActiveRuns) -> None:
        self._shop = shop
        self._endings = endings
        self._active = active

    async def work(self, run_id: str) -> None:
        """Do one attempt at a run, until it is over or cannot go on in this process."""
        claimed = await self._claim(run_id)
        if claimed is None:
            return
        run, owner, mail = claimed
        with bound(run=run.id, user=run.user_id, conversation=run.conversation_id):
            await self._work(run, owner, mail=mail)

    async def _work(self, run: Run, owner: Identity, *, mail: bool) -> None:
        active = self._active.enter(run.id)
        active.mail = mail
        progress = Progress()
        clock = WorkClock(run.timeout_ms / 1000, run.seconds_used)
        try:
            outcome = await self._attempt(run, owner, active, progress, clock)
        except FencedError:
            log.warning("Run %s has been taken over by another process", run.id)
            return
        except asyncio.CancelledError:
            if await self._leave(run, active):
                raise
            error = "" if active.why is Why.STOPPED else "The turn that waited for it was ended."
            text = progress.partial_text()
            stopped = Outcome(status=RunStatus.CANCELLED, text=text, error=error)
            await self._end(run, self._measured(stopped, progress, clock))
            if active.why is not Why.STOPPED:
                raise  # the turn that waited for this run was cancelled, and goes on to be
            return
        finally:
            self._active.leave(run.id, active)
        await self._end(run, outcome)

    async def _claim(self, run_id: str) -> tuple[Run, Identity, bool] | None:
        """Begin an attempt; return the run, its owner, and whether a message waits for it."""
        shop = self._shop
        async with shop.database.transaction() as tx:
            before = await runs.get(tx, run_id)
            if before is None or before.status.final:
                return None
            reserve = estimate_tokens(before.task) + shop.agent_settings.max_response_tokens
            run = await runs.claim(
                tx,
                run_id,
                worker_id=shop.worker_id,
                reserve=min(reserve, before.token_budget),
                now=shop.now(),
            )
            owner = await users.get(tx, before.user_id)
            mail = await run_messages.unread(tx, run_id)
        if run is None or owner is None:
            return None
        silent_for = (shop.now() - before.updated_at).total_seconds()
        if silent_for > LOST_AFTER_SECONDS:
            await self._end(run, Outcome(status=RunStatus.LOST))
            return None
        shop.cards.track(run, owner.identity)
        known = {"run_id": run.id, "user_id": run.user_id}
        shop.events.publish(RunStatusChanged(old=before.status, new=run.status, **known))
        shop.events.publish(RunStarted(resumed=run.attempt > 1, **known))
        return run, owner.identity, bool(mail)

    async def _attempt(
        self,
        run: Run,
        owner: Identity,
        active: ActiveRun,
        progress: Progress,
        clock: WorkClock,
    ) -> Outcome:
        if run.cancel_requested_at is not None:
            return Outcome(status=RunStatus.CANCELLED, text=await self._earlier_text(run))
        if run.crashes >= MAX_CRASHES:
            error = f"Its process ended {MAX_CRASHES} times in a row while it was at work."
            text = await self._earlier_text(run)
            return Outcome(status=RunStatus.FAILED, text=text, error=error)
        if clock.hard_left() <= 0:
            return Outcome(status=RunStatus.TIMEOUT, text=await self._earlier_text(run))
        try:
            async with asyncio.timeout(clock.hard_left()) as limit:
                around = self._around(run, owner, active, clock)
                result = await self._agent_work(run, around, progress)
        except Exception as error:  # noqa: BLE001 - logged where it is no known kind
            late = limit.expired()
            return self._measured(
                self._went_wrong(run, progress, error, late=late), progress, clock
            )
        return _outcome(result, clock)

    def _around(
        self, run: Run, owner: Identity, active: ActiveRun, clock: WorkClock
    ) -> Surroundings:
        shop = self._shop
        reporter = RunReporter(shop.events, run, clock)
        return Surroundings(
            journal=self._journal(run, clock),
            meter=Budget(run.token_budget),
            timer=clock,
            inbox=RunInbox(shop.database, run.id, active),
            reporter=reporter,
            caller=ToolContext(
                user=owner,
                role=Role.USER,
                place=run.place,
                conversation_id=run.conversation_id,
                work_id=run.id,
                call_id="",
                run_id=run.id,
                depth=run.depth,
                now=shop.now,
                report=reporter.report,
            ),
            spent_before=run.tokens,
        )

    async def _agent_work(self, run: Run, around: Surroundings, progress: Progress) -> AgentResult:
        shop = self._shop
        toolbox = Toolbox(
            shop.tools_of(run),
            is_subagent=True,
            tasks=shop.tasks,
            timeout_seconds=shop.settings.tool_timeout_seconds,
        )
        model = shop.model_of(run.provider or "")
        agent = BaseAgent(self._config(run, toolbox), model, toolbox, around, progress=progress)
        return await agent.run([run_task(run.task, run.context)])

    def _journal(self, run: Run, clock: WorkClock) -> StoredJournal:
        shop = self._shop
        return StoredJournal(
            database=shop.database,
            writer=shop.writer,
            table="runs",
            work_id=run.id,
            attempt=run.attempt,
            now=shop.now,
            seconds_used=clock.used,
        )

    def _config(self, run: Run, toolbox: Toolbox) -> AgentConfig:
        settings = self._shop.agent_settings
        definition, _ = find(self._shop.agents, run.agent)
        began = (run.started_at or run.created_at).astimezone(ZoneInfo(settings.timezone))
        return AgentConfig(
            prompt=run_prompt(
                definition.prompt,
                run.instructions,
                time=f"{began:%A %d %B %Y, %H:%M} ({settings.timezone})",
                tools=toolbox.names,
            ),
            model=run.model or "",
            max_steps=run.max_steps,
            max_tool_calls=self._shop.settings.max_tool_calls_per_run,
            max_response_tokens=settings.max_response_tokens,
            context_tokens=settings.context_tokens,
            tool_result_characters=settings.tool_result_characters,
            person=opaque(run.user_id),
        )

    # -- how it ends -----------------------------------------------------------------------------

    async def _leave(self, run: Run, active: ActiveRun) -> bool:
        """Leave the run to another process, if that is why it was cancelled."""
        if active.why is Why.STOPPED or (active.why is None and run.mode == "sync"):
            return False
        if active.why is Why.DRAINING:
            await self._shielded(self._release(run))
        return True

    async def _release(self, run: Run) -> None:
        async with self._shop.database.transaction() as tx:
            await runs.release(tx, run.id, run.attempt, self._shop.now())

    async def _end(self, run: Run, outcome: Outcome) -> None:
        """Write the outcome, whatever happens to this task meanwhile."""
        await self._shielded(self._write_end(run, outcome))

    async def _write_end(self, run: Run, outcome: Outcome) -> None:
        if await patiently(lambda: self._endings.end(run, outcome, attempt=run.attempt)) is None:
            log.info("Run %s had ended already, or another process has it", run.id)

    async def _shielded(self, work: Coroutine[None, None, None]) -> None:
        await asyncio.shield(self._shop.tasks.start(work, name="end of a run"))

    async def _earlier_text(self, run: Run) -> str:
        """Return the words of the steps that earlier attempts finished."""
        entries = await self._journal(run, WorkClock(1)).load()
        texts = [entry.answer.text.strip() for entry in entries if isinstance(entry, AnswerEntry)]
        return "\n\n".join(text for text in texts if text)

    def _went_wrong(self, run: Run, progress: Progress, error: Exception, *, late: bool) -> Outcome:
        """Return the outcome; a database out of reach is none: the run is left resumable."""
        text = progress.partial_text()
        if late and isinstance(error, TimeoutError):
            return Outcome(status=RunStatus.TIMEOUT, text=text)
        if isinstance(error, FencedError) or is_connection_trouble(error):
            raise error
        if isinstance(error, BotError):
            return Outcome(status=RunStatus.FAILED, text=text, error=str(error))
        log.error("Run %s failed", run.id, exc_info=error)
        return Outcome(status=RunStatus.FAILED, text=text, error=OUR_FAULT)

    def _measured(self, outcome: Outcome, progress: Progress, clock: WorkClock) -> Outcome:
        """Fill in the counts, if this attempt got far enough to have any."""
        outcome = replace(outcome, seconds_used=clock.used())
        if not progress.answers:
            return outcome
        return replace(
            outcome,
            input_tokens=progress.usage.all_input,
            output_tokens=progress.usage.output,
            tool_calls=progress.tool_calls,
            model=progress.answers[-1].model,
            transcript=progress.transcript(),
        )


def _outcome(result: AgentResult, clock: WorkClock) -> Outcome:
    return Outcome(
        status=result.status,
        text=result.text,
        error=result.error,
        input_tokens=result.usage.all_input,
        output_tokens=result.usage.output,
        tool_calls=result.tool_calls,
        seconds_used=clock.used(),
        model=result.model,
        transcript=result.transcript,
    )


def opaque(user_id: str) -> str:
    """Return what a provider is told about who asks: the same for one person, and no name."""
    return hashlib.sha256(f"retinue {user_id}".encode()).hexdigest()[:32]

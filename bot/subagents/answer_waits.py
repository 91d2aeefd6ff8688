"""Shows the questions of a run, and waits for the answers without holding a slot."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from bot.errors import BotError, DeliveryError, FencedError, LeftError, NotPresentError
from bot.events import EventBus, QuestionSettled, RunStatusChanged
from bot.platforms.base import Outlet
from bot.subagents.active import ActiveRun
from bot.subagents.endings import Endings
from bot.subagents.limits import SubagentSettings
from bot.subagents.settling import confirmation_of
from bot.tasks import Tasks
from bot.values import Clock, Identity, Live, RunStatus
from db import run_questions, runs
from db.database import Database, is_connection_trouble
from db.run_questions import RunQuestion
from db.runs import Run

log = logging.getLogger(__name__)

#: Poll interval for answers stored by another process.
POLL_SECONDS = 1.0
#: Polls per heartbeat.
POLLS_PER_HEARTBEAT = 30
ASK_SECONDS = 60.0

NOT_ASKED = "The question could not be shown: something went wrong on our side."
LOST = "the run has ended, or another process has it"


@dataclass(slots=True)
class AnswerWaiter:
    """Shows questions for one attempt at a run, and waits for their answers.

    While it waits, the run holds no slot, and the clocks are paused: its own, and those of
    everything that waits for the run.

    Attributes:
        settings: The settings of runs.
    """

    run: Run
    owner: Identity
    active: ActiveRun
    database: Database = field(kw_only=True)
    outlets: Mapping[str, Outlet] = field(kw_only=True)
    endings: Endings = field(kw_only=True)
    events: EventBus = field(kw_only=True)
    tasks: Tasks = field(kw_only=True)
    settings: Live[SubagentSettings] = field(kw_only=True)
    now: Clock = field(kw_only=True)
    _asking: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    #: The waiting status of an earlier attempt, until the run holds a slot again.
    _left_waiting: RunStatus | None = field(init=False, default=None)

    async def resume(self) -> None:
        """Continue a wait of an earlier attempt: regain a slot if all questions have been answered.

        Raises:
            FencedError: Another process has taken the run over, or it has ended.
        """
        self._left_waiting = self.run.status
        open_ones = await self.database.read(run_questions.open_of_many, [self.run.id])
        if not open_ones:
            async with self._one_at_a_time():
                await self._regain_slot()

    async def _answered(self, question: RunQuestion, status: RunStatus) -> RunQuestion:
        """Ask, unless the question was answered before a crash, and return it with its answer."""
        async with self.database.transaction() as tx:
            await run_questions.put(tx, question, self.run.place, self.now())
            stored = await run_questions.get(tx, question.id)
        asked = stored or question
        if asked.is_open:
            async with self._waits(status):
                asked = await self._wait_for_answer(asked)
        self.events.publish(QuestionSettled(question_id=asked.id))
        return asked

    async def _show(self, question: RunQuestion) -> bool:
        """Show the question in the place of the run; if it was not shown, store a no as the answer.

        A question that may be visible stays open, since its owner may answer it.

        Returns:
            False if the owner is not present: they are asked when they are back. Otherwise True.
        """
        left = (question.expires_at - self.now()).total_seconds()
        shown = confirmation_of(question, self.owner, self.run.place, expires_in_seconds=left)
        try:
            async with asyncio.timeout(ASK_SECONDS):
                message_id = await self.outlets[self.run.place.platform].ask(shown)
        except NotPresentError:
            return False
        except Exception as error:
            if is_connection_trouble(error):
                raise
            may_be_visible = isinstance(error, TimeoutError) or (
                isinstance(error, DeliveryError) and error.fate_unknown
            )
            if not may_be_visible:
                log.warning("A question could not be asked", exc_info=error)
                reason = str(error) if isinstance(error, BotError) else NOT_ASKED
                await self.database.write(
                    run_questions.answer,
                    question.id,
                    status="no",
                    by="",
                    now=self.now(),
                    text=reason,
                )
                return True
            log.warning("It is unknown if a question is shown", exc_info=error)
            message_id = ""
        await self.database.write(run_questions.show, question.id, message_id, self.now())
        return True

    # -- waiting -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def _one_at_a_time(self) -> AsyncIterator[None]:
        """Serialise the questions of one step: one answer may make the next question unnecessary.

        Raises:
            LeftError: The database is unreachable, so it is unknown whether the run waits.
        """
        async with self._asking:
            try:
                yield
            except Exception as error:
                if is_connection_trouble(error):
                    raise LeftError(str(error)) from error
                raise

    @contextmanager
    def _pauses(self) -> Iterator[None]:
        with ExitStack() as pauses:
            for clock in self.active.clocks:
                pauses.enter_context(clock.paused())
            yield

    @asynccontextmanager
    async def _waits(self, status: RunStatus) -> AsyncIterator[None]:
        """Give the slot back while the block runs, and wait for a new one afterwards.

        A cancelled wait takes no slot back: the run ends, or is left to another process.
        """
        with self._pauses():
            async with self.database.admission() as tx:
                if not await runs.wait(tx, self.run.id, self.run.attempt, status, self.now()):
                    raise FencedError(LOST)
            self._publish(RunStatus.RUNNING, status)
            await self.endings.promote()
            yield
            await self._come_back(status)

    async def _regain_slot(self) -> None:
        """Wait for a slot, if an earlier attempt gave it back and this one has not waited since."""
        if self._left_waiting is not None:
            with self._pauses():
                await self._come_back(self._left_waiting)

    async def _come_back(self, status: RunStatus) -> None:
        async with self.database.admission() as tx:
            if not await runs.be_ready(tx, self.run.id, self.run.attempt, self.now()):
                raise FencedError(LOST)
        await self.endings.promote()
        looks = 0
        while True:
            run = await self.database.read(runs.get, self.run.id)
            if run is None or run.status.final or run.attempt != self.run.attempt:
                raise FencedError(LOST)
            if run.status is RunStatus.RUNNING:
                break
            looks += 1
            await self._pause(looks)
        self._left_waiting = None
        self._publish(status, RunStatus.RUNNING)

    async def _wait_for_answer(self, asked: RunQuestion) -> RunQuestion:
        """Show the question, and wait until it is answered or has expired."""
        looks, shown = 0, False
        while True:
            if not shown and self.now() < asked.expires_at:
                # Without the stored id of its message, the next attempt would post it once more.
                name = f"show question {asked.id}"
                shown = await self.tasks.finish(self._show(asked), name=name)
            question = await self.database.read(run_questions.get, asked.id)
            if question is None:
                raise FencedError("the run is gone")
            if not question.is_open:
                return question
            if self.now() >= question.expires_at:
                await self.database.write(run_questions.expire, self.now())
                continue
            looks += 1
            await self._pause(looks)

    async def _pause(self, looks: int) -> None:
        """Wait until woken or for one poll interval; write a heartbeat every so many polls."""
        if looks % POLLS_PER_HEARTBEAT == 0:
            held = (self.run.id, self.run.attempt, self.now())
            if not await self.database.write(runs.heartbeat, *held):
                raise FencedError(LOST)
        await self.active.wait(POLL_SECONDS)

    def _publish(self, old: RunStatus, new: RunStatus) -> None:
        known = {"run_id": self.run.id, "user_id": self.run.user_id}
        self.events.publish(RunStatusChanged(old=old, new=new, **known))

"""What a run asks its person: for a permission, or for what only they know; and how it waits."""

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from bot.agent.messages import ToolCall
from bot.agent.plain import plain
from bot.agent.sanitizer import one_line
from bot.errors import DeliveryError, FencedError, NotPresentError, ToolError
from bot.events import EventBus, RunStatusChanged
from bot.logs import without_secrets
from bot.platforms.base import Outlet
from bot.subagents.active import ActiveRun
from bot.subagents.endings import Endings
from bot.subagents.settling import Settling, confirmation_of
from bot.values import Clock, Identity, Json, RunStatus, derived_run_id, short
from db import admission, run_questions, runs, waiting
from db.database import Database
from db.run_questions import RunQuestion
from db.runs import Run
from skills.base import Tool, ToolContext

log = logging.getLogger(__name__)

#: No answer for so long is a no; a question is then gone on with on an assumption.
ANSWER_WITHIN = timedelta(minutes=10)
#: An answer that another process takes is seen so late at most.
LOOK_SECONDS = 1.0
#: Every so many looks it is written down that the run is alive.
LOOKS_TO_A_SIGN = 30
ASK_SECONDS = 60.0
MAX_OPTIONS = 5
MAX_QUESTION = 1500
MAX_OPTION = 60

ASSUME = "Go on with your best assumption, and say in your report which it was."
REFUSED = {
    "no": "Your person said no: {tool} was not called. Find another way, or go on without it.",
    "expired": "Your person did not answer within 10 minutes, which is a no: {tool} was not "
    "called. Find another way, or go on without it.",
    "withdrawn": "{tool} was not called: the run is being ended.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingDesk:
    """What every run asks with.

    Attributes:
        most_questions: How often a run may call `ask_user`.
    """

    database: Database
    outlets: Mapping[str, Outlet]
    endings: Endings
    settling: Settling
    events: EventBus
    most_questions: int
    now: Clock


class Asking:
    """Asks for one attempt at a run: the `Gate` of its tools, and what `ask_user` does.

    While it waits the run holds no slot, and the clocks stand still: its own, and those of whoever
    waits for it.
    """

    def __init__(self, desk: AskingDesk, run: Run, owner: Identity, active: ActiveRun) -> None:
        self._desk = desk
        self._run = run
        self._owner = owner
        self._active = active
        self._waiting = 0

    # -- for a permission --------------------------------------------------------------------------

    async def permit(self, tool: Tool, call: ToolCall, context: ToolContext, reason: str) -> str:
        """Ask whether the run may make a call, and wait; return why not, or nothing for a yes.

        Raises:
            FencedError: Another process has taken the run over, or it has ended.
        """
        if await self._permitted(tool.name):
            return ""
        bound = fingerprint(tool.name, call.arguments)
        question = self._question(
            context.call_id,
            kind="permit",
            tool=tool.name,
            fingerprint=bound,
            text=f"{self._who()} asks: may it use {spelled(tool.name, call.arguments)}?\n"
            f"It takes your yes, since {reason}.",
        )
        answered = await self._answered(question, RunStatus.WAITING_APPROVAL)
        if answered.status != "yes" or answered.fingerprint != bound:
            why = REFUSED.get(answered.status, REFUSED["no"]).format(tool=tool.name)
            return f"{why} ({answered.answer})" if answered.answer else why
        async with self._desk.database.transaction() as tx:
            await run_questions.use(tx, answered.id, self._desk.now())
        return ""

    async def may_have_begun(self, tool: Tool, call: ToolCall, context: ToolContext) -> bool:
        """Whether an attempt that was interrupted may have made this call."""
        async with self._desk.database.snapshot() as tx:
            asked = await run_questions.get(tx, self._id(context.call_id))
        if asked is None:
            return await self._permitted(tool.name)
        return asked.used_at is not None

    async def _permitted(self, tool: str) -> bool:
        async with self._desk.database.snapshot() as tx:
            return await run_questions.permitted(tx, self._run.id, tool)

    # -- for what only the person knows ------------------------------------------------------------

    async def ask(self, call_id: str, question: str, options: Sequence[str]) -> str:
        """Ask the person something, and wait; return what the model is told.

        Raises:
            ToolError: The question cannot be asked; the text says why.
            FencedError: Another process has taken the run over, or it has ended.
        """
        text = plain(question, limit=None).strip()
        offered = tuple(
            dict.fromkeys(one_line(option, MAX_OPTION) for option in options if option.strip())
        )
        if not text or len(text) > MAX_QUESTION or len(offered) > MAX_OPTIONS:
            raise ToolError(
                f"A question has 1 to {MAX_QUESTION} characters and at most {MAX_OPTIONS} options. "
                "Ask it in other words."
            )
        await self._check_number(call_id)
        asked = self._question(
            call_id, kind="input", text=f"{self._who()} asks:\n{text}", options=offered
        )
        answered = await self._answered(asked, RunStatus.WAITING_INPUT)
        match answered.status:
            case "yes":
                return f"Your person answered:\n{answered.answer}"
            case "no" if not answered.answer:
                return f"Your person skipped the question. {ASSUME}"
            case "no":
                return f"Your person could not be asked: {answered.answer} {ASSUME}"
            case _:
                return f"No answer came within 10 minutes. {ASSUME}"

    async def _check_number(self, call_id: str) -> None:
        most = self._desk.most_questions
        async with self._desk.database.snapshot() as tx:
            known = await run_questions.get(tx, self._id(call_id))
            asked = await run_questions.count(tx, self._run.id, "input")
        if known is None and asked >= most:
            raise ToolError(f"You have asked {asked} questions, and a run may ask {most}. {ASSUME}")

    # -- asking ------------------------------------------------------------------------------------

    def _id(self, call_id: str) -> str:
        """Return the id of the question of a call: the same when the call is made again."""
        return derived_run_id(self._run.id, call_id).replace("-", "")

    def _who(self) -> str:
        run = self._run
        return f"🤖 The run “{run.label}” (#{run.number} `{short(run.id)}`, agent `{run.agent}`)"

    def _question(self, call_id: str, *, kind: str, text: str, **further: object) -> RunQuestion:
        values: dict[str, object] = {
            "id": self._id(call_id),
            "run_id": self._run.id,
            "user_id": self._run.user_id,
            "kind": kind,
            "text": text,
            "expires_at": self._desk.now() + ANSWER_WITHIN,
        }
        return RunQuestion(**(values | further))  # type: ignore[arg-type]

    async def _answered(self, question: RunQuestion, status: RunStatus) -> RunQuestion:
        """Ask, unless it was answered before a crash, and return the question with its answer."""
        async with self._desk.database.transaction() as tx:
            await run_questions.put(tx, question, self._run.place, self._desk.now())
            stored = await run_questions.get(tx, question.id)
        asked = stored or question
        if not asked.is_open:
            return asked
        async with self._waits(status):
            heard = await self._heard(asked)
        self._desk.settling.soon(heard.id)
        return heard

    async def _show(self, question: RunQuestion) -> bool:
        """Show the question in the place of the run; where that cannot be, the answer is no.

        Returns:
            Whether that is done; a person who is not there is asked when they are back.
        """
        left = (question.expires_at - self._desk.now()).total_seconds()
        shown = confirmation_of(question, self._owner, self._run.place, expires_in_seconds=left)
        try:
            async with asyncio.timeout(ASK_SECONDS):
                message_id = await self._desk.outlets[self._run.place.platform].ask(shown)
        except NotPresentError:
            return False
        except (DeliveryError, TimeoutError) as error:
            log.warning("A question could not be asked: %s", error)
            why = str(error) or "The platform did not answer."
            async with self._desk.database.transaction() as tx:
                await run_questions.answer(
                    tx, question.id, status="no", by="", now=self._desk.now(), text=why
                )
            return True
        if message_id != question.message_id:
            async with self._desk.database.transaction() as tx:
                await run_questions.show(tx, question.id, message_id)
        return True

    # -- waiting -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def _waits(self, status: RunStatus) -> AsyncIterator[None]:
        """Give the slot back while the block lasts, and go on when there is one again.

        Whoever cancels the wait ends the run, or leaves it to another process: then nothing is
        taken back.
        """
        with ExitStack() as pauses:
            for clock in self._active.clocks:
                pauses.enter_context(clock.paused())
            self._waiting += 1
            await self._give_back(status)
            yield
            self._waiting -= 1
            if self._waiting == 0:
                await self._come_back(status)

    async def _give_back(self, status: RunStatus) -> None:
        async with self._desk.database.transaction() as tx:
            await admission.lock(tx)
            if not await waiting.wait(
                tx, self._run.id, self._run.attempt, status, self._desk.now()
            ):
                raise FencedError("the run has ended, or another process has it")
        self._tell(RunStatus.RUNNING, status)
        await self._desk.endings.promote()

    async def _come_back(self, status: RunStatus) -> None:
        async with self._desk.database.transaction() as tx:
            await admission.lock(tx)
            if not await waiting.be_ready(tx, self._run.id, self._run.attempt, self._desk.now()):
                raise FencedError("the run has ended, or another process has it")
        await self._desk.endings.promote()
        looks = 0
        while True:
            async with self._desk.database.snapshot() as tx:
                run = await runs.get(tx, self._run.id)
            if run is None or run.status.final or run.attempt != self._run.attempt:
                raise FencedError("the run has ended, or another process has it")
            if run.status is RunStatus.RUNNING:
                break
            looks += 1
            await self._pause(looks)
        self._tell(status, RunStatus.RUNNING)

    async def _heard(self, asked: RunQuestion) -> RunQuestion:
        """Show the question, and wait until it is answered or its time is over."""
        looks, shown = 0, False
        while True:
            shown = shown or await self._show(asked)
            async with self._desk.database.snapshot() as tx:
                question = await run_questions.get(tx, asked.id)
            if question is None:
                raise FencedError("the run is gone")
            if not question.is_open:
                return question
            if self._desk.now() >= question.expires_at:
                async with self._desk.database.transaction() as tx:
                    await run_questions.expire(tx, self._desk.now())
                continue
            looks += 1
            await self._pause(looks)

    async def _pause(self, looks: int) -> None:
        """Wait until something may have happened, and now and then leave a sign of life."""
        if looks % LOOKS_TO_A_SIGN == 0:
            async with self._desk.database.transaction() as tx:
                if not await waiting.touch(tx, self._run.id, self._run.attempt, self._desk.now()):
                    raise FencedError("the run has ended, or another process has it")
        await self._active.stirs(LOOK_SECONDS)

    def _tell(self, old: RunStatus, new: RunStatus) -> None:
        known = {"run_id": self._run.id, "user_id": self._run.user_id}
        self._desk.events.publish(RunStatusChanged(old=old, new=new, **known))


def fingerprint(tool: str, arguments: Json) -> str:
    """Return the hash that binds a permission to a tool and its arguments."""
    bound = json.dumps([tool, arguments], sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(bound.encode()).hexdigest()


def spelled(tool: str, arguments: Json) -> str:
    """Return a call as a person reads it; what is long is cut, and secrets are masked."""
    given = ", ".join(
        f"{name}={one_line(json.dumps(value, ensure_ascii=False, default=str), 200)}"
        for name, value in arguments.items()
    )
    return f"`{tool}({without_secrets(one_line(given, 500)).replace('`', 'ˋ')})`"

"""What a run asks its person: for a permission, or for what only they know; and how it waits."""

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from bot.agent.messages import ToolCall
from bot.agent.plain import plain
from bot.agent.sanitizer import one_line
from bot.agent.toolbox import may_have_run
from bot.errors import DeliveryError, FencedError, LeftError, NotPresentError, ToolError
from bot.events import EventBus, RunStatusChanged
from bot.logs import without_secrets
from bot.platforms.base import Outlet
from bot.subagents.active import ActiveRun
from bot.subagents.endings import Endings
from bot.subagents.settling import Settling, confirmation_of
from bot.values import WAITING, Clock, Identity, Json, RunStatus, derived_run_id, short
from db import run_questions, runs, waiting
from db.database import Database, is_connection_trouble
from db.run_questions import RunQuestion
from db.runs import Run
from skills.base import Effects, Tool, ToolContext

log = logging.getLogger(__name__)

#: No answer for so long is a no; a question is then gone on with on an assumption.
ANSWER_WITHIN = timedelta(minutes=10)
#: An answer that another process takes is seen so late at most.
LOOK_SECONDS = 1.0
#: Every so many looks it is written down that the run is alive.
LOOKS_TO_A_SIGN = 30
ASK_SECONDS = 60.0
#: After so many questions without an answer nobody is asked any more.
MOST_UNHEARD = 2
#: Characters of a call that is only named.
MOST_BRIEF = 300
#: Longer questions cannot be shown whole on every platform: the call is refused.
MOST_SHOWN = 24_000
TOO_LONG = (
    "{tool} was not called: its arguments are too long to be shown to your person whole. Shorten "
    "them, or split the call."
)
MAX_OPTIONS = 5
MAX_QUESTION = 1500
MAX_OPTION = 60

LOST = "the run has ended, or another process has it"

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
        self._asking = asyncio.Lock()
        # How an earlier attempt left it, as long as it has no slot again.
        self._left_waiting = run.status if run.status in WAITING else None

    # -- for a permission --------------------------------------------------------------------------

    async def permit(self, tool: Tool, call: ToolCall, context: ToolContext, reason: str) -> str:
        """Ask whether the run may make a call, and wait; return why not, or nothing for a yes.

        Raises:
            FencedError: Another process has taken the run over, or it has ended.
            LeftError: The database is out of reach: the run is left to be resumed.
        """
        bound = fingerprint(tool.name, call.arguments)
        question = self._question(
            context.call_id,
            kind="permit",
            tool=tool.name,
            fingerprint=bound,
            text=f"{self._who()} asks: may it use {spelled(tool.name, call.arguments)}?\n"
            f"It takes your yes, since {reason}.",
        )
        if len(question.text) > MOST_SHOWN:
            return TOO_LONG.format(tool=tool.name)
        async with self._one_at_a_time():
            answered = await self._permission(question)
            await self._regain_slot()
            if answered.status != "yes" or answered.fingerprint != bound:
                why = REFUSED.get(answered.status, REFUSED["no"]).format(tool=tool.name)
                return f"{why} ({answered.answer})" if answered.answer else why
            begins = await self._begin(answered)
        if not begins and tool.effects is Effects.ONCE:
            return may_have_run(call).text
        return ""

    async def _permission(self, question: RunQuestion) -> RunQuestion:
        """Return the question with its answer, which may have been given before."""
        async with self._desk.database.transaction() as tx:
            known = await run_questions.get(tx, question.id)
            if known is not None and not known.is_open:
                self._desk.settling.soon(known.id)
                return known
            if await run_questions.permitted(tx, self._run.id, question.tool):
                now = self._desk.now()
                await run_questions.put(tx, question, self._run.place, now)
                # Whoever permitted the tool has answered this as well, whether it was shown or not.
                by = self._run.user_id
                await run_questions.answer(tx, question.id, status="yes", by=by, now=now)
                self._desk.settling.soon(question.id)
                return replace(known or question, status="yes")
            unheard = await run_questions.count(tx, self._run.id, status="expired")
        if unheard >= MOST_UNHEARD:
            return replace(question, status="expired")
        return await self._answered(question, RunStatus.WAITING_APPROVAL)

    async def _begin(self, question: RunQuestion) -> bool:
        """Take note that a permitted call begins; `False` when an earlier attempt began it."""
        async with self._desk.database.transaction() as tx:
            run = await runs.hold(tx, self._run.id)
            if run is None or run.status.final or run.attempt != self._run.attempt:
                raise FencedError(LOST)
            return await run_questions.use(tx, question.id, self._desk.now())

    async def may_have_begun(self, call: ToolCall, context: ToolContext) -> bool:
        """Whether an attempt that was interrupted may have made this call."""
        async with self._desk.database.snapshot() as tx:
            asked = await run_questions.get(tx, self._id(context.call_id))
        return asked is None or asked.used_at is not None

    async def resume(self) -> None:
        """Go on where an earlier attempt waited: with a slot, when its person has answered since.

        Raises:
            FencedError: Another process has taken the run over, or it has ended.
        """
        if self._left_waiting is None:
            return
        async with self._desk.database.snapshot() as tx:
            open_ones = await run_questions.open_of_many(tx, [self._run.id])
        if not open_ones:
            async with self._one_at_a_time():
                await self._regain_slot()

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
        asked = self._question(
            call_id, kind="input", text=f"{self._who()} asks:\n{text}", options=offered
        )
        async with self._one_at_a_time():
            await self._check_number(call_id)
            answered = await self._answered(asked, RunStatus.WAITING_INPUT)
            await self._regain_slot()
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
        if asked.is_open:
            async with self._waits(status):
                asked = await self._heard(asked)
        self._desk.settling.soon(asked.id)
        return asked

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
        async with self._desk.database.transaction() as tx:
            await run_questions.show(tx, question.id, message_id, self._desk.now())
        return True

    # -- waiting -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def _one_at_a_time(self) -> AsyncIterator[None]:
        """Let the calls of one step ask one after the other: an answer to one may spare the next.

        Raises:
            LeftError: The database is out of reach, and whether the run waits is not known.
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
            for clock in self._active.clocks:
                pauses.enter_context(clock.paused())
            yield

    @asynccontextmanager
    async def _waits(self, status: RunStatus) -> AsyncIterator[None]:
        """Give the slot back while the block lasts, and go on when there is one again.

        Whoever cancels the wait ends the run, or leaves it to another process: then nothing is
        taken back.
        """
        with self._pauses():
            await self._give_back(status)
            yield
            await self._come_back(status)

    async def _regain_slot(self) -> None:
        """Wait for a slot, if an earlier attempt gave it back and this one has not waited since."""
        if self._left_waiting is not None:
            with self._pauses():
                await self._come_back(self._left_waiting)

    async def _give_back(self, status: RunStatus) -> None:
        async with self._desk.database.admission() as tx:
            if not await waiting.wait(
                tx, self._run.id, self._run.attempt, status, self._desk.now()
            ):
                raise FencedError(LOST)
        self._tell(RunStatus.RUNNING, status)
        await self._desk.endings.promote()

    async def _come_back(self, status: RunStatus) -> None:
        async with self._desk.database.admission() as tx:
            if not await waiting.be_ready(tx, self._run.id, self._run.attempt, self._desk.now()):
                raise FencedError(LOST)
        await self._desk.endings.promote()
        looks = 0
        while True:
            async with self._desk.database.snapshot() as tx:
                run = await runs.get(tx, self._run.id)
            if run is None or run.status.final or run.attempt != self._run.attempt:
                raise FencedError(LOST)
            if run.status is RunStatus.RUNNING:
                break
            looks += 1
            await self._pause(looks)
        self._left_waiting = None
        self._tell(status, RunStatus.RUNNING)

    async def _heard(self, asked: RunQuestion) -> RunQuestion:
        """Show the question, and wait until it is answered or its time is over."""
        looks, shown = 0, False
        while True:
            if not shown and self._desk.now() < asked.expires_at:
                shown = await self._show(asked)
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
                    raise FencedError(LOST)
        await self._active.stirs(LOOK_SECONDS)

    def _tell(self, old: RunStatus, new: RunStatus) -> None:
        known = {"run_id": self._run.id, "user_id": self._run.user_id}
        self._desk.events.publish(RunStatusChanged(old=old, new=new, **known))


def fingerprint(*bound: object) -> str:
    """Return the hash that binds an answer to what was shown: a call, and whose it is."""
    text = json.dumps(bound, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def spelled(tool: str, arguments: Json) -> str:
    """Return a call as a user reads it before a yes: whole; only secrets are masked."""
    given = ", ".join(
        f"{_line(name)}={_line(json.dumps(value, ensure_ascii=False, default=str))}"
        for name, value in arguments.items()
    )
    return f"`{tool}({without_secrets(given).replace('`', 'ˋ')})`"


def briefly_spelled(tool: str, arguments: Json) -> str:
    """Return the beginning of a call, to name it once it was shown whole."""
    whole = spelled(tool, arguments)
    return whole if len(whole) <= MOST_BRIEF else f"{whole[: MOST_BRIEF - 2]}…`"


def _line(text: str) -> str:
    return one_line(text, len(text) + 100)

"""Runs that ask, part by part: no engine and no models, but a real database and a fake platform."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from bot.agent.budget import WorkClock
from bot.agent.messages import ToolCall
from bot.agent.permissions import PermissionSettings
from bot.agent.protocols import AskedCall
from bot.agent.toolbox import Toolbox
from bot.conversations.answers import Answers
from bot.conversations.approvals import Approvals
from bot.conversations.deciding import Deciders
from bot.events import EventBus, QuestionSettled
from bot.platforms.base import CommandReply, Incoming
from bot.subagents.active import ActiveRun
from bot.subagents.asking import OwnerQuestions
from bot.subagents.limits import SubagentSettings
from bot.subagents.settling import Settling
from bot.subagents.shown_calls import fingerprint
from bot.tasks import Tasks
from bot.values import Clock, Identity, Json, Role, RunStatus, new_run_id
from db import run_questions
from db.database import Database
from db.run_questions import RunQuestion
from db.runs import Run
from skills.base import Effects, Tool, ToolContext
from tests.fakes.bank import no_role
from tests.fakes.office import FakeOffice, caller, limits
from tests.fakes.outlet import FakeOutlet
from tests.fakes.stored import Stored, room

#: A user may have so many runs at work.
SLOTS = 1
MOST_QUESTIONS = 3


class Asked:
    """What runs ask with, and what their people answer.

    Attributes:
        posted: What the tool `mail` was called with, in order.
        stirred: The runs that were told to look for an answer.
    """

    def __init__(self, database: Database, clock: Clock, tasks: Tasks, outlet: FakeOutlet) -> None:
        self.database, self.clock, self.tasks, self.outlet = database, clock, tasks, outlet
        self.office = FakeOffice(database, limits(per_user=SLOTS), clock)
        self.stored = Stored(database, clock)
        self.posted: list[Json] = []
        self.stirred: list[str] = []
        self._active: list[ActiveRun] = []
        outlets = {outlet.platform: outlet}
        events = EventBus()
        events.subscribe(QuestionSettled, Settling(database, outlets, tasks).on_settled)
        self._new_asking = partial(
            OwnerQuestions,
            database=database,
            outlets=outlets,
            endings=self.office.endings,
            events=events,
            tasks=tasks,
            settings=SubagentSettings(max_questions_per_run=MOST_QUESTIONS),
            now=clock,
        )
        approvals = Approvals(
            database, outlets, lambda _: None, events, clock, Deciders(no_role), tasks
        )
        self.answers = Answers(database, approvals, self._stir, clock)

    def _stir(self, run_id: str) -> None:
        self.stirred.append(run_id)
        for active in self._active:
            active.notify()

    async def run(self, user: Identity, **values: Any) -> Run:
        """Store a run that is at work, unless something else is given."""
        return await self.stored.run(user, **{"status": "running", "attempt": 1, **values})

    def asking(self, run: Run, user: Identity) -> OwnerQuestions:
        """Return what one attempt at a run asks with."""
        task: asyncio.Task[None] | None = asyncio.current_task()
        assert task is not None
        self._active.append(ActiveRun(task, clocks=(WorkClock(60),)))
        return self._new_asking(run, user, self._active[-1])

    def mail(self, **changes: Any) -> Tool:
        """Return a tool that acts on the world, and remembers what it did."""

        async def post(_: ToolContext, arguments: Json) -> str:
            self.posted.append(arguments)
            return "Posted."

        tool = Tool(name="mail", description="", schema={}, run=post, effects=Effects.ONCE)
        return replace(tool, **changes)

    def toolbox(self, asking: OwnerQuestions, *tools: Tool, **rules: str) -> Toolbox:
        """Return a run's tools; it has to ask before each of them, unless rules are given."""
        wanted = rules or {tool.name: "ask" for tool in tools}
        return Toolbox(
            tools,
            is_subagent=True,
            tasks=self.tasks,
            timeout_seconds=5,
            permissions=PermissionSettings.model_validate({"rules": wanted}).permissions,
            gate=asking,
        )

    def context(self, run: Run, user: Identity, call_id: str = "1.0") -> ToolContext:
        """Return who makes a call of a run."""
        return ToolContext(
            user=user,
            role=Role.USER,
            place=run.place,
            conversation_id=run.conversation_id,
            work_id=run.id,
            call_id=call_id,
            run_id=run.id,
            now=self.clock,
        )

    async def permit(
        self, asking: OwnerQuestions, run: Run, user: Identity, call_id: str = "1.0"
    ) -> str:
        """Ask for one call of `mail`; return why not, or nothing for a yes."""
        return await self.permit_call(asking, letter(call_id), self.context(run, user, call_id))

    async def permit_call(
        self, asking: OwnerQuestions, call: ToolCall, context: ToolContext
    ) -> str:
        """Ask for one call of `mail`, and begin it; return why not, or nothing."""
        mail = self.mail()
        asked = AskedCall(tool=mail, call=call, context=context, reason="it must be so")
        (refused,) = await asking.permit([asked])
        return refused or await asking.begin(mail, call, context)

    async def put(
        self, asking: OwnerQuestions, run: Run, call_id: str, *, rule: str = "", **answer: Any
    ) -> RunQuestion:
        """Store the question for a call of `mail` as an earlier attempt left it."""
        bound = fingerprint("mail", letter(call_id).arguments)
        question = asking._question(
            call_id, kind="permit", tool="mail", fingerprint=bound, text="May it?", rule=rule
        )
        async with self.database.transaction() as tx:
            await run_questions.put(tx, question, run.place, self.clock())
            await run_questions.show(tx, question.id, f"m{call_id}", self.clock())
            if answer:
                by = run.user_id
                await run_questions.answer(tx, question.id, by=by, now=self.clock(), **answer)
        return question

    async def wonder(
        self, asking: OwnerQuestions, run: Run, call_id: str = "1.0", *, shown: bool = True
    ) -> RunQuestion:
        """Store what a run wants to know as an earlier attempt left it."""
        question = asking._question(call_id, kind="input", text="Which?")
        async with self.database.transaction() as tx:
            await run_questions.put(tx, question, run.place, self.clock())
            if shown:
                await run_questions.show(tx, question.id, f"m{call_id}", self.clock())
        return question

    async def question(self, question_id: str) -> RunQuestion:
        """Return a question as it is now."""
        async with self.database.snapshot() as tx:
            found = await run_questions.get(tx, question_id)
        assert found is not None
        return found

    async def choose(self, user: Identity, question_id: str, choice: str) -> CommandReply:
        """Press a button."""
        reply = await self.answers.answer(caller(user), question_id, choice=choice)
        assert reply is not None
        return reply

    async def say(self, user: Identity, text: str, reply_to: str = "") -> CommandReply | None:
        """Let a user say something where their runs ask; `None` when it answers nothing."""
        incoming = Incoming(
            event_id=new_run_id(),
            user=user,
            user_name="Somebody",
            place=room(user),
            text=text,
            reply_to=reply_to,
        )
        return await self.answers.in_words(incoming, Role.USER, text)

    async def comes_to(self, run: Run, status: RunStatus) -> None:
        """Wait until a run is in this state."""

        async def there() -> bool:
            return (await self.stored.read_run(run.id)).status is status

        await until(there)

    async def is_shown(self, question_id: str) -> None:
        """Wait until it is known in which message a question stands."""

        async def there() -> bool:
            return bool((await self.question(question_id)).message_id)

        await until(there)

    @asynccontextmanager
    async def going(self, work: Coroutine[Any, Any, Any]) -> AsyncIterator["asyncio.Task[Any]"]:
        """Let something go on while the block lasts, and cancel it then."""
        task = self.tasks.start(work, name="work of a test")
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})


async def until(there: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(10):
        while not await there():  # noqa: ASYNC110 - it is the database that changes
            await asyncio.sleep(0.01)


def letter(call_id: str) -> ToolCall:
    """Return a call of `mail`, with arguments that no other call has."""
    return ToolCall(call_id, "mail", {"to": call_id})

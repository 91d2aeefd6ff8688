"""Confirmations: asked of the owner, answered once, expired."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from bot.agent.messages import ToolCall
from bot.agent.sanitizer import escape_for_model
from bot.conversations import inbound
from bot.conversations.access import scope_of
from bot.conversations.inbound import Event
from bot.errors import BotError, DeliveryError
from bot.platforms.base import CommandReply, Confirmation, Outlet
from bot.subagents.asking import fingerprint, spelled
from bot.subagents.requests import Caller
from bot.values import Clock, Identity, Json, Place, Role, derived_run_id
from db import approvals, conversations, users, workers
from db.approvals import Approval
from db.database import Database, Transaction
from skills.base import Tool, ToolContext

log = logging.getLogger(__name__)

EXPIRES_AFTER = timedelta(minutes=10)
ASK_SECONDS = 60.0
#: For a confirmed call of a tool that sets no limit of its own.
CALL_SECONDS = 60.0
#: A call that has not ended so long after its yes has lost its process.
LOST_AFTER = timedelta(minutes=15)
MAY_HAVE_RUN = (
    "The process ended while it was at work. It may have run, and is not made twice: see what it "
    "changed."
)
GONE = "There is nothing to confirm: it was answered already, has expired, or is not yours."


@dataclass(frozen=True, slots=True)
class Waiting:
    """A question that waits for its answer: its id, and the call that it is about."""

    id: str
    about: str


class Approvals:
    """Asks before a tool that needs a person's yes, and runs it when the yes comes.

    What is run is what was shown: the row holds the action, a hash binds it to person, tool and
    arguments, and it can be answered once.
    """

    def __init__(
        self,
        database: Database,
        outlets: Mapping[str, Outlet],
        find: Callable[[str], Tool | None],
        *,
        now: Clock,
    ) -> None:
        self._database = database
        self._outlets = outlets
        self._find = find
        self._now = now
        self._under_way: set[str] = set()

    async def ask(self, tool: Tool, call: ToolCall, context: ToolContext) -> Json:
        """Store and show the question; return at once what the model is told.

        Raises:
            BotError: What is asked for makes no sense, so nobody is asked.
        """
        arguments, words = call.arguments, "do this"
        if tool.prepare is not None:
            arguments, words = await tool.prepare(context, arguments)
        approval = self._approval(tool, arguments, context)
        async with self._database.transaction() as tx:
            before = await approvals.get(tx, approval.id)
            if before is None:
                await approvals.put(
                    tx,
                    approval,
                    place=context.place,
                    conversation_id=context.conversation_id,
                    now=self._now(),
                )
        if before is not None and before.status != "open":
            return {"status": before.status, "note": "The person has answered this already."}
        question = Confirmation(
            id=approval.id,
            owner=context.user,
            place=context.place,
            text=f"Shall I {words}? {spelled(approval.tool, approval.arguments)}",
            expires_in_seconds=EXPIRES_AFTER.total_seconds(),
        )
        try:
            async with asyncio.timeout(ASK_SECONDS):
                await self._outlets[context.place.platform].ask(question)
        except DeliveryError as error:
            await self._close(approval.id, "denied", context.user)
            return {"status": "denied", "reason": f"{error} It was not done."}
        except Exception:
            # Nobody saw the question, so nobody may answer it.
            await self._close(approval.id, "denied", context.user)
            raise
        async with self._database.transaction() as tx:
            await approvals.show(tx, approval.id, self._now())
        return {
            "status": "confirmation_asked",
            "note": "The person has been asked; it happens if they say yes. Do not call it again.",
        }

    def _approval(self, tool: Tool, arguments: Json, context: ToolContext) -> Approval:
        return Approval(
            # The same when the call is made again after a crash: asked once.
            id=derived_run_id(context.work_id, context.call_id).replace("-", ""),
            user_id=context.user.key,
            run_id=context.run_id,
            tool=tool.name,
            arguments=arguments,
            fingerprint=fingerprint(context.user.key, context.run_id, tool.name, arguments),
            context={
                "place": [
                    context.place.platform,
                    context.place.workspace,
                    context.place.channel,
                    context.place.thread,
                    context.place.message,
                ],
                "conversation_id": context.conversation_id,
                "role": str(context.role),
                "work_id": context.work_id,
                "call_id": context.call_id,
            },
            status="open",
            expires_at=self._now() + EXPIRES_AFTER,
        )

    async def answer(
        self,
        user: Identity,
        role: Role,
        approval_id: str,
        *,
        yes: bool,
        event: Event | None = None,
    ) -> CommandReply | None:
        """Take an answer: only the owner's, or an admin's, counts, and only the first.

        Args:
            user: The user who answers.
            role: Their role.
            approval_id: The question.
            yes: The answer.
            event: The message that holds it; `None` for a click.

        Returns:
            `None` when the event was stored before.
        """
        async with self._database.snapshot() as tx:
            approval = await approvals.get(tx, approval_id)
        scope = scope_of(Caller.of_user(user, role))
        if approval is None or not scope.covers(approval.user_id):
            return CommandReply(text=GONE, failed=True, refused=True)
        closed = await self._close(approval.id, "approved" if yes else "denied", user, event)
        if closed is None:
            return None
        if not closed:
            return CommandReply(text=GONE, failed=True, refused=True)
        if approval.user_id != user.key:
            await self._audit(approval, user)
        if not yes:
            await self._remember(approval, "The person said no; it was not done.")
            return CommandReply(text=f"Not done: {_briefly(approval)}.")
        return await self._run(approval)

    async def waiting(self, user: Identity, place: Place) -> list[Waiting]:
        """Return what this person was asked in this place and has not answered, newest first."""
        async with self._database.snapshot() as tx:
            found = await approvals.open_for(tx, user.key, place, self._now())
        return [Waiting(item.id, _briefly(item)) for item in found]

    async def expire(self) -> None:
        """Close the questions whose time is over: no answer is a no."""
        async with self._database.transaction() as tx:
            over = await approvals.expire(tx, self._now())
        for approval in over:
            await self._remember(approval, "The person did not answer in time; it was not done.")
        await self._tell_of_lost()

    async def _close(
        self, approval_id: str, status: str, user: Identity, event: Event | None = None
    ) -> bool | None:
        async def write(tx: Transaction) -> bool:
            return await approvals.answer(
                tx, approval_id, status=status, by=user.key, now=self._now()
            )

        return await inbound.store(self._database, event, write, self._now)

    async def _run(self, approval: Approval) -> CommandReply:
        context = await self._context(approval)
        tool = self._find(approval.tool)
        expected = fingerprint(approval.user_id, approval.run_id, approval.tool, approval.arguments)
        if tool is None or context is None or expected != approval.fingerprint:
            log.error("The confirmation %s is not what was shown", approval.id)
            await self._done(approval)
            return CommandReply(text=GONE, failed=True, refused=True)
        self._under_way.add(approval.id)
        try:
            text, failed = await self._called(tool, context, approval.arguments)
            await self._remember(approval, f"The person said yes. Result: {text}")
            await self._done(approval)
        finally:
            self._under_way.discard(approval.id)
        return CommandReply(text=text, failed=failed)

    async def _called(self, tool: Tool, context: ToolContext, arguments: Json) -> tuple[str, bool]:
        """Return what a confirmed call came to, and whether that is an error."""
        limit = tool.timeout_seconds or CALL_SECONDS
        try:
            async with asyncio.timeout(limit):
                return await tool.run(context, arguments), False
        except BotError as error:
            return str(error), True
        except TimeoutError:
            return f"{tool.name} did not answer within {limit:g} seconds; it may have run.", True
        except Exception:
            log.exception("The confirmed tool %s failed", tool.name)
            return f"{tool.name} failed on our side.", True

    async def _done(self, approval: Approval) -> bool:
        async with self._database.transaction() as tx:
            return await approvals.done(tx, approval.id, self._now())

    async def _tell_of_lost(self) -> None:
        """Tell of what was approved when its process ended: it is not made twice."""
        async with self._database.snapshot() as tx:
            begun = await approvals.begun_before(tx, self._now() - LOST_AFTER)
        for approval in begun:
            context = await self._context(approval)
            if context is None or approval.id in self._under_way:
                continue
            outlet = self._outlets.get(context.place.platform)
            if outlet is None or not await self._done(approval):
                continue
            await self._remember(approval, f"The person said yes. {MAY_HAVE_RUN}")
            await outlet.tell(context.place, context.user, f"{_briefly(approval)}: {MAY_HAVE_RUN}")

    async def _context(self, approval: Approval) -> ToolContext | None:
        async with self._database.snapshot() as tx:
            owner = await users.get(tx, approval.user_id)
        if owner is None:
            return None
        stored = approval.context
        return ToolContext(
            user=owner.identity,
            role=Role(stored["role"]),
            place=Place(*stored["place"]),
            conversation_id=stored["conversation_id"],
            work_id=stored["work_id"],
            call_id=stored["call_id"],
            run_id=None,
            now=self._now,
        )

    async def _remember(self, approval: Approval, text: str) -> None:
        """Let the main agent know what became of its question."""
        conversation_id = approval.context["conversation_id"]
        if not conversation_id:
            return
        note = f"[{_briefly(approval)} was asked of the person. {escape_for_model(text)}]"
        async with self._database.transaction() as tx:
            await conversations.say(tx, conversation_id, role="result", text=note, now=self._now())

    async def _audit(self, approval: Approval, user: Identity) -> None:
        async with self._database.transaction() as tx:
            await workers.note(
                tx,
                user_id=user.key,
                action="answer",
                subject=approval.id,
                detail=f"confirmation of {approval.user_id}",
                now=self._now(),
            )


def _briefly(approval: Approval) -> str:
    return spelled(approval.tool, approval.arguments, most=300)

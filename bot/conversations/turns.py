"""Works on turns: the main agent answers a message, and continues after a crash."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from math import inf

from bot.agent.base_agent import BaseAgent
from bot.agent.journal import StoredJournal
from bot.agent.permissions import Permissions
from bot.agent.plain import plain
from bot.agent.progress import AgentResult, Progress
from bot.agent.protocols import AgentConfig, AgentContext, Approver, NoInbox, NoReporter
from bot.agent.sanitizer import one_line
from bot.agent.settings import AgentSettings
from bot.agent.toolbox import Approved, Toolbox
from bot.conversations.gaps import quote
from bot.conversations.shown import SEND_SECONDS, STOPPED, Fate, Outages, Shown
from bot.conversations.turn_context import Beginning, TurnContext
from bot.errors import (
    BotError,
    DatabaseUnreachableError,
    FencedError,
    LeftError,
)
from bot.events import AnnouncementDue, EventBus, TurnWaiting
from bot.logs import bound
from bot.models.base import Model
from bot.platforms.base import Outlet, ReplyStream
from bot.subagents.active import ActiveRuns, CancelReason
from bot.subagents.budget import Unlimited
from bot.subagents.clock import WorkClock
from bot.subagents.restarts import Restarts
from bot.subagents.run_factory import opaque
from bot.subagents.runner import MAX_CRASHES, OUR_FAULT
from bot.tasks import Tasks
from bot.values import Clock, Place, RunStatus
from db import conversations, outbox, turns
from db.database import Database, Transaction, is_connection_trouble, patiently
from db.steps import StepWriter
from db.turns import Turn
from skills.base import Reach, Tool, ToolContext

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Turns:
    """Works on turns; the engine calls `work`.

    Attributes:
        active: The turns at work in this process.
        main: Returns the provider and the model for the choice of a conversation, if any.
        answered: Removes the sign in a place that its message waits for an answer.
        is_old: Returns True if the answer to a message of that time must quote it.
    """

    database: Database
    writer: StepWriter
    tasks: Tasks
    outlets: Mapping[str, Outlet]
    events: EventBus
    active: ActiveRuns
    context: TurnContext
    settings: AgentSettings
    tools: Callable[[], tuple[Tool, ...]]
    tool_timeout_seconds: float
    approver: Approver
    permissions: Permissions
    main: Callable[[str], tuple[Model, str]]
    answered: Callable[[Place], None]
    is_old: Callable[[datetime], bool]
    restarts: Restarts
    worker_id: str
    now: Clock
    outages: Outages = field(default_factory=Outages)

    async def work(self, turn_id: str) -> None:
        """Make one attempt at a turn, until it is answered or cannot continue in this process."""
        try:
            turn = await self._begin(turn_id)
            if turn is None:
                return
            with bound(turn=turn.id, user=turn.user.key, conversation=turn.conversation_id):
                await self._work(turn)
        finally:
            self.restarts.passed(turn_id)

    async def _begin(self, turn_id: str) -> Turn | None:
        begin = partial(turns.begin, turn_id=turn_id, worker_id=self.worker_id, now=self.now())
        async with self.database.transaction() as tx:
            turn = await begin(tx, first=True)
            waits = turn is None and await self.restarts.must_wait(tx, turn_id)
            if turn is None and not waits:
                turn = await begin(tx)
        if not waits:
            return turn
        await self.restarts.wait(turn_id)
        return await self._begin(turn_id)

    async def _work(self, turn: Turn) -> None:
        active = self.active.enter(turn.id)
        progress = Progress()
        shown = Shown(None, progress)
        try:
            shown.reply = self._open_reply(turn)
            shown.quote = await self._quote(turn)
            result = await self._attempt(turn, progress, shown)
        except FencedError:
            log.warning("Turn %s has been taken over by another process", turn.id)
            await self._abandon(shown)
            return
        except (LeftError, DatabaseUnreachableError) as outage:
            shown.grow(f"⏸ {outage}")
            await self._abandon(shown)
            raise
        except asyncio.CancelledError:
            if active.reason is not CancelReason.STOPPED:
                await self._shielded(self._leave(turn, shown))
                raise
            await self._shielded(self._stopped(turn, shown))
            return
        finally:
            self.active.leave(turn.id, active)
        await self._shielded(self._conclude(turn, shown, result))

    async def _quote(self, turn: Turn) -> str:
        """Return the quote that precedes the answer to an old message; empty for a recent one."""
        if turn.kind != "message" or not self.is_old(turn.said_at or turn.created_at):
            return ""
        async with self.database.snapshot() as tx:
            return quote(await conversations.text_of(tx, turn.message_id))

    def _open_reply(self, turn: Turn) -> ReplyStream | None:
        outlet = self.outlets.get(turn.place.platform)
        if outlet is None or turn.kind == "summary":
            return None

        def begun(message_id: str) -> None:
            self.tasks.start(self._keep_reply(turn, message_id), name="keep a reply's id")

        return outlet.open_reply(turn.place, turn.user, turn.reply_message_id, begun=begun)

    async def _keep_reply(self, turn: Turn, message_id: str) -> None:
        async def keep() -> None:
            async with self.database.transaction() as tx:
                await turns.keep_reply(tx, turn.id, message_id)

        await patiently(keep, seconds=inf)

    async def _attempt(self, turn: Turn, progress: Progress, shown: Shown) -> AgentResult:
        if turn.crashes >= MAX_CRASHES:
            earlier = Progress()
            earlier.begin([], await self._journal(turn).load())
            if earlier.halt is not None:
                return earlier.result()
            error = f"The bot's process ended {MAX_CRASHES} times in a row while answering this."
            return AgentResult(status=RunStatus.FAILED, text="", error=error)
        clock = WorkClock(self.settings.turn_timeout_seconds)
        self.active.by_id[turn.id].clocks = (clock,)
        try:
            async with asyncio.timeout(clock.hard_left()) as limit:
                clock.cuts_off(limit)
                return await self._agent_work(turn, clock, progress, shown)
        except Exception as error:  # noqa: BLE001 - logged where it is no known kind
            return self._went_wrong(turn, progress, error, late=limit.expired())

    def _went_wrong(
        self, turn: Turn, progress: Progress, error: Exception, *, late: bool
    ) -> AgentResult:
        """Return the failed result; raise an error after which the turn is resumed."""
        said = progress.partial_text()
        if late and isinstance(error, TimeoutError):
            return AgentResult(status=RunStatus.TIMEOUT, text="", said=said)
        if isinstance(error, FencedError | LeftError) or is_connection_trouble(error):
            raise error
        if isinstance(error, BotError):
            reason = str(error)
        else:
            log.error("Turn %s failed", turn.id, exc_info=error)
            reason = OUR_FAULT
        return AgentResult(status=RunStatus.FAILED, text="", said=said, error=reason)

    async def _agent_work(
        self, turn: Turn, clock: WorkClock, progress: Progress, shown: Shown
    ) -> AgentResult:
        settings = self.settings
        model, name = self.main(turn.model)
        config = AgentConfig(
            prompt=self.context.prompt(turn),
            model=name,
            max_steps=settings.max_steps,
            max_tool_calls=settings.max_tool_calls,
            max_response_tokens=settings.max_response_tokens,
            context_tokens=settings.context_tokens,
            tool_result_characters=settings.tool_result_characters,
            person=opaque(turn.user.key),
        )
        confirmed = turn.kind == "confirmed"
        beginning = await self.context.begin(turn)  # first: it waits for MCP servers after a start
        if turn.kind != "summary":
            shown.away = self.outages.untold(turn.conversation_id, beginning.away)
        toolbox = Toolbox(
            _tools_of(turn, self.tools()),
            is_subagent=False,
            tasks=self.tasks,
            timeout_seconds=self.tool_timeout_seconds,
            approver=self.approver,
            permissions=self.permissions,
            approved=Approved(1, again=turn.attempt > 1) if confirmed else None,
        )
        around = self._around(turn, clock, beginning)
        agent = BaseAgent(config, model, toolbox, around, progress=progress)
        messages = beginning.messages
        return await agent.run(
            messages, history=len(messages) - 1, on_text=shown.grow if shown.reply else None
        )

    def _around(self, turn: Turn, clock: WorkClock, beginning: Beginning) -> AgentContext:
        return AgentContext(
            journal=self._journal(turn),
            meter=Unlimited(),
            timer=clock,
            inbox=NoInbox(),
            reporter=NoReporter(),
            caller=ToolContext(
                user=turn.user,
                role=turn.role,
                place=turn.place,
                conversation_id=turn.conversation_id,
                work_id=turn.id,
                call_id="",
                message_id=turn.message_id,
                run_id=None,
                now=self.now,
                foreign=beginning.foreign,
                private=beginning.private,
            ),
            spent_before=turn.tokens,
        )

    def _journal(self, turn: Turn) -> StoredJournal:
        """Return the journal of one attempt at a turn."""
        return StoredJournal(
            database=self.database,
            writer=self.writer,
            table="turns",
            work_id=turn.id,
            attempt=turn.attempt,
            now=self.now,
            begun=turn.kind in {"confirmed", "greeting"},
        )

    # -- how it ends -----------------------------------------------------------------------------

    async def _stopped(self, turn: Turn, shown: Shown) -> None:
        """End a turn that its user stopped, with the text so far."""
        if turn.kind == "summary":
            await self._release(turn, shown, None)
            return
        so_far = plain(shown.text or shown.progress.partial_text(), limit=None)
        await self._finish(turn, shown, f"{so_far}\n\n{STOPPED}".strip(), status="stopped")

    async def _conclude(self, turn: Turn, shown: Shown, result: AgentResult) -> None:
        said = plain(result.said or result.text, limit=None)
        if turn.kind == "summary":
            worded = said if result.status is RunStatus.COMPLETED and said else None
            await self._release(turn, shown, worded)
            return
        status = "failed" if result.status is RunStatus.FAILED else "done"
        text = shown.whole(said, result)
        await self._finish(turn, shown, text, status=status, refused=result.refused)
        self.outages.told(turn.conversation_id, shown.away)

    async def _finish(
        self, turn: Turn, shown: Shown, text: str, *, status: str, refused: bool = False
    ) -> None:
        """Send the reply, then store it and free the conversation in one transaction.

        The reply is sent first: if the process dies in between, the next attempt finds all steps
        stored, asks no model, and sends the reply again under the same message.
        """
        arrived = await shown.say(text, failed=status == "failed")
        self.answered(turn.place)

        async def write() -> bool:
            async with self.database.transaction() as tx:
                if not await self._ended(tx, turn, shown, status):
                    return False
                foreign = shown.progress.foreign
                await self._keep(tx, turn, text, foreign=foreign, arrived=arrived, refused=refused)
                return True

        ended = await patiently(write)
        if ended and arrived is not Fate.ARRIVED:
            self.events.publish(AnnouncementDue(key=turn.id))
        # In any case: a first try may have been committed although the connection failed.
        self._publish_waiting(turn)

    async def _keep(
        self,
        tx: Transaction,
        turn: Turn,
        text: str,
        *,
        foreign: bool,
        arrived: Fate,
        refused: bool,
    ) -> None:
        now = self.now()
        # Messages that a model refused must not be sent to it again.
        role, kept = ("reset", "") if refused else ("assistant", text)
        await conversations.say(
            tx,
            turn.conversation_id,
            role=role,
            text=kept,
            now=now,
            turn_id=turn.id,
            # A reply to foreign content may quote it.
            foreign=foreign,
        )
        if arrived is not Fate.ARRIVED:
            asked = one_line(await conversations.text_of(tx, turn.message_id), 60)
            item = outbox.NewItem(
                key=turn.id,
                user_id=turn.user.key,
                place=turn.place,
                run_id=None,
                title=f"↩ To “{asked}”" if asked else "↩ To what you sent",
                text=text,
                maybe_repeated=arrived is Fate.UNKNOWN,
            )
            await outbox.put(tx, item, now)

    async def _ended(self, tx: Transaction, turn: Turn, shown: Shown, status: str) -> bool:
        cost = shown.cost(turn.tokens)
        return await turns.end(tx, turn, status=status, now=self.now(), cost=cost)

    async def _release(self, turn: Turn, shown: Shown, text: str | None) -> None:
        """Release the held announcements, with the main agent's text if it wrote any."""
        status = "failed" if text is None else "done"

        async def write() -> list[str]:
            async with self.database.transaction() as tx:
                if not await self._ended(tx, turn, shown, status):
                    return []
                keys = await outbox.release_held(tx, turn.message_id, text, self.now())
                if text is not None and keys:
                    await conversations.say(
                        tx,
                        turn.conversation_id,
                        role="assistant",
                        text=text,
                        now=self.now(),
                        turn_id=turn.id,
                        foreign=True,
                    )
                return keys

        for key in await patiently(write):
            self.events.publish(AnnouncementDue(key=key))
        self._publish_waiting(turn)

    def _publish_waiting(self, turn: Turn) -> None:
        """Let the next turn of the conversation begin."""
        self.events.publish(
            TurnWaiting(conversation_id=turn.conversation_id, platform=turn.place.platform)
        )

    async def _leave(self, turn: Turn, shown: Shown) -> None:
        """Release the turn to another process, since this process drains."""
        await self._abandon(shown)
        async with self.database.transaction() as tx:
            await turns.release(tx, turn.id, turn.attempt, cost=shown.cost(turn.tokens))

    async def _abandon(self, shown: Shown) -> None:
        if shown.reply is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(SEND_SECONDS):
                    await shown.reply.abandon()

    async def _shielded(self, work: Coroutine[None, None, None]) -> None:
        await asyncio.shield(self.tasks.start(work, name="end of a turn"))


def _tools_of(turn: Turn, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """Return the tools of a turn; a summary, begun by no user, only reads in its place."""
    if turn.kind != "summary":
        return tools
    return tuple(tool for tool in tools if tool.reach is Reach.READS_HERE)

"""Works on turns: the main agent answers a message, and continues after a crash."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from math import inf
from zoneinfo import ZoneInfo

from bot.agent.activity import Activity
from bot.agent.base_agent import BaseAgent
from bot.agent.budget import UNLIMITED, TokenBudget, WorkClock
from bot.agent.credentials import CredentialLog
from bot.agent.journal import StoredJournal, usage_of
from bot.agent.permissions import Permissions
from bot.agent.plain import plain
from bot.agent.progress import AgentResult, Progress
from bot.agent.protocols import AgentConfig, AgentContext, TurnApprover
from bot.agent.sanitizer import one_line
from bot.agent.settings import AgentSettings
from bot.agent.toolbox import Approved, Toolbox
from bot.conversations.context_preview import ContextPreview
from bot.conversations.notices import Notices
from bot.conversations.pause_lines import pause_line
from bot.conversations.place_offers import PlaceOffers, day_of, key_of, uses_of
from bot.conversations.settings import CatchUpSettings
from bot.conversations.turn_context import Beginning, TurnContext
from bot.conversations.turn_messages import TurnInbox
from bot.conversations.turn_reply import (
    STOPPED,
    DeliveryStatus,
    OutageNotices,
    TurnReply,
    late_reply,
    quote,
)
from bot.counted_events import TurnEnded
from bot.errors import BotError, DatabaseUnreachableError, FencedError, LeftError
from bot.events import AnnouncementDue, EventBus, TurnWaiting
from bot.logs import bound
from bot.models.base import Model, ToolDescription
from bot.platforms.base import Outlet
from bot.rights.effective import Rights, RightsOf, unlimited
from bot.spending.pools import Payer
from bot.subagents.active import ActiveRuns, CancelReason, Restarts
from bot.subagents.limits import SubagentSettings
from bot.subagents.run_factory import opaque
from bot.subagents.runner import MAX_CRASHES, OUR_FAULT
from bot.tasks import Tasks
from bot.values import Clock, Live, RunStatus
from db import conversations, deliveries, history, outbox, pauses, turn_context, turn_inbox, turns
from db.database import Database, is_connection_trouble, patiently
from db.steps import StepWriter
from db.turns import Turn
from skills.base import Reach, ToolContext

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Turns:
    """Works on turns; the engine calls `work`.

    Attributes:
        active: The turns at work in this process.
        main: Returns the provider and the model for the choice of a conversation, if any.
        runs: The settings of runs.
        rights: Returns the rights of a user in a place, as they are now.
        admitted: Returns the choice of a conversation, or another model that the rights admit.
        begun: The turns whose first attempt has begun with their messages, by their ids.
    """

    database: Database
    writer: StepWriter
    tasks: Tasks
    outlets: Mapping[str, Outlet]
    events: EventBus
    active: ActiveRuns
    context: TurnContext
    settings: Live[AgentSettings]
    offers: PlaceOffers
    runs: Live[SubagentSettings]
    approver: TurnApprover
    permissions: Callable[[], Permissions]
    main: Callable[[str], tuple[Model, str]]
    notices: Notices
    catch_up: Live[CatchUpSettings]
    restarts: Restarts
    worker_id: str
    now: Clock
    rights: RightsOf = unlimited
    admitted: Callable[[str, Rights], str] = lambda chosen, _: chosen
    monotonic: Callable[[], float] = time.monotonic
    outages: OutageNotices = field(default_factory=OutageNotices)
    begun: dict[str, Turn] = field(default_factory=dict)

    async def work(self, turn_id: str) -> None:
        """Make one attempt at a turn, until it is answered or cannot continue in this process."""
        try:
            turn, waits = self.begun.pop(turn_id, None), True
            # A first attempt begins at once; a further one waits while processes crash often.
            while turn is None and waits:
                begin = partial(
                    turns.begin, turn_id=turn_id, worker_id=self.worker_id, now=self.now()
                )
                async with self.database.transaction() as tx:
                    turn = await begin(tx, first=True)
                    waits = turn is None and await self.restarts.must_wait(tx, turn_id)
                    if turn is None and not waits:
                        turn = await begin(tx)
                    if turn is not None and turn.shared:
                        turn = await history.see(tx, turn)
                if waits:
                    await self.restarts.wait(turn_id)
            if turn is not None:
                with bound(turn=turn.id, user=turn.user.key, conversation=turn.conversation_id):
                    await self._run(turn)
        finally:
            self.restarts.passed(turn_id)

    async def preview(self, turn: Turn) -> ContextPreview:
        """Return the parts of the input that a turn would begin with."""
        messages, block = await self.context.preview(turn)
        offer = await self.offers.at(turn.place)
        tools = tuple(
            ToolDescription(each.name, each.description, each.schema)
            for each in offer.tools
            if not each.deferred
        )
        return ContextPreview(prompt=offer.prompt, tools=tools, history=messages, block=block)

    async def _run(self, turn: Turn) -> None:
        active = self.active.enter(turn.id)
        reply = TurnReply(Progress())

        def keep_id(message_id: str) -> None:
            store = partial(self.database.write, turns.keep_reply, turn, message_id)
            self.tasks.start(patiently(store, seconds=inf), name="store a reply's id", brief=True)

        try:
            outlet = self.outlets.get(turn.place.platform)
            if outlet is not None and turn.kind != "summary":
                reply.stream = outlet.open_reply(
                    turn.place, turn.user, turn.reply_message_id, begun=keep_id
                )
            age = self.now() - (turn.sent_at or turn.created_at)
            quoted_from = timedelta(minutes=self.catch_up().quote_after_minutes)
            if turn.kind == "message" and age > quoted_from:
                said = await self.database.read(conversations.text_of, turn.message_id)
                reply.quote = quote(said)
            result = await self._attempt(turn, reply)
        except FencedError:
            log.warning("Turn %s has been taken over by another process", turn.id)
            await reply.abandon()
            return
        except (LeftError, DatabaseUnreachableError) as outage:
            reply.update(f"⏸ {outage}")
            await reply.abandon()
            raise
        except asyncio.CancelledError:
            if active.reason is not CancelReason.STOPPED:
                release = self._release(turn, reply)
                await asyncio.shield(self.tasks.start(release, name="release a turn", brief=True))
                raise
            result = None
        finally:
            self.active.leave(turn.id, active)
        end = self._conclude(turn, reply, result)
        await asyncio.shield(self.tasks.start(end, name="end of a turn", brief=True))

    async def _attempt(self, turn: Turn, reply: TurnReply) -> AgentResult:
        """Let the agent work for as long as a turn may take, and return its result.

        An error after which the turn is resumed, by this or another process, is raised.
        """
        if turn.crashes >= MAX_CRASHES:
            earlier = Progress()
            earlier.begin([], await self._journal(turn).load())
            if earlier.halt is not None:
                return earlier.result()
            error = f"The bot's process ended {MAX_CRASHES} times in a row while answering this."
            return AgentResult(status=RunStatus.FAILED, text="", error=error)
        clock = WorkClock(self.settings().turn_timeout_seconds)
        active = self.active.by_id[turn.id]
        active.clocks = (clock,)
        active.activity = Activity(
            clock.total, waits=lambda: clock.stands_still, monotonic=self.monotonic
        )
        try:
            async with asyncio.timeout(clock.hard_left()) as limit:
                clock.limit = limit
                return await self._ask_agent(turn, clock, reply)
        except Exception as error:
            said = reply.progress.partial_text()
            if isinstance(error, TimeoutError) and limit.expired():
                return AgentResult(status=RunStatus.TIMEOUT, text="", said=said)
            if isinstance(error, FencedError | LeftError) or is_connection_trouble(error):
                raise
            reason = str(error)
            if not isinstance(error, BotError):
                log.exception("Turn %s failed", turn.id)
                reason = OUR_FAULT
            return AgentResult(status=RunStatus.FAILED, text="", said=said, error=reason)

    async def _ask_agent(self, turn: Turn, clock: WorkClock, reply: TurnReply) -> AgentResult:
        settings = self.settings()
        rights = await self.rights(turn.user, turn.place)
        model, name = self.main(self.admitted(turn.model, rights))
        beginning = await self.context.begin(turn)  # first: it waits for MCP servers after a start
        offer = await self.offers.at(turn.place)
        config = AgentConfig(
            prompt=offer.prompt,
            model=name,
            max_steps=settings.max_steps,
            max_tool_calls=settings.max_tool_calls,
            max_response_tokens=settings.max_response_tokens,
            context_tokens=settings.context_tokens,
            tool_result_characters=settings.tool_result_characters,
            user_hash=opaque(turn.user.key),
        )
        tools = offer.tools
        if turn.kind == "summary":
            # No user began it, so it only reads in its place.
            tools = tuple(tool for tool in tools if tool.reach is Reach.READS_HERE)
        else:
            reply.away = self.outages.new(turn.conversation_id, beginning.away)
        confirmed = turn.kind == "confirmed"
        toolbox = Toolbox(
            tools,
            is_subagent=False,
            tasks=self.tasks,
            timeout_seconds=self.runs().tool_timeout_seconds,
            approver=self.approver,
            permissions=self.permissions(),
            approved=Approved(1, again=turn.attempt > 1) if confirmed else None,
        )
        context = self._agent_context(turn, clock, beginning)
        agent = BaseAgent(config, model, toolbox, context, progress=reply.progress)
        messages = beginning.messages
        return await agent.run(
            messages, history=len(messages) - 1, on_text=reply.update if reply.stream else None
        )

    def _agent_context(self, turn: Turn, clock: WorkClock, beginning: Beginning) -> AgentContext:
        inbox = None
        if turn.kind != "summary":
            zone = ZoneInfo(self.settings().timezone)
            inbox = TurnInbox(self.database, turn, zone, partial(self.notices.answered, read=True))
        return AgentContext(
            journal=self._journal(turn),
            budget=TokenBudget(UNLIMITED),
            timer=clock,
            inbox=inbox,
            activity=self.active.by_id[turn.id].activity or Activity(),
            tool_called=self.events.publish,
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
                shared=turn.shared,
                others=beginning.others,
                granted=beginning.granted,
                payer=Payer(user=turn.user, place=turn.place, work_id=turn.id),
                rights=partial(self.rights, turn.user, turn.place),
                credential_used=CredentialLog(self.database).record,
            ),
            spent_before=usage_of(turn) + beginning.spent,
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

    async def _conclude(self, turn: Turn, reply: TurnReply, result: AgentResult | None) -> None:
        """Send the reply of a turn and end it; without a result its user has stopped it."""
        if result is None:
            status = "stopped"
            said = plain(reply.text or reply.progress.partial_text(), limit=None)
            text = f"{said}\n\n{STOPPED}".strip()
        else:
            status = "failed" if result.status is RunStatus.FAILED else "done"
            said = plain(result.said or result.text, limit=None)
            text = reply.whole(said, result)
        delivery = None
        if turn.kind == "summary":
            completed = result is not None and result.status is RunStatus.COMPLETED
            text = said if completed else ""
            status = "done" if text else "failed"
        else:
            # The reply is sent first: if the process dies in between, the next attempt finds all
            # steps stored, asks no model, and sends the reply again under the same message.
            find = partial(self.database.read_statement, pauses.of, turn.user.key, turn.place)
            paused = await patiently(find)
            # The line about a pause is not part of the conversation.
            told = f"{text}\n\n{pause_line(paused)}" if paused and text else text
            # A limit that leaves no word of an answer is a failure for the user as well.
            delivery = await reply.finish(told, failed=status == "failed" or not said)
            if result is not None:
                self.outages.notified(turn.conversation_id, reply.away)
            self.notices.answered(turn.place)
        refused = result is not None and result.refused
        due, waits = await patiently(
            partial(self._end, turn, reply, text, delivery, status=status, refused=refused)
        )
        for key in due:
            self.events.publish(AnnouncementDue(key=key))
        took, platform = (self.now() - turn.created_at).total_seconds(), turn.place.platform
        self.events.publish(TurnEnded(platform=platform, outcome=status, seconds=took))
        if waits:
            waiting = TurnWaiting(conversation_id=turn.conversation_id, platform=platform)
            self.events.publish(waiting)

    async def _end(
        self,
        turn: Turn,
        reply: TurnReply,
        text: str,
        delivery: DeliveryStatus | None,
        *,
        status: str,
        refused: bool,
    ) -> tuple[list[str], bool]:
        """Store the reply and free the conversation in one transaction.

        A summary releases the held announcements, with its text if the main agent wrote any.

        Args:
            turn: The turn.
            reply: The reply of the turn.
            text: The text to store.
            delivery: The outcome of sending the reply; `None` for a summary.
            status: The final status of the turn.
            refused: Whether the model refused the messages.

        Returns:
            The keys of the announcements to deliver: those released or planned, and the one of a
            reply that did not arrive. And True if a further turn may wait for this end.
        """
        now, counts, model = self.now(), reply.counts(turn), reply.progress.model
        async with self.database.transaction() as tx:
            if not await turns.end(
                tx, turn, status=status, now=now, counts=counts, answering_model=model
            ):
                # A first try may have been committed although the connection failed.
                return [], True
            # In a statement of its own, which sees what was committed while the last one waited.
            waits = await turn_inbox.has_waiting(tx, turn.conversation_id)
            if delivery is None:
                keys = await outbox.release_held(tx, turn.message_id, text or None, now)
                if not (text and keys):
                    return keys, waits
            else:
                if used := uses_of(reply.progress.answers):
                    await turn_context.count(tx, key_of(turn.place), used, day_of(now))
                # Results of its runs wait for its reply; without a call it has started none.
                keys = await deliveries.plan(
                    tx, turn.id if used else "", now, together=self.runs().joined
                )
            await conversations.say(
                tx,
                turn.conversation_id,
                # Messages that a model refused must not be sent to it again.
                role="reset" if refused else "assistant",
                text="" if refused else text,
                now=now,
                turn_id=turn.id,
                # A reply to foreign content may quote it, and so may a summary of results.
                foreign=delivery is None or reply.progress.foreign,
            )
            if delivery is None or delivery is DeliveryStatus.DELIVERED:
                return keys, waits
            asked = one_line(await conversations.text_of(tx, turn.message_id), 60)
            unsure = delivery is DeliveryStatus.UNKNOWN
            item = late_reply(turn, text, asked, unsure=unsure)
            await outbox.put(tx, item, now)
            return [*keys, turn.id], waits

    async def _release(self, turn: Turn, reply: TurnReply) -> None:
        """Release the turn to another process, since this process drains."""
        await reply.abandon()
        await self.database.write(turns.release, turn.id, turn.attempt, counts=reply.counts(turn))

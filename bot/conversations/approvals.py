"""Asks owners to confirm calls, accepts one answer each, and closes expired questions."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta

from bot.agent.journal import first_step
from bot.agent.messages import ToolCall
from bot.agent.protocols import AskedCall
from bot.agent.sanitizer import escape_for_model
from bot.agent.toolbox import OTHERS
from bot.conversations import inbound
from bot.conversations.deciding import GONE_REPLY, Deciders
from bot.errors import BotError, DeliveryError, ToolError
from bot.events import EventBus, TurnWaiting
from bot.platforms.base import (
    ALWAYS,
    ALWAYS_FOR,
    FOR_A_DAY,
    NO,
    YES,
    CommandReply,
    Confirmation,
    Incoming,
    Outlet,
)
from bot.subagents.requests import Caller
from bot.subagents.shown_calls import briefly_spelled, fingerprint, spelled
from bot.tasks import Tasks
from bot.values import Clock, Identity, Json, Place, Role, derived_run_id
from db import approvals, audit, conversations, grants, standing_grants, steps, turns, users
from db.approvals import Approval
from db.database import Database, Transaction
from skills.base import Reach, Tool

log = logging.getLogger(__name__)

EXPIRES_AFTER = timedelta(minutes=10)
ASK_SECONDS = 60.0
#: Longer questions cannot be shown whole on every platform.
MOST_SHOWN = 24_000
TOO_LONG = (
    "Not asked and not done: the arguments are too long to be shown to the user whole. Shorten "
    "them, or split the call."
)
GRANTABLE = {Reach.READS_HERE, Reach.READS_BEYOND, Reach.CHANGES_OWN}
GRANTED_FOR = timedelta(hours=24)
LASTING = " For 24 hours I do not ask for this here again; `/retinue grants` takes it back."
STANDING = (
    " Until {until:%d %b} such calls are not asked about here again; `/retinue grants` takes it "
    "back."
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """An open question: its id, the call that it is about, and the time when it was asked.

    Attributes:
        message_id: The platform's id of the message that shows it; empty if it is unknown.
    """

    id: str
    about: str
    asked_at: datetime | None
    message_id: str = ""


@dataclass(frozen=True, slots=True)
class Approvals:
    """Asks before calls that need the user's approval; a yes begins a turn that makes them.

    The calls made are the calls shown: the row holds the calls, a hash binds them to the user, and
    the row accepts one answer. The yes and the turn are stored in one transaction.

    Attributes:
        database: Stores the questions.
        outlets: Show the questions.
        find: Returns a tool by its name.
        events: Publishes the turn that a yes begins.
        deciders: Checks who may answer.
    """

    database: Database
    outlets: Mapping[str, Outlet]
    find: Callable[[str], Tool | None]
    events: EventBus
    now: Clock
    deciders: Deciders
    tasks: Tasks

    async def ask(self, asked: Sequence[AskedCall]) -> Sequence[Json | BotError]:
        """Store and show one question about these calls; return a result for each."""
        results: dict[str, Json | BotError] = {}
        shown: list[ShownCall] = []
        for each in asked:
            arguments, words = each.call.arguments, ""
            try:
                if each.tool.prepare is not None:
                    arguments, words = await each.tool.prepare(each.context, arguments)
            except BotError as error:
                results[each.context.call_id] = error
            else:
                shown.append(ShownCall(each, arguments, words))
        for approver in dict.fromkeys(each.asked.approver for each in shown):
            group = [each for each in shown if each.asked.approver == approver]
            outcome = await self._put(group)
            results |= {each.asked.context.call_id: outcome for each in group}
        return [results[each.context.call_id] for each in asked]

    async def _put(self, shown: Sequence["ShownCall"]) -> Json | BotError:
        """Store a question and show it; return the one result for all its calls."""
        context, approval = shown[0].asked.context, self._approval(shown)
        text = _question(shown)
        if len(text) > MOST_SHOWN:
            return ToolError(TOO_LONG)
        async with self.database.transaction() as tx:
            before = await approvals.get(tx, approval.id)
            if before is None:
                await approvals.put(
                    tx,
                    approval,
                    place=context.place,
                    conversation_id=context.conversation_id,
                    now=self.now(),
                )
        if before is not None and before.status != "open":
            return {"status": before.status, "note": "The user has answered this already."}
        lasting = [FOR_A_DAY] if approval.context["grantable"] else []
        if approval.context["rules"]:
            lasting.append(ALWAYS)
        question = Confirmation(
            id=approval.id,
            owner=context.user,
            place=context.place,
            text=text,
            expires_in_seconds=EXPIRES_AFTER.total_seconds(),
            choices=(YES, *lasting, NO),
            # An earlier attempt may have shown it.
            message_id=before.context.get("message_id", "") if before else "",
        )
        # Without the stored id of its message, the next attempt would post it once more.
        showing, name = self._show(approval, question), f"show question {approval.id}"
        if refusal := await self.tasks.finish(showing, name=name):
            return {"status": "denied", "reason": f"{refusal} It was not done."}
        return {
            "status": "confirmation_asked",
            "note": "The user has been asked. If they say yes, it is done and you are given the "
            "result in a turn of its own. Do not call it again.",
        }

    async def _show(self, approval: Approval, question: Confirmation) -> str:
        """Show a question; deny it if it was not shown, and return the reason."""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                shown_as = await self.outlets[question.place.platform].ask(question)
        except Exception as error:
            by, now = approval.user_id, self.now()
            await self.database.write(
                approvals.answer, approval.id, status="denied", by=by, now=now
            )
            if isinstance(error, DeliveryError):
                return str(error)
            raise
        await self.database.write(approvals.show, approval.id, self.now(), message_id=shown_as)
        return ""

    def _approval(self, shown: Sequence["ShownCall"]) -> Approval:
        context = shown[0].asked.context
        calls: list[Json] = [
            {"tool": each.asked.tool.name, "arguments": each.arguments} for each in shown
        ]
        ids = "+".join(each.asked.context.call_id for each in shown)
        return Approval(
            # The same id if the calls are repeated after a crash, so that the user is asked once.
            id=derived_run_id(context.work_id, ids).replace("-", ""),
            user_id=context.user.key,
            run_id=context.run_id,
            tool=calls[0]["tool"],
            arguments=calls[0]["arguments"],
            fingerprint=fingerprint(context.user.key, context.run_id, calls),
            context={
                "place": list(astuple(context.place)),
                "conversation_id": context.conversation_id,
                "role": str(context.role),
                "calls": calls,
                # A call that acts beyond the place, or destroys, needs a yes each time.
                "approver": shown[0].asked.approver,
                # Empty unless every call is asked about because of a rule alone.
                "rules": sorted({each.asked.rule for each in shown})
                if all(each.asked.rule for each in shown)
                else [],
                "grantable": all(
                    each.asked.reason == OTHERS and each.asked.tool.reach in GRANTABLE
                    for each in shown
                ),
            },
            status="open",
            expires_at=self.now() + EXPIRES_AFTER,
        )

    async def answer(
        self,
        answerer: Caller,
        approval_id: str,
        *,
        choice: str,
        event: Incoming | None = None,
    ) -> CommandReply | None:
        """Store an answer; only the first answer of the owner or of an admin counts.

        Args:
            answerer: The user who answers, with the place of the answer.
            approval_id: The id of the question.
            choice: `yes`, `no`, `day`: yes, also to later calls of these tools there; or `always`:
                yes, also to later calls that the same rules ask about.
            event: The message with the answer; `None` for a click.

        Returns:
            The reply; `None` if the event was stored before.
        """
        user, yes = answerer.user, choice != NO.key
        approval = await self.database.read(approvals.get, approval_id)
        if approval is None or (choice == ALWAYS.key and not approval.context.get("rules")):
            return GONE_REPLY
        place, approver = Place(*approval.context["place"]), approval.context.get("approver", "")
        refused = await self.deciders.refusal(
            answerer, approval.user_id, place, approver=approver, yes=yes
        )
        if refused is not None:
            return refused
        sound = not yes or self._is_as_shown(approval)
        if not sound:
            log.error("The confirmation %s is not what was shown", approval.id)
        begins = yes and sound
        granted, rules = _lasting(approval, choice)

        async def write(tx: Transaction) -> bool:
            status = "approved" if begins else "denied"
            first = await approvals.answer(
                tx, approval.id, status=status, by=user.key, now=self.now()
            )
            if first:
                tools = [each["tool"] for each in approval.context.get("calls", ())]
                day = f"{self.now() + (ALWAYS_FOR if rules else GRANTED_FOR):%Y-%m-%d}"
                lasting = ", ".join([*rules, *granted])
                entry = answerer.entry(
                    "approve" if begins else "deny",
                    self.now(),
                    owner=approval.user_id,
                    subject=", ".join(tools),
                    effect=f"until {day}: {lasting}" if begins and lasting else "",
                    id_=audit.entry_id("answer", approval.id),
                )
                await audit.record(tx, entry)
            if first and begins:
                await self._begin(tx, approval, user)
                now, place = self.now(), Place(*approval.context["place"])
                owner, talk = approval.user_id, approval.context["conversation_id"]
                until = now + ALWAYS_FOR
                await standing_grants.give(
                    tx, owner, place, rules, by=user.key, until=until, now=now
                )
                await grants.give(tx, talk, owner, granted, now + GRANTED_FOR)
            return first

        first = await inbound.store(self.database, event, write, self.now)
        if first is None:
            return None
        if not (first and sound):
            return GONE_REPLY
        if not yes:
            decided = _decided(approval, user)
            await self._remember(approval, f"{decided} said no; it was not done.")
            return CommandReply(text=f"Not done: {_briefly(approval)}.")
        conversation_id = approval.context["conversation_id"]
        self.events.publish(TurnWaiting(conversation_id=conversation_id, platform=place.platform))
        until = self.now() + ALWAYS_FOR
        lasting = LASTING if granted else STANDING.format(until=until) * (choice == ALWAYS.key)
        return CommandReply(text=f"Yes: {_briefly(approval)}. The answer follows.{lasting}")

    async def waiting(self, user: Identity, place: Place) -> list[Waiting]:
        """Return the open questions to this user in this place, newest first."""
        found = await self.database.read(approvals.open_for, user.key, place, self.now())
        return [
            Waiting(item.id, _briefly(item), item.asked_at, item.context.get("message_id", ""))
            for item in found
        ]

    async def expire(self) -> None:
        """Close the expired questions; no answer counts as no."""
        over = await self.database.write(approvals.expire, self.now())
        for approval in over:
            await self._remember(approval, "The user did not answer in time; it was not done.")

    def _is_as_shown(self, approval: Approval) -> bool:
        """Return True if the tools still exist and the calls are those that were shown."""
        calls = approval.context.get("calls")
        expected = fingerprint(approval.user_id, approval.run_id, calls)
        if not calls or expected != approval.fingerprint:
            return False
        first = {"tool": approval.tool, "arguments": approval.arguments}
        return bool(calls[0] == first and all(self.find(each["tool"]) for each in calls))

    async def _begin(self, tx: Transaction, approval: Approval, by: Identity) -> None:
        """Store the turn for the approved calls.

        Its first step is stored with the calls, so they are made once, as in any turn.
        """
        stored, now = approval.context, self.now()
        calls = [
            ToolCall(f"approved_{number}", each["tool"], each["arguments"])
            for number, each in enumerate(stored["calls"], 1)
        ]
        owner = await users.get(tx, approval.user_id)
        assert owner is not None, "Only users who are stored are asked."
        message_id = await conversations.say(
            tx,
            stored["conversation_id"],
            role="result",
            text=f"[{_decided(approval, by)} said yes to: {escape_for_model(_briefly(approval))}. "
            "The calls are made now. Go on with the work and answer with what came of it.]",
            now=now,
        )
        turn_id = await turns.add(
            tx,
            stored["conversation_id"],
            user=owner.identity,
            place=Place(*stored["place"]),
            message_id=message_id,
            now=now,
            kind="confirmed",
            role=Role(stored["role"]),
        )
        await steps.begin_with(tx, turn_id, first_step(calls), now)
        await approvals.done(tx, approval.id, now)

    async def _remember(self, approval: Approval, text: str) -> None:
        """Store the outcome of a question in the conversation, for the main agent."""
        conversation_id = approval.context["conversation_id"]
        if not conversation_id:
            return
        said = f"{_briefly(approval)} was asked of the user. {text}"
        note = f"[{escape_for_model(said)}]"
        await self.database.write(
            conversations.say, conversation_id, role="result", text=note, now=self.now()
        )


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A call as shown to the user: its definite arguments, and a description."""

    asked: AskedCall
    arguments: Json
    words: str


def _lasting(approval: Approval, choice: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return the tools and the rules for whose later calls a choice answers as well."""
    stored = approval.context
    a_day = choice == FOR_A_DAY.key and stored.get("grantable")
    tools = [each["tool"] for each in stored["calls"]] if a_day else []
    return tools, stored.get("rules", ()) if choice == ALWAYS.key else ()


def _decided(approval: Approval, by: Identity) -> str:
    """Return the person who decided, as the model reads it."""
    if by.key == approval.user_id:
        return "The user"
    role = approval.context.get("approver", "")
    return f"Another user, with the role `{role}`," if role else "An admin"


def _question(shown: Sequence[ShownCall]) -> str:
    """Return the question about calls, with each call uncut."""
    reasons = dict.fromkeys(each.asked.reason for each in shown if each.asked.reason)
    why = f"\n\nI ask because {'; '.join(reasons)}." if reasons else ""
    if approver := shown[0].asked.approver:
        why += f" A member of the role `{approver}` decides."
    calls = [(each.words, spelled(each.asked.tool.name, each.arguments)) for each in shown]
    if len(calls) == 1:
        words, call = calls[0]
        return f"Shall I {words or 'do this'}? {call}{why}"
    lines = [": ".join(filter(None, each)) for each in calls]
    numbered = "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))
    return f"Shall I do these {len(lines)} things?\n{numbered}{why}"


def _briefly(approval: Approval) -> str:
    calls = approval.context.get("calls") or [
        {"tool": approval.tool, "arguments": approval.arguments}
    ]
    first = briefly_spelled(calls[0]["tool"], calls[0]["arguments"])
    return first if len(calls) == 1 else f"{first} and {len(calls) - 1} more"

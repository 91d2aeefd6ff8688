"""Accepts users' answers to confirmations of the main agent and to questions of runs."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from bot.agent.plain import plain
from bot.agent.sanitizer import one_line
from bot.conversations import inbound
from bot.conversations.approvals import Approvals, Waiting
from bot.conversations.deciding import GONE_REPLY
from bot.platforms.base import ALWAYS, ALWAYS_FOR, FOR_A_DAY, NO, YES, CommandReply, Incoming
from bot.platforms.messaging.texts import short_answer
from bot.subagents.requests import Caller
from bot.subagents.settling import PERMIT
from bot.values import Clock, Identity, Place, Role, short
from db import audit, run_questions, runs, shared_threads, standing_grants
from db.database import Database, Transaction
from db.run_questions import RunQuestion
from db.runs import Run

MAX_ANSWER = 4000
OTHERS_WROTE = (
    "Others have written here since I asked, so I am not sure what you mean. Use the buttons of my "
    "question."
)
#: A user can answer before it is stored that the question was shown: poll this often, with this
#: interval in seconds.
SHOWN_LOOKS, SHOWN_SECONDS = 10, 0.1


@dataclass(frozen=True, slots=True)
class Answers:
    """Accepts answers by button or in words: only of the owner or an admin, and only the first.

    Attributes:
        notify: Wakes a run in this process to check again for an answer.
    """

    database: Database
    approvals: Approvals
    notify: Callable[[str], None]
    now: Clock

    async def answer(
        self, answerer: Caller, asked: str, *, choice: str, event: Incoming | None = None
    ) -> CommandReply | None:
        """Store the choice of a user, given by its key.

        Args:
            answerer: The user who answers, with the place of the answer.
            asked: The id of the question.
            choice: The key of the choice.
            event: The message with the answer; `None` for a click.

        Returns:
            The reply; `None` if the event was stored before.
        """
        async with self.database.snapshot() as tx:
            question = await run_questions.get(tx, asked)
            run = await runs.get(tx, question.run_id) if question else None
        if question is None:
            if choice not in {YES.key, NO.key, FOR_A_DAY.key, ALWAYS.key}:
                return GONE_REPLY
            return await self.approvals.answer(answerer, asked, choice=choice, event=event)
        if run is None:
            return GONE_REPLY
        permits = question.kind == "permit"
        refused = await self.approvals.deciders.refusal(
            answerer,
            question.user_id,
            run.place,
            approver=question.approver,
            yes=permits and choice != NO.key,
        )
        if refused is not None:
            return refused
        number = int(choice[:3]) if choice.isdecimal() else 0
        if permits and choice == ALWAYS.key and question.rule:
            meant = _Meaning("yes", ALWAYS.key)
        elif permits and choice in {each.key for each in PERMIT}:
            meant = _Meaning("no" if choice == "no" else "yes", whole_run=choice == "all")
        elif not permits and choice == "skip":
            meant = _Meaning("no")
        elif not permits and 1 <= number <= len(question.options):
            meant = _Meaning("yes", question.options[number - 1])
        else:
            return GONE_REPLY
        return await self._take(answerer, question, meant, event)

    async def in_words(self, incoming: Incoming, role: Role, text: str) -> CommandReply | None:
        """Store a message as the answer to an open question to this user in this place.

        A bare yes, all or no answers a confirmation or a permission. Any other message answers the
        question of a run, if exactly one is open. Once others have written in the place since, only
        a reply to the question or its buttons answer it.

        Returns:
            The reply; `None` for a message that is no answer or was stored before.
        """
        user, place = incoming.user, incoming.place
        answerer = Caller.of_user(user, role, place)
        given = short_answer(text)
        if incoming.files and given is None:
            return None
        asked = await self.open_in(user, place, reply_to=incoming.reply_to)
        if given is not None:
            # Confirmations have no choice `all`.
            waiting = [] if given.choice == "all" else await self.approvals.waiting(user, place)
            meant = [item for item in waiting if item.message_id == incoming.reply_to != ""]
            waiting = meant or waiting
            permits = [item for item in asked if item.kind == "permit"]
            waiting += [
                Waiting(item.id, f"`{item.tool}` of a run", item.asked_at) for item in permits
            ]
            waiting = [item for item in waiting if item.id.endswith(given.ending)]
            # `asked` holds only the question that the message replies to.
            replied = incoming.reply_to and (meant or permits)
            if not (given.ending or replied) and await self._others_wrote(
                user, place, [item.asked_at for item in waiting]
            ):
                return await self._refuse(incoming, OTHERS_WROTE)
            if len(waiting) > 1:
                known = (f"- `{given.choice} {item.id[-6:]}`: {item.about}" for item in waiting)
                return await self._refuse(incoming, "\n".join(["Which one do you mean?", *known]))
            if waiting:
                (item,) = waiting
                reply = await self.answer(answerer, item.id, choice=given.choice, event=incoming)
                return _settled(reply, item.id, given.choice)
        questions = [item for item in asked if item.kind == "input"]
        # Of several open questions the main agent, which sees them all, may know the right one.
        if incoming.files or len(questions) != 1:
            return None
        (question,) = questions
        if not incoming.reply_to and await self._others_wrote(user, place, [question.asked_at]):
            return None
        if len(text) > MAX_ANSWER:
            most = f"An answer to a run has at most {MAX_ANSWER:,} characters. Make it shorter."
            return await self._refuse(incoming, most)
        skips = text.strip().lower() == "skip"
        answer = "" if skips else question.meant_by(plain(text, limit=None).strip())
        given_to_run = _Meaning("no" if skips else "yes", answer)
        reply = await self._take(answerer, question, given_to_run, incoming)
        return _settled(reply, question.id, one_line(answer, 100) or "Skip")

    async def _others_wrote(
        self, user: Identity, place: Place, asked: Sequence[datetime | None]
    ) -> bool:
        """Return True if others have written in a shared place since the newest question."""
        known = [at for at in asked if at is not None]
        if not known:
            return False
        return await self.database.read(shared_threads.spoken_since, user, place, max(known))

    async def expire(self) -> None:
        """Close the questions that were not answered in time; no answer counts as no."""
        await self.approvals.expire()
        over = await self.database.write(run_questions.expire, self.now())
        for run_id in over:
            self.notify(run_id)

    async def _refuse(self, incoming: Incoming, text: str) -> CommandReply | None:
        """Store the event of an answer that cannot be used; return the reason."""

        async def write(_: Transaction) -> bool:
            return True

        if not await inbound.store(self.database, incoming, write, self.now):
            return None
        return CommandReply(text=text, failed=True)

    async def open_in(
        self, user: Identity, place: Place, *, reply_to: str = ""
    ) -> list[RunQuestion]:
        """Return the open questions of runs to this user; wait briefly for one being shown.

        Args:
            user: The user.
            place: The place of the user's message.
            reply_to: The message that it replies to, for the question in that message alone.
        """
        for look in range(SHOWN_LOOKS):
            if look:
                await asyncio.sleep(SHOWN_SECONDS)
            found, soon = await self.database.read(
                run_questions.open_in, user.key, place, self.now(), reply_to=reply_to
            )
            if not soon:
                break
        return found

    async def _take(
        self, answerer: Caller, question: RunQuestion, meant: "_Meaning", event: Incoming | None
    ) -> CommandReply | None:
        """Store an answer with its event; return `None` if the event was stored before."""

        async def write(tx: Transaction) -> tuple[bool, Run | None]:
            taken = await run_questions.answer(
                tx,
                question.id,
                status=meant.status,
                by=answerer.user.key,
                now=self.now(),
                text=meant.text,
                whole_run=meant.whole_run,
            )
            run = await runs.get(tx, question.run_id)
            if taken and run and question.rule and meant.text == ALWAYS.key:
                await standing_grants.give(
                    tx,
                    question.user_id,
                    run.place,
                    [question.rule],
                    by=answerer.user.key,
                    until=self.now() + ALWAYS_FOR,
                    now=self.now(),
                )
            if taken:
                # The entry does not contain the words of an answer.
                action, effect = "answer", ""
                if question.kind == "permit":
                    action = "deny" if meant.status == "no" else "approve"
                    if meant.text == ALWAYS.key:
                        effect = f"until {self.now() + ALWAYS_FOR:%Y-%m-%d}, for all runs there"
                    elif meant.whole_run:
                        effect = "for the whole run"
                entry = answerer.entry(
                    action,
                    self.now(),
                    owner=question.user_id,
                    subject=question.run_id,
                    effect=" ".join(filter(None, (question.tool, effect))),
                    id_=audit.entry_id("answer", question.id),
                )
                await audit.record(tx, entry)
            return taken, run

        written = await inbound.store(self.database, event, write, self.now)
        if written is None:
            return None
        taken, run = written
        if not taken or run is None:
            return GONE_REPLY
        self.notify(question.run_id)
        name = f"“{run.label}” (`{short(run.id)}`)"
        if question.kind == "input":
            goes = "has your answer and goes on" if meant.status == "yes" else "goes on without it"
            return CommandReply(text=f"{name} {goes}.")
        if meant.status == "no":
            return CommandReply(text=f"Denied: {name} goes on without `{question.tool}`.")
        for_ = "as long as it goes on" if meant.whole_run else "this once"
        if meant.text == ALWAYS.key:
            for_ = f"until {self.now() + ALWAYS_FOR:%d %b}, like all your runs here"
        return CommandReply(text=f"Allowed: {name} may use `{question.tool}` {for_}.")


@dataclass(frozen=True, slots=True)
class _Meaning:
    """The values that a choice sets in the row of a question."""

    status: str
    text: str = ""
    whole_run: bool = False


def _settled(reply: CommandReply | None, asked: str, chosen: str) -> CommandReply | None:
    """Return the reply to an answer in words, which settles its question unless it was refused."""
    if reply is None or reply.refused:
        return reply
    return replace(reply, answered=asked, chosen=chosen)

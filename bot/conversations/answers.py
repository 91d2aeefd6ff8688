"""Accepts users' answers to confirmations of the main agent and to questions of runs."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from bot.agent.plain import plain
from bot.agent.sanitizer import one_line
from bot.conversations import inbound
from bot.conversations.access import scope_of
from bot.conversations.approvals import GONE, Approvals, Waiting
from bot.conversations.inbound import EventKey
from bot.platforms.base import CommandReply, Incoming
from bot.platforms.messaging.texts import short_answer
from bot.subagents.requests import Caller
from bot.subagents.settling import PERMIT
from bot.values import Clock, Identity, Place, Role, short
from db import run_questions, runs, workers
from db.database import Database, Transaction
from db.run_questions import RunQuestion
from db.runs import Run

MAX_ANSWER = 4000
#: A user can answer before it is stored that the question was shown: poll this often, with this
#: interval in seconds.
SHOWN_LOOKS, SHOWN_SECONDS = 10, 0.1


@dataclass(frozen=True, slots=True)
class Answers:
    """Accepts answers by button or in words: only of the owner or an admin, and only the first.

    Attributes:
        stir: Wakes a run in this process to check again for an answer.
    """

    database: Database
    approvals: Approvals
    stir: Callable[[str], None]
    now: Clock

    async def answer(self, user: Identity, role: Role, asked: str, *, choice: str) -> CommandReply:
        """Store the choice of a user, given by its key."""
        return await self._answer(user, role, asked, choice, None) or _gone()

    async def _answer(
        self, user: Identity, role: Role, asked: str, choice: str, event: EventKey | None
    ) -> CommandReply | None:
        """Store an answer with its event; return `None` if the event was stored before."""
        async with self.database.snapshot() as tx:
            question = await run_questions.get(tx, asked)
        if question is None:
            if choice not in {"yes", "no"}:
                return _gone()
            yes = choice == "yes"
            return await self.approvals.answer(user, role, asked, yes=yes, event=event)
        if not scope_of(Caller.of_user(user, role)).covers(question.user_id):
            return _gone()
        meant = _meaning(question, choice)
        return _gone() if meant is None else await self._take(user, question, meant, event)

    async def in_words(self, incoming: Incoming, role: Role, text: str) -> CommandReply | None:
        """Store a message as the answer to an open question to this user in this place.

        A bare yes, all or no answers a confirmation or a permission. Any other message answers the
        question of a run, if exactly one is open.

        Returns:
            The reply; `None` for a message that is no answer or was stored before.
        """
        given = short_answer(text)
        if incoming.files and given is None:
            return None
        asked = await self.open_in(incoming.user, incoming.place, reply_to=incoming.reply_to)
        if given is not None:
            waiting = []
            if given.choice != "all":  # confirmations have no such choice
                waiting = await self.approvals.waiting(incoming.user, incoming.place)
            permits = [item for item in asked if item.kind == "permit"]
            waiting += [Waiting(item.id, f"`{item.tool}` of a run") for item in permits]
            waiting = [item for item in waiting if item.id.endswith(given.ending)]
            if waiting:
                return await self._in_a_word(incoming, role, given.choice, waiting)
        questions = [item for item in asked if item.kind == "input"]
        # Of several open questions the main agent, which sees them all, may know the right one.
        if incoming.files or len(questions) != 1:
            return None
        return await self._in_full(incoming, questions[0], text)

    async def expire(self) -> None:
        """Close the questions that were not answered in time; no answer counts as no."""
        await self.approvals.expire()
        async with self.database.transaction() as tx:
            over = await run_questions.expire(tx, self.now())
        for run_id in over:
            self.stir(run_id)

    async def _in_a_word(
        self, incoming: Incoming, role: Role, choice: str, waiting: list[Waiting]
    ) -> CommandReply | None:
        """Store a bare answer to the one question that it may mean."""
        if len(waiting) > 1:
            lines = "\n".join(f"- `{choice} {item.id[-6:]}`: {item.about}" for item in waiting)
            return await self._refuse(incoming, f"Which one do you mean?\n{lines}")
        asked = waiting[0].id
        event = EventKey.of(incoming)
        reply = await self._answer(incoming.user, role, asked, choice, event)
        if reply is None or reply.refused:
            return reply
        return replace(reply, answered=asked, chosen=choice)

    async def _in_full(
        self, incoming: Incoming, question: RunQuestion, text: str
    ) -> CommandReply | None:
        """Store a text as the answer to the question of a run."""
        if len(text) > MAX_ANSWER:
            return await self._refuse(
                incoming,
                f"An answer to a run has at most {MAX_ANSWER:,} characters. Make it shorter.",
            )
        skips = text.strip().lower() == "skip"
        answer = "" if skips else question.meant_by(plain(text, limit=None).strip())
        meant = _Meaning("no" if skips else "yes", answer)
        reply = await self._take(incoming.user, question, meant, EventKey.of(incoming))
        if reply is None or reply.refused:
            return reply
        return replace(reply, answered=question.id, chosen=one_line(answer, 100) or "Skip")

    async def _refuse(self, incoming: Incoming, text: str) -> CommandReply | None:
        """Store the event of an answer that cannot be used; return the reason."""

        async def write(_: Transaction) -> bool:
            return True

        if not await inbound.store(self.database, EventKey.of(incoming), write, self.now):
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
            async with self.database.snapshot() as tx:
                found, soon = await run_questions.open_in(
                    tx, user.key, place, self.now(), reply_to=reply_to
                )
            if not soon:
                break
        return found

    async def _take(
        self, user: Identity, question: RunQuestion, meant: "_Meaning", event: EventKey | None
    ) -> CommandReply | None:
        """Store an answer with its event; return `None` if the event was stored before."""

        async def write(tx: Transaction) -> tuple[bool, Run | None]:
            taken = await run_questions.answer(
                tx,
                question.id,
                status=meant.status,
                by=user.key,
                now=self.now(),
                text=meant.text,
                whole_run=meant.whole_run,
            )
            run = await runs.get(tx, question.run_id)
            if taken:
                await workers.note_answer(
                    tx,
                    by=user.key,
                    owner=question.user_id,
                    subject=question.id,
                    kind="question of a run",
                    now=self.now(),
                )
            return taken, run

        written = await inbound.store(self.database, event, write, self.now)
        if written is None:
            return None
        taken, run = written
        if not taken or run is None:
            return _gone()
        self.stir(question.run_id)
        return CommandReply(text=_reply(run, question, meant))


@dataclass(frozen=True, slots=True)
class _Meaning:
    """The values that a choice sets in the row of a question."""

    status: str
    text: str = ""
    whole_run: bool = False


def _meaning(question: RunQuestion, choice: str) -> _Meaning | None:
    """Return the meaning of a key; `None` if the question offers no such choice."""
    if question.kind == "permit":
        if choice not in {each.key for each in PERMIT}:
            return None
        return _Meaning("no" if choice == "no" else "yes", whole_run=choice == "all")
    if choice == "skip":
        return _Meaning("no")
    if choice.isdecimal() and 1 <= int(choice[:3]) <= len(question.options):
        return _Meaning("yes", question.options[int(choice[:3]) - 1])
    return None


def _reply(run: Run, question: RunQuestion, meant: _Meaning) -> str:
    name = f"“{run.label}” (`{short(run.id)}`)"
    if question.kind == "input":
        goes = "has your answer and goes on" if meant.status == "yes" else "goes on without it"
        return f"{name} {goes}."
    if meant.status == "no":
        return f"Denied: {name} goes on without `{question.tool}`."
    for_ = "as long as it goes on" if meant.whole_run else "this once"
    return f"Allowed: {name} may use `{question.tool}` {for_}."


def _gone() -> CommandReply:
    return CommandReply(text=GONE, failed=True, refused=True)

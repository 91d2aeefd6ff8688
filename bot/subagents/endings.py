"""Ends runs: stores status, result and announcement in one transaction."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bot.agent.journal import run_columns
from bot.agent.sanitizer import LARGE, for_model, stored
from bot.events import (
    AnnouncementDue,
    EventBus,
    QuestionSettled,
    RunAdmitted,
    RunStatusChanged,
    TurnWaiting,
    ended,
)
from bot.masking import masked
from bot.run_texts import status_text
from bot.subagents import wording
from bot.subagents.cards import Cards
from bot.subagents.limits import SubagentSettings
from bot.subagents.wording import Outcome
from bot.values import Clock, Json, Live, RunStatus
from db import (
    admission,
    conversations,
    deliveries,
    outbox,
    run_files,
    run_questions,
    runs,
    turns,
    users,
)
from db.database import Database, Transaction
from db.runs import Run


@dataclass(frozen=True, slots=True)
class Endings:
    """Ends runs. The first end is stored; every later end changes nothing."""

    database: Database
    settings: Live[SubagentSettings]
    events: EventBus
    cards: Cards = field(kw_only=True)
    now: Clock = field(kw_only=True)

    async def end(self, run: Run, outcome: Outcome, *, attempt: int | None) -> Run | None:
        """Store the outcome with its announcement, and admit the next queued runs.

        Args:
            run: The run as it was last read.
            outcome: The outcome to store.
            attempt: Store only if this attempt still holds the run; `None` to store in any case.

        Returns:
            The ended run, or `None` if it had ended before.
        """
        stopper = None
        if outcome.status is RunStatus.CANCELLED:
            stopper = await self.database.read(users.stopper_of, run.id)
        if stopper and not outcome.error:
            outcome = replace(outcome, error=wording.STOPPED_BY_ADMIN)
        text = stored(outcome.text)
        report = wording.for_caller(run, text, outcome.summary)
        if outcome.status is RunStatus.COMPLETED and (why := wording.reason(run, outcome)):
            report = f"{why}\n\n{report}"
        wrapped = await wrap(run, outcome.status, report or outcome.error)
        async with self.database.admission() as tx:
            columns = _columns(run, outcome, text)
            over = await runs.finish(tx, run.id, columns, attempt=attempt, now=self.now())
            if over is None:
                return None
            after = await admission.after(tx, over.id)
            withdrawn = await run_questions.withdraw(tx, over.id, self.now()) if after.asks else []
            due, woken = await self._announce(tx, over, wrapped, unread=after.unread)
            # A card from before a restart, which this process has not updated yet.
            unseen = over.card_message_id and not self.cards.has(over.id)
            owner = await users.get(tx, over.user_id) if unseen else None
            batch = await deliveries.in_batch(tx, over) if owner else []
            slots, wait = self.settings().slots, after.others_wait
            promoted = await admission.promote(tx, slots, self.now()) if wait else []
        if owner:
            self.cards.track_batch(batch, replace(over, status=run.status), owner.identity)
        publish = self.events.publish
        known = {"run_id": over.id, "user_id": over.user_id}
        publish(RunStatusChanged(old=run.status, new=over.status, **known))
        publish(
            ended(
                over.status,
                **known,
                tokens=over.weighted_tokens,
                tool_calls=over.tool_call_count,
                duration_seconds=over.seconds_used,
                error=over.error or "",
                stopped_by=wording.shown_name(stopper),
                degraded=over.degraded,
            )
        )
        self._publish_admitted(promoted)
        for question_id in withdrawn:
            publish(QuestionSettled(question_id=question_id))
        for key in due:
            publish(AnnouncementDue(key=key))
        if woken:
            publish(TurnWaiting(conversation_id=over.conversation_id, platform=over.place.platform))
        return over

    async def _announce(
        self, tx: Transaction, run: Run, wrapped: str, *, unread: int
    ) -> tuple[list[str], bool]:
        """Put the announcement of a background run into the outbox.

        Returns:
            The keys of the announcements that are due now; True if a turn was added to summarise
            held results.
        """
        if run.mode != "async":
            return [], False
        message_id = ""
        if run.conversation_id:
            message_id = await conversations.say_result(
                tx, run.conversation_id, run.id, wrapped, self.now()
            )
        worded = run.announce == "summary" and bool(message_id)
        held = worded and run.status is RunStatus.COMPLETED
        item = outbox.NewOutboxEntry(
            key=run.id,
            user_id=run.user_id,
            place=run.place,
            run_id=run.id,
            title=wording.title(run),
            text=wording.report(run, unread=unread),
            footer=wording.footer(run),
            # Failures are not held back.
            batch_id=run.batch_id if run.status is RunStatus.COMPLETED and not worded else "",
        )
        if run.announce == "silent":
            if not await run_files.exist(tx, run.id):
                return [], False
            await outbox.put(tx, replace(item, text_delivered=True, batch_id=""), self.now())
            return [run.id], False
        await outbox.put(tx, item, self.now(), status="held" if held else "pending")
        due = [] if held or item.batch_id else [run.id]
        if not worded:
            together = self.settings().joined
            planned = await deliveries.plan(tx, run.batch_id, self.now(), together=together)
            return [*due, *planned], False
        if await deliveries.unfinished(tx, run):
            return due, False
        if not held and not await outbox.any_held(tx, run.id):
            return due, False
        await self._summarise(tx, run, message_id)
        return due, True

    async def _summarise(self, tx: Transaction, run: Run, message_id: str) -> None:
        """Add a turn of the main agent that summarises the held announcements."""
        user = await users.get(tx, run.user_id)
        if user is None:
            raise LookupError(f"run {run.id} belongs to nobody")
        await turns.add(
            tx,
            run.conversation_id,
            user=user.identity,
            place=run.place,
            message_id=message_id,
            now=self.now(),
            kind="summary",
        )

    async def promote(self) -> None:
        """Admit queued runs to free slots, for instance after a change of the caps or a crash."""
        async with self.database.admission() as tx:
            promoted = await admission.promote(tx, self.settings().slots, self.now())
        self._publish_admitted(promoted)

    def _publish_admitted(self, promoted: Sequence[Run]) -> None:
        for run in promoted:
            if run.status is RunStatus.RUNNING:
                continue  # the run was waiting for its owner, and its worker polls the status
            known = {"run_id": run.id, "user_id": run.user_id}
            self.events.publish(
                RunStatusChanged(old=RunStatus.QUEUED, new=RunStatus.ACCEPTED, **known)
            )
            self.events.publish(RunAdmitted(run_id=run.id, mode=run.mode))


def _columns(run: Run, outcome: Outcome, text: str) -> Json:
    """Return the columns of an ended run; a count without a value stays as it is stored."""
    counts = {
        "tool_call_count": outcome.tool_calls,
        "seconds_used": outcome.seconds_used,
        "model": outcome.model or None,
    }
    return {
        "status": str(outcome.status),
        "degraded": outcome.degraded,
        "result": text or None,
        "error": stored(wording.reason(run, outcome)) or None,
        "transcript": masked(outcome.transcript),
        **{name: value for name, value in counts.items() if value is not None},
        **(run_columns(outcome.usage) if outcome.usage else {}),
    }


async def wrap(run: Run, status: RunStatus, text: str) -> str:
    """Return a result as the main agent reads it: escaped, wrapped, and marked as data."""
    words = status_text(status).words
    if len(text) > LARGE:
        return await asyncio.to_thread(for_model, text, run_id=run.id, status=words)
    return for_model(text, run_id=run.id, status=words)

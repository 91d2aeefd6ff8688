"""Renders questions of runs for platforms, and shows when a question is closed."""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.agent.sanitizer import one_line
from bot.events import QuestionSettled
from bot.platforms.base import ALWAYS, Choice, Confirmation, Outlet, Settlement, Weight
from bot.tasks import Tasks
from bot.values import Identity, Place
from db import run_questions, runs, users
from db.database import Database
from db.run_questions import RunQuestion

PERMIT = (
    Choice("yes", "Allow once", Weight.GOOD),
    Choice("all", "Allow for this run"),
    Choice("no", "Deny", Weight.BAD),
)
SKIP = Choice("skip", "Skip")
#: Longest part of a written answer shown in a message, in characters.
MOST_OF_ANSWER = 100

NO_ANSWER = "No answer came in time."
OVER = "The run is over: it no longer needs an answer."


@dataclass(frozen=True, slots=True)
class Settling:
    """Shows the outcome of every closed question, answered or not."""

    database: Database
    outlets: Mapping[str, Outlet]
    tasks: Tasks

    def on_settled(self, event: QuestionSettled) -> None:
        """Show the outcome in the background."""
        work = self._show_settlement(event.question_id)
        self.tasks.start(work, name=f"show settlement of {event.question_id}", brief=True)

    async def _show_settlement(self, question_id: str) -> None:
        async with self.database.snapshot() as tx:
            question = await run_questions.get(tx, question_id)
            run = await runs.get(tx, question.run_id) if question else None
            if question is None or run is None or question.is_open:
                return
            owner = await users.get(tx, question.user_id)
            by = await users.get(tx, question.answered_by) if question.answered_by else None
        outlet = self.outlets.get(run.place.platform)
        if outlet is None or owner is None:
            return
        shown = confirmation_of(question, owner.identity, run.place)
        await outlet.show_settlement(shown, settlement_of(question, by.identity if by else None))


def confirmation_of(
    question: RunQuestion, owner: Identity, place: Place, *, expires_in_seconds: float = 0.0
) -> Confirmation:
    """Return a question in the form that platforms show (pure)."""
    return Confirmation(
        id=question.id,
        owner=owner,
        place=place,
        text=question.text,
        expires_in_seconds=max(0.0, expires_in_seconds),
        choices=_permit(question)
        if question.kind == "permit"
        else (*(Choice(str(n), option) for n, option in enumerate(question.options, 1)), SKIP),
        open_ended=question.kind == "input",
        message_id=question.message_id,
    )


def _permit(question: RunQuestion) -> tuple[Choice, ...]:
    """Return the answers to a question for a permission."""
    once, whole_run, deny = PERMIT
    return (once, whole_run, ALWAYS, deny) if question.rule else PERMIT


def settlement_of(question: RunQuestion, by: Identity | None) -> Settlement:
    """Return the outcome of a closed question (pure)."""
    if question.status == "expired":
        return Settlement(NO_ANSWER)
    if not question.answered_by:
        return Settlement(OVER)
    if question.kind == "permit":
        key = "all" if question.whole_run else question.status
        if question.answer == ALWAYS.key:
            key = ALWAYS.key
        chosen = next(each.label for each in _permit(question) if each.key == key)
    else:
        key, chosen = "", one_line(question.answer, MOST_OF_ANSWER) or SKIP.label
    # An admin who has never talked with the bot may answer: no identity is stored then.
    return Settlement(chosen, by, key) if by else Settlement(f"Answered: {chosen}")

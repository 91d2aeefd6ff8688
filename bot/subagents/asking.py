"""Asks the owner of a run for permissions and for information."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from bot.agent.messages import ToolCall
from bot.agent.plain import plain
from bot.agent.protocols import AskedCall
from bot.agent.sanitizer import one_line
from bot.agent.toolbox import may_have_run
from bot.errors import FencedError, ToolError
from bot.events import QuestionSettled
from bot.run_texts import counted
from bot.subagents.answer_waits import LOST, AnswerWaiter
from bot.subagents.shown_calls import fingerprint, question_id, spelled
from bot.values import RunStatus, short
from db import run_questions, runs
from db.database import Transaction
from db.run_questions import RunQuestion
from skills.base import Effects, Tool, ToolContext

#: Time to answer. Afterwards a permission is denied, and a question is answered by assumption.
ANSWER_WITHIN = timedelta(minutes=10)
#: After this many unanswered questions the run asks for no further permission.
MOST_UNANSWERED = 2
#: Longest question in characters. Longer ones do not fit on every platform: the call is refused.
MOST_SHOWN = 24_000
TOO_LONG = (
    "{tool} was not called: its arguments are too long to be shown to the user whole. Shorten "
    "them, or split the call."
)
MAX_OPTIONS = 5
MAX_QUESTION = 1500
MAX_OPTION = 60

ASSUME = "Go on with your best assumption, and say in your report which it was."
REFUSED = {
    "no": "The user said no: {tool} was not called. Find another way, or go on without it.",
    "expired": "The user did not answer within 10 minutes, which is a no: {tool} was not "
    "called. Find another way, or go on without it.",
    "withdrawn": "{tool} was not called: the run is being ended.",
    "changed": "{tool} was not called: since you asked, a rule was changed that says who decides. "
    "Call it again to ask again.",
    "unasked": "{tool} was not called, and the user was not asked: they left "
    f"{MOST_UNANSWERED} questions unanswered. Find another way, or go on without it.",
}


class OwnerQuestions(AnswerWaiter):
    """Asks the owner of a run for permissions (the `RunApprover`) and for answers (`ask_user`)."""

    # -- for permissions ---------------------------------------------------------------------------

    async def permit(self, asked: Sequence[AskedCall]) -> list[str]:
        """Ask one question about calls of a step, and wait.

        Returns:
            For each call the reason for refusing it; empty if it is permitted.

        Raises:
            FencedError: Another process has taken the run over, or it has ended.
            LeftError: The database is unreachable: the run is left to be resumed.
        """
        asks = f"{self._who()} asks: may it use "
        questions = {
            each.context.call_id: self._question(
                each.context.call_id,
                kind="permit",
                tool=each.tool.name,
                fingerprint=fingerprint(each.tool.name, each.call.arguments),
                text=f"{asks}{spelled(each.tool.name, each.call.arguments)}?\n"
                f"It takes {_whose(each.approver)} yes, since {each.reason}.",
                approver=each.approver,
                rule=each.rule,
            )
            for each in asked
        }
        shown = [each for each in questions.values() if len(each.text) <= MOST_SHOWN]
        async with self._one_at_a_time():
            answered: dict[str, RunQuestion] = {}
            # One question covers all calls, unless its text would be too long.
            together = sum(len(each.text) for each in shown) <= MOST_SHOWN
            for kind in dict.fromkeys((each.approver, each.rule) for each in shown):
                alike = [each for each in shown if (each.approver, each.rule) == kind]
                for group in [alike] if together else [[each] for each in alike]:
                    answered |= await self._permissions(group)
            await self._regain_slot()
        return [
            _refusal(each.tool.name, question, answered.get(question.id))
            for each, question in zip(asked, questions.values(), strict=True)
        ]

    async def _permissions(self, questions: Sequence[RunQuestion]) -> dict[str, RunQuestion]:
        """Return each question with its answer, which an earlier attempt may have stored."""
        decided: dict[str, RunQuestion] = {}
        groups: dict[str, list[RunQuestion]] = {}
        new: list[RunQuestion] = []
        async with self.database.transaction() as tx:
            for question in questions:
                known = await run_questions.get(tx, question.id)
                leader = known and await run_questions.get(tx, known.shown_with or known.id)
                if known is not None and known.approver != question.approver:
                    # An earlier attempt asked somebody else, before a rule was changed.
                    decided[known.id] = replace(question, status="changed")
                elif known is not None and leader is not None and leader.is_open:
                    groups.setdefault(leader.id, []).append(known)
                elif known is not None and leader is not None:
                    if leader.status == "yes":
                        await run_questions.follow(tx, leader)
                    yes = known.status == "yes"
                    decided[known.id] = known if yes else _like(known, leader)
                    self.events.publish(QuestionSettled(question_id=leader.id))
                elif await run_questions.permitted(
                    tx, self.run.id, question.tool, approver=question.approver
                ):
                    # Who decides has permitted the tool for the whole run.
                    now, by = self.now(), self.run.user_id
                    await run_questions.put(tx, question, self.run.place, now)
                    await run_questions.answer(tx, question.id, status="yes", by=by, now=now)
                    self.events.publish(QuestionSettled(question_id=question.id))
                    decided[question.id] = replace(question, status="yes")
                else:
                    new.append(question)
            unanswered = await run_questions.count(tx, self.run.id, status="expired")
            if unanswered >= MOST_UNANSWERED:
                decided |= {each.id: replace(each, status="unasked") for each in new}
                new = []
            if new:
                await self._put(tx, new)
                groups[new[0].id] = new
        for leader_id, members in groups.items():
            leader = await self.database.read(run_questions.get, leader_id)
            if leader is None:
                raise FencedError(LOST)
            answered = await self._answered(leader, RunStatus.WAITING_APPROVAL)
            if answered.status == "yes":
                await self.database.write(run_questions.follow, answered)
            decided |= {each.id: _like(each, answered) for each in members}
        return decided

    async def _put(self, tx: Transaction, group: Sequence[RunQuestion]) -> None:
        """Store the questions about some calls; the first one is shown, with the text of all."""
        place, now = self.run.place, self.now()
        first, *others = group
        text = first.text
        if others:
            asks = f"{self._who()} asks: may it"
            lines = [
                "- "
                + each.text.removeprefix(f"{asks} use ").replace(
                    f"?\nIt takes {_whose(each.approver)} yes, since ", ": ", 1
                )
                for each in group
            ]
            yes = f"{_whose(first.approver)} yes"
            text = f"{asks} make these {len(group)} calls? Each takes {yes}.\n"
            text += "\n".join(lines)
        await run_questions.put(tx, replace(first, text=text), place, now)
        for each in others:
            silent = replace(each, status="withdrawn", shown_with=first.id)
            await run_questions.put(tx, silent, place, now)

    async def begin(self, tool: Tool, call: ToolCall, context: ToolContext) -> str:
        """Record that a permitted call begins; return the reason for refusing it, or an empty text.

        Raises:
            FencedError: Another process has taken the run over, or it has ended.
            LeftError: The database is unreachable: the run is left to be resumed.
        """
        async with self._one_at_a_time(), self.database.transaction() as tx:
            run = await runs.hold(tx, self.run.id)
            if run is None or run.status.final or run.attempt != self.run.attempt:
                raise FencedError(LOST)
            begins = await run_questions.use(tx, self._id(context.call_id), self.now())
        if not begins and tool.effects is Effects.ONCE:
            return may_have_run(call).text
        return ""

    async def may_have_begun(self, call: ToolCall, context: ToolContext) -> bool:
        """Return True if an interrupted attempt may have made this call."""
        asked = await self.database.read(run_questions.get, self._id(context.call_id))
        return asked is None or asked.used_at is not None

    # -- for information --------------------------------------------------------------------------

    async def ask(self, call_id: str, question: str, options: Sequence[str]) -> str:
        """Ask the owner a question, wait, and return the text for the model.

        Raises:
            ToolError: The question cannot be asked; the text gives the reason.
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
            most = self.settings().max_questions_per_run
            async with self.database.snapshot() as tx:
                known = await run_questions.get(tx, self._id(call_id))
                number = await run_questions.count(tx, self.run.id, "input")
            if known is None and number >= most:
                so_far = counted(number, "question")
                raise ToolError(f"You have asked {so_far}, and a run may ask {most}. {ASSUME}")
            answered = await self._answered(asked, RunStatus.WAITING_INPUT)
            await self._regain_slot()
        # An answer that the main agent passed on may hold private material: have the inbox check.
        self.active.has_messages = True
        match answered.status:
            case "yes":
                return f"The user answered:\n{answered.answer}"
            case "no" if not answered.answer:
                return f"The user skipped the question. {ASSUME}"
            case "no":
                return f"The user could not be asked: {answered.answer} {ASSUME}"
            case _:
                return f"No answer came within 10 minutes. {ASSUME}"

    # -- asking ------------------------------------------------------------------------------------

    def _id(self, call_id: str) -> str:
        """Return the id of a call's question; the id is the same when the call is repeated."""
        return question_id(self.run.id, call_id)

    def _who(self) -> str:
        run = self.run
        return f"🤖 The run “{run.label}” (#{run.number} `{short(run.id)}`, agent `{run.agent}`)"

    def _question(self, call_id: str, *, kind: str, text: str, **further: object) -> RunQuestion:
        values: dict[str, object] = {
            "id": self._id(call_id),
            "run_id": self.run.id,
            "user_id": self.run.user_id,
            "kind": kind,
            "text": text,
            "expires_at": self.now() + ANSWER_WITHIN,
        }
        return RunQuestion(**(values | further))  # type: ignore[arg-type]


def _whose(approver: str) -> str:
    """Return the person whose yes a call takes."""
    return f"the role `{approver}`'s" if approver else "your"


def _like(question: RunQuestion, answered: RunQuestion) -> RunQuestion:
    """Return a question with the answer to the question that was shown for it."""
    return replace(question, status=answered.status, answer=answered.answer)


def _refusal(tool: str, asked: RunQuestion, answered: RunQuestion | None) -> str:
    """Return the reason for refusing a call, or an empty text."""
    if answered is None:
        return TOO_LONG.format(tool=tool)
    if answered.status == "yes" and answered.fingerprint == asked.fingerprint:
        return ""
    why = REFUSED.get(answered.status, REFUSED["no"]).format(tool=tool)
    return f"{why} ({answered.answer})" if answered.answer else why

"""After a crash the work goes on from its steps, as if nothing had happened."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.budget import TokenBudget
from bot.agent.messages import (
    Answer,
    StopReason,
    ToolCall,
    ToolResult,
    ToolResults,
    Usage,
    from_json,
)
from bot.agent.progress import AgentResult
from bot.agent.protocols import AnswerEntry, Entry, ResultEntry
from bot.models.base import ModelRequest
from bot.tasks import Tasks
from bot.values import Json, RunStatus
from skills.base import Effects, Tool, ToolContext
from tests.bot.agent.things import Numbers, Office, a_tool, answers_in, results_shown, told
from tests.fakes.around import FakeBudget, FakeInbox, FakeTimer, MemoryJournal, Shelf, surroundings
from tests.fakes.scripted_model import Line, ScriptedModel, asks_for, call, says

NOTHING = says("")
PAUSE = says("Hm.", stop=StopReason.PAUSE)
CUT = says("", stop=StopReason.MAX_TOKENS)
EFFECTS = {"send": Effects.ONCE, "look": Effects.NONE, "save": Effects.REPEATABLE}
MAY_HAVE_RUN = "may have run"


class KilledError(BaseException):
    """The process ends here."""


@dataclass
class Life:
    """A piece of work, from its first attempt to its last.

    Attributes:
        script: The answers, by the number of those that are stored when they are asked for.
        kills: At which write each attempt ends, and whether the write was still carried out.
        asked: How often each answer was asked for.
        made: How often each call was made.
    """

    script: Sequence[Answer]
    numbers: Numbers = field(default_factory=Numbers)
    kills: Sequence[tuple[int, bool]] = ()
    shelf: Shelf = field(default_factory=Shelf)
    asked: Counter[int] = field(default_factory=Counter)
    made: Counter[tuple[str, str]] = field(default_factory=Counter)
    killed: int = 0

    async def live(self) -> AgentResult:
        for kill in [*self.kills, None]:
            result = await self._attempt(kill)
            if result is not None:
                return result
            self.killed += 1
            self.shelf.attempt += 1
        raise AssertionError("the last attempt is never killed")

    async def _attempt(self, kill: tuple[int, bool] | None) -> AgentResult | None:
        journal = MemoryJournal(self.shelf, self.shelf.attempt)
        writes, dead = 0, False

        async def end_before(_: Entry) -> None:
            nonlocal writes, dead
            writes += 1
            dead = dead or kill == (writes, False)
            if dead:
                raise KilledError

        async def end_after(_: Entry) -> None:
            nonlocal dead
            dead = dead or kill == (writes, True)
            if dead:
                raise KilledError

        journal.before, journal.after = end_before, end_after
        owner = Tasks()
        try:
            return await Office(owner).work(
                ScriptedModel(respond=self._respond),
                *(self._tool(name) for name in EFFECTS),
                around=surroundings(journal=journal),
                **self.numbers,
            )
        except KilledError:
            return None
        finally:
            await owner.close()

    def _respond(self, _: ModelRequest) -> Line:
        number = len(answers_in(self.shelf.entries))
        self.asked[number] += 1
        return self.script[number] if number < len(self.script) else says("Done.")

    def _tool(self, name: str) -> Tool:
        async def run(context: ToolContext, arguments: Json) -> str:
            self.made[name, context.call_id] += 1
            return f"{name} {arguments}"

        return a_tool(name, run, effects=EFFECTS[name])

    @property
    def results(self) -> list[ToolResult]:
        """All results that were told to the model, in order."""
        received = [entry.received for entry in answers_in(self.shelf.entries)]
        return [r for one in received if isinstance(one, ToolResults) for r in one.results]


def many(count: int) -> Answer:
    return asks_for(*(call("look", f"id{n}", n=n) for n in range(count)))


SENDS = asks_for(call("send", "a", to="x"), call("look"), call("save"), text="I send.")
SENDS_TWICE = asks_for(call("send", "b", to="y"), call("send", "c", to="z"), call("fly"))
SAME = asks_for(call("look", at="x"), text="Again.")

LIVES: dict[str, tuple[list[Answer], Numbers]] = {
    "completed": ([SENDS, PAUSE, SENDS_TWICE, CUT, says("Sent.")], Numbers()),
    "completed with a warning": ([SENDS, many(2), says("Sent.")], Numbers(max_tool_calls=6)),
    "tool calls": ([SENDS, many(50), says("Some.")], Numbers(max_tool_calls=25)),
    "steps": ([SENDS, SENDS_TWICE, says("Some.")], Numbers(max_steps=2)),
    "calls in the last step": ([SENDS, SENDS_TWICE], Numbers(max_steps=1)),
    "the same call": ([SENDS, SAME, SAME, SAME], Numbers()),
    "pauses": ([SENDS, PAUSE, PAUSE, PAUSE], Numbers()),
    "refusal": ([SENDS, says("No.", stop=StopReason.REFUSAL)], Numbers()),
    "empty": ([many(1), NOTHING], Numbers()),
}


@pytest.mark.parametrize("carried_out", [True, False], ids=["after", "before"])
@pytest.mark.parametrize(("script", "numbers"), LIVES.values(), ids=LIVES)
async def test_wherever_the_process_ends_the_result_is_the_same(
    script: list[Answer], numbers: Numbers, carried_out: bool
) -> None:
    calm = Life(script, numbers)
    expected = await calm.live()

    for write in range(1, len(calm.shelf.rows) + 1):
        life = Life(script, numbers, kills=[(write, carried_out)])
        result = await life.live()

        assert life.killed == 1
        assert_same(result, expected)
        assert_told_alike(life, calm)
        assert_nothing_is_done_twice(life, lost_answers=0 if carried_out else 1)


@given(
    script=st.lists(
        st.sampled_from([PAUSE, CUT, NOTHING, SAME, SENDS, SENDS_TWICE, many(1), many(3)]),
        max_size=6,
    ),
    max_tool_calls=st.integers(1, 8),
    max_steps=st.integers(1, 6),
    kills=st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=4),
)
async def test_however_often_the_process_ends_the_result_is_the_same(
    script: list[Answer], max_tool_calls: int, max_steps: int, kills: list[tuple[int, bool]]
) -> None:
    numbers = Numbers(max_tool_calls=max_tool_calls, max_steps=max_steps)
    calm = Life(script, numbers)
    expected = await calm.live()
    life = Life(script, numbers, kills=kills)

    assert_same(await life.live(), expected)
    assert_told_alike(life, calm)
    assert_nothing_is_done_twice(life, lost_answers=life.killed)


def assert_same(result: AgentResult, expected: AgentResult) -> None:
    for name in ("status", "text", "said", "error", "usage", "tool_calls", "steps", "refused"):
        assert getattr(result, name) == getattr(expected, name), name
    assert len(result.transcript) == len(expected.transcript)


def assert_told_alike(life: Life, calm: Life) -> None:
    """What may have run says so; all else the model was told is the same."""
    notes = [told_in(life), told_in(calm)]
    assert notes[0] == notes[1]
    for mine, theirs in zip(life.results, calm.results, strict=True):
        assert mine == theirs or (MAY_HAVE_RUN in mine.text and mine.failed)


def told_in(life: Life) -> list[str]:
    received = [entry.received for entry in answers_in(life.shelf.entries)]
    return [one.note if isinstance(one, ToolResults) else str(one) for one in received]


def assert_nothing_is_done_twice(life: Life, *, lost_answers: int) -> None:
    assert sum(times - 1 for times in life.asked.values()) <= lost_answers
    assert all(times == 1 for (name, _), times in life.made.items() if name == "send")


async def test_what_acts_on_the_world_and_was_begun_is_told_to_have_perhaps_run() -> None:
    sends = asks_for(call("send", "a", to="x"), call("send", "b", to="y"), call("look"))
    # The second write is the result of the first `send` to end.
    life = Life([sends, says("Sent.")], kills=[(2, True)])

    result = await life.live()

    assert result.status is RunStatus.COMPLETED
    texts = [item.text for item in life.results]
    assert sum(MAY_HAVE_RUN in text for text in texts) == 1
    assert sum(text.startswith("send {") for text in texts) == 1
    assert texts[2].startswith("look")


async def test_what_only_reads_or_may_be_repeated_is_made_again() -> None:
    looks = asks_for(call("look"), call("save"))
    life = Life([looks, says("Seen.")], kills=[(1, True), (1, False)])

    result = await life.live()

    assert result.status is RunStatus.COMPLETED
    assert life.made == {("look", "1.0"): 2, ("save", "1.1"): 2}
    assert not any(MAY_HAVE_RUN in item.text for item in life.results)


async def test_a_call_that_ended_keeps_its_result_and_its_place(office: Office) -> None:
    shelf = Shelf(attempt=2)
    asked = asks_for(call("look", "a"), call("send", "b"))
    stored: list[Entry] = [
        AnswerEntry(None, asked),
        ResultEntry(1, 1, ToolResult("b", "Sent to the moon.")),
    ]
    shelf.rows = dict(enumerate(stored))
    model = ScriptedModel(says("Done."))

    await office.work(
        model,
        a_tool("look"),
        a_tool("send", effects=Effects.ONCE),
        around=surroundings(journal=MemoryJournal(shelf, 2)),
    )

    shown = results_shown(model.last).results
    assert [item.text for item in shown] == ["done", "Sent to the moon."]


def begun(*answers: Answer, note: str = "") -> MemoryJournal:
    """Return the journal of a second attempt; the first stored these answers."""
    shelf = Shelf(attempt=2)
    for seq, answer in enumerate(answers):
        results = ToolResults((ToolResult("x", "done"),), note) if seq else None
        shelf.rows[seq] = AnswerEntry(results, answer)
    return MemoryJournal(shelf, 2)


async def test_tokens_that_a_crash_cost_are_charged(office: Office) -> None:
    journal, budget = begun(asks_for(call("look"), usage=Usage(10, 5))), FakeBudget()
    model = ScriptedModel(says("Done.", usage=Usage(20, 10)))
    around = surroundings(journal=journal, budget=budget, spent_before=500)

    result = await office.work(model, a_tool("look"), around=around)

    assert result.usage.total == 500 + 30
    assert journal.shelf.counters[-1].usage.total == 500 + 30
    assert sum(budget.charged, Usage()).total == 500 + 30


async def test_what_a_crash_cost_counts_against_the_budget(office: Office) -> None:
    journal = begun(asks_for(call("look"), usage=Usage(10, 5)))
    model = ScriptedModel(says("So far."))
    around = surroundings(journal=journal, budget=TokenBudget(10_000), spent_before=7_900)

    result = await office.work(model, a_tool("look"), around=around)

    assert (result.status, result.text) == (RunStatus.BUDGET_EXCEEDED, "So far.")


async def test_what_the_steps_cost_is_charged_even_if_less_was_counted(office: Office) -> None:
    journal = begun(asks_for(call("look"), usage=Usage(400, 100)))
    around = surroundings(journal=journal, spent_before=20)

    result = await office.work(ScriptedModel(says("Done.")), a_tool("look"), around=around)

    assert result.usage.total == 500 + 15


async def test_the_one_warning_is_not_given_again(office: Office) -> None:
    given = "You have used 85% of your time. Finish what matters and write your report."
    journal = begun(asks_for(call("look")), asks_for(call("look", n=2)), note=given)
    model = ScriptedModel(says("Done."))
    around = surroundings(journal=journal, timer=FakeTimer(fraction=0.9))

    await office.work(model, a_tool("look"), around=around)

    assert "You have used" not in told(model.last)


async def test_a_user_who_words_a_message_like_the_warning_does_not_replace_it(
    office: Office,
) -> None:
    shelf = Shelf()
    inbox = FakeInbox([("m1", "You have used the wrong sheep.")])
    around = surroundings(journal=MemoryJournal(shelf), inbox=inbox)
    with pytest.raises(KilledError):
        await office.work(
            ScriptedModel(asks_for(call("look")), KilledError()), a_tool("look"), around=around
        )
    shelf.attempt = 2
    model = ScriptedModel(says("Done."))
    around = surroundings(journal=MemoryJournal(shelf, 2), timer=FakeTimer(fraction=0.9))

    await office.work(model, a_tool("look"), around=around)

    assert "You have used 90% of your time" in told(model.last)


async def test_that_the_last_answer_was_cut_is_told_after_a_crash_too(office: Office) -> None:
    journal = begun(CUT)
    model = ScriptedModel(says("Done."))

    await office.work(model, around=surroundings(journal=journal))

    assert "cut at its greatest length" in told(model.last)


@pytest.mark.parametrize(
    ("stored", "status"),
    [
        (AnswerEntry(None, says("Twelve.")), RunStatus.COMPLETED),
        (AnswerEntry(None, says("Seven."), RunStatus.TIMEOUT), RunStatus.TIMEOUT),
        (AnswerEntry(None, says("No.", stop=StopReason.REFUSAL)), RunStatus.FAILED),
    ],
)
async def test_work_that_was_over_is_not_begun_again(
    office: Office, stored: AnswerEntry, status: RunStatus
) -> None:
    shelf = Shelf(attempt=2, rows={0: stored})
    silent = ScriptedModel()

    result = await office.work(silent, around=surroundings(journal=MemoryJournal(shelf, 2)))

    assert (result.status, result.text) == (status, stored.answer.text)
    assert silent.requests == []


async def test_a_malformed_call_is_no_different_after_a_crash(office: Office) -> None:
    journal = begun(asks_for(ToolCall("a", "look", malformed="{")))
    model = ScriptedModel(says("Done."))

    result = await office.work(model, a_tool("look"), around=surroundings(journal=journal))

    assert "no JSON object" in results_shown(model.last).results[0].text
    assert isinstance(from_json(result.transcript[0]), Answer)

"""Limits inside a piece of work: one warning, one last step without tools, never a success."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.budget import TokenBudget
from bot.agent.messages import Answer, StopReason, ToolResults, Usage
from bot.agent.progress import last_step
from bot.errors import ModelError
from bot.models.base import ModelRequest
from bot.tasks import Tasks
from bot.values import Json, RunStatus
from skills.base import Tool, ToolContext
from tests.bot.agent.things import (
    TASK,
    Hung,
    Numbers,
    Office,
    a_tool,
    an_agent,
    answers_in,
    results_shown,
    told,
)
from tests.fakes.around import FakeBudget, FakeInbox, FakeTimer, MemoryJournal, surroundings
from tests.fakes.scripted_model import Hanging, Line, ScriptedModel, asks_for, call, says

WARNING = "You have used"


@pytest.mark.parametrize(
    ("timer", "budget", "numbers", "said"),
    [
        (FakeTimer(fraction=0.81), FakeBudget(), Numbers(), "81% of your time"),
        (FakeTimer(), FakeBudget(fraction=0.9), Numbers(), "90% of your token budget"),
        (FakeTimer(), FakeBudget(), Numbers(max_tool_calls=5), "80% of your tool calls"),
        (FakeTimer(), FakeBudget(), Numbers(max_steps=5), "80% of your steps"),
    ],
)
async def test_there_is_one_warning_when_four_fifths_are_used(
    office: Office, timer: FakeTimer, budget: FakeBudget, numbers: Numbers, said: str
) -> None:
    script = [asks_for(call("look", n=n)) for n in range(4)]
    model = ScriptedModel(*script, says("Twelve."))
    around = surroundings(timer=timer, budget=budget)

    result = await office.work(model, a_tool("look"), around=around, **numbers)

    assert result.status is RunStatus.COMPLETED
    notes = [told(request) for request in model.requests]
    assert [said in note for note in notes].count(True) == 1
    assert sum(WARNING in note for note in notes) == 1


async def test_below_four_fifths_there_is_no_warning(office: Office) -> None:
    model = ScriptedModel(asks_for(call("look")), says("Twelve."))
    around = surroundings(timer=FakeTimer(fraction=0.79), budget=FakeBudget(fraction=0.79))

    await office.work(model, a_tool("look"), around=around)

    assert not any(WARNING in told(request) for request in model.requests)


async def test_when_several_are_short_the_shortest_is_named(office: Office) -> None:
    model = ScriptedModel(says("Twelve."))
    around = surroundings(timer=FakeTimer(fraction=0.85), budget=FakeBudget(fraction=0.95))

    await office.work(model, around=around)

    assert "95% of your token budget" in told(model.last)
    assert "time" not in told(model.last).removeprefix(str(TASK[0].text))


def out_of_time(timer: FakeTimer) -> Tool:
    """Return a tool during which the time runs out."""

    async def dawdle(_: ToolContext, __: Json) -> str:
        timer.seconds = 0
        return "done"

    return a_tool("look", dawdle)


class Short:
    """An agent that reaches one limit after two steps."""

    def __init__(self, limit: RunStatus) -> None:
        self.limit = limit
        self.journal = MemoryJournal()
        self.inbox = FakeInbox()
        timer = FakeTimer()
        self.tool = out_of_time(timer) if limit is RunStatus.TIMEOUT else a_tool("look")
        self.numbers = Numbers()
        if limit is RunStatus.MAX_STEPS:
            self.numbers = Numbers(max_steps=2)
        if limit is RunStatus.MAX_TOOL_CALLS:
            self.numbers = Numbers(max_tool_calls=2)
        tight = limit is RunStatus.BUDGET_EXCEEDED
        self.around = surroundings(
            journal=self.journal,
            timer=timer,
            budget=TokenBudget(10_000) if tight else FakeBudget(),
            inbox=self.inbox,
        )
        cost = Usage(0, 1_000, cache_write=3_000) if tight else Usage(10, 5)
        self.steps: list[Line] = [
            asks_for(call("look", n=n), text=f"Step {n}.", usage=cost) for n in (1, 2)
        ]
        if limit is RunStatus.TIMEOUT:
            del self.steps[0]

    async def work(self, office: Office, *last: Line) -> tuple[ScriptedModel, "Result"]:
        model = ScriptedModel(*self.steps, *last)
        result = await office.work(model, self.tool, around=self.around, **self.numbers)
        return model, Result(result.status, result.text, result.error, result.said)


class Result:
    def __init__(self, status: RunStatus, text: str, error: str, said: str) -> None:
        self.status, self.text, self.error, self.said = status, text, error, said


LIMITS = (
    RunStatus.TIMEOUT,
    RunStatus.BUDGET_EXCEEDED,
    RunStatus.MAX_TOOL_CALLS,
    RunStatus.MAX_STEPS,
)


@pytest.fixture(params=LIMITS, ids=str)
def short(request: pytest.FixtureRequest) -> Short:
    return Short(request.param)


async def test_at_a_limit_there_is_one_last_step_without_tools(
    office: Office, short: Short
) -> None:
    model, result = await short.work(office, says("Seven so far."))

    assert (result.status, result.text, result.error) == (short.limit, "Seven so far.", "")
    assert [request.tools_allowed for request in model.requests[-2:]] == [True, False]
    assert [tool.name for tool in model.last.tools] == ["look"], "a history with calls needs them"
    assert last_step(short.limit) in told(model.last)
    assert "last answer" in told(model.last)
    assert answers_in(short.journal.shelf.entries)[-1].limit is short.limit


async def test_what_was_found_before_the_limit_is_shown_in_the_last_step(
    office: Office, short: Short
) -> None:
    model, result = await short.work(office, says("Seven so far."))

    newest = model.last.messages[-1]
    assert isinstance(newest, ToolResults)
    assert newest.results[0].text.startswith("done")
    assert "Step 2." in result.said


async def test_calls_of_the_last_step_are_not_made(office: Office, short: Short) -> None:
    last = Answer("Just one more.", (call("look", n=3),), StopReason.TOOL_CALLS, native=[{}])

    model, result = await short.work(office, last)

    assert (result.status, result.text) == (short.limit, "Just one more.")
    stored = answers_in(short.journal.shelf.entries)[-1].answer
    assert (stored.calls, stored.native) == ((), None)
    assert model.last.tools_allowed is False


@pytest.mark.parametrize(
    "last",
    [says(" "), asks_for(call("look", n=3)), ModelError("The model is down.")],
    ids=["empty", "calls", "error"],
)
async def test_without_a_last_answer_the_text_of_the_steps_is_kept(
    office: Office, short: Short, last: Line
) -> None:
    _, result = await short.work(office, last)

    said = [line.text for line in short.steps if isinstance(line, Answer)]
    assert (result.status, result.text) == (short.limit, "\n\n".join(said))
    assert result.error == "", "the limit is the reason, and is worded where it is known"


async def test_a_message_to_the_run_is_still_read_in_the_last_step(
    office: Office, short: Short
) -> None:
    def deliver_late(request: ModelRequest) -> Line:
        if not request.tools_allowed:
            return says("Seven.")
        short.inbox.waiting = [("m1", "Only white ones.")]
        return short.steps.pop(0)

    model = ScriptedModel(respond=deliver_late)
    await office.work(model, short.tool, around=short.around, **short.numbers)

    assert "Only white ones." in told(model.last)
    assert answers_in(short.journal.shelf.entries)[-1].read == ("m1",)


async def test_a_refusal_in_the_last_step_is_still_marked(office: Office) -> None:
    model = ScriptedModel(asks_for(call("look"), text="I look."), says("", stop=StopReason.REFUSAL))

    result = await office.work(model, a_tool("look"), max_steps=1)

    assert (result.status, result.refused) == (RunStatus.MAX_STEPS, True)
    assert result.text == "I look."


async def test_time_that_runs_out_while_the_model_answers_leaves_a_last_step(
    office: Office,
) -> None:
    slow, timer = Hanging(), FakeTimer()

    async def look(_: ToolContext, __: Json) -> str:
        timer.seconds = 0.01
        return "seven"

    model = ScriptedModel(asks_for(call("look"), text="I look."), slow, says("Seven so far."))
    result = await office.work(model, a_tool("look", look), around=surroundings(timer=timer))

    assert (result.status, result.text) == (RunStatus.TIMEOUT, "Seven so far.")
    assert slow.cancelled.is_set()
    assert not model.last.tools_allowed
    assert results_shown(model.last).results[0].text == "seven"
    assert last_step(RunStatus.TIMEOUT) in told(model.last)
    assert result.said == "I look.\n\nSeven so far."


async def test_time_that_runs_out_while_a_tool_works_leaves_a_last_step(office: Office) -> None:
    hung, timer = Hung(), FakeTimer(seconds=0.01)

    async def dawdle(context: ToolContext, arguments: Json) -> str:
        timer.seconds = 0
        return await hung(context, arguments)

    def respond(request: ModelRequest) -> Line:
        return asks_for(call("look")) if request.tools_allowed else says("Nothing yet.")

    model = ScriptedModel(respond=respond)
    result = await office.work(model, a_tool("look", dawdle), around=surroundings(timer=timer))

    assert (result.status, result.text) == (RunStatus.TIMEOUT, "Nothing yet.")
    assert hung.cancelled.is_set()
    assert "the time of this work is up" in results_shown(model.last).results[0].text


async def test_the_last_step_is_not_cut_off_by_the_time_that_has_run_out(tasks: Tasks) -> None:
    last = Hanging(says("Seven so far."))
    agent = an_agent(
        ScriptedModel(last), tasks=tasks, around=surroundings(timer=FakeTimer(seconds=-1))
    )
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        work = group.create_task(agent.run(TASK))
        await last.asked.wait()
        last.released.set()

    assert (work.result().status, work.result().text) == (RunStatus.TIMEOUT, "Seven so far.")


async def test_when_not_even_a_last_step_can_be_paid_the_text_so_far_is_kept(
    office: Office,
) -> None:
    model = ScriptedModel(asks_for(call("look"), text="I look.", usage=Usage(990, 9)))

    result = await office.work(model, a_tool("look"), around=surroundings(budget=TokenBudget(1000)))

    assert (result.status, result.text) == (RunStatus.BUDGET_EXCEEDED, "I look.")


async def test_an_answer_gets_a_quarter_of_what_the_budget_has_left(office: Office) -> None:
    model = ScriptedModel(asks_for(call("look"), usage=Usage(5_000, 1_000)), says("Twelve."))

    await office.work(model, a_tool("look"), around=surroundings(budget=TokenBudget(20_000)))

    # 20,000 less 4,000 for the last step; then less the 6,000 that are spent.
    assert [request.max_tokens for request in model.requests] == [4_000, 2_500]


async def test_the_tools_count_in_what_a_call_may_cost(office: Office) -> None:
    plain, wordy = FakeBudget(), FakeBudget()
    tool = a_tool("look")
    long = Tool(name="look", description="Looks. " * 1000, schema=tool.schema, run=tool.run)

    await office.work(ScriptedModel(says("12")), tool, around=surroundings(budget=plain))
    await office.work(ScriptedModel(says("12")), long, around=surroundings(budget=wordy))

    assert wordy.asked[0] - plain.asked[0] > 2_000


costs = st.lists(st.tuples(st.integers(0, 4_000), st.floats(0, 1)), max_size=12)


@given(total=st.integers(300, 20_000), costs=costs)
async def test_spending_passes_the_budget_by_at_most_one_call(
    total: int, costs: list[tuple[int, float]]
) -> None:
    spent: list[int] = []
    left = list(costs)

    def respond(request: ModelRequest) -> Line:
        sent, share = left.pop(0) if left else (10, 0.1)
        usage = Usage(0, int(request.max_tokens * share), cache_write=sent)
        spent.append(usage.total)
        if len(spent) > len(costs):
            return says("Twelve.", usage=usage)
        return asks_for(call("look", n=len(spent)), usage=usage)

    owner = Tasks()
    around = surroundings(budget=TokenBudget(total))
    result = await Office(owner).work(ScriptedModel(respond=respond), a_tool("look"), around=around)
    await owner.close()

    assert sum(spent) == result.usage.total
    assert sum(spent[:-1]) <= total


@given(total=st.integers(1_000, 20_000), shares=st.lists(st.floats(0, 1), max_size=12))
async def test_spending_keeps_to_the_budget_when_calls_cost_what_was_estimated(
    total: int, shares: list[float]
) -> None:
    seen = FakeBudget()
    left = list(shares)

    class Watched(TokenBudget):
        def allow(self, input_tokens: int, max_output: int) -> int | None:
            seen.asked.append(input_tokens)
            return super().allow(input_tokens, max_output)

    budget = Watched(total)

    def respond(request: ModelRequest) -> Line:
        share = left.pop(0) if left else 1.0
        usage = Usage(0, int(request.max_tokens * share), cache_write=seen.asked[-1])
        if not request.tools_allowed:
            return says("Twelve.", usage=Usage(0, request.max_tokens))
        return asks_for(call("look", n=len(left) + budget.spent), usage=usage)

    owner = Tasks()
    around = surroundings(budget=budget)
    result = await Office(owner).work(
        ScriptedModel(respond=respond), a_tool("look"), around=around, max_tool_calls=1000
    )
    await owner.close()

    assert result.status in {RunStatus.BUDGET_EXCEEDED, RunStatus.MAX_STEPS}
    assert result.usage.total <= total
    assert result.text == "Twelve.", "there was always enough for the last step"

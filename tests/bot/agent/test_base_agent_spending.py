"""Requests that tools make to models are charged to the work that called them."""

from dataclasses import replace

import pytest

from bot.agent.budget import TokenBudget
from bot.agent.messages import Usage
from bot.agent.protocols import AnswerEntry, Entry
from bot.errors import ModelUnavailableError
from bot.tasks import Tasks
from bot.values import Json, RunStatus
from skills.base import Effects, Tool, ToolContext
from tests.bot.agent.things import TASK, Office, a_tool, an_agent
from tests.fakes.around import FakeBudget, MemoryJournal, Shelf, surroundings
from tests.fakes.losing_model import LosingModel
from tests.fakes.scripted_model import ScriptedModel, asks_for, call, says

COST = Usage(3_000, 400, 20, 10)


def searching(effects: Effects = Effects.NONE) -> Tool:
    async def search(context: ToolContext, _: Json) -> str:
        context.spent(COST)
        return "found"

    return a_tool("search", search, effects=effects)


def twice_then_done() -> ScriptedModel:
    return ScriptedModel(
        asks_for(call("search"), call("search", n=2), usage=Usage(100, 20)),
        says("Found.", usage=Usage(200, 30)),
    )


@pytest.mark.parametrize("effects", list(Effects))
async def test_what_a_tool_spent_counts_in_the_result_the_journal_and_the_budget(
    office: Office, effects: Effects
) -> None:
    budget, journal = FakeBudget(), MemoryJournal()
    around = surroundings(budget=budget, journal=journal)

    result = await office.work(twice_then_done(), searching(effects), around=around)

    everything = Usage(300, 50) + COST + COST
    assert result.usage == everything
    assert journal.shelf.counters[-1].usage == everything
    assert sum(budget.charged, Usage()) == everything


async def test_a_budget_that_a_tool_used_up_leaves_one_last_step(office: Office) -> None:
    model = twice_then_done()

    result = await office.work(model, searching(), around=surroundings(budget=TokenBudget(5_000)))

    assert result.status is RunStatus.BUDGET_EXCEEDED
    assert model.requests[1:] == [] or not model.last.tools_allowed


async def test_a_tool_that_fails_after_spending_is_charged_all_the_same(office: Office) -> None:
    async def search(context: ToolContext, _: Json) -> str:
        context.spent(COST)
        raise RuntimeError("broken")

    model = ScriptedModel(asks_for(call("search"), usage=Usage(1, 1)), says("No.", usage=Usage()))

    result = await office.work(model, a_tool("search", search))

    assert result.usage == Usage(1, 1) + COST


async def test_what_a_tool_spent_is_still_counted_after_a_crash() -> None:
    class KilledError(BaseException):
        """The process ends here."""

    shelf = Shelf()
    model = ScriptedModel(
        asks_for(call("search"), usage=Usage(100, 20)),
        asks_for(call("search", n=2), usage=Usage(100, 20)),
        says("Found.", usage=Usage(200, 30)),
    )
    first = MemoryJournal(shelf)

    async def die(entry: Entry) -> None:
        if isinstance(entry, AnswerEntry) and len(shelf.entries) == 2:
            raise KilledError

    first.after = die
    for journal in (first, MemoryJournal(shelf, 2)):
        tasks = Tasks()
        before = shelf.counters[-1].usage.total if shelf.counters else 0
        around = surroundings(journal=journal, spent_before=before)
        try:
            result = await Office(tasks).work(model, searching(), around=around)
        except KilledError:
            shelf.attempt += 1
        finally:
            await tasks.close()

    assert result.usage.total == Usage(400, 70).total + 2 * COST.total
    assert shelf.counters[-1].usage == result.usage


async def test_outside_of_an_agent_nobody_counts_and_nothing_breaks(office: Office) -> None:
    around = surroundings()

    around.caller.spent(COST)

    assert (await office.work(twice_then_done(), a_tool("search"), around=around)).tool_calls == 2


async def test_a_request_is_expected_to_cost_what_the_last_one_was_billed_and_what_was_added(
    office: Office,
) -> None:
    model = ScriptedModel(
        asks_for(call("search"), usage=Usage(100, 20, 7_000, 900)), says("Found.", usage=Usage())
    )

    await office.work(model, searching())

    first, second = (each.expected_input for each in model.requests)
    assert 0 < first < 1_000
    assert 8_000 < second < 8_100


LOST = Usage(2_000, 30, cache_read=500)


async def test_requests_without_an_answer_count_in_the_result_the_journal_and_the_budget(
    office: Office,
) -> None:
    budget, journal = FakeBudget(), MemoryJournal()
    model = LosingModel(LOST, LOST, then=says("At last.", usage=Usage(100, 20)))

    result = await office.work(model, around=surroundings(budget=budget, journal=journal))

    everything = Usage(100, 20) + LOST + LOST
    assert result.usage == journal.shelf.counters[-1].usage == everything
    assert sum(budget.charged, Usage()) == everything
    assert [usage.discount for usage in budget.charged[-3:]] == [450, 450, 0]


async def test_a_failure_that_may_be_charged_is_in_the_result(office: Office) -> None:
    budget = FakeBudget()
    failure = ModelUnavailableError("Broken off.", charged=True)

    result = await office.work(LosingModel(LOST, then=failure), around=surroundings(budget=budget))

    assert (result.status, result.usage) == (RunStatus.FAILED, LOST)
    assert sum(budget.charged, Usage()) == LOST


@pytest.mark.parametrize("background", [False, True])
async def test_tools_know_whether_somebody_waits_for_the_work(
    tasks: Tasks, *, background: bool
) -> None:
    told: list[bool] = []

    async def search(context: ToolContext, _: Json) -> str:
        told.append(context.background)
        return "found"

    model = ScriptedModel(asks_for(call("search")), says("Found."))
    agent = an_agent(model, a_tool("search", search), tasks=tasks)
    agent.config = replace(agent.config, background=background)
    await agent.run(TASK)

    assert told == [background]

"""An attempt at a run: claimed, executed, and ended, released or left to another process."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from bot.agent.budget import TokenBudget, WorkClock
from bot.agent.messages import Usage
from bot.agent.permissions import ALL_ALLOWED
from bot.agent.progress import Progress
from bot.agent.settings import AgentSettings
from bot.catalog.agents import AgentDefinition
from bot.errors import LeftError, ModelError, NotAllowedError
from bot.events import EventBus
from bot.models.base import Model
from bot.rights.effective import Rights, RightsLevel
from bot.subagents.active import ActiveRun, ActiveRuns, Restarts, RunAccount
from bot.subagents.asking import OwnerQuestions
from bot.subagents.cards import Cards
from bot.subagents.limits import SubagentSettings
from bot.subagents.requests import RIGHTS
from bot.subagents.run_factory import RunFactory
from bot.subagents.runner import LOST_AFTER_SECONDS, MAX_CRASHES, OUR_FAULT, Runner
from bot.subagents.summaries import Summaries
from bot.tasks import Tasks
from bot.values import Identity, Place, RunStatus
from db.database import Database
from db.runs import Run
from db.steps import StepWriter
from tests.fakes.agents import FakeAgents
from tests.fakes.clock import FakeClock
from tests.fakes.office import FakeOffice, limits
from tests.fakes.scripted_model import Hanging, Line, ScriptedModel, says
from tests.fakes.stored import Stored

GENERAL = AgentDefinition(name="general", description="Does anything.", prompt="Do it.")


async def _all_connected(_: Run) -> tuple[str, ...]:
    return ()


def price_of(provider: str, model: str, usage: Usage) -> int | None:
    """Return the price of a usage: output costs ten times as much as input."""
    return None if model == "unpriced" else usage.input + 10 * usage.output


class RunnerSetup:
    """A runner of runs without tools, and the rows that it works on."""

    def __init__(self, database: Database, tasks: Tasks, clock: FakeClock) -> None:
        self._database, self._tasks, self._clock = database, tasks, clock
        self.stored = Stored(database, clock)
        self.active, self.turns = ActiveRuns(), ActiveRuns()

    def runner(self, model: Model) -> Runner:
        """Return the runner of a process."""
        settings, agents, events = limits(), FakeAgents({"general": GENERAL}), EventBus()
        database, tasks, now = self._database, self._tasks, self._clock
        endings = FakeOffice(database, settings, now).endings
        return Runner(
            database=database,
            factory=RunFactory(
                database=database,
                writer=StepWriter(database, tasks),
                tasks=tasks,
                events=events,
                agents=agents,
                permissions=lambda: ALL_ALLOWED,
                settings=settings,
                agent_settings=AgentSettings(),
                tools_of=lambda _: (),
                guide_of=lambda *_: "",
                servers_away=_all_connected,
                model_of=lambda *_: model,
                now=now,
            ),
            endings=endings,
            summaries=Summaries(
                database=database, agents=agents, model_of=lambda *_: model, now=now
            ),
            active=self.active,
            turns=self.turns,
            events=events,
            cards=Cards(lambda _: None, later=lambda *_: None),
            restarts=Restarts(tasks),
            tasks=tasks,
            price_of=price_of,
            ask_owner=partial(
                OwnerQuestions,
                database=database,
                outlets={},
                endings=endings,
                events=events,
                tasks=tasks,
                settings=SubagentSettings(max_questions_per_run=1),
                now=now,
            ),
            agent_settings=AgentSettings(max_response_tokens=1000),
            worker_id="w1",
            now=now,
        )

    async def run(self, user: Identity, **values: Any) -> Run:
        """Store an admitted run."""
        values = {"status": "accepted", "token_budget": 50_000, **values}
        return await self.stored.run(user, **values)

    async def work(self, run: Run, *script: Line) -> Run:
        """Make one attempt at a run and return its row."""
        async with asyncio.timeout(10):
            await self.runner(ScriptedModel(*script)).work(run.id)
        return await self.stored.read_run(run.id)


@pytest.fixture
async def setup(database: Database, clock: FakeClock) -> AsyncIterator[RunnerSetup]:
    tasks = Tasks()
    yield RunnerSetup(database, tasks, clock)
    await tasks.close()


async def test_an_answer_completes_the_run_with_its_usage(
    setup: RunnerSetup, alice: Identity
) -> None:
    over = await setup.work(await setup.run(alice), says("Three sheep."))

    assert (over.status, over.result, over.attempt) == (RunStatus.COMPLETED, "Three sheep.", 1)
    assert over.tokens > 0
    assert setup.active.by_id == {}


async def test_an_ended_run_is_not_worked_on_again(setup: RunnerSetup, alice: Identity) -> None:
    run = await setup.run(alice, status="failed", error="Broken.")

    over = await setup.work(run)

    assert (over.status, over.error, over.attempt) == (RunStatus.FAILED, "Broken.", 0)


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"crashes": MAX_CRASHES}, RunStatus.FAILED),
        ({"seconds_used": 61.0}, RunStatus.TIMEOUT),
    ],
    ids=["crashes", "time"],
)
async def test_a_run_past_a_limit_ends_without_a_request(
    setup: RunnerSetup, alice: Identity, values: dict[str, Any], status: RunStatus
) -> None:
    assert (await setup.work(await setup.run(alice, **values))).status is status


async def test_a_run_whose_process_died_hours_ago_is_lost(
    setup: RunnerSetup, clock: FakeClock, alice: Identity
) -> None:
    long_ago = clock() - timedelta(seconds=LOST_AFTER_SECONDS + 1)
    run = await setup.run(alice, status="running", attempt=1, updated_at=long_ago)

    assert (await setup.work(run)).status is RunStatus.LOST


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ModelError("The model is down."), "The model is down."), (RuntimeError("bug"), OUR_FAULT)],
    ids=["known", "unknown"],
)
async def test_an_error_fails_the_run_with_a_reason_for_its_owner(
    setup: RunnerSetup, alice: Identity, error: Exception, reason: str
) -> None:
    over = await setup.work(await setup.run(alice), error)

    assert (over.status, over.error) == (RunStatus.FAILED, reason)


@pytest.mark.parametrize(
    ("model", "cost"), [("priced", 100 + 904 + 10 * 4_096 + 7), ("unpriced", None)]
)
async def test_a_call_that_a_crash_interrupted_is_charged_once_at_its_price(
    setup: RunnerSetup, alice: Identity, model: str, cost: int | None
) -> None:
    counts = {"input_tokens": 50, "output_tokens": 5, "cost": 100, "reserved_tokens": 5_000}
    run = await setup.run(alice, status="running", attempt=1, model=model, **counts)

    over = await setup.work(run, says("Done.", usage=Usage(3, 4, cost=7)))

    assert (over.status, over.tokens, over.cost) == (RunStatus.COMPLETED, 5_062, cost)


async def test_an_error_that_ends_only_the_attempt_leaves_the_run_resumable(
    setup: RunnerSetup, alice: Identity
) -> None:
    run = await setup.run(alice)

    with pytest.raises(LeftError):
        await setup.work(run, LeftError("The database is away."))

    left = await setup.stored.read_run(run.id)
    assert (left.status, left.attempt) == (RunStatus.RUNNING, 1)
    assert (await setup.work(left, says("Done."))).status is RunStatus.COMPLETED


async def test_a_stopped_run_is_cancelled_and_its_task_ends_normally(
    setup: RunnerSetup, alice: Identity
) -> None:
    run, hanging = await setup.run(alice), Hanging()
    work = asyncio.ensure_future(setup.runner(ScriptedModel(hanging)).work(run.id))
    await asyncio.wait_for(hanging.asked.wait(), 10)

    assert setup.active.stop(run.id)

    await asyncio.wait_for(work, 10)
    assert (await setup.stored.read_run(run.id)).status is RunStatus.CANCELLED


async def test_a_drained_run_is_released_for_another_process(
    setup: RunnerSetup, alice: Identity
) -> None:
    run, hanging = await setup.run(alice), Hanging()
    work = asyncio.ensure_future(setup.runner(ScriptedModel(hanging)).work(run.id))
    await asyncio.wait_for(hanging.asked.wait(), 10)

    setup.active.drain()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(work, 10)
    assert not (await setup.stored.read_run(run.id)).status.final
    again = await setup.work(run, says("Done."))
    assert (again.status, again.attempt) == (RunStatus.COMPLETED, 2)


async def test_a_delegated_run_ends_with_the_turn_that_waits_for_it(
    setup: RunnerSetup, alice: Identity
) -> None:
    run, hanging = await setup.run(alice, mode="sync"), Hanging()
    work = asyncio.ensure_future(setup.runner(ScriptedModel(hanging)).work(run.id))
    await asyncio.wait_for(hanging.asked.wait(), 10)

    work.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(work, 10)
    over = await setup.stored.read_run(run.id)
    assert (over.status, over.error) == (
        RunStatus.CANCELLED,
        "The turn that waited for it was ended.",
    )


async def test_a_delegated_run_pauses_the_clock_of_its_turn(
    setup: RunnerSetup, alice: Identity
) -> None:
    task: asyncio.Task[None] | None = asyncio.current_task()
    assert task is not None
    clock = WorkClock(60)
    setup.turns.by_id["turn-1"] = ActiveRun(task, clocks=(clock,))
    run, hanging = await setup.run(alice, mode="sync", batch_id="turn-1"), Hanging()
    work = asyncio.ensure_future(setup.runner(ScriptedModel(hanging)).work(run.id))
    await asyncio.wait_for(hanging.asked.wait(), 10)

    awaited, clocks = setup.active.by_id[run.id].awaited, setup.active.by_id[run.id].clocks

    hanging.released.set()
    await asyncio.wait_for(work, 10)
    assert awaited
    assert clocks[1] is clock


async def test_a_lower_cap_of_the_configuration_counts_for_a_run_under_way(
    setup: RunnerSetup, alice: Identity
) -> None:
    run = await setup.run(alice)
    held = [SubagentSettings()]
    factory = replace(setup.runner(ScriptedModel()).factory, settings=lambda: held[0])
    account = RunAccount(Progress(), TokenBudget(50_000))
    clock = WorkClock(500)
    await factory._rights(Rights(), run, alice, account, clock)
    before = (account.budget.total, clock.total)

    held[0] = SubagentSettings(
        default_token_budget=9_000,
        max_token_budget=9_000,
        default_timeout_minutes=2,
        max_timeout_minutes=2,
        max_tool_calls_per_run=3,
    )
    account.progress.tool_calls = 4

    with pytest.raises(NotAllowedError, match=r"subagents.max_tool_calls_per_run. allows 3"):
        await factory._rights(Rights(), run, alice, account, clock)
    assert before == (50_000, 500)
    assert (account.budget.total, clock.total) == (9_000, 120)


def without(key: str, tool: str, budget: int) -> Rights:
    """Return rights that leave out a tool and lower the budget."""
    level = RightsLevel(
        key=key, title=key, denied={"tools": (tool,)}, limits={"max_token_budget": budget}
    )
    return Rights((level,), key)


async def test_the_rights_of_the_spawn_count_until_the_end_and_what_is_taken_away_at_once(
    setup: RunnerSetup, alice: Identity
) -> None:
    at_spawn = without("the role then", "shell", 20_000)
    run = await setup.run(alice, metadata={RIGHTS: at_spawn.as_json})
    now = [Rights()]

    async def rights_of(_: Identity, __: Place) -> Rights:
        return now[0]

    runner = setup.runner(ScriptedModel())
    factory = replace(runner.factory, rights=rights_of)
    async with asyncio.TaskGroup() as group:
        active = ActiveRun(group.create_task(asyncio.sleep(0)), clocks=(WorkClock(500),))
    questions = runner.ask_owner(run, alice, active)
    caller = factory.agent(run, alice, active, questions, Progress()).context.caller
    assert active.account is not None
    budgets = [active.account.budget.total]
    widened = await caller.rights()
    budgets.append(active.account.budget.total)
    now[0] = without("the role now", "web_fetch", 9_000)
    narrowed = await caller.rights()
    budgets.append(active.account.budget.total)

    assert "the role then" in widened.refusal("tools", "shell")
    assert not widened.refusal("tools", "web_fetch")
    assert "the role then" in narrowed.refusal("tools", "shell")
    assert "the role now" in narrowed.refusal("tools", "web_fetch")
    assert budgets == [50_000, 20_000, 9_000]

"""Runs with the largest settings and requests fit the database, and their times are valid."""

from datetime import timedelta

import pytest

from bot.agent.settings import AgentSettings
from bot.catalog.agents import AgentDefinition
from bot.catalog.frontmatter import MOST_TURNS
from bot.conversations.retention import Retention
from bot.errors import BadRequestError, LimitReachedError
from bot.setting_types import (
    LONGEST_WORK_MINUTES,
    LONGEST_WORK_SECONDS,
    MOST_CONTEXT_TOKENS,
    MOST_COUNT,
    MOST_DAYS,
    MOST_MINUTES,
    MOST_SECONDS,
    MOST_TOKENS,
)
from bot.subagents.limits import DelegationRateLimit, SpawnRateLimit, SubagentSettings, decide
from bot.subagents.planning import MOST_ASKED, RunPlanner
from bot.subagents.requests import Caller, RunRequest
from bot.subagents.retention import RetentionSettings
from bot.values import Identity, Json, Role, RunStatus, RunUsage
from db import admission, run_claims
from db.database import Database
from tests.fakes.agents import FakeAgents
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored, room

GREEDY = AgentDefinition(
    name="general",
    description="Does all.",
    prompt="",
    max_steps=MOST_TURNS,
    token_budget=10**400,
    timeout_minutes=float("inf"),
)
LARGEST = SubagentSettings(
    default_timeout_minutes=LONGEST_WORK_MINUTES,
    max_timeout_minutes=LONGEST_WORK_MINUTES,
    sync_timeout_seconds=LONGEST_WORK_SECONDS,
    default_token_budget=MOST_TOKENS,
    max_token_budget=MOST_TOKENS,
    max_tool_calls_per_run=MOST_COUNT,
    archive_ttl_minutes=MOST_MINUTES,
    spawn_rate_limit=SpawnRateLimit(max_requests=MOST_COUNT, window_seconds=MOST_SECONDS),
    delegation_rate_limit=DelegationRateLimit(window_seconds=MOST_SECONDS),
)
REQUESTS = [
    RunRequest(task="Count the sheep."),
    RunRequest(
        task="Count the sheep.",
        timeout_minutes=MOST_ASKED,
        token_budget=MOST_ASKED,
        max_turns=MOST_ASKED,
    ),
]


@pytest.fixture
def caller(alice: Identity) -> Caller:
    return Caller(
        user=alice, place=room(alice), role=Role.USER, conversation_id="c", message_id="m"
    )


def planner() -> RunPlanner:
    return RunPlanner(
        LARGEST,
        FakeAgents({GREEDY.name: GREEDY}),
        lambda *_: ("offline", "demo"),
        frozenset,
        frozenset,
    )


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("mode", ["async", "sync"])
async def test_a_run_with_the_largest_settings_is_stored_and_read(
    database: Database, clock: FakeClock, caller: Caller, request_: RunRequest, mode: str
) -> None:
    await Stored(database, clock).person(caller.user)
    planned = planner().plan(request_, caller, mode=mode).run

    async with database.transaction() as tx:
        stored = await admission.insert_run(tx, planned, RunStatus.ACCEPTED, clock())
        claimed = await run_claims.claim(
            tx, stored.id, worker_id="w", reserve=planned.token_budget, now=clock()
        )

    assert claimed is not None
    run = await Stored(database, clock).read_run(stored.id)
    assert run.timeout_ms == LONGEST_WORK_SECONDS * 1000
    assert (run.token_budget, run.reserved_tokens) == (MOST_TOKENS, MOST_TOKENS)
    assert run.max_steps == MOST_TURNS
    again = planner().again(run, "00000000-0000-4000-8000-000000000002").run
    assert (again.timeout_ms, again.token_budget) == (run.timeout_ms, MOST_TOKENS)


async def test_the_tokens_of_the_longest_work_are_stored_and_added(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    stored = Stored(database, clock)
    steps = AgentSettings.model_json_schema()["properties"]["max_steps"]["maximum"]
    most = steps * MOST_CONTEXT_TOKENS

    run = await stored.run(alice, input_tokens=most, output_tokens=steps * 16_000)

    assert run.input_tokens == most
    since = clock() - timedelta(days=1)
    async with database.snapshot() as tx:
        assert await admission.tokens_since(tx, alice.key, since) == (run.tokens, run.tokens, 1)


async def test_the_longest_retention_deletes_nothing(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    run = await Stored(database, clock).run(alice, status="completed", completed_at=clock())
    longest = dict.fromkeys(RetentionSettings.model_fields, MOST_DAYS)
    settings = RetentionSettings.model_validate(longest | {"events_hours": MOST_DAYS * 24})

    await Retention(database=database, settings=settings, runs=LARGEST, now=clock).apply()

    assert await Stored(database, clock).read_run(run.id) == run


@pytest.mark.parametrize("name", ["timeout_minutes", "token_budget", "max_turns"])
def test_a_number_beyond_any_cap_is_refused(caller: Caller, name: str) -> None:
    asked: Json = {name: 1e308}
    request = RunRequest(task="Count the sheep.", **asked)

    with pytest.raises(BadRequestError, match="1,000,000,000,000 at most"):
        planner().plan(request, caller, mode="async")


def test_the_longest_window_ends_at_a_valid_time(clock: FakeClock) -> None:
    full = RunUsage(started_in_window=MOST_COUNT, oldest_in_window=clock())

    with pytest.raises(LimitReachedError, match="876000 h"):
        decide(LARGEST, full, clock(), may_queue=True)

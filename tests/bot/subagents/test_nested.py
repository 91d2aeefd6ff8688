"""A run that may start runs gives them no tool that it lacks, and no more tokens than it has."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.permissions import Decision, Permissions, read_rules
from bot.errors import NotAllowedError, NotFoundError
from bot.subagents.requests import BUDGET_SOURCE, Caller, RunRequest
from bot.values import Identity
from db.database import Database, DatabaseSettings
from db.runs import Run
from tests.fakes.clock import FakeClock
from tests.fakes.office import FakeOffice, caller, limits
from tests.fakes.stored import Stored

TOOLS = st.none() | st.sets(st.sampled_from("abcd"))


@pytest.fixture
async def database(database_settings: DatabaseSettings) -> AsyncIterator[Database]:
    async with Database.open(database_settings) as opened:
        yield opened
        assert opened.connections_in_use() == 0, "A connection was not given back."


@pytest.fixture
def office(database: Database, clock: FakeClock) -> FakeOffice:
    return FakeOffice(database, limits(per_user=1000, everyone=1000, max_depth=2), clock)


@pytest.fixture
def stored(database: Database, clock: FakeClock) -> Stored:
    return Stored(database, clock)


def inside(parent: Run, user: Identity) -> Caller:
    """Return the run itself as the one who asks."""
    return caller(user, run_id=parent.id, depth=1, batch_id=parent.id)


async def child_of(parent: Run, user: Identity, office: FakeOffice, request: RunRequest) -> Run:
    return (await office.manager.spawn(request, inside(parent, user))).run


def scope(run: Run) -> set[str]:
    """Return what the run may call, of the tools a to d."""
    allowed = set("abcd") if run.allowed_tools is None else set(run.allowed_tools)
    return allowed - set(run.blocked_tools)


@settings(max_examples=40, deadline=None)
@given(
    mine=TOOLS,
    mine_blocked=st.sets(st.sampled_from("abcd")),
    wanted=TOOLS,
    wanted_blocked=st.sets(st.sampled_from("abcd")),
)
async def test_a_nested_run_never_has_a_tool_that_its_parent_lacks(
    office: FakeOffice,
    stored: Stored,
    mine: set[str] | None,
    mine_blocked: set[str],
    wanted: set[str] | None,
    wanted_blocked: set[str],
) -> None:
    user = await stored.somebody()
    parent = await stored.run(
        user,
        status="running",
        number=99,
        allowed_tools=None if mine is None else sorted(mine),
        blocked_tools=sorted(mine_blocked),
    )
    request = RunRequest(
        task="Count",
        allowed_tools=None if wanted is None else sorted(wanted),
        blocked_tools=sorted(wanted_blocked),
    )

    child = await child_of(parent, user, office, request)

    asked = set("abcd") if wanted is None else wanted
    assert scope(child) == scope(parent) & (asked - wanted_blocked)
    assert child.parent_run_id == parent.id
    assert child.depth == 2


async def test_a_nested_run_has_no_more_tokens_than_its_parent_has_left(
    office: FakeOffice, stored: Stored, alice: Identity
) -> None:
    parent = await stored.run(
        alice, status="running", number=99, token_budget=5000, input_tokens=1500, output_tokens=500
    )

    child = await child_of(parent, alice, office, RunRequest(task="Count", token_budget=100_000))

    assert child.token_budget == 3000
    assert child.metadata[BUDGET_SOURCE] == "parent"


async def test_a_run_that_is_over_starts_nothing_more(
    office: FakeOffice, stored: Stored, alice: Identity
) -> None:
    parent = await stored.run(alice, status="completed")

    with pytest.raises(NotFoundError, match="is over"):
        await child_of(parent, alice, office, RunRequest(task="Count"))


async def test_a_nested_run_starts_none_of_its_own(
    office: FakeOffice, stored: Stored, alice: Identity
) -> None:
    parent = await stored.run(alice, status="running", number=99)
    child = await child_of(parent, alice, office, RunRequest(task="Count"))
    grandchild = caller(alice, run_id=child.id, depth=2, batch_id=child.id)

    with pytest.raises(NotAllowedError):
        await office.manager.spawn(RunRequest(task="Count more"), grandchild)


async def test_what_a_run_may_not_do_nobody_does_for_it(
    office: FakeOffice, stored: Stored, alice: Identity
) -> None:
    parent = await stored.run(
        alice,
        status="running",
        number=99,
        agent="careful",
        metadata={"permissions": [{"file_write": "deny"}], "own_workspace": True},
    )
    asked = {"shell": "allow", "file_write": "allow"}
    request = RunRequest(task="Count", agent="careful", permissions=asked)
    child = await child_of(parent, alice, office, request)

    permissions = Permissions()
    for each in child.metadata["permissions"]:
        permissions = permissions.within(read_rules(each))

    def decide(tool: str) -> Decision:
        return permissions.decide(tool, [""], harmless=False).decision

    assert decide("file_write") is Decision.DENY
    assert decide("shell") is Decision.ASK
    assert decide("notes") is Decision.ALLOW
    assert child.metadata["own_workspace"] is True

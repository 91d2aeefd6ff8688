"""Lists of things to do: one per conversation and per run, and nobody else's."""

import json
from dataclasses import replace

import pytest

from bot.errors import ToolError
from bot.values import Identity, new_run_id
from db.database import Database
from skills.base import Audience, ToolContext
from skills.todo import MOST_ITEMS, build
from tests.fakes.calls import Caller
from tests.fakes.clock import FakeClock
from tests.fakes.rows import meet

PLAN = [
    {"text": "Read", "status": "done"},
    {"text": "Think", "status": "in_progress"},
    {"text": "Write"},
]


class Reporting(Caller):
    """A caller whose card can be read."""

    reported: list[str]

    def _context(self, call_id: str) -> ToolContext:
        self.reported = getattr(self, "reported", [])

        async def report(message: str) -> None:
            self.reported.append(message)

        return replace(super()._context(call_id), report=report)


@pytest.fixture
async def main(database: Database, alice: Identity, clock: FakeClock) -> Caller:
    await meet(database, alice, clock())
    return Caller(build(database), alice, clock)


@pytest.fixture
async def run(database: Database, alice: Identity, clock: FakeClock) -> Reporting:
    await meet(database, alice, clock())
    return Reporting(build(database), alice, clock, new_run_id())


async def test_a_list_is_read_as_it_was_written(main: Caller) -> None:
    written = await main.call("todo_write", items=PLAN)

    assert written == "Written: 1 of 3 done."
    assert await main.call("todo_read") == "[x] Read\n[&gt;] Think\n[ ] Write\n1 of 3 done."


async def test_a_list_takes_the_place_of_the_one_before(main: Caller) -> None:
    await main.call("todo_write", items=PLAN)
    await main.call("todo_write", items=[{"text": "Rest"}])

    assert await main.call("todo_read") == "[ ] Rest\n0 of 1 done."
    assert await main.call("todo_write", items=[]) == "The list is cleared."
    assert await main.call("todo_read") == "The list is empty."


async def test_a_run_has_its_own_list_and_shows_it_on_its_card(
    main: Caller, run: Reporting
) -> None:
    await main.call("todo_write", items=[{"text": "Rest"}])

    await run.call("todo_write", items=PLAN)

    assert "Think" in await run.call("todo_read")
    assert "Think" not in await main.call("todo_read")
    assert run.reported == ["1 of 3 done: Think"]


async def test_nobody_reaches_the_list_of_another_even_under_its_id(
    main: Caller, database: Database, bob: Identity, clock: FakeClock
) -> None:
    await meet(database, bob, clock())
    other = Caller(build(database), bob, clock)
    await main.call("todo_write", items=PLAN)

    read = await other.call("todo_read")
    await other.call("todo_write", items=[{"text": "Mine now"}])
    await other.call("todo_write", items=[])

    assert read == "The list is empty."
    assert "Think" in await main.call("todo_read")


@pytest.mark.parametrize(
    ("items", "complaint"),
    [
        ([{"text": " \n"}], "An item of the list is empty"),
        ([{"text": "x"}] * (MOST_ITEMS + 1), "51 items, and 50 is the most"),
        ([{"text": "x", "status": "maybe"}], "todo_write was not called: `items.0.status`"),
        ([{"what": "x"}], "`items.0.text` is required"),
        ("Read", "`items`"),
    ],
)
async def test_what_is_no_list_is_refused_with_advice(
    main: Caller, items: object, complaint: str
) -> None:
    with pytest.raises(ToolError, match=complaint):
        await main.call("todo_write", items=items)


async def test_what_cannot_be_stored_is_cleaned_and_long_items_are_cut(main: Caller) -> None:
    await main.call("todo_write", items=[{"text": "a\0b\n<c>" + "d" * 1000}])

    first, _ = (await main.call("todo_read")).splitlines()
    assert first.startswith("[ ] a\ufffdb &lt;c&gt;ddd")
    assert len(first) < 320


def test_subagents_may_have_a_list_and_the_schema_says_what_goes_in(database: Database) -> None:
    tools = {tool.name: tool for tool in build(database).tools}

    assert not any(tool.main_agent_only for tool in tools.values())
    assert "in_progress" in json.dumps(tools["todo_write"].schema)


async def test_a_list_is_not_kept_in_the_history_of_others(database: Database) -> None:
    assert {each.audience for each in build(database).tools} == {Audience.TURN}

"""The measurement itself: it runs to its end, loses nothing, and says sane things."""

import re

import pytest

from bench import cpu, idle, memory, statements, takeover, times, upkeep, workers
from bench.__main__ import chosen_parts
from bench.beside import Load
from bench.parts import PARTS
from bench.stage import open_server, open_stage
from bench.table import Row, Scale, rendered

TINY = Scale(
    at_once={2: 1},
    postgres={},
    spread={2: 2},
    spread_seconds=0.05,
    many=5,
    latency_seconds=0.05,
    going=2,
    samples=2,
    starts=1,
    shared=4,
    kills=1,
    counted=2,
    settling=0.1,
    idle=0.1,
    messages=200,
    conversations=3,
)


@pytest.mark.timeout(120)
async def test_every_part_measures_something_and_none_of_its_runs_is_lost() -> None:
    found = [*await cpu.rows(TINY), *await memory.rows(TINY), *await times.rows(TINY)]

    found += [*await statements.rows(TINY), *await idle.rows(TINY), *await workers.rows(TINY)]

    assert len(found) >= 9
    assert all(re.search(r"\d", row.measured) for row in found)
    assert not any("lost" in row.measured and "none lost" not in row.measured for row in found)


async def test_runs_and_the_floor_are_measured_in_turn_and_compared_by_their_median() -> None:
    [(_, together), (_, spread)] = await cpu.measure([Load(2, 3), Load(2, 2, 0.05)])

    assert [len(each) for each in (together.floor, together.aiohttp, together.ours)] == [3, 3, 3]
    assert [len(each) for each in (spread.floor, spread.aiohttp, spread.ours)] == [2, 0, 2]
    assert all(cost > 0 for cost in (*together.floor, *together.ours, *spread.ours))
    assert cpu.ratios_of([3.0, 4.0], [1.5, 4.0]) == [2.0, 1.0]
    assert cpu.spread_of([3.0, 1.0, 1.5]) == "1.50 (1.00 to 3.00, 3 times)"


async def test_runs_send_the_tools_that_a_users_runs_have() -> None:
    async with open_server() as server, open_stage(server, people=1) as stage:
        await stage.spawn()
        await stage.all_announced()
        sent = {tool["name"] for tool in (await server.newest())["tools"]}

    assert {"look_up", "shell", "file_edit", "web_search", "todo_write", "note_read"} < sent
    assert len(sent) >= 22


def test_several_parts_are_named_with_commas_or_one_by_one() -> None:
    assert chosen_parts(["--only", "cpu, idle", "--only", "start"]) == ["cpu", "idle", "start"]
    assert chosen_parts([]) == list(PARTS)
    with pytest.raises(SystemExit):
        chosen_parts(["--only", "cpu,nothing"])


async def test_the_clean_up_that_is_measured_deletes_every_second_message() -> None:
    found = await upkeep.measure(TINY.messages)

    assert found.deleted == TINY.messages // 2
    assert 0 < found.statement < found.cleaning
    assert found.blocked > 0
    assert found.duty > 0


def test_the_table_holds_every_row() -> None:
    table = rendered([Row("speed", "≤ 1", "0.5", "others: 2")])

    assert "| speed" in table
    assert "others: 2" in table


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_runs_of_a_killed_process_are_taken_by_others(postgres_url: str) -> None:
    async with open_server() as server:
        await server.latency(takeover.LATENCY_SECONDS)

        found = await takeover.measure(server, postgres_url, 1, settling=5)

    assert found
    assert all(seconds > 0 for seconds in found)

"""The measurement itself: it runs to its end, loses nothing, and says sane things."""

import re

import pytest

from bench import cpu, idle, memory, statements, times, upkeep, workers
from bench.table import Row, Scale, rendered

TINY = Scale(
    at_once={2: 1},
    postgres={},
    many=5,
    latency_seconds=0.05,
    going=2,
    samples=2,
    starts=1,
    shared=4,
    counted=2,
    settling=0.1,
    idle=0.1,
    messages=200,
)


@pytest.mark.timeout(120)
async def test_every_part_measures_something_and_none_of_its_runs_is_lost() -> None:
    found = [*await cpu.rows(TINY), *await memory.rows(TINY), *await times.rows(TINY)]

    found += [*await statements.rows(TINY), *await idle.rows(TINY), *await workers.rows(TINY)]

    assert len(found) >= 9
    assert all(re.search(r"\d", row.measured) for row in found)
    assert not any("lost" in row.measured and "none lost" not in row.measured for row in found)


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

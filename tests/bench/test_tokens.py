"""The replay of recorded requests reaches its ratios, and notices a prompt that changes."""

import copy
from dataclasses import replace
from pathlib import Path

import pytest

from bench.tokens import recorded, table


@pytest.mark.long
async def test_every_kind_of_traffic_costs_little_more_than_the_best_possible(
    sqlite_url: str, tmp_path: Path
) -> None:
    traffic = await recorded(sqlite_url, tmp_path, turns=9)

    assert [len(each.requests) for each in traffic] == [9, 9, 6, 15]
    for each in traffic:
        assert 0.9 < each.ratio <= each.most, table([each])
        bodies = copy.deepcopy(each.requests)
        for number, body in enumerate(bodies):
            body["tools"] = body["tools"][number % 10 :]
        assert replace(each, requests=bodies).paid > 1.5 * each.paid

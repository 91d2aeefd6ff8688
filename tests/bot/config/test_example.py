"""The example and the schema are written from the settings, and are up to date."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from bot.config.example import EXAMPLE_FILE, SCHEMA_FILE, descriptions, example, schema, write
from bot.config.loading import load
from bot.config.model import Config
from bot.config.problems import all_keys, name
from bot.values import Settings

ROOT = Path(__file__).parents[3]

#: Features G1–G13, and what the seeds say of them.
SUBAGENTS = {
    "enabled": True,
    "default_timeout_minutes": 5,
    "max_timeout_minutes": 10,
    "sync_timeout_seconds": 120,
    "max_concurrent_per_user": 3,
    "max_concurrent_global": 10,
    "archive_ttl_minutes": 60,
    "max_tool_calls_per_run": 25,
    "default_token_budget": 50_000,
    "max_token_budget": 200_000,
    "spawn_rate_limit": {"max_requests": 10, "window_seconds": 3600},
    "cleanup_interval_seconds": 60,
}


@pytest.mark.parametrize(("file", "made"), [(EXAMPLE_FILE, example), (SCHEMA_FILE, schema)])
def test_the_file_in_the_repository_is_the_one_that_is_made(file: Path, made: Any) -> None:
    in_repository = (ROOT / file).read_text(encoding="utf-8")

    assert in_repository == made(), "Write it anew: python -m bot config-docs"


def test_the_example_loads_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(example(), encoding="utf-8")

    assert load(file, {}) == Config()


def test_the_example_says_of_every_key_what_it_is_for() -> None:
    lines = example().splitlines()
    for key, _ in all_keys(Config):
        indent = "  " * (len(key) - 1)
        starts = (f"{indent}{key[-1]}:", f"{indent}# {key[-1]}: ${{")
        places = [index for index, line in enumerate(lines) if line.startswith(starts)]

        assert places, name(key)
        assert all(lines[place - 1].startswith(f"{indent}# ") for place in places), name(key)


def test_the_schema_describes_every_key_that_is_no_section() -> None:
    described = json.loads(schema())

    for title, kind in described["$defs"].items():
        for key, value in kind["properties"].items():
            assert value.get("description") or "$ref" in value, f"{title}.{key}"


class _Inherited(Settings):
    first: int = 1
    """The number
    of apples.
    """
    second: int = 2


class _Inheriting(_Inherited):
    second: int = 3
    """The number of pears."""


def test_the_description_of_a_key_is_the_docstring_below_it_also_when_inherited() -> None:
    assert descriptions(_Inheriting) == {
        "first": "The number of apples.",
        "second": "The number of pears.",
    }


def test_subagents_have_the_defaults_that_were_asked_for() -> None:
    defaults = Config().subagents.model_dump()

    assert {key: defaults[key] for key in SUBAGENTS} == SUBAGENTS


def test_the_schema_names_every_key_and_allows_no_other() -> None:
    described = json.loads(schema())
    subagents = described["$defs"]["SubagentSettings"]

    assert set(described["properties"]) == set(Config.model_fields)
    assert set(SUBAGENTS) <= set(subagents["properties"])
    assert described["additionalProperties"] is False
    assert subagents["additionalProperties"] is False


def test_the_schema_lets_a_variable_stand_for_a_number() -> None:
    depth = json.loads(schema())["$defs"]["SubagentSettings"]["properties"]["max_depth"]

    assert {"type": "string", "pattern": r"\$\{"} in depth["anyOf"]
    assert depth["default"] == 1


#: The bounds of a number in a schema, as Field(ge=…, gt=…) and Field(le=…, lt=…) write them.
LEAST, MOST = {"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}


def _numbers(node: Any, place: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the places of all numbers in a schema, with the names of their constraints.

    A number with a fixed set of values counts as bounded.
    """
    if isinstance(node, list):
        for part in node:
            yield from _numbers(part, place)
    elif isinstance(node, dict):
        kinds = node.get("type", ())
        number = {"integer", "number"} & {*([kinds] if isinstance(kinds, str) else kinds)}
        if number and not {"const", "enum"} & {*node}:
            yield place, {*node}
        for key, part in node.items():
            wraps = key in {"anyOf", "properties", "$defs"}
            yield from _numbers(part, place if wraps else f"{place}.{key}")


def _unbounded(described: Any) -> list[str]:
    found = dict.fromkeys(
        place for place, names in _numbers(described, "") if not (names & LEAST and names & MOST)
    )
    return [place.removeprefix(".") for place in found]


def test_every_number_has_a_lower_and_an_upper_bound() -> None:
    described = json.loads(schema())

    assert len(list(_numbers(described, ""))) > 100
    assert _unbounded(described) == [], "Give it Field(ge=…, le=…): see bot/setting_types.py."


class _Unbounded(Settings):
    plain: int = Field(1, ge=0)
    optional: float | None = Field(None, le=2)
    listed: tuple[int, ...] = ()
    mapped: dict[str, float] = Field({})
    paired: tuple[int, Annotated[int, Field(ge=0, lt=2)]] = (1, 1)
    nested: _Inherited = _Inherited()
    right: dict[str, Annotated[Decimal, Field(gt=0, le=2)]] = Field({})
    word: Literal[1, 2] = 1


def test_a_number_without_bounds_is_found_wherever_it_is() -> None:
    assert _unbounded(_Unbounded.model_json_schema()) == [
        *("_Inherited.first", "_Inherited.second", "plain", "optional", "listed.items"),
        *("mapped.additionalProperties", "paired.prefixItems"),
    ]


def test_both_files_are_written_where_they_belong(tmp_path: Path) -> None:
    files = write(tmp_path)

    assert files == (tmp_path / "config.example.yaml", tmp_path / "docs" / "config.schema.json")
    assert files[0].read_text(encoding="utf-8") == example()

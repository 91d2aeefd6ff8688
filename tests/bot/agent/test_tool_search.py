"""Tools that requests do not carry are found by words, and called under their own names."""

from threading import get_ident
from typing import Any

import pytest

from bot.agent.messages import ToolCall
from bot.agent.tool_search import (
    FIND_AGENTS,
    FIND_TOOLS,
    QUERY_WORDS,
    USE_TOOL,
    meant,
    ranked,
    search_tools,
)
from skills.base import Tool, ToolError
from tests.fakes.calls import context_of
from tests.fakes.services import TASKS, service_tools

TOOLS = {tool.name: tool for tool in service_tools()}


def searching(name: str, agents: dict[str, str] | None = None) -> Tool:
    """Return one of the tools that search."""
    return next(each for each in search_tools(TOOLS, agents or {}) if each.name == name)


async def test_one_search_finds_the_needed_tool_for_95_of_100_tasks() -> None:
    find = searching(FIND_TOOLS)
    missed = {}
    for words, needed in TASKS.items():
        found: list[str] = []
        await find.run(context_of(found=found.extend), {"query": words})
        if needed not in found:
            missed[words] = found

    assert len(TOOLS) == 52
    assert len(TASKS) == 50
    assert len(missed) <= 0.05 * len(TASKS), missed


async def test_a_found_tool_is_shown_with_its_arguments() -> None:
    text = await searching(FIND_TOOLS).run(context_of(), {"query": "merge a pull request"})

    assert "mcp__forge__merge_pull_request: Merge a pull request" in text
    assert '"method"' in text


async def test_a_search_without_a_match_names_the_services() -> None:
    with pytest.raises(ToolError, match=r"No tool fits.*forge \(12\).*warehouse \(6\)"):
        await searching(FIND_TOOLS).run(context_of(), {"query": "zzz"})


async def test_an_agent_is_found_by_its_description() -> None:
    agents = {"py": "`py`: Reviews Python.", "tax": "`tax`: Knows taxes and invoices."}
    text = await searching(FIND_AGENTS, agents).run(context_of(), {"query": "an invoice"})

    assert text == "- `tax`: Knows taxes and invoices."


async def test_a_search_does_not_block_the_event_loop() -> None:
    searched_in: set[int] = set()

    class Watched(dict[str, Tool]):
        def values(self) -> Any:
            searched_in.add(get_ident())
            return super().values()

    find, *_ = search_tools(Watched(TOOLS), {})
    searched_in.clear()
    await find.run(context_of(), {"query": "merge a pull request"})

    assert len(searched_in) == 1
    assert get_ident() not in searched_in


def test_only_what_is_left_out_is_searched() -> None:
    assert search_tools({}, {}) == ()
    assert [each.name for each in search_tools(TOOLS, {})] == [FIND_TOOLS, USE_TOOL]
    assert [each.name for each in search_tools({}, {"py": "Python"})] == [FIND_AGENTS]


def test_only_the_first_words_of_a_long_query_are_searched() -> None:
    entries = [("set_alarm", "Wake up", ""), ("get_weather", "Forecast", "")]
    filler = [f"w{number}" for number in range(20_000)]

    assert ranked(entries, " ".join(["alarm", *filler, "weather"])) == ["set_alarm"]
    assert ranked(entries, " ".join([*filler[: QUERY_WORDS - 1], "weather"])) == ["get_weather"]
    assert ranked(entries, " ".join([*filler[:QUERY_WORDS], "weather"])) == []
    assert ranked(entries, "weather " * 20_000) == ["get_weather"]


def test_signs_in_a_query_are_no_syntax() -> None:
    entries = [("run_query", "Run SQL", "")]

    assert ranked(entries, '"run" AND (sql* OR NEAR/2 -x:') == ["run_query"]
    assert ranked(entries, "'\"*") == []


@pytest.mark.parametrize(
    ("given", "name", "arguments"),
    [
        ({"name": "web_search", "arguments": {"query": "x"}}, "web_search", {"query": "x"}),
        ({"name": "clock"}, "clock", {}),
        ({"name": USE_TOOL, "arguments": {}}, USE_TOOL, {"name": USE_TOOL, "arguments": {}}),
        ({"name": 3, "arguments": {}}, USE_TOOL, {"name": 3, "arguments": {}}),
        ({"name": "a", "arguments": []}, USE_TOOL, {"name": "a", "arguments": []}),
    ],
)
def test_use_tool_stands_for_a_call_of_the_tool_itself(
    given: dict[str, object], name: str, arguments: dict[str, object]
) -> None:
    call = meant(ToolCall("1", USE_TOOL, given))

    assert (call.id, call.name, call.arguments) == ("1", name, arguments)

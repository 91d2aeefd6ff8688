"""With hundreds of tools and agents a request stays small, and a needed tool is found."""

import json
from pathlib import Path

from bot.agent.messages import estimate_tokens
from bot.agent.settings import AgentsSettings
from bot.agent.tool_search import FIND_TOOLS, USE_TOOL
from bot.values import Json
from tests.fakes.anthropic_server import Reply
from tests.fakes.prompt_cache import best_possible, paid
from tests.fakes.services import service_skills, service_tools, write_agents
from tests.stories.stage import ALICE, BOB, Play, call, calls, said, stage

MOST = 6_000
NEEDED = "mcp__forge__merge_pull_request"
SERVICES = service_skills(service_tools())


def fixed(body: Json) -> tuple[list[Json], list[Json]]:
    """Return the part of a request that stands before the conversation: tools and prompt."""
    return [each for each in body["tools"] if not each.get("defer_loading")], body["system"]


def tokens(body: Json) -> int:
    """Return the estimated tokens of that part."""
    tools, system = fixed(body)
    of_tools = (estimate_tokens(f"{each['description']}{each['input_schema']}") for each in tools)
    return sum(of_tools) + sum(estimate_tokens(each["text"]) for each in system)


async def test_158_agents_and_52_tools_take_less_than_6000_tokens(
    database_url: str, tmp_path: Path
) -> None:
    names = write_agents(tmp_path)
    agents = AgentsSettings(folders=(str(tmp_path),))
    play = Play(main=[Reply(text="Hello.")] * 2)
    async with stage(database_url, play, agents=agents, further_skills=SERVICES) as it:
        for number, user in enumerate((ALICE, BOB), start=1):
            await it.say(user, "Hello")
            await it.outlet.replied(number)

    first, second = play.asked
    assert len(names) == 158
    assert tokens(first) <= MOST
    assert fixed(first) == fixed(second)
    assert {"delegate_to_subagent", "web_search", FIND_TOOLS, USE_TOOL} <= {
        each["name"] for each in first["tools"]
    }


async def test_a_found_tool_is_declared_and_called_by_its_own_name(database_url: str) -> None:
    play = Play(
        main=[
            call(FIND_TOOLS, query="merge a pull request"),
            call(NEEDED, owner="o", number="7"),
            Reply(text="Merged."),
        ]
    )
    async with stage(database_url, play, further_skills=SERVICES) as it:
        await it.say(ALICE, "Merge my pull request")
        await it.outlet.replied()

    first, second, third = play.asked
    declared = [each["name"] for each in second["tools"] if each.get("defer_loading")]
    [result] = second["messages"][-1]["content"][:1]
    assert NEEDED in declared
    assert {"type": "tool_reference", "tool_name": NEEDED} in result["content"]
    assert f"{NEEDED} did its work with ['number', 'owner']" in said(third["messages"][-1])
    assert fixed(first) == fixed(second) == fixed(third)
    assert paid(play.asked, read_weight=0.1) < 1.15 * best_possible(play.asked, read_weight=0.1)


async def test_a_model_that_loads_no_tools_calls_a_found_one_with_use_tool(
    database_url: str,
) -> None:
    play = Play(
        main=[
            call(FIND_TOOLS, query="merge a pull request"),
            calls((USE_TOOL, {"name": NEEDED, "arguments": {"number": "7"}})),
            Reply(text="Merged."),
        ]
    )
    models = {"allowed": ("claude-3-5-haiku",)}
    async with stage(database_url, play, more_models=models, further_skills=SERVICES) as it:
        await it.command(ALICE, "/model claude-3-5-haiku")
        await it.say(ALICE, "Merge my pull request")
        await it.outlet.replied()

    _, second, third = play.asked
    assert "defer_loading" not in json.dumps(second["tools"])
    assert NEEDED in said(second["messages"][-1])
    assert f"{NEEDED} did its work with ['number']" in said(third["messages"][-1])

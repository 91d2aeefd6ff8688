"""What requests of a place carry is chosen by use, once a day, and the rest is searched."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from bot.agent.messages import Answer, ToolCall, estimate_tokens
from bot.agent.permissions import Decision, PermissionRule, PermissionRules, Permissions
from bot.agent.settings import AgentSettings
from bot.agent.tool_search import FIND_AGENTS, FIND_TOOLS, USE_TOOL, tokens_of
from bot.catalog.agents import AgentDefinition
from bot.conversations.place_offers import PlaceOffers, day_of, key_of, uses_of
from bot.values import Place
from db import turn_context
from db.database import Database
from skills.base import Tool, ToolError
from tests.fakes.agents import FakeAgents
from tests.fakes.calls import context_of
from tests.fakes.clock import FakeClock
from tests.fakes.services import service_tools

ROOM = Place("discord", "guild", "room", "thread", "message")
DAY = timedelta(days=1).total_seconds()


@dataclass
class Bench:
    """A bot with many tools and agents, or few."""

    database: Database
    clock: FakeClock
    settings: AgentSettings = field(default_factory=lambda: AgentSettings(fixed_tokens=3_000))
    tools: list[Tool] = field(default_factory=lambda: list(service_tools()))
    agents: dict[str, AgentDefinition] = field(default_factory=dict)
    permissions: Permissions = field(default_factory=Permissions)

    def offers(self) -> PlaceOffers:
        """Return the offers as a process that starts now makes them."""
        return PlaceOffers(
            database=self.database,
            settings=self.settings,
            agents=FakeAgents(self.agents),
            guides=tuple,
            tools=lambda: tuple(self.tools),
            permissions=lambda: self.permissions,
            now=self.clock,
        )

    async def use(self, name: str, *, times: int = 1, place: Place = ROOM) -> None:
        """Store uses of a tool in a place."""
        async with self.database.transaction() as tx:
            day = day_of(self.clock())
            await turn_context.count(tx, key_of(place), {name: times}, day)


@pytest.fixture
def bench(database: Database, clock: FakeClock) -> Bench:
    return Bench(database, clock)


async def carried(offers: PlaceOffers, place: Place = ROOM) -> list[str]:
    """Return the names of the tools that requests of a place carry."""
    return [tool.name for tool in (await offers.at(place)).tools if not tool.deferred]


def an_agent(name: str) -> AgentDefinition:
    return AgentDefinition(name=name, description=f"Knows {name}. " * 20, prompt="")


async def test_what_fits_is_carried_whole_without_a_search(bench: Bench) -> None:
    bench.tools = bench.tools[:5]

    assert await carried(bench.offers()) == sorted(tool.name for tool in bench.tools)


async def test_a_request_carries_no_more_than_the_bound(bench: Bench) -> None:
    bench.agents = {name: an_agent(name) for name in map(str, range(1_000, 1_100))}

    offer = await bench.offers().at(ROOM)

    shown = [tool for tool in offer.tools if not tool.deferred]
    total = estimate_tokens(offer.prompt) + sum(map(tokens_of, shown))
    assert 0.85 * 3_000 < total <= 3_000
    assert {FIND_TOOLS, FIND_AGENTS, USE_TOOL} <= {tool.name for tool in shown}
    assert "`1000`" in offer.prompt
    assert "`1099`" not in offer.prompt
    assert len(offer.tools) == 52 + 3


async def test_used_tools_come_first_and_the_others_by_name(bench: Bench) -> None:
    last = sorted(tool.name for tool in bench.tools)[-1]
    assert last not in await carried(bench.offers())

    await bench.use(last)
    bench.clock.advance(DAY)

    names = await carried(bench.offers())
    assert last in names
    assert sorted(tool.name for tool in bench.tools)[0] in names


async def test_the_choice_stays_for_a_day_whatever_is_used(bench: Bench) -> None:
    offers = bench.offers()
    before = await offers.at(ROOM)
    await bench.use("mcp__warehouse__run_query", times=9)
    bench.clock.advance(DAY / 4)

    for later in (offers, bench.offers()):
        offer = await later.at(replace(ROOM, thread="another"))
        assert offer.prompt == before.prompt
        assert [(each.name, each.deferred) for each in offer.tools] == [
            (each.name, each.deferred) for each in before.tools
        ]


async def test_uses_count_in_their_channel_and_for_thirty_days(bench: Bench) -> None:
    name = "mcp__warehouse__run_query"
    await bench.use(name, place=replace(ROOM, channel="another"))
    assert name not in await carried(bench.offers())

    await bench.use(name)
    bench.clock.advance(31 * DAY)
    assert name not in await carried(bench.offers())


async def test_a_new_tool_is_a_reason_to_choose_again(bench: Bench) -> None:
    offers = bench.offers()
    everything, bench.tools = bench.tools, bench.tools[:3]
    assert len(await carried(offers)) == 3

    bench.tools = everything

    names = await carried(offers)
    assert {FIND_TOOLS, USE_TOOL} < set(names)
    assert len(names) > 3 + 2


async def test_a_tool_of_a_lost_service_stays_in_front_and_refuses_calls(bench: Bench) -> None:
    offers = bench.offers()
    bench.tools = bench.tools[:3]
    before = await carried(offers)
    bench.tools = []

    offer = await offers.at(ROOM)

    assert [tool.name for tool in offer.tools] == before
    with pytest.raises(ToolError, match="not connected"):
        await offer.tools[0].run(context_of(), {})


async def test_a_tool_that_the_rules_deny_is_neither_carried_nor_found(bench: Bench) -> None:
    rules = PermissionRules(rules=(PermissionRule("mcp__warehouse__*", "*", Decision.DENY),))
    bench.permissions = Permissions(rules)

    offer = await bench.offers().at(ROOM)

    assert not [tool.name for tool in offer.tools if "warehouse" in tool.name]
    assert "warehouse" not in "".join(tool.description for tool in offer.tools)


def test_calls_are_counted_under_the_names_of_their_tools_and_agents() -> None:
    calls = (
        ToolCall("1", USE_TOOL, {"name": "mcp__drive__read_document", "arguments": {}}),
        ToolCall("2", "sessions_spawn", {"task": "x", "agent": "Researcher"}),
        ToolCall("3", "sessions_spawn", {"task": "y", "agent": None}),
    )

    assert uses_of([Answer("", calls)]) == {
        "mcp__drive__read_document": 1,
        "sessions_spawn": 2,
        "agent/researcher": 1,
    }


async def test_uses_of_several_turns_add_up(bench: Bench) -> None:
    for _ in range(2):
        await bench.use("recall", times=3)
    async with bench.database.snapshot() as tx:
        found = await turn_context.uses(tx, key_of(ROOM), bench.clock() - timedelta(days=1))
    assert found == {"recall": 6}

"""Chooses the tools and agents that every request of a place carries; the rest is searched.

A provider caches what requests begin with, and tools and system prompt are the beginning. So they
are the same for everyone in a place, and stay the same for a day: the tools used there most, then
the others in alphabetical order, as many as `agent.fixed_tokens` allow.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from bot.agent.context import main_prompt
from bot.agent.messages import Answer, estimate_tokens
from bot.agent.permissions import Permissions
from bot.agent.settings import AgentSettings
from bot.agent.tool_search import meant, search_tools, tokens_of
from bot.catalog.agents import Agents, described
from bot.values import Clock, Json, Live, Place
from db import turn_context
from db.database import Database
from db.turn_context import PlaceChoice
from skills.base import Audience, Effects, Reach, Tool, ToolContext, ToolError

#: Days of uses that a choice considers.
DAYS = 30
#: Most places whose choices a process holds.
PLACES = 1_000
#: The largest part of the tokens that the list of agents takes.
SHARE_OF_AGENTS = 0.1
#: Carried in any case: every prompt speaks of them.
FIRST = ("delegate_to_subagent", "sessions_spawn", "web_fetch", "web_search")
#: Distinguishes agents from tools among the names of a choice.
AGENT = "agent/"
AWAY = "{} cannot be called now: its service is not connected. Say so where the work needs it."


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOffer:
    """The beginning of every request of a place.

    Attributes:
        prompt: The system prompt.
        tools: All tools; those that requests do not carry are `deferred`.
    """

    prompt: str
    tools: tuple[Tool, ...]


@dataclass(slots=True, kw_only=True)
class PlaceOffers:
    """Decides what every request of a place carries.

    Attributes:
        guides: Returns the current guides of skills to their tools.
        tools: Returns the current tools of the main agent.
    """

    database: Database
    settings: Live[AgentSettings]
    agents: Agents
    guides: Callable[[], Iterable[str]]
    tools: Callable[[], tuple[Tool, ...]]
    permissions: Callable[[], Permissions]
    now: Clock
    _choices: dict[str, PlaceChoice] = field(default_factory=dict)
    #: Tools that were there once: a request carries them while their service is not connected.
    _seen: dict[str, Tool] = field(default_factory=dict)

    async def at(self, place: Place) -> PlaceOffer:
        """Return the prompt and the tools of a place."""
        offers = self.permissions().offers
        tools = {tool.name: tool for tool in self.tools() if offers(tool.name)}
        lines = dict(zip(self.agents.by_name, described(self.agents), strict=True))
        choice = await self._choice(key_of(place), tools, lines)
        self._seen |= tools
        carried = [
            tools[name] if name in tools else _missing(self._seen[name])
            for name in choice.tools
            if name in self._seen
        ]
        hidden = {name: tool for name, tool in tools.items() if name not in choice.tools}
        unlisted = {name: line for name, line in lines.items() if name not in choice.agents}
        shown = [line for name, line in lines.items() if name in choice.agents]
        return PlaceOffer(
            prompt=main_prompt(self.settings(), self.guides(), place.platform, shown),
            tools=(
                *carried,
                *search_tools(hidden, unlisted),
                *(replace(tool, deferred=True) for tool in hidden.values()),
            ),
        )

    async def _choice(
        self, place: str, tools: Mapping[str, Tool], agents: Mapping[str, str]
    ) -> PlaceChoice:
        """Return the choice of today; choose again for a tool or agent that is new."""
        names = {*tools, *(AGENT + name for name in agents)}
        today = day_of(self.now())
        held = self._choices.get(place)
        if held is not None and held.day == today and names <= held.known:
            return held
        if len(self._choices) >= PLACES:
            self._choices.clear()
        async with self.database.transaction() as tx:
            found = await turn_context.chosen(tx, place)
            if found is None or found.day != today or not names <= found.known:
                uses = await turn_context.uses(tx, place, today - timedelta(days=DAYS))
                known = {*names, *(found.known if found and found.day == today else ())}
                chosen_tools, chosen_agents = self._choose(place, tools, agents, uses)
                found = PlaceChoice(
                    place_key=place,
                    day=today,
                    tools=chosen_tools,
                    agents=chosen_agents,
                    known=frozenset(known),
                )
                await turn_context.choose(tx, found)
        self._choices[place] = found
        return found

    def _choose(
        self,
        place: str,
        tools: Mapping[str, Tool],
        agents: Mapping[str, str],
        uses: Mapping[str, int],
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the tools and agents to carry, sorted."""
        platform = place.split("/", maxsplit=1)[0]
        # The bound does not count the owner's instructions.
        own = self.settings().model_copy(update={"instructions": ""})
        room = self.settings().fixed_tokens
        room -= estimate_tokens(main_prompt(own, self.guides(), platform, [""]))
        costs = {name: tokens_of(tool) for name, tool in tools.items()}
        lines = {name: estimate_tokens(f"- {line}\n") for name, line in agents.items()}
        if sum(costs.values()) + sum(lines.values()) <= room:
            return tuple(sorted(tools)), tuple(sorted(agents))
        room -= sum(map(tokens_of, search_tools(tools, agents)))
        listed = _fitting(
            sorted(agents, key=lambda name: (-uses.get(AGENT + name, 0), name)),
            lines,
            min(room, int(self.settings().fixed_tokens * SHARE_OF_AGENTS)),
        )
        room -= sum(lines[name] for name in listed)
        first = [name for name in FIRST if name in tools]
        room -= sum(costs[name] for name in first)
        # A service of many tools does not displace the bot's own, which its guides name.
        others = sorted(
            (name for name in tools if name not in first),
            key=lambda name: (-uses.get(name, 0), "__" in name, name),
        )
        return tuple(sorted([*first, *_fitting(others, costs, room)])), tuple(sorted(listed))


def day_of(moment: datetime) -> datetime:
    """Return the beginning of a day, in UTC."""
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def key_of(place: Place) -> str:
    """Return the key of a place's choice, which the threads of a channel share."""
    return replace(place, thread="", message="").files_key.removeprefix("place/")


def uses_of(answers: Iterable[Answer]) -> Counter[str]:
    """Return the tools that answers called and the agents that they named, with their numbers."""
    counted: Counter[str] = Counter()
    for call in (meant(call) for answer in answers for call in answer.calls):
        counted[call.name[:100]] += 1
        if isinstance(agent := call.arguments.get("agent"), str) and agent.strip():
            counted[AGENT + agent.strip().lower()[:90]] += 1
    return counted


def _fitting(names: Sequence[str], costs: Mapping[str, int], room: int) -> list[str]:
    """Return the names whose costs fit, in their order; a smaller one may follow a larger."""
    found = []
    for name in names:
        if costs[name] <= room:
            room -= costs[name]
            found.append(name)
    return found


def _missing(tool: Tool) -> Tool:
    """Return a tool of the same description whose calls are refused."""

    async def run(_: ToolContext, __: Json) -> str:
        raise ToolError(AWAY.format(tool.name))

    return Tool(
        name=tool.name,
        description=tool.description,
        schema=tool.schema,
        run=run,
        effects=Effects.NONE,
        foreign=False,
        private=False,
        audience=Audience.PLACE,
        reach=Reach.READS_HERE,
    )

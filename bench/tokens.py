"""`python -m bench.tokens`: replay recorded requests and print what their prompts cost.

The whole bot answers scripted users; the requests that it sends are recorded, and replayed through
a simulation of the provider's prompt cache (`tests.fakes.prompt_cache`). The cost is compared with
the best possible: the longest prefix that was sent before costs 0.1, all else 1.25. Tokens are
estimates, four characters each, and calls are less than five minutes apart.
"""

import asyncio
import itertools
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.agent.settings import AgentsSettings
from bot.conversations.settings import ConversationSettings
from bot.values import Identity, Json, RunStatus
from tests.fakes.anthropic_server import Reply
from tests.fakes.prompt_cache import best_possible, paid, prefixes
from tests.fakes.services import service_skills, service_tools, write_agents
from tests.stories.stage import ALICE, BOB, PLATFORM, Play, call, is_run, stage

TURNS = 30
READ, WRITTEN = 0.1, 1.25
CAROL = Identity(PLATFORM, "", "carol")
WORDS = "The flock on the northern hill was counted again this morning, and the list is long. " * 8


@dataclass(frozen=True, slots=True)
class Traffic:
    """Recorded requests of one kind of use.

    Attributes:
        name: The kind of use.
        most: The highest ratio of the cost to the best possible.
        requests: The bodies, in order.
    """

    name: str
    most: float
    requests: Sequence[Json]

    @property
    def tokens(self) -> int:
        """All input tokens, without any cache."""
        return sum(prefixes(body)[-1].tokens for body in self.requests)

    @property
    def paid(self) -> float:
        """The weighted tokens."""
        return paid(self.requests, read_weight=READ, write_weight=WRITTEN)

    @property
    def best(self) -> float:
        """The weighted tokens at the best."""
        return best_possible(self.requests, read_weight=READ, write_weight=WRITTEN)

    @property
    def ratio(self) -> float:
        """The tokens paid, as a multiple of the best possible."""
        return self.paid / self.best


async def recorded(database_url: str, folder: Path, *, turns: int = TURNS) -> list[Traffic]:
    """Record the traffic of each kind of use.

    Args:
        database_url: An empty database.
        folder: An empty folder for a collection of agents.
        turns: The number of turns of a chat.
    """
    write_agents(folder)
    personal = ConversationSettings(mode="personal")
    return [
        Traffic(
            f"a personal chat of {turns} turns",
            1.1,
            await _talk(database_url, [ALICE], turns, conversations=personal),
        ),
        Traffic(
            f"a thread of {turns} turns, three speakers in turn",
            1.4,
            await _talk(f"{database_url}-thread", [ALICE, BOB, CAROL], turns),
        ),
        Traffic("a run of 6 steps", 1.1, await _run(f"{database_url}-run")),
        Traffic(
            f"a thread of {turns} turns with 52 tools of services and 158 agents, a tool found in "
            "each third turn",
            1.4,
            await _talk(
                f"{database_url}-found",
                [ALICE, BOB],
                turns,
                searches=True,
                further_skills=service_skills(service_tools()),
                agents=AgentsSettings(folders=(str(folder),)),
            ),
        ),
    ]


async def _talk(
    database_url: str,
    users: Sequence[Identity],
    turns: int,
    *,
    searches: bool = False,
    **sections: object,
) -> list[Json]:
    """Let users speak in turn; return the requests of the main agent."""
    lines: list[Reply] = []
    for number in range(turns):
        if searches and number % 3 == 0:
            lines += [
                call("find_tools", query="query metrics over a time range"),
                call("mcp__monitoring__query_metrics", expression=f"sheep_{number}"),
            ]
        lines.append(Reply(text=f"Sheep number {number}. {WORDS}"))
    play = Play(main=lines)
    async with stage(database_url, play, **sections) as it:  # type: ignore[arg-type]
        for number, user in enumerate(itertools.islice(itertools.cycle(users), turns)):
            await it.say(user, f"How many now, at round {number}? {WORDS}")
            await it.outlet.replied(number + 1)
    return play.asked


async def _run(database_url: str) -> list[Json]:
    """Let a run take six steps; return its requests."""
    steps = [call("current_time", zone=f"Etc/GMT+{number}") for number in range(1, 6)]
    play = Play(
        main=[call("sessions_spawn", task=f"Count the sheep. {WORDS}"), Reply(text="Ok.")],
        runs={"Count": [*steps, Reply(text="Seven.")]},
    )
    async with stage(database_url, play) as it:
        await it.say(ALICE, "Count them.")
        await it.ended("Count", RunStatus.COMPLETED)
    return [body for body in play.asked if is_run(body)]


def table(traffic: Sequence[Traffic]) -> list[str]:
    """Return the lines of the table."""
    return [
        "| traffic | requests | tokens sent | tokens paid | ÷ best possible | reach |",
        "|---|---|---|---|---|---|",
        *(
            f"| {each.name} | {len(each.requests)} | {each.tokens:,} | {each.paid:,.0f} "
            f"| **{each.ratio:.2f}** | ≤ {each.most} |"
            for each in traffic
        ),
    ]


def main() -> None:
    """Record, replay, and print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "agents").mkdir()
        database_url = f"sqlite:///{folder / 'retinue.db'}"
        traffic = asyncio.run(recorded(database_url, folder / "agents"))
    sys.stdout.write("\n".join([*table(traffic), ""]))


if __name__ == "__main__":
    main()

"""How many tokens prompts and tools take; `python -m tests.stories.prompts` prints a table."""

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bot import prompt_tokens
from bot.agent.messages import estimate_tokens
from bot.catalog.agents import AGENTS
from bot.subagents.limits import SpawnRateLimit, SubagentSettings
from bot.values import Json
from skills import discovery
from skills.shell.settings import ShellSettings
from tests.fakes.anthropic_server import Reply
from tests.stories.stage import ALICE, Play, is_run, stage, task_of

MAIN = "main agent"


@dataclass(frozen=True, slots=True)
class Prompt:
    """What an agent is always sent, in tokens.

    Attributes:
        words: The system prompt.
        tools: Each tool's description and schema.
    """

    words: int
    tools: Mapping[str, int]

    @property
    def total(self) -> int:
        """All of it."""
        return self.words + sum(self.tools.values())


@dataclass(frozen=True, slots=True)
class Measured:
    """What a bot with the usual configuration sends.

    Attributes:
        prompts: The main agent's, and those of each agent's runs.
        guides: What each skill adds to the main agent's prompt.
    """

    prompts: Mapping[str, Prompt]
    guides: Mapping[str, int]


async def measured(database_url: str) -> Measured:
    """Let each agent of a bot be asked once, and measure the requests."""
    play = Play(main=[Reply(text="Hello.")], runs={"": []})
    many = SubagentSettings(spawn_rate_limit=SpawnRateLimit(max_requests=100))
    async with stage(database_url, play, subagents=many, shell=ShellSettings()) as it:
        await it.say(ALICE, "Hello")
        await it.outlet.replied()
        for name in sorted(file.stem for file in AGENTS.glob("*.md")):
            await it.command(ALICE, f"/subagents spawn --agent {name} {name}")
            await it.outlet.announced((await it.run_of(name)).id)
        skills = it.bot.registry.skills
    return Measured(
        prompts={_who(body): _prompt(body) for body in play.asked},
        guides={each.name: estimate_tokens(each.guide_now) for each in skills if each.guide_now},
    )


def _who(body: Json) -> str:
    return task_of(body) if is_run(body) else MAIN


def _prompt(body: Json) -> Prompt:
    return Prompt(
        words=estimate_tokens(" ".join(block["text"] for block in body["system"])),
        tools={
            tool["name"]: estimate_tokens(f"{tool['description']}{tool['input_schema']}")
            for tool in body["tools"]
        },
    )


def table(found: Measured) -> Iterator[str]:
    """Return the lines to print."""
    for who, prompt in found.prompts.items():
        yield f"{prompt.total:6,}  {who} ({prompt.words:,} in the prompt)"
    yield "\nEach tool of the main agent and of a general run:"
    tools = {**found.prompts[MAIN].tools, **found.prompts["general"].tools}
    yield from (f"{tokens:6,}  {name}" for name, tokens in sorted(tools.items()))
    yield "\nEach guide:"
    yield from (f"{tokens:6,}  {name}" for name, tokens in sorted(found.guides.items()))


def for_check(found: Measured) -> str:
    """Return the file with the tokens that `check` adds up: those of tools and guides."""
    parts = {"tools": found.prompts[MAIN].tools, "guides": found.guides}
    lines = ["# Made by `python -m tests.stories.prompts --write`: tokens, estimated."]
    for part, tokens in parts.items():
        of_the_bot = (name for name in sorted(tokens) if name in discovery.names())
        lines += ["", f"[{part}]", *(f"{name} = {tokens[name]}" for name in of_the_bot)]
    return "\n".join([*lines, ""])


def main() -> None:
    """Print the table; with `--write`, write the file of `check` as well."""
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measured(f"sqlite:///{Path(folder) / 'retinue.db'}"))
    if "--write" in sys.argv:
        prompt_tokens.FILE.write_text(for_check(found), encoding="utf-8")
    sys.stdout.write("\n".join([*table(found), ""]))


if __name__ == "__main__":
    main()

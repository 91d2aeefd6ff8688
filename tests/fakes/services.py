"""Many tools and agents, as a bot has that is connected to seven services and an agent collection.

Attributes:
    TASKS: 50 searches, and the tool that each of them needs.
"""

import tomllib
from itertools import product
from pathlib import Path

from bot.values import Json
from skills.base import Audience, Effects, Reach, Skill, Tool, ToolContext

_FILE = tomllib.loads((Path(__file__).parent / "service_tools.toml").read_text(encoding="utf-8"))

TASKS: dict[str, str] = {words: f"mcp__{name}" for words, name in _FILE["tasks"].items()}

FIELDS = (
    "python", "typescript", "golang", "rust", "java", "kotlin", "swift", "react", "django", "rails",
    "terraform", "kubernetes", "postgres", "security", "accessibility", "payments", "search",
    "mobile", "embedded", "data", "machine-learning", "graphics", "networking", "compliance",
    "marketing", "support", "finance",
)  # fmt: skip
ROLES = {
    "architect": "Designs systems and weighs alternatives before code is written",
    "reviewer": "Reviews changes for correctness, clarity and risk after code is written",
    "tester": "Writes tests, finds gaps in coverage and reproduces reported faults",
    "debugger": "Finds the cause of errors from traces, logs and small experiments",
    "writer": "Writes guides, references and release notes for users and engineers",
    "migrator": "Plans and carries out upgrades and moves between versions and vendors",
}


def service_tools() -> tuple[Tool, ...]:
    """Return 52 tools of seven services; each answers with its own name and arguments."""
    return tuple(
        _tool(f"mcp__{service}__{name}", description, arguments.split())
        for service, tools in _FILE["services"].items()
        for name, (description, arguments) in tools.items()
    )


def service_skills(tools: tuple[Tool, ...]) -> tuple[Skill, ...]:
    """Return a skill for each service, whose tools come and go."""
    names = dict.fromkeys(tool.name.rpartition("__")[0] for tool in tools)
    return tuple(
        Skill(
            name=name,
            description="",
            live=lambda name=name: tuple(  # type: ignore[misc]
                tool for tool in tools if tool.name.startswith(f"{name}__")
            ),
        )
        for name in names
    )


def _tool(name: str, description: str, arguments: list[str]) -> Tool:
    async def run(_: ToolContext, given: Json) -> str:
        return f"{name} did its work with {sorted(given)}."

    schema: Json = {
        "type": "object",
        "properties": {
            each: {"type": "string", "description": f"The {each}"} for each in arguments
        },
    }
    return Tool(
        name=name,
        description=description,
        schema=schema,
        run=run,
        effects=Effects.NONE,
        foreign=False,
        private=False,
        audience=Audience.PLACE,
        reach=Reach.READS_BEYOND,
    )


def write_agents(folder: Path) -> list[str]:
    """Write 158 agents into a folder as people publish them; return their names."""
    names = []
    for field, (role, does) in list(product(FIELDS, ROLES.items()))[:158]:
        name = f"{field}-{role}"
        names.append(name)
        text = (
            f"---\nname: {name}\ndescription: {does}, in {field} projects. Use it when work on "
            f"{field} needs a specialist who knows its idioms, its tools and its usual mistakes, "
            f"and reports what was found with file names and reasons.\n---\nYou work on {field}.\n"
        )
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return names

"""Reads agent definitions (prompt, model, tools and limits) from folders of Markdown files.

The format is that of Claude Code's subagents with additional keys: see `docs/agents.md`.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Protocol

from bot.agent.permissions import PermissionRules
from bot.agent.sanitizer import one_line
from bot.agent.settings import AgentsSettings
from bot.catalog.files import FileCatalog, Folders, Parsed, SourceFile, agent_files, expanded
from bot.catalog.frontmatter import EFFORTS, FrontMatter, read_parts
from bot.catalog.tool_names import split_known
from bot.errors import BadRequestError, ConfigError
from bot.values import Json, Live

#: The folder of the built-in agents.
AGENTS = Path(__file__).parent.parent / "builtin" / "agents"
GENERAL = "general"

#: Delivery of a result: sent unchanged, summarised by the main agent, or stored without a message.
ANNOUNCE = ("result", "summary", "silent")
#: Report of progress: on the card alone, or also in sentences of the main agent.
PROGRESS = ("card", "worded")
#: Handling of a call that needs permission: refused, or the run's owner is asked.
APPROVALS = ("deny", "ask")
WORKSPACES = ("user", "run")
#: Appended to the description of an agent whose work takes long.
IN_BACKGROUND = " Start it in the background (`sessions_spawn`)."
MAX_STEPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """The definition of a subagent.

    Attributes:
        tools: Names of allowed tools or skills; `None` for all that a subagent may have.
        disallowed: Names of forbidden tools or skills; they override `tools`.
        max_steps: Most requests to the model (`maxTurns` in the file).
        skills: Agent Skills whose bodies are part of its prompt.
        mcp_servers: MCP servers whose tools it may use, if these servers are open to runs.
        background: Whether the main agent is told to start it with `sessions_spawn`.
        effort: Reasoning effort of the model; `None` for its default.
        color: Colour of its name on platforms that show colours.
        input_schema: The JSON Schema of its input; with it the agent is also a tool of the main
            agent.
        tool: The name of that tool; empty for the agent's name.
        progress: How progress is reported, one of `PROGRESS`; empty for the setting
            `subagents.progress`.
        permissions: PermissionRules that restrict its calls, beside the rules of its caller.
        approvals: Handling of a call that needs permission, one of `APPROVALS`; empty for the
            setting `subagents.approvals`.
        summarize: Instruction for shortening a long result; empty to leave it unchanged.
        workspace: The files it works on: its owner's, or a folder of its own (`WORKSPACES`).
    """

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] | None = None
    disallowed: tuple[str, ...] = ()
    max_steps: int = MAX_STEPS
    provider: str | None = None
    model: str | None = None
    token_budget: int | None = None
    timeout_minutes: float | None = None
    announce: str = "result"
    progress: str = ""
    skills: tuple[str, ...] = ()
    mcp_servers: tuple[str, ...] = ()
    background: bool = False
    effort: str | None = None
    color: str = ""
    input_schema: Json | None = None
    tool: str = ""
    permissions: PermissionRules = field(default_factory=PermissionRules)
    approvals: str = ""
    summarize: str = ""
    workspace: str = "user"


class Agents(Protocol):
    """The current agent definitions."""

    @property
    def by_name(self) -> Mapping[str, AgentDefinition]:
        """The definitions by name; `general` always exists."""


def find(agents: Agents, name: str | None) -> tuple[AgentDefinition, bool]:
    """Return the definition of a name, or else `general`; and True if the name is known."""
    by_name = agents.by_name
    wanted = (name or GENERAL).strip().lower()
    return by_name.get(wanted, by_name[GENERAL]), wanted in by_name


def check_name(agents: Agents, name: str) -> None:
    """Check that a user has named an agent that exists; an empty name stands for `general`.

    Raises:
        BadRequestError: No agent has this name; the text suggests similar ones.
    """
    if find(agents, name or None)[1]:
        return
    close = get_close_matches(name.strip().lower(), agents.by_name, n=3, cutoff=0.6)
    advice = f"Did you mean {' or '.join(f'`{each}`' for each in close)}? " if close else ""
    raise BadRequestError(
        f"There is no agent “{one_line(name, 60)}”. {advice}Nothing was started. "
        "`/subagents agents` lists all agents, `/subagents agents WORD` some."
    )


def described(agents: Agents) -> list[str]:
    """Return one line per agent, for prompts and for users."""
    return [
        f"`{agent.name}`: {agent.description}" + (IN_BACKGROUND if agent.background else "")
        for agent in agents.by_name.values()
    ]


#: Keys of the convention without effect here, and the reason.
_UNUSED: Mapping[str, str] = {
    "hooks": "commands of the file's author are not run here",
    "initialPrompt": "a run begins with its task",
    "isolation": "runs are kept apart by workspaces; see `workspace`",
    "memory": "runs have a whiteboard, and only the main agent remembers",
    "permissionMode": "see `permissions` and `approvals`",
    "version": "",
    "author": "",
    "license": "",
}
_USED = {
    "name", "description", "tools", "disallowedTools", "model", "maxTurns", "skills", "mcpServers",
    "background", "effort", "color", "provider", "input_schema", "tool", "permissions", "approvals",
    "token_budget", "timeout_minutes", "announce", "progress", "summarize", "workspace",
}  # fmt: skip

#: The skill that holds the tools of agents.
SKILL = "agents"
#: Tool names that every provider accepts. A provider refuses any request with another name, so no
#: answer would come.
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def read(path: Path, label: str = "") -> Parsed[AgentDefinition]:
    """Return the definition in a Markdown file: YAML front matter, and the prompt as its body.

    Args:
        path: The file.
        label: Its name in messages; by default that of the file.

    An invalid value of a key that other programs share causes a warning and is replaced by the
    default. An invalid value of a key that restricts the agent is an error: without the key the
    agent could do more.

    Raises:
        NoDefinitionError: The file has no front matter, or no name in it.
        ConfigError: The file is not a valid definition; the text names the file and the error.
    """
    label = label or path.name
    values, body = read_parts(path, label)
    warnings: list[str] = []
    head = FrontMatter(label, values, warnings)
    lenient, effort = head.lenient, partial(head.one_of, known=EFFORTS)
    servers: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    servers = lenient("mcpServers", head.servers, "none is used", default=servers)
    disallowed = head.tools("disallowedTools") if values.get("disallowedTools") else ()
    steps = lenient("maxTurns", head.count, f"{MAX_STEPS} is used", default=None)
    model = lenient("model", head.text, "the model of runs is used", default="")

    agent = AgentDefinition(
        name=head.name(),
        description=" ".join(head.text("description", needed=True).split()),
        prompt=body,
        tools=_tools_in(head),
        disallowed=disallowed,
        max_steps=steps or MAX_STEPS,
        provider=head.text("provider") or None,
        model=None if model.lower() in {"", "default", "inherit"} else model,
        token_budget=head.whole("token_budget"),
        timeout_minutes=head.number("timeout_minutes"),
        announce=head.one_of("announce", ANNOUNCE) or ANNOUNCE[0],
        progress=head.one_of("progress", PROGRESS) or "",
        skills=lenient("skills", head.names, "none is used", default=()),
        mcp_servers=servers[0],
        background=lenient("background", head.switch, "`false` is used", default=False),
        effort=lenient("effort", effort, "the model's usual is used", default="") or None,
        color=lenient("color", head.text, "none is used", default=""),
        input_schema=head.schema("input_schema"),
        tool=head.text("tool"),
        permissions=head.rules("permissions"),
        approvals=head.one_of("approvals", APPROVALS) or "",
        summarize=head.text("summarize"),
        workspace=head.one_of("workspace", WORKSPACES) or WORKSPACES[0],
    )
    for key in sorted(set(values) - _USED):
        why = _UNUSED.get(key)
        head.warn(f"`{key}` is not used" + (f": {why}" if why else ""))
    for name in servers[1]:
        head.warn(f"the MCP server `{name}` is not used: name it in `mcp.servers`")
    return Parsed(agent, tuple(warnings))


def _tools_in(head: FrontMatter) -> tuple[str, ...] | None:
    """Return the allowed tools; `None` for all."""
    if head.values.get("tools") is not None:
        tools = head.tools("tools")
        return None if "*" in tools else tools
    if "tools" in head.values:
        head.warn(
            "nothing stands after `tools:`, which is as if it were left out: every tool that a run "
            "may have is there; write `[]` for none"
        )
    return None


class AgentCatalog(FileCatalog[AgentDefinition]):
    """Holds all agents by name; a changed file applies to the next run that begins.

    Args:
        folders: The folders of the files. An agent of a later folder replaces one of the same name
            in an earlier folder; the first folder has `general`.
        known: Returns True for the name of an existing tool or skill; by default for every name,
            until `check_tools` sets it.
        monotonic: A monotonic clock, in seconds.

    Raises:
        ConfigError: The first folder has no usable `general`.
    """

    kind = ("an agent", "agents")

    def __init__(
        self,
        folders: Folders,
        *,
        known: Callable[[str], bool] = lambda _: True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._known = known
        super().__init__(folders, monotonic=monotonic)
        if GENERAL not in self.by_name:
            why = " ".join(self.problems)
            raise ConfigError(
                f"{self._folders[0]} has no agent `{GENERAL}`; it is the one that always exists. "
                f"{why}".strip()
            )

    @classmethod
    def of_settings(cls, settings: Live[AgentsSettings]) -> "AgentCatalog":
        """Return the agents that come with the bot, and those of the configured folders.

        Raises:
            ConfigError: The first folder has no usable `general`.
        """
        return cls(lambda: [AGENTS, *map(expanded, settings().folders)])

    def check_tools(self, known: Callable[[str], bool]) -> None:
        """Set the check for existing tools and skills, and read all files again."""
        self._known = known
        self.read()

    def _find(self) -> tuple[list[SourceFile], list[str]]:
        found: list[SourceFile] = []
        problems = self._missing("agents.folders")
        for folder in self._folders:
            files, remarks = agent_files(folder, self._folders)
            found += files
            problems += remarks
        return found, problems

    def _parse(self, file: SourceFile) -> Parsed[AgentDefinition]:
        """Read an agent without its unknown tools, with a warning about each of them."""
        parsed = read(file.path, file.label)
        tools = parsed.item.tools
        unknown: tuple[str, ...] = ()
        if tools is not None:
            tools, unknown = split_known(tools, self._known)
        disallowed, not_taken = split_known(parsed.item.disallowed, self._known)
        warnings = [f"{file.label}: there is no tool `{name}` here." for name in unknown]
        warnings += [
            f"{file.label}: there is no tool `{name}` here, so nothing is taken away."
            for name in not_taken
        ]
        agent = replace(parsed.item, tools=tools, disallowed=disallowed)
        return Parsed(agent, (*parsed.warnings, *warnings))


def as_tools(
    agents: Agents, is_taken: Callable[[str], bool]
) -> tuple[list[AgentDefinition], list[str]]:
    """Return the agents that can be tools, and a problem for each other with an `input_schema`."""
    possible: dict[str, AgentDefinition] = {}
    problems = []
    for agent in agents.by_name.values():
        name = tool_name(agent)
        if not agent.input_schema:
            continue
        if not _TOOL_NAME.fullmatch(name):
            problems.append(
                f"The agent {agent.name} is no tool: {name!r:.100} has other signs than letters, "
                "digits, `_` and `-`, or more than 64. Give it another `tool`."
            )
        elif name == SKILL or name in possible or is_taken(name):
            problems.append(
                f"The agent {agent.name} is no tool: the name `{name}` is taken. Give it another "
                "`tool`."
            )
        else:
            possible[name] = agent
    return list(possible.values()), problems


def tool_name(agent: AgentDefinition) -> str:
    """Return the name of an agent's tool."""
    return agent.tool or agent.name.replace("-", "_")

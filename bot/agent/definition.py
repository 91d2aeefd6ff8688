"""Reads agent definitions (prompt, model, tools and limits) from Markdown files.

The format is that of Claude Code's subagents with additional keys: see `docs/agents.md`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bot.agent.frontmatter import read_parts
from bot.agent.heads import Head
from bot.agent.permissions import Rules
from bot.values import Json

GENERAL = "general"

#: Delivery of a result: sent unchanged, summarised by the main agent, or stored without a message.
ANNOUNCE = ("result", "summary", "silent")
#: Handling of a call that needs permission: refused, or the run's owner is asked.
APPROVALS = ("deny", "ask")
EFFORTS = ("low", "medium", "high", "xhigh", "max")
WORKSPACES = ("user", "run")
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
        permissions: Rules that restrict its calls, beside the rules of its caller.
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
    skills: tuple[str, ...] = ()
    mcp_servers: tuple[str, ...] = ()
    background: bool = False
    effort: str | None = None
    color: str = ""
    input_schema: Json | None = None
    tool: str = ""
    permissions: Rules = field(default_factory=Rules)
    approvals: str = ""
    summarize: str = ""
    workspace: str = "user"


class Agents(Protocol):
    """The current agent definitions."""

    @property
    def by_name(self) -> Mapping[str, AgentDefinition]:
        """The definitions by name; `general` always exists."""
        ...


def find(agents: Agents, name: str | None) -> tuple[AgentDefinition, bool]:
    """Return the definition of a name, or else `general`; and True if the name is known."""
    by_name = agents.by_name
    wanted = (name or GENERAL).strip().lower()
    return by_name.get(wanted, by_name[GENERAL]), wanted in by_name


def described(agents: Agents) -> list[str]:
    """Return one line per agent, for prompts and for users."""
    return [
        f"`{agent.name}`: {agent.description}" + (IN_BACKGROUND if agent.background else "")
        for agent in agents.by_name.values()
    ]


#: Appended to the description of an agent whose work takes long.
IN_BACKGROUND = " Start it in the background (`sessions_spawn`)."


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading a file.

    Attributes:
        warnings: The parts of the file that are ignored or replaced, a sentence each.
    """

    agent: AgentDefinition
    warnings: tuple[str, ...] = ()


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
    "token_budget", "timeout_minutes", "announce", "summarize", "workspace",
}  # fmt: skip


_NO_SERVERS: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
_USUAL = "the model's usual is used"


def read(path: Path) -> Reading:
    """Return the definition in a Markdown file: YAML front matter, and the prompt as its body.

    An invalid value of a key that other programs share causes a warning and is replaced by the
    default. An invalid value of a key that restricts the agent is an error: without the key the
    agent could do more.

    Raises:
        ConfigError: The file is not a valid definition; the text names the file and the error.
    """
    values, body = read_parts(path)
    warnings: list[str] = []
    head = Head(path.name, values, warnings)
    named, brought = head.lenient("mcpServers", head.servers, "none is used", default=_NO_SERVERS)
    agent = AgentDefinition(
        name=head.text("name", needed=True).lower(),
        description=" ".join(head.text("description", needed=True).split()),
        prompt=body,
        tools=_tools(head),
        disallowed=head.tools("disallowedTools") if values.get("disallowedTools") else (),
        max_steps=head.lenient("maxTurns", head.count, f"{MAX_STEPS} is used", default=None)
        or MAX_STEPS,
        provider=head.text("provider") or None,
        model=_model(head.lenient("model", head.text, "the model of runs is used", default="")),
        token_budget=head.whole("token_budget"),
        timeout_minutes=head.number("timeout_minutes"),
        announce=head.one_of("announce", ANNOUNCE) or ANNOUNCE[0],
        skills=head.lenient("skills", head.some_names, "none is used", default=()),
        mcp_servers=named,
        background=head.lenient("background", head.switch, "`false` is used", default=False),
        effort=head.lenient("effort", _effort(head), _USUAL, default="") or None,
        color=head.lenient("color", head.text, "none is used", default=""),
        input_schema=head.schema("input_schema"),
        tool=head.text("tool"),
        permissions=head.rules("permissions"),
        approvals=head.one_of("approvals", APPROVALS) or "",
        summarize=head.text("summarize"),
        workspace=head.one_of("workspace", WORKSPACES) or WORKSPACES[0],
    )
    inline = (
        f"{path.name}: the MCP server `{name}` is not used: name it in `mcp.servers`."
        for name in brought
    )
    return Reading(agent, (*warnings, *_unused(path, values), *inline))


def _effort(head: Head) -> Callable[[str], str]:
    return lambda key: head.one_of(key, EFFORTS)


def _tools(head: Head) -> tuple[str, ...] | None:
    """Return the tools named in a file; `None` for all."""
    if "tools" not in head.values:
        return None
    if head.values["tools"] is None:
        head.warn(
            "nothing stands after `tools:`, which is as if it were left out: every tool that a run "
            "may have is there; write `[]` for none"
        )
        return None
    return _unless_all(head.tools("tools"))


def _unused(path: Path, head: Json) -> Iterable[str]:
    for key in sorted(set(head) - _USED):
        why = _UNUSED.get(key)
        yield f"{path.name}: `{key}` is not used" + (f": {why}." if why else ".")


def _unless_all(tools: tuple[str, ...]) -> tuple[str, ...] | None:
    return None if "*" in tools else tools


def _model(name: str) -> str | None:
    return None if name.lower() in {"", "default", "inherit"} else name

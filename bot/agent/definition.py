"""Agent definitions: prompt, model, tools and limits, read from Markdown.

The form is that of Claude Code's subagents, with keys of ours beside it: `docs/agents.md`.
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

#: What becomes of a result: told as it is, worded by the main agent, or kept.
ANNOUNCE = ("result", "summary", "silent")
#: What becomes of a call that takes somebody's yes: refused, or asked of the run's owner.
APPROVALS = ("deny", "ask")
EFFORTS = ("low", "medium", "high", "xhigh", "max")
WORKSPACES = ("user", "run")
MAX_STEPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """What a subagent is.

    Attributes:
        tools: Names of tools or skills it may use; `None` for all that a subagent may have.
        disallowed: Names it may not use, whatever else is said.
        max_steps: Requests to the model (`maxTurns` in the file).
        skills: Agent Skills whose bodies stand in its prompt.
        mcp_servers: MCP servers whose tools it may use, as far as these let runs have them.
        background: The main agent is told to start it with `sessions_spawn`.
        effort: How hard the model should think; `None` for its usual.
        color: Of its name where a platform shows colours.
        input_schema: The JSON Schema of its input: it is then a tool of the main agent as well.
        tool: What that tool is called; empty for the agent's name.
        permissions: What it may not do, or not without asking, beside what its caller may not.
        approvals: What becomes of a call that needs a yes: one of `APPROVALS`; empty for what
            `subagents.approvals` says.
        summarize: What to do with a long result before it goes back; empty for nothing.
        workspace: Whose files it works on: its owner's, or a folder of its own (`WORKSPACES`).
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
    """All definitions, as they are now."""

    @property
    def by_name(self) -> Mapping[str, AgentDefinition]:
        """Every definition under its name; `general` is always there."""
        ...


def find(agents: Agents, name: str | None) -> tuple[AgentDefinition, bool]:
    """Return a definition, `general` for an unknown name, and whether it was known."""
    by_name = agents.by_name
    wanted = (name or GENERAL).strip().lower()
    return by_name.get(wanted, by_name[GENERAL]), wanted in by_name


def described(agents: Agents) -> list[str]:
    """Return one line per agent, for prompts and for people."""
    return [
        f"`{agent.name}`: {agent.description}" + (IN_BACKGROUND if agent.background else "")
        for agent in agents.by_name.values()
    ]


#: Said of an agent whose work takes long.
IN_BACKGROUND = " Start it in the background (`sessions_spawn`)."


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of reading a file.

    Attributes:
        warnings: What is in the file and is not used, or not as it stands, a sentence each.
    """

    agent: AgentDefinition
    warnings: tuple[str, ...] = ()


#: Keys of the convention that mean nothing here, and why.
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

    An odd value in a key that others have too is a warning, and the default is used instead. In
    keys that keep an agent from something it is an error: without them it could do more.

    Raises:
        ConfigError: The file is none; the text names it and what is missing.
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
    """Return the tools that a file names; `None` for all."""
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

"""Agent definitions: prompt, model, tools and limits, read from Markdown.

The form is that of Claude Code's subagents, with keys of ours beside it: `docs/agents.md`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from bot.agent.frontmatter import read_parts
from bot.agent.permissions import Rules, read_rules
from bot.agent.schemas import check_schema
from bot.agent.tool_names import ours
from bot.errors import BadRequestError, ConfigError
from bot.values import Json

GENERAL = "general"

#: What becomes of a result: told as it is, worded by the main agent, or kept.
ANNOUNCE = ("result", "summary", "silent")
#: What becomes of a call that takes somebody's yes: refused, or asked of the run's owner.
APPROVALS = ("deny", "ask")
EFFORTS = ("low", "medium", "high")
WORKSPACES = ("user", "run")


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
        approvals: What becomes of a call that takes somebody's yes: one of `APPROVALS`.
        summarize: What to do with a long result before it goes back; empty for nothing.
        workspace: Whose files it works on: its owner's, or a folder of its own (`WORKSPACES`).
    """

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] | None = None
    disallowed: tuple[str, ...] = ()
    max_steps: int = 20
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
    approvals: str = "deny"
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
        warnings: What is in the file and is not used, a sentence each.
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


def read(path: Path) -> Reading:
    """Return the definition in a Markdown file: YAML front matter, and the prompt as its body.

    Raises:
        ConfigError: The file is none; the text names it and what is missing.
    """
    head, body = read_parts(path)
    file = _File(path, head)
    agent = AgentDefinition(
        name=file.text("name", needed=True).lower(),
        description=" ".join(file.text("description", needed=True).split()),
        prompt=body,
        tools=_unless_all(file.tools("tools")) if "tools" in head else None,
        disallowed=file.tools("disallowedTools") if head.get("disallowedTools") else (),
        max_steps=file.whole("maxTurns") or 20,
        provider=file.text("provider") or None,
        model=_model(file.text("model")),
        token_budget=file.whole("token_budget"),
        timeout_minutes=file.number("timeout_minutes"),
        announce=file.one_of("announce", ANNOUNCE) or ANNOUNCE[0],
        skills=file.names("skills") if head.get("skills") else (),
        mcp_servers=file.servers("mcpServers")[0],
        background=file.switch("background"),
        effort=file.one_of("effort", EFFORTS) or None,
        color=file.text("color"),
        input_schema=file.schema("input_schema"),
        tool=file.text("tool"),
        permissions=file.rules("permissions"),
        approvals=file.one_of("approvals", APPROVALS) or APPROVALS[0],
        summarize=file.text("summarize"),
        workspace=file.one_of("workspace", WORKSPACES) or WORKSPACES[0],
    )
    inline = (
        f"{path.name}: the MCP server `{name}` is not used: name it in `mcp.servers`."
        for name in file.servers("mcpServers")[1]
    )
    return Reading(agent, (*_unused(path, head), *inline))


def _unused(path: Path, head: Json) -> Iterable[str]:
    for key in sorted(set(head) - _USED):
        why = _UNUSED.get(key)
        yield f"{path.name}: `{key}` is not used" + (f": {why}." if why else ".")


def _unless_all(tools: tuple[str, ...]) -> tuple[str, ...] | None:
    return None if "*" in tools else tools


def _model(name: str) -> str | None:
    return None if name.lower() in {"", "default", "inherit"} else name


@dataclass(frozen=True, slots=True)
class _File:
    """The head of a file; what is wrong in it is said with the file's name."""

    path: Path
    head: Json

    def text(self, key: str, *, needed: bool = False) -> str:
        value = self.head.get(key)
        if value is None and not needed:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
            if needed:
                raise self.wrong(f"`{key}` is missing in the front matter")
            raise self.wrong(f"`{key}` must be text")
        text = str(value).strip()
        if needed and not text:
            raise self.wrong(f"`{key}` is missing in the front matter")
        return text

    def one_of(self, key: str, known: tuple[str, ...]) -> str:
        value = self.text(key)
        if value and value not in known:
            raise self.wrong(f"`{key}` must be one of {', '.join(known)}")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        value = self.head.get(key)
        if isinstance(value, str):
            value = _outside_brackets(value)
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self.wrong(f"`{key}` must be a list of names, `[]` for none")
        return tuple(name.strip() for name in value if name.strip())

    def servers(self, key: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the servers that are named, and those that the file would bring itself."""
        value = self.head.get(key)
        if isinstance(value, dict):
            return (), tuple(map(str, value))
        if not isinstance(value, list):
            return self.names(key) if value else (), ()
        brought = [str(name) for each in value if isinstance(each, dict) for name in each]
        named = [each for each in value if not isinstance(each, dict)]
        return _File(self.path, {key: named}).names(key), tuple(brought)

    def tools(self, key: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(ours(name) for name in self.names(key)))

    def number(self, key: str) -> float | None:
        value = self.head.get(key)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise self.wrong(f"`{key}` must be a number above 0")
        return value

    def whole(self, key: str) -> int | None:
        number = self.number(key)
        if number is not None and not isinstance(number, int):
            raise self.wrong(f"`{key}` must be a whole number")
        return number

    def switch(self, key: str) -> bool:
        value = self.head.get(key, False)
        if not isinstance(value, bool):
            raise self.wrong(f"`{key}` must be true or false")
        return value

    def rules(self, key: str) -> Rules:
        try:
            found = read_rules(self.head.get(key))
        except BadRequestError as error:
            raise self.wrong(str(error)) from None
        return Rules(tuple(replace(rule, tool=ours(rule.tool)) for rule in found.rules))

    def schema(self, key: str) -> Json | None:
        value = self.head.get(key)
        if value is None:
            return None
        try:
            return check_schema(value)
        except BadRequestError as error:
            raise self.wrong(f"`{key}` {error}") from None

    def wrong(self, what: str) -> ConfigError:
        return ConfigError(f"{self.path.name}: {what.rstrip('.')}.")


def _outside_brackets(text: str) -> list[str]:
    """Return the names in a text with commas, of which those in brackets separate nothing."""
    names, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth <= 0:
            names.append("")
        else:
            names[-1] += character
    return names

"""Agent definitions: prompt, model, tools and limits, read from Markdown."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bot.errors import ConfigError

GENERAL = "general"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """What a subagent is.

    Attributes:
        tools: Names of tools or skills it may use; `None` for all that a subagent may have.
        disallowed: Names it may not use, whatever else is said.
        max_steps: Requests to the model (`maxTurns` in the file).
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


@dataclass(frozen=True, slots=True)
class Agents:
    """All definitions by name."""

    by_name: dict[str, AgentDefinition] = field(default_factory=dict)

    def find(self, name: str | None) -> tuple[AgentDefinition, bool]:
        """Return a definition, `general` for an unknown name, and whether it was known."""
        wanted = (name or GENERAL).strip().lower()
        if wanted in self.by_name:
            return self.by_name[wanted], True
        return self.by_name[GENERAL], False

    def lines(self) -> list[str]:
        """Return one line per agent for the main agent's prompt."""
        return [f"`{agent.name}`: {agent.description}" for agent in self.by_name.values()]


_KEYS = {
    "name", "description", "tools", "disallowedTools", "maxTurns", "provider", "model",
    "token_budget", "timeout_minutes", "announce",
}  # fmt: skip


def read(path: Path) -> AgentDefinition:
    """Return the definition in a Markdown file: YAML front matter, and the prompt as its body.

    Raises:
        ConfigError: The file is none; the text names it and what is missing.
    """
    head, body = _parts(path)
    unknown = sorted(set(head) - _KEYS)
    if unknown:
        raise ConfigError(f"{path.name}: unknown key {unknown[0]!r}; known are {sorted(_KEYS)}.")
    for key in ("name", "description"):
        if not isinstance(head.get(key), str) or not head[key].strip():
            raise ConfigError(f"{path.name}: `{key}` is missing in the front matter.")
    tools = head.get("tools")
    return AgentDefinition(
        name=head["name"].strip().lower(),
        description=head["description"].strip(),
        prompt=body.strip(),
        tools=None if tools is None else _names(path, tools),
        disallowed=_names(path, head.get("disallowedTools") or []),
        max_steps=int(head.get("maxTurns", 20)),
        provider=head.get("provider"),
        model=None if head.get("model") in {None, "inherit"} else str(head["model"]),
        token_budget=head.get("token_budget"),
        timeout_minutes=head.get("timeout_minutes"),
        announce=head.get("announce", "result"),
    )


def read_folder(folder: Path) -> Agents:
    """Return every definition in a folder.

    Raises:
        ConfigError: A file is broken, or `general` is missing.
    """
    found = [read(path) for path in sorted(folder.glob("*.md"))]
    agents = {agent.name: agent for agent in found}
    if GENERAL not in agents:
        raise ConfigError(f"{folder} has no agent `{GENERAL}`; it is the one that always exists.")
    return Agents(agents)


def _parts(path: Path) -> tuple[dict[str, Any], str]:
    text = path.read_text(encoding="utf-8")
    pieces = text.split("---\n", 2)
    if len(pieces) != 3 or pieces[0].strip():
        raise ConfigError(f"{path.name} must begin with front matter between two lines `---`.")
    try:
        head = yaml.safe_load(pieces[1])
    except yaml.YAMLError as error:
        raise ConfigError(f"{path.name}: the front matter is no YAML: {error}.") from None
    if not isinstance(head, dict):
        raise ConfigError(f"{path.name}: the front matter must be `key: value` lines.")
    return head, pieces[2]


def _names(path: Path, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ConfigError(f"{path.name}: tools must be a list of names.")
    return tuple(name.strip() for name in value if name.strip())

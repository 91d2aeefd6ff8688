"""Agent definitions: prompt, model, tools and limits, read from Markdown."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bot.errors import ConfigError

GENERAL = "general"

#: What becomes of a result: told as it is, worded by the main agent, or kept.
ANNOUNCE = ("result", "summary", "silent")


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
    return AgentDefinition(
        name=head["name"].strip().lower(),
        description=head["description"].strip(),
        prompt=body.strip(),
        tools=_names(path, head["tools"]) if "tools" in head else None,
        disallowed=_names(path, head.get("disallowedTools") or []),
        max_steps=_whole(path, head, "maxTurns") or 20,
        provider=None if head.get("provider") is None else str(head["provider"]),
        model=None if head.get("model") in {None, "inherit"} else str(head["model"]),
        token_budget=_whole(path, head, "token_budget"),
        timeout_minutes=_number(path, head, "timeout_minutes"),
        announce=_announce(path, head.get("announce")),
    )


def read_folder(folder: Path) -> Agents:
    """Return every definition in a folder.

    Raises:
        ConfigError: A file is broken, two have one name, or `general` is missing.
    """
    agents: dict[str, AgentDefinition] = {}
    for path in sorted(folder.glob("*.md")):
        agent = read(path)
        if agent.name in agents:
            raise ConfigError(f"{path.name}: there is an agent `{agent.name}` already; rename it.")
        agents[agent.name] = agent
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
        raise ConfigError(f"{path.name}: tools must be a list of names, `[]` for none.")
    return tuple(name.strip() for name in value if name.strip())


def _whole(path: Path, head: dict[str, Any], key: str) -> int | None:
    number = _number(path, head, key)
    if number is not None and not isinstance(number, int):
        raise ConfigError(f"{path.name}: `{key}` must be a whole number.")
    return number


def _number(path: Path, head: dict[str, Any], key: str) -> float | None:
    value = head.get(key)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        raise ConfigError(f"{path.name}: `{key}` must be a number above 0.")
    return value


def _announce(path: Path, value: object) -> str:
    if value is None:
        return ANNOUNCE[0]
    if value not in ANNOUNCE:
        raise ConfigError(f"{path.name}: `announce` must be one of {', '.join(ANNOUNCE)}.")
    return str(value)

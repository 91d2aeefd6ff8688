"""Reads `config.yaml` into frozen objects; an error names the key and the valid form."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, get_args

from pydantic import Field, SecretStr, ValidationError, create_model, model_validator
from pydantic.fields import FieldInfo

from bot import document, interpolation, masking, open_secrets, problems
from bot.agent.permissions import PermissionSettings
from bot.agent.settings import AgentSettings, AgentSkillsSettings, AgentsSettings
from bot.conversations.access import AccessSettings
from bot.conversations.catch_up_settings import CatchUpSettings
from bot.conversations.files import AttachmentSettings, FileSettings
from bot.disk import DiskReserve, DiskSettings
from bot.errors import ConfigError
from bot.interpolation import Key, Tree
from bot.models.catalog import ModelSettings
from bot.net.settings import FetchSettings
from bot.platforms.catalog import PLATFORMS
from bot.subagents.limits import SubagentSettings
from bot.subagents.retention import RetentionSettings
from bot.values import Section, Settings, SkillSettings
from db.settings import DatabaseSettings
from skills import discovery
from skills.settings import SkillsSettings

DEFAULT_FILE = "config.yaml"
FILE_VARIABLE = "RETINUE_CONFIG"

#: Keys that a variable of the environment fills when nothing else sets them.
FROM_ENVIRONMENT: Mapping[Key, str] = {
    ("models", "anthropic", "api_key"): "ANTHROPIC_API_KEY",
    ("models", "anthropic", "base_url"): "ANTHROPIC_BASE_URL",
    ("models", "openai", "api_key"): "OPENAI_API_KEY",
    ("models", "openai", "base_url"): "OPENAI_BASE_URL",
    **{
        (kind.section, key): variable
        for kind in PLATFORMS
        for key, variable in kind.environment.items()
    },
}


#: Do not mask shorter values: they would match ordinary words of an error.
_SHORTEST_SECRET = 6

_OPEN = (
    "a secret must not stand in the file; write `${NAME}` in its place, like "
    '`"Bearer ${NAME}"`, and set that variable of the environment'
)


class LoggingSettings(Settings):
    """Everything under `logging:`."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least that is logged: debug, info, warning or error."
    )
    form: Literal["text", "json"] = Field(
        "text", description="Lines to read (text), or one JSON object a line (json)."
    )
    file: str | None = Field(None, description="Where the lines go; null for standard error.")


class CoreConfig(Settings):
    """The sections of `config.yaml` that belong to no skill, with their defaults."""

    agent: AgentSettings = Field(
        AgentSettings(), description="The main agent, and what every agent shares."
    )
    models: ModelSettings = Field(ModelSettings(), description="The language models.")
    subagents: SubagentSettings = Field(
        SubagentSettings(), description="What runs may use, one person's and everyone's."
    )
    agents: AgentsSettings = Field(
        AgentsSettings(), description="Subagents as Markdown files: docs/agents.md."
    )
    permissions: PermissionSettings = Field(
        PermissionSettings(), description="What agents may do without asking: docs/agents.md."
    )
    agent_skills: AgentSkillsSettings = Field(
        AgentSkillsSettings(),
        description="Agent Skills (SKILL.md): instructions for certain kinds of work.",
    )
    skills: SkillsSettings = Field(
        SkillsSettings(), description="Further skills in Python: docs/skills.md."
    )
    access: AccessSettings = Field(
        AccessSettings(), description="Who may talk to the bot, and who are its admins."
    )
    catch_up: CatchUpSettings = Field(
        CatchUpSettings(), description="What was said while the bot was not listening."
    )
    files: FileSettings = Field(
        FileSettings(), description="Files that people attach: texts and images."
    )
    disk: DiskSettings = Field(DiskSettings(), description="What is kept free on the disks.")
    fetch: FetchSettings = Field(
        FetchSettings(), description="Web pages that the models ask for (web_fetch)."
    )
    database: DatabaseSettings = Field(
        DatabaseSettings(), description="Where everything is stored."
    )
    retention: RetentionSettings = Field(
        RetentionSettings(), description="How long things are kept."
    )
    logging: LoggingSettings = Field(LoggingSettings(), description="The bot's log.")

    def section(self, kind: type[Section]) -> Section:
        """Return the section of this class."""
        names = type(self).model_fields
        return next(each for name in names if type(each := getattr(self, name)) is kind)

    @property
    def of_skills(self) -> list[SkillSettings]:
        """The sections that belong to skills."""
        return [self.section(kind) for kind in discovery.sections()]

    @model_validator(mode="after")
    def _has_claude(self) -> Self:
        for need in [each.needs_claude for each in self.of_skills if each.needs_claude]:
            if not self.models.anthropic.configured:
                raise ValueError(f"`{need}` needs `models.anthropic.api_key`")
        return self

    @property
    def reserve(self) -> DiskReserve:
        """The disk space that is reserved from files of users."""
        folders = [folder for each in self.of_skills for folder in each.folders]
        return DiskReserve(self.disk, (*folders, *self.database.folders))

    @property
    def attachments(self) -> AttachmentSettings:
        """The settings for attachments, with the disk reserve."""
        return AttachmentSettings(self.files, self.reserve)

    @property
    def secrets(self) -> frozenset[str]:
        """All values that must never be shown."""
        return frozenset(_secrets(self))


if TYPE_CHECKING:

    class Config(CoreConfig):
        """Everything that `config.yaml` may set, with its defaults."""

        def __init__(self, **sections: Settings) -> None: ...

else:
    Config = create_model(
        "Config",
        __base__=CoreConfig,
        __module__=__name__,
        __doc__="Everything that `config.yaml` may set, with its defaults.",
        **{
            kind.section: (kind, Field(kind(), description=kind.about))
            for kind in (*PLATFORMS, *discovery.sections())
        },
    )


@dataclass(slots=True)
class _Draft:
    """A configuration before validation, with the origin of its values.

    Attributes:
        origins: The origin of each key, in the words of an error.
        hidden: The values of environment variables, which an error must not show.
    """

    tree: dict[str, Tree] = field(default_factory=dict)
    origins: dict[Key, str] = field(default_factory=dict)
    problems: dict[Key, str] = field(default_factory=dict)
    hidden: dict[str, str] = field(default_factory=dict)

    def set(self, key: Key, variable: str, text: str) -> None:
        """Set a key to the value of an environment variable."""
        interpolation.put(self.tree, key, document.value_of(text))
        self.origins[key] = f"from {variable}"
        self.hidden[variable] = text


def locate(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the file to load: the named one, or `config.yaml` in this folder if it exists."""
    if path is not None:
        return path
    if named := environ.get(FILE_VARIABLE):
        return Path(named)
    here = Path(DEFAULT_FILE)
    return here if here.exists() else None


def load(path: Path | None, environ: Mapping[str, str]) -> Config:
    """Return the configuration: the file, then the environment, then the defaults.

    Raises:
        ConfigError: The configuration is invalid; the text lists every problem, and no secret.
    """
    file = locate(path, environ)
    draft = _draft(document.read(_bytes(file)) if file else document.YamlDocument(), environ)
    found: dict[Key, str] = {}
    try:
        config = Config.model_validate(draft.tree)
    except ValidationError as error:
        found = problems.explain(error, Config)
    if not found and not draft.problems:
        return config
    raise ConfigError(_told(file, draft, found | draft.problems))


def remarks(path: Path | None, environ: Mapping[str, str]) -> list[str]:
    """Return warnings about plaintext secrets in a usable file, a sentence each, with no secret.

    Raises:
        ConfigError: The file cannot be read.
    """
    file = locate(path, environ)
    read = document.read(_bytes(file)) if file else document.YamlDocument()
    secret = tuple(
        tuple(map(str, key)) for key, each in problems.all_keys(Config) if _is_secret(each)
    )
    keys = [
        *open_secrets.found(read.tree, (*secret, *_places("warned_secrets"))),
        *open_secrets.anywhere(read.tree),
    ]
    return [
        f"{problems.name(key)} (line {read.lines[key]}) is a secret that stands in the file; "
        "write `${NAME}` in its place, and set that variable of the environment."
        for key in dict.fromkeys(keys)
    ]


def _places(attribute: Literal["refused_secrets", "warned_secrets"]) -> tuple[tuple[str, ...], ...]:
    """Return the places of secrets in the sections of skills."""
    return tuple(
        (kind.section, *place)
        for kind in discovery.sections()
        for place in getattr(kind, attribute)
    )


def _is_secret(field: FieldInfo) -> bool:
    return SecretStr in (field.annotation, *get_args(field.annotation))


def _bytes(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(document.MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"There is no file {file}. Name another, or none at all.") from None
    except PermissionError:
        text = f"{file} cannot be read: Permission denied. Give this account the right to."
        raise ConfigError(text) from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from None


def _draft(read: document.YamlDocument, environ: Mapping[str, str]) -> _Draft:
    expansion = interpolation.Expansion(environ, read.problems)
    tree = expansion.tree(read.tree)
    assert isinstance(tree, dict)
    for key in open_secrets.found(read.tree, _places("refused_secrets")):
        expansion.problems.setdefault(key, _OPEN)
    lines = {key: f"line {line}" for key, line in read.lines.items()}
    draft = _Draft(tree, lines, expansion.problems, expansion.used)
    for variable, key in interpolation.overrides(environ).items():
        draft.set(key, variable, environ[variable])
    _drop_empty_sections(draft.tree, Config)
    openai = _wants_openai(interpolation.section_at(draft.tree, ("models",)) or {})
    for key, variable in FROM_ENVIRONMENT.items():
        wanted = openai or "openai" not in key
        _fill(draft, key, variable, environ.get(variable, "").strip() if wanted else "")
    return draft


def _wants_openai(models: dict[str, Tree]) -> bool:
    """Return True if the file mentions OpenAI.

    OpenAI's model must be named in the file. Many users have OPENAI_API_KEY set for other programs;
    the variable alone must not stop a bot that is not configured for OpenAI.
    """
    named = models.get("provider") == "openai" or "openai/" in str(models.get("allowed"))
    return named or bool(models.get("openai"))


def _drop_empty_sections(tree: dict[str, Tree], kind: type[Settings]) -> None:
    for name, below in kind.model_fields.items():
        section, value = problems.section(below), tree.get(name)
        if section and isinstance(value, dict):
            _drop_empty_sections(value, section)
        elif section and value is None:
            tree.pop(name, None)


def _fill(draft: _Draft, key: Key, variable: str, value: str) -> None:
    section = interpolation.section_at(draft.tree, key[:-1]) or {}
    if section.get(str(key[-1])):
        return
    section.pop(str(key[-1]), None)
    if value:
        draft.set(key, variable, value)


def _told(file: Path | None, draft: _Draft, wrong: dict[Key, str]) -> str:
    lines = [f"{file or 'The configuration'} cannot be used:"]
    places = {key: place for place, key in enumerate(draft.origins)}
    for key, text in sorted(wrong.items(), key=lambda item: places.get(item[0], len(places))):
        origin = _origin(draft, key)
        where = problems.name(key) + (f" ({origin})" if origin and key else origin)
        sentence = _without(draft.hidden, text) + ("" if text.endswith(("?", ".")) else ".")
        lines.append(f"  {where}: {sentence}" if where else f"  {sentence}")
    return masking.without_secrets("\n".join(lines))


def _without(hidden: Mapping[str, str], text: str) -> str:
    for variable, value in hidden.items():
        if len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, f"[{variable}]")
    return text


def _origin(draft: _Draft, key: Key) -> str:
    """Return the origin of a key, or of the first key below it."""
    below = (origin for each, origin in draft.origins.items() if each[: len(key)] == key)
    return draft.origins.get(key) or (next(below, "") if key else "")


def _secrets(value: object) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, DatabaseSettings):
        yield from value.passwords
    elif isinstance(value, SkillsSettings):
        yield from value.secrets
    elif isinstance(value, Settings):
        for name in type(value).model_fields:
            yield from _secrets(getattr(value, name))
    elif isinstance(value, dict):
        for part in value.values():
            yield from _secrets(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _secrets(part)

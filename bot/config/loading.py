"""Reads `config.yaml` into frozen objects; an error names the key and the valid form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo

from bot import masking
from bot.config import document, interpolation, plaintext_secrets, problems
from bot.config.interpolation import Key, Tree
from bot.config.model import Config
from bot.errors import ConfigError
from bot.platforms.catalog import PLATFORMS
from bot.values import Settings
from skills import discovery

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
        *plaintext_secrets.found(read.tree, (*secret, *_places("warned_secrets"))),
        *plaintext_secrets.anywhere(read.tree),
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
    for key in plaintext_secrets.found(read.tree, _places("refused_secrets")):
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

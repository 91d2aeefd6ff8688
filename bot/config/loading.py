"""Reads `config.yaml` into frozen objects; an error names the key and the valid form."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from bot import masking
from bot.config import document, interpolation, plaintext_secrets, problems
from bot.config.interpolation import Key, Tree
from bot.config.model import Config
from bot.errors import ConfigError
from bot.models.base import ProviderSettings
from bot.models.catalog import PROVIDERS, ModelSettings
from bot.platforms.catalog import PLATFORMS
from bot.values import Settings
from skills import discovery

DEFAULT_FILE = "config.yaml"
FILE_VARIABLE = "RETINUE_CONFIG"

#: The sections of the providers with their defaults.
_PROVIDERS: Mapping[str, ProviderSettings] = {
    name: ModelSettings.model_fields[name].default for name in PROVIDERS
}

#: Keys that a variable of the environment fills when nothing else sets them.
FROM_ENVIRONMENT: Mapping[Key, str] = {
    **{
        ("models", name, key): variable
        for name, section in _PROVIDERS.items()
        for key, variable in section.environment.items()
    },
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
    read = _read(file)
    hidden = _complete(read, environ)
    found: dict[Key, str] = {}
    try:
        config = Config.model_validate(read.tree)
    except ValidationError as error:
        found = problems.explain(error, Config)
    if not found and not read.problems:
        return config
    wrong = found | read.problems
    lines = [f"{file or 'The configuration'} cannot be used:"]
    places = {key: place for place, key in enumerate(read.origins)}
    for key, text in sorted(wrong.items(), key=lambda item: places.get(item[0], len(places))):
        # The origin of a key, or of the first key below it.
        below = (origin for each, origin in read.origins.items() if each[: len(key)] == key)
        origin = read.origins.get(key) or (next(below, "") if key else "")
        where = problems.name(key) + (f" ({origin})" if origin and key else origin)
        sentence = text if text.endswith(("?", ".")) else f"{text}."
        for variable, value in hidden.items():
            if len(value) >= _SHORTEST_SECRET:
                sentence = sentence.replace(value, f"[{variable}]")
        lines.append(f"  {where}: {sentence}" if where else f"  {sentence}")
    raise ConfigError(masking.without_secrets("\n".join(lines)))


def origins(path: Path | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the origin of each key that a usable file or the environment sets, by its name.

    Raises:
        ConfigError: The file cannot be read.
    """
    file = locate(path, environ)
    read = _read(file)
    _complete(read, environ)
    shown = file.name if file else ""
    return {
        problems.name(key): origin if origin.startswith("from ") else f"{shown} {origin}"
        for key, origin in read.origins.items()
    }


def remarks(path: Path | None, environ: Mapping[str, str]) -> list[str]:
    """Return warnings about plaintext secrets in a usable file, a sentence each, with no secret.

    Raises:
        ConfigError: The file cannot be read.
    """
    read = _read(locate(path, environ))
    secret = tuple(
        tuple(map(str, key)) for key, each in problems.all_keys(Config) if problems.is_secret(each)
    )
    keys = [
        *plaintext_secrets.found(read.tree, (*secret, *_places("warned_secrets"))),
        *plaintext_secrets.anywhere(read.tree),
    ]
    return [
        f"{problems.name(key)} ({read.origins[key]}) is a secret that stands in the file; "
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


def _read(file: Path | None) -> document.YamlDocument:
    if file is None:
        return document.YamlDocument()
    try:
        with file.open("rb") as opened:
            return document.read(opened.read(document.MAX_BYTES + 1))
    except FileNotFoundError:
        raise ConfigError(
            f"There is no file {file}. Give another path, or none for the defaults."
        ) from None
    except PermissionError:
        text = f"{file} cannot be read: Permission denied. Give this account permission to read it."
        raise ConfigError(text) from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from None


def _complete(read: document.YamlDocument, environ: Mapping[str, str]) -> dict[str, str]:
    """Complete a document with the values of environment variables.

    Returns:
        The values by variable, which an error must not show.
    """
    expansion = interpolation.Expansion(environ, read.problems)
    tree = expansion.tree(read.tree)
    assert isinstance(tree, dict)
    for key in plaintext_secrets.found(read.tree, _places("refused_secrets")):
        read.problems.setdefault(key, _OPEN)
    read.tree = tree
    overrides = interpolation.overrides(environ)
    given = [(key, variable, environ[variable]) for variable, key in overrides.items()]
    for key, _, text in given:
        interpolation.put(tree, key, document.value_of(text))
    _drop_empty_sections(tree, Config)
    unwanted = _unwanted(tree)
    for key, variable in FROM_ENVIRONMENT.items():
        section, name = interpolation.section_at(tree, key[:-1]) or {}, str(key[-1])
        if section.get(name):
            continue
        section.pop(name, None)
        text = environ.get(variable, "").strip()
        if text and key[:2] not in unwanted:
            interpolation.put(tree, key, document.value_of(text))
            given.append((key, variable, text))
    read.origins |= {key: f"from {variable}" for key, variable, _ in given}
    return expansion.used | {variable: text for _, variable, text in given}


def _unwanted(tree: dict[str, Tree]) -> set[Key]:
    """Return the sections of providers that no variable may set up.

    A provider without a default model needs one in the file. Many users have a variable such as
    OPENAI_API_KEY set for other programs: it must not stop a bot whose file does not name OpenAI.
    """
    models = interpolation.section_at(tree, ("models",)) or {}
    listed = (models.get(key) for key in ("allowed", "fallbacks"))
    # A name such as `openrouter/openai/gpt` belongs to another provider.
    asked = {str(it).partition("/")[0] for each in listed if isinstance(each, list) for it in each}
    return {
        ("models", name)
        for name, section in _PROVIDERS.items()
        if not section.main_model
        and models.get("provider") != name
        and name not in asked
        and not models.get(name)
    }


def _drop_empty_sections(tree: dict[str, Tree], kind: type[Settings]) -> None:
    for name, below in kind.model_fields.items():
        section, value = problems.section(below), tree.get(name)
        if section and isinstance(value, dict):
            _drop_empty_sections(value, section)
        elif section and value is None:
            tree.pop(name, None)

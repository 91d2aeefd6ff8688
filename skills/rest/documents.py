"""Parses OpenAPI documents safely, and finds the base URL of their service."""

import json
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import yaml

from bot.agent.documents import encodable
from bot.errors import ConfigError

MOST_BYTES = 5 * 1024 * 1024
DEEPEST = 100

#: The fast loader, where it was built.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OPENS = (
    yaml.BlockMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.FlowSequenceStartToken,
)
_CLOSES = (yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)


def read_file(path: str) -> bytes:
    """Return the content of a file, truncated just past the size limit."""
    with Path(path).open("rb") as opened:
        return opened.read(MOST_BYTES + 1)


def parsed(service: str, content: bytes) -> object:
    """Parse JSON or YAML; YAML aliases are refused, since they could expand without end.

    Raises:
        ConfigError: The document is too large, or neither JSON nor YAML.
    """
    complaint = f"The document of the REST service {service} is neither JSON nor YAML"
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{complaint} of at most {MOST_BYTES // 1024**2} MB.")
    try:
        text = content.decode("utf-8-sig")
        return encodable(json.loads(text))
    except (UnicodeDecodeError, RecursionError):
        raise ConfigError(f"{complaint}.") from None
    except ValueError:
        pass
    try:
        # Aliases and deep nesting could take for ever to load.
        depth = 0
        for token in yaml.scan(text, Loader=_LOADER):
            if isinstance(token, yaml.AliasToken):
                raise ConfigError(f"{complaint} without aliases. Write out what they stand for.")
            depth += isinstance(token, _OPENS) - isinstance(token, _CLOSES)
            if depth > DEEPEST:
                raise ConfigError(f"{complaint}: it is nested too deeply.")
        tree = yaml.load(text, Loader=_LOADER)  # noqa: S506 - both are safe ones
        # YAML has dates and keys that are no texts; a schema has not.
        return encodable(json.loads(json.dumps(tree, default=str)))
    except (yaml.YAMLError, RecursionError, ValueError, TypeError):
        raise ConfigError(f"{complaint}.") from None


def base_of(service: str, source: str, servers: tuple[str, ...]) -> str:
    """Return the base URL from the document, if the document may determine it.

    Raises:
        ConfigError: The document names no server, or one of another origin than its own.
    """
    remote = source.startswith(("http://", "https://"))
    found = servers[0] if servers else ("/" if remote else "")
    base = urljoin(source, found) if remote else found
    parts, own = urlsplit(base), urlsplit(source)
    same = (parts.scheme, parts.netloc) == (own.scheme, own.netloc)
    if (
        parts.scheme not in ("http", "https")
        or "{" in base
        or parts.username
        or (remote and not same)
    ):
        raise ConfigError(
            f"Nothing says where the REST service {service} is: set `rest.services.{service}.base`."
        )
    return base.partition("?")[0]

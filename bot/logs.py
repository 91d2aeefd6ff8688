"""Log lines that carry conversation, user and run, and no secret."""

import logging
import re
import sys
from collections.abc import Iterable, MutableMapping
from typing import Any, Literal

import structlog

_SECRETS = re.compile(
    # First the password of an address: a key as its user name must not use the match up.
    r"((?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
    r"|sk-[A-Za-z0-9_-]{12,}|xox[abprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}"
    r"|[MN][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,})"
)

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_LINES_TOO = re.compile(f"[\n\t]|{_CONTROLS.pattern}")

MASK = "[secret]"

#: Libraries whose everyday news nobody reads.
NOISY = (
    "aiosqlite",
    "alembic",
    "discord",
    "httpcore2",
    "httpx2",
    "slack_bolt",
    "sqlalchemy.engine",
)

_known: set[str] = set()

bind = structlog.contextvars.bind_contextvars
bound = structlog.contextvars.bound_contextvars


def keep_secret(values: Iterable[str]) -> None:
    """Mask these very values in every log line from now on (keys from the configuration)."""
    _known.update(value for value in values if len(value) >= 6)


def without_secrets(text: str) -> str:
    """Return `text` with everything that looks like a key, and every known key, masked."""
    # The longest first: one key may be the beginning of another.
    for value in sorted(_known, key=len, reverse=True):
        text = text.replace(value, MASK)
    return _SECRETS.sub(MASK, text)


def _mask(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        event[key] = masked(value)
    return event


def masked(value: Any) -> Any:
    """Return a document of texts, lists and mappings with the secrets in its texts masked."""
    match value:
        case str():
            return without_secrets(value)
        case dict():
            return {key: masked(item) for key, item in value.items()}
        case list() | tuple():
            return [masked(item) for item in value]
    return value


def _escape(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        # A traceback has lines; whatever else has some could pass for further entries.
        event[key] = escaped(value, _CONTROLS if key == "exception" else _LINES_TOO)
    return event


def escaped(value: Any, controls: re.Pattern[str] = _LINES_TOO) -> Any:
    """Return a document with the control characters in its texts spelled out.

    Models, pages and platforms choose names that are logged: none may steer a terminal or forge
    an entry.
    """
    match value:
        case str():
            return controls.sub(lambda found: repr(found[0])[1:-1], value)
        case dict():
            return {key: escaped(item, controls) for key, item in value.items()}
        case list() | tuple():
            return [escaped(item, controls) for item in value]
    return value


def set_up(
    *, level: str = "INFO", form: Literal["text", "json"] = "text", file: str | None = None
) -> None:
    """Send all log lines, ours and the libraries', through one formatter to stderr or a file."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ExtraAdder(),
        structlog.processors.format_exc_info,
        _mask,
        _escape,
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=file is None and sys.stderr.isatty())
    )
    handler = logging.FileHandler(file) if file else logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        if isinstance(old, logging.FileHandler):
            old.close()
    root.addHandler(handler)
    root.setLevel(level.upper())
    for noisy in NOISY:
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))

"""Sets up log lines that carry conversation, user and run, with secrets masked."""

import logging
import re
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

from bot.masking import masked

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_LINES_TOO = re.compile(f"[\n\t]|{_CONTROLS.pattern}")

_NUMBERS = re.compile(r"[0-9.]+|\([^)]*\)")

#: Libraries whose routine messages are not logged.
NOISY = (
    "aiosqlite",
    "alembic",
    "discord",
    "httpcore2",
    "httpx2",
    "slack_bolt",
    "sqlalchemy.engine",
)


def bound(**values: str) -> AbstractContextManager[None]:
    """Add these values to every log line of the block."""
    from structlog.contextvars import bound_contextvars  # noqa: PLC0415 - see `set_up`

    return bound_contextvars(**values)


def _clean(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in masked(event).items():
        # A traceback has several lines; in any other value a line could forge an entry.
        event[key] = escaped(value, _CONTROLS if key == "exception" else _LINES_TOO)
    return event


def escaped(value: Any, controls: re.Pattern[str] = _LINES_TOO) -> Any:
    """Return a document with the control characters in its texts escaped.

    Models, pages and platforms choose names that are logged. No such name may control a terminal or
    forge an entry.
    """
    match value:
        case str():
            return controls.sub(lambda found: repr(found[0])[1:-1], value)
        case dict():
            return {escaped(key): escaped(item, controls) for key, item in value.items()}
        case list() | tuple():
            return [escaped(item, controls) for item in value]
    return value


def set_up(
    *, level: str = "INFO", form: Literal["text", "json"] = "text", file: str | None = None
) -> None:
    """Send all log lines, ours and the libraries', through one formatter to stderr or a file."""
    import structlog  # noqa: PLC0415 - it imports rich for tracebacks; `check` needs no log

    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ExtraAdder(),
        structlog.processors.format_exc_info,
        _clean,
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer(default=str)
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


class OncePerChange(logging.Filter):
    """Passes the first line of a library about each connection problem, as one line.

    Libraries log every attempt to connect, some with a traceback: 8,640 a day.

    Args:
        sign: A text in lower case that marks these lines.

    Attributes:
        logged: The problems that were logged since the connection was established last.
    """

    def __init__(self, sign: str) -> None:
        super().__init__()
        self._sign = sign
        self.logged: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the line is to be logged."""
        text = record.getMessage()
        if self._sign not in text.lower():
            return True
        error = record.exc_info[1] if record.exc_info else None
        trouble = f"{type(error).__name__}: {error}" if error else _NUMBERS.sub("", text)
        if trouble in self.logged:
            return False
        self.logged.add(trouble)
        record.msg = f"{text} ({trouble})" if error and str(error) not in text else text
        record.args, record.exc_info, record.exc_text = (), None, None
        return True


def connected_again(*loggers: str | logging.Logger) -> None:
    """Reset the filters of these loggers, so that they log connection problems again."""
    for each in loggers:
        library = logging.getLogger(each) if isinstance(each, str) else each
        for kept in library.filters:
            if isinstance(kept, OncePerChange):
                kept.logged.clear()


@contextmanager
def quiet(*names: str) -> Iterator[None]:
    """Silence loggers, and all below them, while the caller reports the problem once itself."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)

"""Skips malformed gateway events, which would otherwise end the connection."""

import logging
from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any

log = logging.getLogger(__name__)

Parser = Callable[[Any], None]

#: Events that a session needs: if one is malformed, a new session starts.
ESSENTIAL = frozenset({"READY"})


def skip_malformed(parsers: MutableMapping[str, Parser]) -> None:
    """Replace discord.py's parsers, by event name, with parsers that skip malformed events.

    In discord.py, an error of a parser ends the whole gateway loop.
    """
    logged: set[tuple[str, type[Exception]]] = set()
    for name, parse in parsers.items():
        if name not in ESSENTIAL:
            parsers[name] = partial(_parse, name, parse, logged)


def _parse(name: str, parse: Parser, logged: set[tuple[str, type[Exception]]], data: Any) -> None:
    try:
        parse(data)
    except Exception as error:  # noqa: BLE001 - any error means a malformed event
        kind = (name, type(error))
        level = logging.DEBUG if kind in logged else logging.WARNING
        logged.add(kind)
        # The error's text is not logged, since it may quote users' messages.
        log.log(level, "Skipped a malformed Discord event %s (%s)", name, type(error).__name__)

"""Keeps one malformed gateway event from ending the connection that it came on."""

import logging
from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any

log = logging.getLogger(__name__)

Parser = Callable[[Any], None]

#: Without these there is no session: a new one is begun instead.
ESSENTIAL = frozenset({"READY"})


def skip_malformed(parsers: MutableMapping[str, Parser]) -> None:
    """Replace discord.py's parsers, by event name, with ones that skip what they cannot parse.

    discord.py lets the error of a parser end its whole gateway loop.
    """
    logged: set[tuple[str, type[Exception]]] = set()
    for name, parse in parsers.items():
        if name not in ESSENTIAL:
            parsers[name] = partial(_parse, name, parse, logged)


def _parse(name: str, parse: Parser, logged: set[tuple[str, type[Exception]]], data: Any) -> None:
    try:
        parse(data)
    except Exception as error:  # noqa: BLE001 - it says what is wrong with the event
        kind = (name, type(error))
        level = logging.DEBUG if kind in logged else logging.WARNING
        logged.add(kind)
        # Its text is not logged: it may quote what people wrote.
        log.log(level, "Skipped a malformed Discord event %s (%s)", name, type(error).__name__)

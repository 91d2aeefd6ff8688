"""There is one place that makes HTTP clients for what others name: no second way out."""

import ast
from collections.abc import Iterator

import pytest

from tests.house import House, Source, begins
from tests.house_rules import CLIENTS

#: What sends requests, or opens connections to just anywhere.
MAKERS = (
    *("aiohttp.ClientSession", "aiohttp.TCPConnector", "aiohttp.request", "aiohttp.UnixConnector"),
    *("httpx", "httpx2", "requests", "niquests", "urllib3", "urllib.request", "http.client"),
    *(
        "ftplib",
        "pycurl",
        "primp",
        "ddgs",
        "caldav",
        "httplib2",
        "treq",
        "tornado",
        "websockets",
        "websocket",
    ),
    *("socket.create_connection", "socket.getaddrinfo", "asyncio.open_connection"),
    *("trafilatura.fetch_url", "trafilatura.fetch_response", "trafilatura.downloads"),
    *("lxml.html.parse", "lxml.html.open_in_browser"),
)


def ways_out(source: Source) -> Iterator[str]:
    allowed = CLIENTS.get(source.module, ())
    for line, name in names(source):
        maker = next((each for each in MAKERS if begins(name, each)), None)
        if maker and maker not in allowed:
            yield (
                f"{source.path}:{line} uses {name}: take bot.net.web, whose guard decides where "
                "it may go; or name the exception in CLIENTS."
            )


def names(source: Source) -> Iterator[tuple[int, str]]:
    """Return everything that a module imports, and all that it calls, by their full names."""
    for found in source.imported:
        if not found.typing:
            yield found.line, found.target
    renamed = {
        alias.asname: alias.name
        for node in source.nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname
    }
    for node in source.nodes:
        if isinstance(node, ast.Call) and (called := dotted(node.func)):
            first, *rest = called
            first = renamed.get(first, source.origins.get(first, first))
            yield node.lineno, ".".join([first, *rest])


def dotted(node: ast.expr) -> list[str]:
    """Return the words of a dotted name; none behind a call, which is found by itself."""
    match node:
        case ast.Name(id=word):
            return [word]
        case ast.Attribute(value=value, attr=word) if before := dotted(value):
            return [*before, word]
        case _:
            return []


def test_only_the_guard_makes_clients_for_what_others_name() -> None:
    found = [line for source in House().inside for line in ways_out(source)]

    assert found == [], "\n".join(found)


def test_every_exception_is_still_needed() -> None:
    house = House()

    unused = [
        f"{module}: {maker}"
        for module, makers in CLIENTS.items()
        for maker in makers
        if not any(begins(name, maker) for _, name in names(house.sources[module]))
    ]

    assert unused == []


@pytest.mark.parametrize(
    "text",
    [
        "import aiohttp\n\nasync def f():\n    aiohttp.ClientSession()",
        "from aiohttp import ClientSession",
        "import aiohttp as web\n\ndef f():\n    web.ClientSession()",
        "import httpx",
        "def f():\n    import requests",
        "from urllib.request import urlopen",
        "import urllib.request",
        "import trafilatura\n\ndef f():\n    trafilatura.fetch_url('x')",
        "import asyncio\n\nasync def f():\n    await asyncio.open_connection('x', 80)",
    ],
)
def test_another_way_out_is_named(text: str) -> None:
    assert list(ways_out(Source("skills.bad", "skills/bad.py", text)))

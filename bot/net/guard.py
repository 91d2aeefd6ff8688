"""The one place that makes an HTTP client for URLs that come from people, models or platforms."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ssl import SSLContext
from typing import TYPE_CHECKING

from bot.net.addresses import Addresses

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.abc import AbstractResolver

CONNECT_SECONDS = 5.0

#: Addresses for documentation, which no machine has: binding one works only where any can be bound.
_NOBODYS = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}


class NotDialledError(OSError):
    """The guard refused an address before anything was sent to it."""


@dataclass(frozen=True, slots=True)
class NotOurOwn:
    """What another policy allows, less the addresses that this machine itself has."""

    inner: Addresses

    def may_dial(self, address: str, port: int) -> bool:
        """Whether a socket may connect there."""
        return self.inner.may_dial(address, port) and not is_own(address)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """What stands between us and the network, where it is not the usual.

    Attributes:
        resolver: Makes addresses of names; `None` for the system's.
        tls: Whom to trust; `None` for whom the system trusts.
    """

    resolver: "AbstractResolver | None" = None
    tls: SSLContext | None = None


@asynccontextmanager
async def open_guarded(
    addresses: Addresses, doors: Doors | None = None
) -> AsyncIterator["aiohttp.ClientSession"]:
    """Open a client that dials only what `addresses` allows, whatever a name resolves to.

    It keeps nothing: no cookies, no connections, no answers of the resolver. It takes no proxy and
    no password from the environment, and unpacks nothing. Who uses it follows redirects by hand,
    and sets the time that all may take.
    """
    # A quarter of a second, which the start and `check` do not need.
    import aiohttp  # noqa: PLC0415

    doors = doors or Doors()
    connector = aiohttp.TCPConnector(
        socket_factory=_socket_factory(addresses),
        resolver=doors.resolver,
        ssl=doors.tls or True,
        use_dns_cache=False,
        force_close=True,
    )
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        requote_redirect_url=False,
    ) as session:
        yield session


def is_own(address: str) -> bool:
    """Whether this machine has that address, under whichever of its interfaces."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if _source_towards(family, address) == address:
        return True
    return _can_bind(family, address) and not _can_bind(family, _NOBODYS[family])


def _socket_factory(
    addresses: Addresses,
) -> Callable[["aiohttp.AddrInfoType"], socket.socket]:
    def make(info: "aiohttp.AddrInfoType") -> socket.socket:
        family, kind, protocol, _, where = info
        # This is the address that connect() gets: nothing is looked up in between.
        if not addresses.may_dial(str(where[0]), int(where[1])):
            raise NotDialledError("not dialled")
        return socket.socket(family, kind, protocol)

    return make


def _source_towards(family: socket.AddressFamily, address: str) -> str:
    """Return from which of our addresses we would speak to that one; nothing is sent."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return ""


def _can_bind(family: socket.AddressFamily, address: str) -> bool:
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
        return True

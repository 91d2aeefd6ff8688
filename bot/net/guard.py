"""Makes all HTTP clients for URLs that come from users, models or platforms."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from ssl import SSLContext
from typing import TYPE_CHECKING

from bot.net.addresses import Addresses

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.abc import AbstractResolver

CONNECT_SECONDS = 5.0

#: Opens a client that may connect to configured addresses, as `open_guarded` does.
OpenClient = Callable[[], AbstractAsyncContextManager["aiohttp.ClientSession"]]

#: Documentation addresses, which no machine has: binding one works only where any can be bound.
_NOBODYS = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}


class NotDialledError(OSError):
    """The guard refused an address before anything was sent to it."""


@dataclass(frozen=True, slots=True)
class OtherMachines:
    """Allows the addresses of another policy, except those of this machine itself."""

    inner: Addresses

    def may_dial(self, address: str, port: int) -> bool:
        """Return True if a socket may connect there."""
        return self.inner.may_dial(address, port) and not is_own(address)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """Network options that differ from the defaults.

    Attributes:
        resolver: Resolves host names; `None` for the system's resolver.
        tls: The trusted certificates; `None` for the system's.
    """

    resolver: "AbstractResolver | None" = None
    tls: SSLContext | None = None


@asynccontextmanager
async def open_guarded(
    addresses: Addresses, network: NetworkOptions | None = None
) -> AsyncIterator["aiohttp.ClientSession"]:
    """Open a client that connects only to addresses that `addresses` allows, after DNS resolution.

    It stores no cookies, connections or DNS results. It reads no proxy and no password from the
    environment, and decompresses nothing. Callers follow redirects themselves, and set the total
    timeout.
    """
    # Imported here: it takes 0.25 s, which the start and `check` do not need.
    import aiohttp  # noqa: PLC0415

    network = network or NetworkOptions()

    def guarded_socket(info: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, where = info
        # The address that connect() gets: no name is resolved in between.
        if not addresses.may_dial(str(where[0]), int(where[1])):
            raise NotDialledError("not dialled")
        return socket.socket(family, kind, protocol)

    connector = aiohttp.TCPConnector(
        socket_factory=guarded_socket,
        resolver=network.resolver,
        ssl=network.tls or True,
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
    """Return True if any interface of this machine has that address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        # The source address of a connection to it; nothing is sent.
        probe.connect((address, 9))
        if str(probe.getsockname()[0]) == address:
            return True
    return _can_bind(family, address) and not _can_bind(family, _NOBODYS[family])


def _can_bind(family: socket.AddressFamily, address: str) -> bool:
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
        return True

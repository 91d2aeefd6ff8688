"""A small web on loopback: servers that behave and that do not, names that lead where a test wants.

The guard dials it because a test hands it a policy that knows these very ports; there is no setting
that could do so.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aiohttp.abc import AbstractResolver, ResolveResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bot.net.addresses import Addresses, PublicAddresses
from bot.net.guard import NetworkOptions
from bot.net.settings import FetchSettings
from bot.net.web import Web

HERE = "127.0.0.1"

#: Says what a server says, in full.
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""

    @property
    def host(self) -> str:
        return self.headers.get("host", "").partition(":")[0]


def response(
    body: bytes = b"",
    *,
    status: int = 200,
    kind: str = "text/html; charset=utf-8",
    **headers: str,
) -> bytes:
    """Return an answer as it goes over the wire; `content_length="5"` says something else."""
    fields = {"content-type": kind, "content-length": str(len(body))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return f"HTTP/1.1 {status} Whatever\r\n{lines}connection: close\r\n\r\n".encode() + body


def redirect(location: str, *, status: int = 302, set_cookie: str = "") -> bytes:
    return response(status=status, location=location, set_cookie=set_cookie)


class Listener:
    """Counts who connects, and says nothing."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0

    def _connected(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.close()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Listener"]:
        async with AsyncExitStack() as stack:
            server = await asyncio.start_server(self._connected, HERE, 0)
            await stack.enter_async_context(server)
            self.port = server.sockets[0].getsockname()[1]
            if socket.has_ipv6 and _has_loopback_6():
                other = await asyncio.start_server(self._connected, "::1", self.port)
                await stack.enter_async_context(other)
            yield self


@dataclass
class FakeResolver(AbstractResolver):
    """Makes addresses of names; a name with several answers gives one after the other.

    Attributes:
        names: For each name, its answers: lists of addresses and ports.
        ports: Where the ports of the web really are.
    """

    names: dict[str, list[Sequence[tuple[str, int]]]] = field(default_factory=dict)
    ports: dict[int, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def lead(self, name: str, *answers: Sequence[tuple[str, int]]) -> None:
        self.names[name] = list(answers)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        answers = self.names.get(host)
        if answers is not None:
            found = answers.pop(0) if len(answers) > 1 else answers[0]
        elif host.endswith(".example"):
            found = [(HERE, self.ports.get(port, port))]
        else:
            # What the system's resolver takes for a number, it takes for one here too.
            flags = 0 if host == "localhost" else socket.AI_NUMERICHOST
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
            found = [(str(info[4][0]), port) for info in infos]
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=at,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=0,
            )
            for address, at in found
        ]

    async def close(self) -> None:
        """Close nothing."""


@dataclass(frozen=True)
class AlsoHere:
    """What another policy allows, and some ports of this machine."""

    inner: Addresses
    ports: frozenset[int]

    def may_dial(self, address: str, port: int) -> bool:
        return (address == HERE and port in self.ports) or self.inner.may_dial(address, port)


class FakeWeb:
    """Hosts below `.example`, with http and, given a folder for its certificate, https."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes | Script] = {}
        self.asked: list[Asked] = []
        self.gone: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.begun: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.resolver = FakeResolver()
        self.tls: ssl.SSLContext | None = None
        self.port = 0

    def web(
        self, settings: FetchSettings | None = None, *, also: frozenset[int] = frozenset()
    ) -> Web:
        """Return the guarded web that can dial this one, by the rules for everything else.

        Args:
            settings: How much and how long.
            also: Ports that a URL may name besides the usual; their addresses are judged as ever.
        """
        strict = PublicAddresses(ports=frozenset({80, 443}) | also)
        return Web(
            settings or FetchSettings(seconds=10),
            addresses=AlsoHere(strict, frozenset(self.resolver.ports.values())),
            ports=strict.ports,
            network=NetworkOptions(resolver=self.resolver, tls=self.tls),
        )

    @property
    def url(self) -> str:
        """Where it really is, for what the configuration names."""
        return f"http://{HERE}:{self.port}"

    @asynccontextmanager
    async def open(self, folder: Path | None = None) -> AsyncIterator["FakeWeb"]:
        async with AsyncExitStack() as stack:
            plain = await stack.enter_async_context(
                await asyncio.start_server(self._serve, HERE, 0)
            )
            self.port = plain.sockets[0].getsockname()[1]
            self.resolver.ports = {80: self.port}
            if folder is not None:
                server_side, self.tls = _tls(folder)
                secure = await asyncio.start_server(self._serve, HERE, 0, ssl=server_side)
                await stack.enter_async_context(secure)
                self.resolver.ports[443] = secure.sockets[0].getsockname()[1]
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = await _request(reader)
            self.asked.append(asked)
            key = asked.host + asked.target.partition("?")[0]
            page = self.pages.get(key, response(b"nothing", status=404))
            self.begun[key].set()
            if isinstance(page, bytes):
                writer.write(page)
                await writer.drain()
            else:
                await page(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.gone[key].set()
            writer.close()


async def _request(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, target, headers, body)


def _has_loopback_6() -> bool:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
        return True


def _tls(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return what the server shows, and what trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a fake web")])
    names: list[x509.GeneralName] = [
        *(x509.DNSName(f"{name}.example") for name in ("safe", "other")),
        x509.IPAddress(ipaddress.ip_address(HERE)),
    ]
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = folder / "certificate.pem"
    file.write_bytes(private + certificate)
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(file)
    return shown, ssl.create_default_context(cadata=certificate.decode())

"""Makes the requests of a sign-in: to addresses that an MCP server names, so through the guard."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from json import dumps
from urllib.parse import urlencode, urlsplit

from bot.errors import ToolError
from bot.net.addresses import Addresses, AnyAddress, Network, PublicAddresses
from bot.net.base import WebError
from bot.net.bodies import ENCODINGS, BodyLimits, read_body
from bot.net.guard import NetworkOptions, OtherMachines, open_guarded
from bot.net.urls import checked
from bot.values import Json

SECONDS = 20.0
LIMITS = BodyLimits(wire=256 * 1024, unpacked=1024 * 1024)
_CHUNK = 64 * 1024


class SignInError(ToolError):
    """A sign-in is not possible; the text gives the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A response, whose redirects are not followed; the names of its headers are in lower case."""

    status: int
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthHttp:
    """Sends the requests of sign-ins at one server.

    Attributes:
        server_url: The address of the server, which an admin has named: it may be private.
        private: Whether other addresses may be private, and without TLS.
        refused: Further networks that are refused.
        network: Network options that differ from the defaults.
    """

    server_url: str
    private: bool
    refused: tuple[Network, ...] = ()
    network: NetworkOptions | None = None

    async def send(
        self,
        method: str,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        json: Json | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """Return the response to a request.

        Raises:
            SignInError: The address is refused, or does not answer.
        """
        host = urlsplit(url).netloc.rpartition("@")[2]
        try:
            target = checked(url)
        except WebError as error:
            raise SignInError(f"The address of the sign-in is not usable: {error}") from None
        named = origin(url) == origin(self.server_url)
        if not named and not self.private and target.scheme != "https":
            raise SignInError(f"The sign-in at {host} is without TLS (https), and is refused.")
        addresses: Addresses = AnyAddress()
        if not named and not self.private:
            addresses = OtherMachines(PublicAddresses(refused=self.refused))
        sent = {"Accept": "application/json", "Accept-Encoding": ENCODINGS, **(headers or {})}
        body: str | None = None
        if form is not None:
            body, sent["Content-Type"] = urlencode(form), "application/x-www-form-urlencoded"
        elif json is not None:
            body, sent["Content-Type"] = dumps(json), "application/json"
        try:
            async with asyncio.timeout(SECONDS):
                return await self._exchange(addresses, method, str(target), sent, body)
        except (OSError, WebError):
            raise SignInError(
                f"{host} does not answer, or its address is not public. Try again later; if it "
                "stays so, an admin can look at the address of the server."
            ) from None

    async def _exchange(
        self,
        addresses: Addresses,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: str | None,
    ) -> HttpAnswer:
        import aiohttp  # noqa: PLC0415 - the start must be quick
        import yarl  # noqa: PLC0415

        try:
            async with (
                open_guarded(addresses, self.network) as client,
                client.request(
                    method,
                    yarl.URL(url, encoded=True),
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                ) as response,
            ):
                if "text/event-stream" in response.headers.get("Content-Type", ""):
                    return HttpAnswer(response.status, b"", _headers(response.headers))
                encoding = ",".join(response.headers.getall("Content-Encoding", []))
                chunks = response.content.iter_chunked(_CHUNK)
                content, cut = await read_body(chunks, encoding, LIMITS)
                if cut:
                    raise WebError("too long")
                return HttpAnswer(response.status, content, _headers(response.headers))
        except (aiohttp.ClientError, ValueError) as error:
            raise OSError(type(error).__name__) from None


def _headers(given: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in given.items()}


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of an address."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), port

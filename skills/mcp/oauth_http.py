"""Makes the requests of a sign-in: to addresses that an MCP server names, so through the guard."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from json import dumps
from urllib.parse import urlencode, urlsplit

from bot.errors import ToolError
from bot.net.addresses import Addresses, AnyAddress, Network, PublicAddresses
from bot.net.base import WebError, WebResponse
from bot.net.bodies import BodyLimits
from bot.net.guard import NetworkOptions, OtherMachines, open_guarded
from bot.net.urls import checked
from bot.net.web import send_once
from bot.values import Json

SECONDS = 20.0
#: A server answers the first request with an endless stream if it needs no sign-in.
LIMITS = BodyLimits(wire=256 * 1024, unpacked=1024 * 1024, streams=False)


class SignInError(ToolError):
    """A sign-in is not possible; the text gives the reason and a remedy."""


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
    ) -> WebResponse:
        """Return the response to a request, whose redirects are not followed.

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
        sent = {"Accept": "application/json", **(headers or {})}
        body: bytes | None = None
        if form is not None:
            body = urlencode(form).encode()
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        elif json is not None:
            body, sent["Content-Type"] = dumps(json).encode(), "application/json"
        try:
            async with asyncio.timeout(SECONDS):
                answer = await send_once(
                    partial(open_guarded, addresses, self.network),
                    method,
                    str(target),
                    headers=sent,
                    body=body,
                    limits=LIMITS,
                )
            if answer.cut:
                raise WebError("too long")  # noqa: TRY301
        except (OSError, WebError):
            raise SignInError(
                f"{host} does not answer, or its address is not public. Try again later; if it "
                "stays so, an admin can look at the address of the server."
            ) from None
        return answer


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of an address."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), port

"""Makes web requests: to untrusted pages, and to services that the configuration names."""

import asyncio
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from json import dumps
from typing import TYPE_CHECKING

from bot.disk import DiskReserve
from bot.net.addresses import WEB_PORTS, Addresses, AnyAddress, PublicAddresses
from bot.net.base import UNREACHABLE, Follows, FormPart, WebError, WebResponse
from bot.net.bodies import ENCODINGS, MEGABYTE, BodyLimits, check_type, read_body
from bot.net.guard import NetworkOptions, OpenClient, OtherMachines, open_guarded
from bot.net.settings import FetchSettings
from bot.net.urls import check_port, checked, next_hop
from bot.values import Json, Live

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

log = logging.getLogger(__name__)

_CHUNK = 64 * 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ACCEPT = "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, */*;q=0.5"

_CERTIFICATE = (
    "The server there does not prove that it is who it claims to be (its certificate is not "
    "valid). Use another page."
)
_ELSEWHERE = (
    "The page redirects to another site, which is not followed after private material was read. "
    "Use another page."
)
_BROKE_OFF = (
    "The server broke off, or answered with what is no web page. Try again, or use another."
)


class Web:
    """The public web, for URLs that come from users, models and pages.

    Args:
        settings: Limits and timeout.
        addresses: Policy of addresses; `None` allows public ones that are not this machine's.
        ports: The ports that a URL may name.
        network: Network options that differ from the defaults.
        reserve: The part of the disk that stays free, since the text of pages is stored.
    """

    def __init__(
        self,
        settings: Live[FetchSettings],
        *,
        addresses: Addresses | None = None,
        ports: frozenset[int] = WEB_PORTS,
        network: NetworkOptions | None = None,
        reserve: DiskReserve | None = None,
    ) -> None:
        self._settings = settings
        self._reserve = reserve or DiskReserve()
        self._addresses = addresses
        self._ports = ports
        self._network = network

    @property
    def addresses(self) -> Addresses:
        """The policy of addresses that is in force."""
        refused = self._settings().refused_networks
        return self._addresses or OtherMachines(PublicAddresses(refused=refused))

    async def fetch(self, address: str, *, follows: Follows | None = None) -> WebResponse:
        """Return the page at an untrusted address, after redirects.

        Args:
            address: With its scheme.
            follows: Returns True if a redirect from one address to another is followed; `None`
                follows all.

        Raises:
            WebError: The page cannot be fetched.
            DiskFullError: The disk is nearly full.
        """
        self._reserve.check()
        url = checked(address)
        settings = self._settings()
        try:
            async with (
                asyncio.timeout(settings.seconds),
                open_guarded(self.addresses, self._network) as session,
            ):
                with _web_errors():
                    return await self._follow(session, url, follows, settings)
        except TimeoutError:
            raise WebError(
                f"The page did not come within {settings.seconds:g} seconds. Use another, or try "
                "later."
            ) from None

    async def _follow(
        self,
        session: "aiohttp.ClientSession",
        url: "URL",
        follows: Follows | None,
        settings: FetchSettings,
    ) -> WebResponse:
        headers = {
            "Accept": _ACCEPT,
            "Accept-Encoding": ENCODINGS,
            "User-Agent": settings.user_agent,
        }
        limits = BodyLimits(wire=int(settings.megabytes * MEGABYTE))
        hops: list[str] = []
        while True:
            check_port(url, self._ports)
            async with session.get(url, headers=headers, allow_redirects=False) as response:
                location = response.headers.get("Location")
                if location is None or response.status not in _REDIRECTS:
                    if response.status != HTTPStatus.OK:
                        known = {each.value: f" ({each.phrase})" for each in HTTPStatus}
                        raise WebError(
                            f"The server answered with status {response.status}"
                            f"{known.get(response.status, '')}. Check the address, or look for the "
                            "same thing elsewhere."
                        )
                    check_type(_media_type(response))
                    return await _read(response, limits, tuple(hops))
            if len(hops) == settings.redirects:
                raise WebError(f"The page redirects more than {len(hops)} times. Use another.")
            hops.append(str(url))
            url = next_hop(url, location)
            if follows is not None and not follows(hops[-1], str(url)):
                raise WebError(_ELSEWHERE)


class Site:
    """A service at an address that the configuration names, on any network.

    Input from users, models and pages cannot change the destination: every request is below that
    address, and redirects are not followed.

    Args:
        name: The service's name for users.
        base_url: The address below which all requests are.
        settings: Limits and timeout.
        network: Network options that differ from the defaults.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        settings: Live[FetchSettings],
        *,
        network: NetworkOptions | None = None,
    ) -> None:
        self.name = name
        self._base_url = base_url.rstrip("/") + "/"
        self._settings = settings
        self._open = partial(open_guarded, AnyAddress(), network)

    async def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        json: Json | None = None,
    ) -> WebResponse:
        """Return the service's response, whatever its status.

        Args:
            path: Below the service's address, percent-encoded where needed.
            method: The HTTP method.
            params: The query parameters.
            headers: Further headers, such as a key.
            json: The body.

        Raises:
            WebError: The service does not respond, or its response is too large.
        """
        from yarl import URL  # noqa: PLC0415 - the start must be quick

        base = URL(self._base_url)
        url = checked(str(base) + path.lstrip("/"))
        # The base ends with a slash, so the path cannot change the host: only dots lead out of it.
        if not url.raw_path.startswith(base.raw_path):
            raise WebError(f"{path[:100]!r} is not below the address of {self.name}.")
        url = url.update_query(dict(params)) if params else url
        settings = self._settings()
        limits = BodyLimits(wire=int(settings.megabytes * MEGABYTE))
        sent = {"User-Agent": settings.user_agent, **(headers or {})}
        body = None
        if json is not None:
            body, sent["Content-Type"] = dumps(json).encode(), "application/json"
        try:
            async with asyncio.timeout(settings.seconds):
                answer = await send_once(
                    self._open, method, str(url), headers=sent, body=body, limits=limits
                )
        except (OSError, WebError) as error:
            log.warning("%s gave no answer: %s", self.name, str(error) or "its time was up")
            raise WebError(
                f"{self.name} gives no usable answer now. Try again later, or go on without it."
            ) from None
        if answer.cut:
            raise WebError(f"{self.name} answers with more than is read. Ask for less.")
        return answer


async def send_once(
    open_client: OpenClient,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes | Sequence[FormPart] | None,
    limits: BodyLimits,
) -> WebResponse:
    """Send a request to a configured address, and neither repeat it nor follow a redirect.

    Args:
        open_client: Opens a client for the address.
        method: The method.
        url: The address, encoded.
        headers: The headers; a form has a Content-Type of its own.
        body: The content, or the parts of a form with files.
        limits: The size limits of the response.

    Raises:
        OSError: There is no response. The text is the kind of the error: the error's own text may
            contain an address.
        WebError: The body of the response cannot be read.
    """
    import aiohttp  # noqa: PLC0415
    import yarl  # noqa: PLC0415

    try:
        async with open_client() as client:
            # By default aiohttp repeats a PUT or a DELETE when a connection breaks.
            client._retry_connection = False  # noqa: SLF001
            async with client.request(
                method,
                yarl.URL(url, encoded=True),
                data=body if body is None or isinstance(body, bytes) else _form(body),
                headers={"Accept-Encoding": ENCODINGS, **headers},
                allow_redirects=False,
            ) as response:
                return await _read(response, limits, ())
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise OSError(type(error).__name__) from error


def _form(parts: Sequence[FormPart]) -> "aiohttp.FormData":
    """Return a form with files, which is sent piece by piece."""
    import aiohttp  # noqa: PLC0415

    # As browsers do: names in UTF-8, and no quotation mark in them.
    form = aiohttp.FormData(quote_fields=False, default_to_multipart=True)
    for part in parts:
        name, file_name = (text.replace('"', "%22") for text in (part.name, part.file_name))
        form.add_field(
            name,
            io.BytesIO(part.content) if file_name else part.content.decode("utf-8", "replace"),
            filename=file_name or None,
            content_type=part.media_type or None,
        )
    return form


@contextmanager
def _web_errors() -> Iterator[None]:
    """Convert network errors to texts that reveal nothing about the bot's network."""
    import aiohttp  # noqa: PLC0415 - a quarter of a second, which the start does not need

    try:
        yield
    except (aiohttp.ClientError, OSError, ValueError) as error:
        log.info("A page was not fetched: %s", type(error).__name__)
        match error:
            case aiohttp.ClientSSLError():
                text = _CERTIFICATE
            case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError() | ValueError():
                # Refused by the guard or by the host, or unresolvable: the text must not tell.
                text = UNREACHABLE
            case _:
                text = _BROKE_OFF
        raise WebError(text) from None


async def _read(
    response: "aiohttp.ClientResponse", limits: BodyLimits, hops: tuple[str, ...]
) -> WebResponse:
    _, _, charset = str(response.headers.get("Content-Type", "")).lower().partition("charset=")
    encoding = ",".join(response.headers.getall("Content-Encoding", []))
    media_type, content, cut = _media_type(response), b"", False
    if limits.streams or media_type != "text/event-stream":
        content, cut = await read_body(response.content.iter_chunked(_CHUNK), encoding, limits)
    return WebResponse(
        url=str(response.url),
        status=response.status,
        media_type=media_type,
        charset=charset.partition(";")[0].strip(" \"'"),
        content=content,
        cut=cut,
        hops=hops,
        challenge=response.headers.get("WWW-Authenticate", ""),
    )


def _media_type(response: "aiohttp.ClientResponse") -> str:
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()

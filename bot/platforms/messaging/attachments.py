"""Downloads attached files, only from the file hosts of their platform."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
import yarl

from bot.errors import DeliveryError
from bot.net.addresses import Addresses, AnyAddress, PublicAddresses
from bot.net.guard import OtherMachines, open_guarded

MOST_BYTES = 25 * 1024 * 1024
FETCH_SECONDS = 60.0
_CHUNK = 64 * 1024
#: Statuses of a denied request: the platform demands credentials or redirects to a login page.
_NOT_OURS = frozenset({301, 302, 303, 307, 308, 401, 403})


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHost:
    """The file storage of a platform.

    Attributes:
        name: The name of the platform, as users know it.
        hosts: All file hosts of the platform.
        stand_in: The address of a substitute for the platform; empty for none.
        refused: Advice to the user when the platform denies access; empty if a denial means that
            the file is gone.
    """

    name: str
    hosts: frozenset[str]
    stand_in: str = ""
    refused: str = ""

    def has(self, address: str) -> bool:
        """Return True if an address belongs to the platform's file storage."""
        try:
            url = yarl.URL(address, encoded=True)
            if self._is_stand_in(url):
                return True
            plain = url.user is None and url.password is None and url.port == 443
        except ValueError:
            return False
        return url.scheme == "https" and url.host in self.hosts and plain

    async def fetch(
        self, address: str, name: str, *, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """Return the content of a file.

        Args:
            address: The address of the file, as the platform gave it.
            name: The name of the file, as users know it.
            headers: The headers that authorise the request.

        Raises:
            DeliveryError: The address is outside the platform's file storage, the file is too
                large, or the platform does not return it.
        """
        if not self.has(address):
            raise DeliveryError(
                f"The file {name} is not where {self.name} keeps files. Attach it to a message "
                "again.",
                permanent=True,
            )
        try:
            return await self._download(address, name, headers or {})
        except (aiohttp.ClientError, OSError) as error:
            raise self._not_now(name) from error

    async def _download(self, address: str, name: str, headers: Mapping[str, str]) -> bytes:
        content = bytearray()
        url = yarl.URL(address, encoded=True)
        # A small compressed response must not become a large one after decompression.
        sent = {"Accept-Encoding": "identity", **headers}
        async with (
            asyncio.timeout(FETCH_SECONDS),
            open_guarded(self._addresses(url)) as session,
            # A redirect could send the request, and its token, to any address.
            session.get(url, headers=sent, allow_redirects=False) as response,
        ):
            if response.status >= 500 or response.status == HTTPStatus.TOO_MANY_REQUESTS:
                raise self._not_now(name)
            if response.status != HTTPStatus.OK:
                text = f"{self.name} no longer has the file {name}. Attach it to a message again."
                if response.status in _NOT_OURS and self.refused:
                    text = f"{self.name} does not let me read the file {name}. {self.refused}"
                raise DeliveryError(text, permanent=True)
            async for chunk in response.content.iter_chunked(_CHUNK):
                content += chunk
                if len(content) > MOST_BYTES:
                    raise DeliveryError(
                        f"The file {name} is larger than the {MOST_BYTES // 1024**2} MB that I "
                        "take. Send a smaller one, or the part that matters.",
                        permanent=True,
                    )
        return bytes(content)

    def _is_stand_in(self, url: yarl.URL) -> bool:
        return bool(self.stand_in) and url.origin() == yarl.URL(self.stand_in).origin()

    def _addresses(self, url: yarl.URL) -> Addresses:
        """Return the policy for connections: public addresses only, except for the stand-in."""
        return AnyAddress() if self._is_stand_in(url) else OtherMachines(PublicAddresses())

    def _not_now(self, name: str) -> DeliveryError:
        return DeliveryError(
            f"{self.name} does not give me the file {name} now. Try again in a moment."
        )

"""Files that people attach: fetched from where their platform keeps them, and from nowhere else."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
import yarl

from bot.errors import DeliveryError
from bot.net.addresses import Addresses, AnyAddress, PublicAddresses
from bot.net.guard import NotOurOwn, open_guarded

MOST_BYTES = 25 * 1024 * 1024
FETCH_SECONDS = 60.0
_CHUNK = 64 * 1024
#: The platform wants to know who is asking, or sends us somewhere else to say so.
_NOT_OURS = frozenset({301, 302, 303, 307, 308, 401, 403})


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where a platform keeps files.

    Attributes:
        name: Of the platform, as people know it.
        hosts: All that it has.
        stand_in: The address of something that stands in for the platform; empty for nothing.
        refused: What to do when the platform wants somebody else to ask; empty where that means
            that the file is gone.
    """

    name: str
    hosts: frozenset[str]
    stand_in: str = ""
    refused: str = ""

    def has(self, address: str) -> bool:
        """Whether a file is there."""
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
            address: Where it is said to be.
            name: What people call it.
            headers: What proves that we may have it.

        Raises:
            DeliveryError: It is not where the platform keeps files, is too large, or does not come.
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
        # What is small on the wire must not become large here.
        sent = {"Accept-Encoding": "identity", **headers}
        async with (
            asyncio.timeout(FETCH_SECONDS),
            open_guarded(self._addresses(url)) as session,
            # Following a redirect would let an address decide where we go, and with which token.
            session.get(url, headers=sent, allow_redirects=False) as response,
        ):
            self._check(response.status, name)
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
        """Return what may be dialled: only what the configuration names may be anywhere."""
        return AnyAddress() if self._is_stand_in(url) else NotOurOwn(PublicAddresses())

    def _check(self, status: int, name: str) -> None:
        if status == HTTPStatus.OK:
            return
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
            raise self._not_now(name)
        if status in _NOT_OURS and self.refused:
            raise DeliveryError(
                f"{self.name} does not let me read the file {name}. {self.refused}", permanent=True
            )
        raise DeliveryError(
            f"{self.name} no longer has the file {name}. Attach it to a message again.",
            permanent=True,
        )

    def _not_now(self, name: str) -> DeliveryError:
        return DeliveryError(
            f"{self.name} does not give me the file {name} now. Try again in a moment."
        )

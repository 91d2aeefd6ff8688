"""Files that people attach: fetched from Discord itself, and from nowhere else."""

from collections.abc import Iterable

import aiohttp
import discord
import yarl

from bot.agent.sanitizer import one_line
from bot.errors import DeliveryError
from bot.platforms.base import Attached
from bot.platforms.discord.settings import API_URL

HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})
MOST_BYTES = 25 * 1024 * 1024
FETCH_SECONDS = 60.0
_CHUNK = 64 * 1024


def attached(attachments: Iterable[discord.Attachment], api_url: str) -> tuple[Attached, ...]:
    """Return files that came with a message; none of them is fetched yet.

    Args:
        attachments: What Discord tells of them.
        api_url: Where Discord's REST API is; a stand-in for it may hold files too.
    """
    return tuple(_attached(each, api_url) for each in attachments)


def _attached(attachment: discord.Attachment, api_url: str) -> Attached:
    name = one_line(attachment.filename)

    async def read() -> bytes:
        return await fetch(attachment.url, name, api_url)

    return Attached(
        name=name, media_type=attachment.content_type or "", size=attachment.size, read=read
    )


async def fetch(address: str, name: str, api_url: str) -> bytes:
    """Return the content of a file.

    Raises:
        DeliveryError: It is not where Discord keeps files, is too large, or does not come.
    """
    if not may_fetch(address, api_url):
        raise DeliveryError(
            f"The file {name} is not where Discord keeps files. Attach it to a message again.",
            permanent=True,
        )
    try:
        return await _download(address, name)
    except (aiohttp.ClientError, OSError) as error:
        raise DeliveryError(
            f"Discord does not give me the file {name} now. Try again in a moment."
        ) from error


async def _download(address: str, name: str) -> bytes:
    content = bytearray()
    async with (
        aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=FETCH_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            # What is small on the wire must not become large here.
            auto_decompress=False,
            headers={"Accept-Encoding": "identity"},
        ) as session,
        # Following a redirect would let an address decide where we go.
        session.get(yarl.URL(address, encoded=True), allow_redirects=False) as response,
    ):
        _check(response.status, name)
        async for chunk in response.content.iter_chunked(_CHUNK):
            content += chunk
            if len(content) > MOST_BYTES:
                raise DeliveryError(
                    f"The file {name} is larger than the {MOST_BYTES // 1024**2} MB that I take. "
                    "Send a smaller one, or the part that matters.",
                    permanent=True,
                )
    return bytes(content)


def _check(status: int, name: str) -> None:
    if status >= 500 or status == 429:
        raise DeliveryError(f"Discord does not give me the file {name} now. Try again in a moment.")
    if status != 200:
        raise DeliveryError(
            f"Discord no longer has the file {name}. Attach it to a message again.", permanent=True
        )


def may_fetch(address: str, api_url: str) -> bool:
    """Whether a file is where Discord keeps files, or at the stand-in that we were told to use."""
    try:
        url = yarl.URL(address, encoded=True)
        if api_url != API_URL and url.origin() == yarl.URL(api_url).origin():
            return True
        plain = url.user is None and url.password is None and url.port == 443
    except ValueError:
        return False
    return url.scheme == "https" and url.host in HOSTS and plain

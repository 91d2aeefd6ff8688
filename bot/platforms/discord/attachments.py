"""Files that people attach on Discord."""

from collections.abc import Iterable

import discord

from bot.agent.sanitizer import one_line
from bot.platforms.discord.settings import API_URL
from bot.platforms.downloads import Store
from bot.platforms.past import Attached

HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})


def store(api_url: str) -> Store:
    """Return where Discord keeps files.

    Args:
        api_url: Where its REST API is; a stand-in for it may hold files too.
    """
    return Store(name="Discord", hosts=HOSTS, stand_in="" if api_url == API_URL else api_url)


def attached(attachments: Iterable[discord.Attachment], api_url: str) -> tuple[Attached, ...]:
    """Return files that came with a message; none of them is fetched yet.

    Args:
        attachments: What Discord tells of them.
        api_url: Where Discord's REST API is.
    """
    return tuple(_attached(each, store(api_url)) for each in attachments)


def _attached(attachment: discord.Attachment, kept: Store) -> Attached:
    name = one_line(attachment.filename)

    async def read() -> bytes:
        return await kept.fetch(attachment.url, name)

    return Attached(
        name=name, media_type=attachment.content_type or "", size=attachment.size, read=read
    )

"""Files that users attach on Discord."""

from collections.abc import Iterable

import discord

from bot.agent.sanitizer import one_line
from bot.platforms.discord.settings import API_URL
from bot.platforms.messages import Attachment
from bot.platforms.messaging.attachments import FileHost

HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})


def store(api_url: str) -> FileHost:
    """Return the file store of Discord.

    Args:
        api_url: The address of the REST API; another address than Discord's may serve files too.
    """
    return FileHost(name="Discord", hosts=HOSTS, stand_in="" if api_url == API_URL else api_url)


def attached(attachments: Iterable[discord.Attachment], api_url: str) -> tuple[Attachment, ...]:
    """Return the files of a message, not yet downloaded.

    Args:
        attachments: Discord's descriptions of the files.
        api_url: The address of Discord's REST API.
    """
    return tuple(_attached(each, store(api_url)) for each in attachments)


def _attached(attachment: discord.Attachment, kept: FileHost) -> Attachment:
    name = one_line(attachment.filename)

    async def read() -> bytes:
        return await kept.fetch(attachment.url, name)

    return Attachment(
        name=name, media_type=attachment.content_type or "", size=attachment.size, read=read
    )

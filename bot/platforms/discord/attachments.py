"""Files that users attach on Discord."""

from collections.abc import Iterable
from functools import partial

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
    host, found = store(api_url), []
    for each in attachments:
        name = one_line(each.filename)
        found.append(
            Attachment(
                name=name,
                media_type=each.content_type or "",
                size=each.size,
                read=partial(host.fetch, each.url, name),
            )
        )
    return tuple(found)

"""Reads earlier messages of a channel, direct message or thread of Discord."""

from dataclasses import replace
from datetime import datetime

import discord

from bot.platforms.discord.attachments import attached
from bot.platforms.discord.intake import (
    files_of,
    is_addressed,
    is_from_user,
    quoted_in,
    reply_to_of,
    text_of,
)
from bot.platforms.discord.people import identity_of
from bot.platforms.discord.sending import Sender
from bot.platforms.messages import PastMessage, message_key
from bot.values import Place


class History:
    """Reads places through a logged-in client, without gateway and cache.

    Args:
        client: A logged-in client.
        sender: Makes the requests.
        api_url: The address of the REST API, from which files may be fetched.
    """

    def __init__(self, client: discord.Client, sender: Sender, api_url: str) -> None:
        self._client = client
        self._sender = sender
        self._api_url = api_url

    async def read(self, place: Place, after: datetime | str, limit: int) -> list[PastMessage]:
        """Return the newest messages after a time or a message id, oldest first.

        Raises:
            DeliveryError: The messages cannot be read.
        """
        channel = place.thread or place.channel
        found = await self._sender.newest(channel, limit, after=after, guild=place.workspace)
        me, read = self._client.user, []
        for message in reversed(found):
            text = text_of(message, me)
            past = PastMessage(
                event_id=message_key("", channel, str(message.id)),
                place=replace(place, message=str(message.id)),
                author=identity_of(message.author.id),
                author_name=message.author.display_name,
                text=text,
                sent_at=message.created_at,
                by_bot=not is_from_user(message),
                own=me is not None and message.author.id == me.id,
                addressed=not place.workspace or (me is not None and is_addressed(message, me.id)),
                only_mention=bool(message.content.strip()) and not text,
                files=attached(files_of(message), self._api_url),
                quoted=quoted_in(message, me.id, whole=not text) if me else (),
                reply_to=reply_to_of(message),
            )
            read.append(past)
        return read

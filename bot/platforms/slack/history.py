"""Reads the messages of a channel, direct message or thread of Slack."""

from datetime import UTC, datetime
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.errors import DeliveryError
from bot.platforms.messages import PastMessage, message_key
from bot.platforms.slack import speech
from bot.platforms.slack.attachments import Attachments
from bot.platforms.slack.clients import Clients, Installed
from bot.platforms.slack.names import Names
from bot.platforms.slack.people import author_of
from bot.platforms.slack.sending import Sender
from bot.values import Json, Place

#: Most messages in one request, and most pages of one place.
PAGE, MAX_PAGES = 200, 5
NOT_INSTALLED = "The bot is not installed in that workspace."


class History:
    """Reads places with the token of their workspace.

    Args:
        clients: Provide the bot's identity in a workspace.
        sender: Makes requests.
        names: Provide the names of users.
        api_url: The address of the Web API.
    """

    def __init__(self, clients: Clients, sender: Sender, names: Names, api_url: str) -> None:
        self._clients = clients
        self._sender = sender
        self._names = names
        self._attachments = Attachments(clients, sender, api_url)

    async def read(self, place: Place, after: datetime | str, limit: int) -> list[PastMessage]:
        """Return the newest messages after a given time or message, oldest first.

        Raises:
            DeliveryError: The messages cannot be read.
        """
        installed = await self._clients.installed(place.workspace)
        if installed is None:
            raise DeliveryError(NOT_INSTALLED, permanent=True)
        oldest = f"{after.timestamp():.6f}" if isinstance(after, datetime) else after
        found = await self._pages(place, oldest, limit)
        # Slack returns a thread with its first message, regardless of `oldest`.
        new = [each for each in found if not oldest or float(each["ts"]) > float(oldest)]
        new.sort(key=lambda each: float(each["ts"]))
        return [await self._past(each, place, installed) for each in new[-limit:]]

    async def _pages(self, place: Place, oldest: str, limit: int) -> list[Json]:
        """Return the requested messages, and possibly more.

        Slack returns a channel newest first and a thread oldest first: the last page of a thread
        contains its newest messages.
        """
        found: list[Json] = []
        asked: dict[str, Any] = {"channel": place.channel, "limit": PAGE}
        if oldest:
            asked["oldest"] = oldest
        for _ in range(MAX_PAGES):
            if place.thread:
                response = await self._sender.ask(
                    place.workspace, AsyncWebClient.conversations_replies, ts=place.thread, **asked
                )
            else:
                response = await self._sender.ask(
                    place.workspace, AsyncWebClient.conversations_history, **asked
                )
            page: Json = dict(response.data) if isinstance(response.data, dict) else {}
            found += page.get("messages") or ()
            cursor = (page.get("response_metadata") or {}).get("next_cursor")
            if not cursor or (not place.thread and len(found) >= limit):
                break
            asked["cursor"] = cursor
        return found

    async def _past(self, message: Json, place: Place, installed: Installed) -> PastMessage:
        ts, text = str(message["ts"]), str(message.get("text") or "")
        thread = place.thread or str(message.get("thread_ts") or "") or ts
        own = str(message.get("user") or "") == installed.user or (
            bool(installed.bot) and message.get("bot_id") == installed.bot
        )
        by_bot = own or not speech.is_from_user(message)
        author = author_of(message, place.workspace, installed.enterprise)
        direct = place.channel.startswith("D")
        spoken, mentions = (
            speech.spoken(text, installed.user),
            speech.mentions(text, installed.user),
        )
        return PastMessage(
            event_id=message_key(place.workspace, place.channel, ts),
            place=author.place(place.channel, thread, ts),
            author=author.identity,
            author_name="" if by_bot else await self._names.of(author),
            text=spoken,
            sent_at=datetime.fromtimestamp(float(ts), UTC),
            by_bot=by_bot,
            own=own,
            addressed=direct or mentions or speech.is_for_us(text),
            only_mention=mentions and not spoken,
            files=self._attachments.of(message.get("files") or (), place.workspace),
            quoted=speech.quoted_in(message, installed.user),
        )

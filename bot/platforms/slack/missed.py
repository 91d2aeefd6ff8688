"""Passes Slack messages from a connection gap to the core."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from bot.errors import BotError, DatabaseUnreachableError, DeliveryError
from bot.platforms.base import Incoming
from bot.platforms.messages import PastMessage
from bot.platforms.slack.answers import Recipient
from bot.platforms.slack.history import person_of
from bot.platforms.slack.visits import SlackReceiver
from bot.values import Place

log = logging.getLogger(__name__)

#: The least time between two places, in seconds: Slack accepts 50 such requests a minute.
PAUSE_SECONDS = 1.3


class SlackCatchUp:
    """The Slack connection as `CatchUp` uses it.

    Args:
        receiver: The shared dependencies of the handlers.
        connected: Returns True if events arrive now.
    """

    listener = "slack"

    def __init__(self, receiver: SlackReceiver, connected: Callable[[], Awaitable[bool]]) -> None:
        self._receiver = receiver
        self._connected = connected

    async def connected(self) -> bool:
        """Return True if events arrive now."""
        return await self._connected()

    def with_news(self, places: Sequence[Place], since: datetime) -> list[Place]:
        """Return all places: Slack does not report the time of the last message of a place."""
        return list(places)

    async def receive_missed(self, message: PastMessage) -> bool:
        """Handle a message for the bot, unless it was received already.

        Returns:
            True if the message has a turn; False for a command, a refused or an empty message.

        Raises:
            DatabaseUnreachableError: The installation of the workspace cannot be read now.
            BotError: The message could not be stored.
        """
        receiver, place = self._receiver, message.place
        key = (message.event_id, True)
        if not (message.text or message.files or message.quoted or message.only_mention):
            return False
        if not receiver.reception.first(key):
            return True
        try:
            installed = await receiver.clients.installed(place.workspace)
        except DeliveryError as error:
            # The installations are in the database: the whole gap is read again later.
            receiver.reception.forget(key)
            raise DatabaseUnreachableError(str(error)) from error
        if installed is None or receiver.reception.refusal(
            person_of(message, installed), place.channel
        ):
            return False
        incoming = Incoming(
            event_id=message.event_id,
            user=message.author,
            user_name=message.author_name,
            place=place,
            text=message.text,
            files=message.files,
            quoted=message.quoted,
            said_at=message.sent_at,
            only_mention=message.only_mention,
        )
        try:
            reply = await receiver.inbound.receive(incoming)
        except BotError:
            receiver.reception.forget(key)
            raise
        if reply is not None and not reply.refused:
            recipient = Recipient(place=place, account=message.author.account)
            await receiver.outlet.answers.give(recipient, reply)
        return reply is None

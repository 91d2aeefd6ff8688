"""Looks up and caches the names of Slack users."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable

from slack_sdk.web.async_client import AsyncWebClient

from bot.agent.sanitizer import one_line
from bot.errors import DeliveryError
from bot.platforms.slack.people import SlackUser
from bot.platforms.slack.sending import Sender
from bot.values import Json

log = logging.getLogger(__name__)

#: Time to live of a cached name, and time before the retry of a failed lookup, in seconds.
CACHE_SECONDS, RETRY_SECONDS = 3_600.0, 60.0
MAX_CACHED_NAMES = 5_000
#: Timeout of the lookup of a name, in seconds.
ASK_SECONDS = 1.0
LONGEST_NAME = 80


class Names:
    """Provides the names of users; falls back to the account's id.

    Args:
        sender: Makes requests to Slack.
        monotonic: A monotonic clock in seconds.
    """

    def __init__(self, sender: Sender, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._sender = sender
        self._now = monotonic
        self._names: OrderedDict[tuple[str, str], tuple[str, float]] = OrderedDict()

    async def of(self, user: SlackUser) -> str:
        """Return the name of a user, within `ASK_SECONDS`. Never raises."""
        key = (user.workspace, user.account)
        name, until = self._names.get(key, ("", 0.0))
        if self._now() < until:
            return name
        asked = await self._ask(user)
        seconds = CACHE_SECONDS if asked else RETRY_SECONDS
        self._names[key] = (asked or name or user.account, self._now() + seconds)
        self._names.move_to_end(key)
        if len(self._names) > MAX_CACHED_NAMES:
            self._names.popitem(last=False)
        return self._names[key][0]

    async def _ask(self, user: SlackUser) -> str:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                answer = await self._sender.ask(
                    user.workspace, AsyncWebClient.users_info, user=user.account
                )
        except (DeliveryError, TimeoutError) as error:
            log.info("The name of %s is not known: %s", user.account, error or "no answer")
            return ""
        found: Json = answer.get("user") or {}
        profile: Json = found.get("profile") or {}
        names = (profile.get("display_name"), found.get("real_name"), found.get("name"))
        lines = (one_line(str(name or ""), LONGEST_NAME) for name in names)
        return next((line for line in lines if line), "")

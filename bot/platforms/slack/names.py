"""What people on Slack are called: asked once, and kept for a while."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable

from bot.agent.sanitizer import one_line
from bot.errors import DeliveryError
from bot.platforms.slack.people import Person
from bot.platforms.slack.sending import Sender
from bot.values import Json

log = logging.getLogger(__name__)

#: How long a name is believed, and for how long one that Slack did not give is not asked for again.
KEPT_SECONDS, NOT_GIVEN_SECONDS = 3_600.0, 60.0
KEPT_NAMES = 5_000
#: A name is worth no more waiting than this.
ASK_SECONDS = 1.0
LONGEST_NAME = 80


class Names:
    """Knows names; whoever has none is called by their account's id.

    Args:
        sender: Asks Slack.
        monotonic: A clock in seconds that never goes back.
    """

    def __init__(self, sender: Sender, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._sender = sender
        self._now = monotonic
        self._names: OrderedDict[tuple[str, str], tuple[str, float]] = OrderedDict()

    async def of(self, person: Person) -> str:
        """Return what a person is called. Never raises, and never takes long."""
        key = (person.workspace, person.account)
        name, until = self._names.get(key, ("", 0.0))
        if self._now() < until:
            return name
        asked = await self._ask(person)
        seconds = KEPT_SECONDS if asked else NOT_GIVEN_SECONDS
        self._names[key] = (asked or name or person.account, self._now() + seconds)
        self._names.move_to_end(key)
        if len(self._names) > KEPT_NAMES:
            self._names.popitem(last=False)
        return self._names[key][0]

    async def _ask(self, person: Person) -> str:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                answer = await self._sender.ask(
                    person.workspace, lambda client: client.users_info(user=person.account)
                )
        except (DeliveryError, TimeoutError) as error:
            log.info("The name of %s is not known: %s", person.account, error or "no answer")
            return ""
        user: Json = answer.get("user") or {}
        profile: Json = user.get("profile") or {}
        names = (profile.get("display_name"), user.get("real_name"), user.get("name"))
        lines = (one_line(str(name or ""), LONGEST_NAME) for name in names)
        return next((line for line in lines if line), "")

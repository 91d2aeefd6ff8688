"""The length of a reply that an earlier process began: drafts never make it shorter."""

import logging
import sys
from collections.abc import Awaitable, Callable

from bot.errors import DeliveryError

log = logging.getLogger(__name__)


class ShownBefore:
    """Compares drafts with what the message of a resumed reply shows.

    A resumed step begins its text anew. Until that is as long as what users have read already, its
    drafts would take words away from them.

    Args:
        read: Returns the text of the message; `None` for a reply that is new.
    """

    def __init__(self, read: Callable[[], Awaitable[str]] | None) -> None:
        self._read = read
        self._length = 0

    async def is_longer_than(self, draft: str) -> bool:
        """Return whether a draft would shorten the message, as far as it can be read."""
        if self._read is not None:
            read, self._read = self._read, None
            try:
                self._length = len(await read())
            except DeliveryError as error:
                log.info("A resumed reply shows no drafts: %s", error)
                self._length = sys.maxsize
        if len(draft) < self._length:
            return True
        self._length = 0
        return False

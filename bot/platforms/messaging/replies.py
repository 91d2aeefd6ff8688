"""Keeps drafts from shortening a reply that an earlier process began."""

import logging
import sys
from collections.abc import Awaitable, Callable

from bot.errors import DeliveryError

log = logging.getLogger(__name__)


class ResumedText:
    """Compares drafts with the visible text of a resumed reply.

    A resumed step begins its text anew. Until that text is as long as the visible text, a draft
    would remove words that users have read already.

    Args:
        read: Returns the text of the message; `None` for a new reply.
    """

    def __init__(self, read: Callable[[], Awaitable[str]] | None) -> None:
        self._read = read
        self._length = 0

    async def is_longer_than(self, draft: str) -> bool:
        """Return True if a draft would shorten the message, or if the message cannot be read."""
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

"""Updates one message during work: edits the message, or replaces it by a new message."""

import logging
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from bot.errors import DeliveryError
from bot.platforms.base import OnBegun

log = logging.getLogger(__name__)

DraftT = TypeVar("DraftT")


class LiveMessage(ABC, Generic[DraftT]):
    """A message that is edited during work, or replaced if it can no longer be edited.

    Args:
        message_id: The id of a message from before a restart; empty for none.
        begun: See below.

    Attributes:
        message_id: The id of the message; empty until the message exists.
        begun: Called with the id of each message that is posted.
    """

    def __init__(self, message_id: str, begun: OnBegun) -> None:
        self.message_id = message_id
        self.begun = begun

    def adopt(self, message_id: str) -> None:
        """Continue with a message that exists from now on."""
        self.message_id = message_id
        self.begun(message_id)

    async def show(self, draft: DraftT, *, final: bool = False) -> None:
        """Edit the message; post a new message if there is none or it cannot be edited.

        Args:
            draft: The new content.
            final: No later content follows, so an edit must not wait long for a rate limit.

        Raises:
            DeliveryError: The platform does not accept the message; if permanent, it never will.
        """
        refused = await self.edit(draft, final=final) if self.message_id else None
        if refused is None and self.message_id:
            return
        old = self.message_id
        self.adopt(await self.post(draft))
        if refused is None:
            return
        log.info("Message %s was posted anew: %s", old, refused)
        if self.still_shown(refused):
            try:
                await self.delete(old)
            except DeliveryError as error:
                log.info("The old message %s was not deleted: %s", old, error)

    @abstractmethod
    async def text(self) -> str:
        """Return the visible text of the message.

        Raises:
            DeliveryError: The message cannot be read.
        """

    @abstractmethod
    async def post(self, draft: DraftT) -> str:
        """Post a message and return its id.

        Raises:
            DeliveryError: The message was not accepted.
        """

    @abstractmethod
    async def edit(self, draft: DraftT, *, final: bool) -> DeliveryError | None:
        """Edit the message; return the error if it can no longer, or not soon enough, be edited.

        Raises:
            DeliveryError: The edit may succeed later.
        """

    @abstractmethod
    def still_shown(self, refused: DeliveryError) -> bool:
        """Return True if a message exists although its edit was refused."""

    @abstractmethod
    async def delete(self, message_id: str) -> None:
        """Delete an earlier message.

        Raises:
            DeliveryError: The message was not deleted.
        """

"""Replaces the outlet of a platform that cannot be reached yet."""

import asyncio
from typing import Any

from bot.errors import DeliveryError
from bot.platforms.base import Confirmation, Outlet, ReplyStream

NOT_OPEN = "That platform cannot be reached yet; I try again later."


async def _refuse(*_: Any, **__: Any) -> Any:
    """Fail, so that it is done later.

    Raises:
        DeliveryError: Always.
    """
    raise DeliveryError(NOT_OPEN)


async def _do_nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


class PendingOutlet:
    """The outlet of a platform that is not open yet; the platform's own outlet replaces it.

    Replies and announcements fail, so that they are delivered later, and questions wait.

    Args:
        platform: The key of the platform, as in `Place`.
    """

    #: Not known yet: they are sent later.
    takes_files = True
    membership = announce = post = send_files = history = linked = search = staticmethod(_refuse)
    acknowledge = answered = show_settlement = tell = staticmethod(_do_nothing)

    def __init__(self, platform: str) -> None:
        self.platform = platform
        self._outlet: asyncio.Future[Outlet] = asyncio.get_running_loop().create_future()

    def connect(self, outlet: Outlet) -> None:
        """Ask the questions that wait through the platform's own outlet."""
        self._outlet.set_result(outlet)

    async def ask(self, confirmation: Confirmation) -> str:
        """Ask the owner a question, once the platform is open.

        Raises:
            DeliveryError: The owner cannot be asked; the answer is then no.
        """
        outlet = await asyncio.shield(self._outlet)
        return await outlet.ask(confirmation)

    def open_reply(self, *_: Any, **__: Any) -> ReplyStream:
        """Return a reply whose text is delivered later."""
        return _Undeliverable()

    def show_card(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


class _Undeliverable:
    """A reply on a platform that cannot be reached."""

    finish, abandon = staticmethod(_refuse), staticmethod(_do_nothing)

    def update(self, text: str) -> None:
        """Show nothing."""

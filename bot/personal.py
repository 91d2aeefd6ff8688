"""The port to personal data that a skill keeps outside of the database (pure)."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from bot.values import Identity

#: Ends the access of a user to a service, before the user's data is deleted here. The module
#: `leaving` of a skill's package has a function `leaving(config, database, now)` that returns one.
Leave = Callable[[Identity], Awaitable[None]]


class PersonalStore(Protocol):
    """Files of users that a skill keeps. Its methods block: call them in a thread.

    The module `personal` of a skill's package has a function `personal(config)` that returns one.
    """

    def files(self, user: Identity) -> Iterator[tuple[str, bytes | None]]:
        """Yield the path and the content of each file of a user; `None` for an unreadable one."""

    def delete(self, user: Identity) -> None:
        """Delete all files of a user, with their former versions; repeated, it does nothing."""

    def delete_sent(self, owner: str, name: str, content: bytes) -> None:
        """Delete the copy of a file that a user sent to a place; a copy that changed stays.

        Args:
            owner: The key of the place: see `Place.files_key`.
            name: The name of the file.
            content: The content that was sent.
        """

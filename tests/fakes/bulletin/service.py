"""A bulletin board in memory: the stand-in for the SDK of a fourth platform."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.fakes.patience import PATIENCE_SECONDS


class GoneError(Exception):
    """The channel or the post does not exist."""


@dataclass(slots=True)
class Post:
    """A post in a channel."""

    author: str
    text: str
    buttons: tuple[str, ...] = ()
    marks: set[str] = field(default_factory=set)


class Bulletin:
    """The service: channels with posts, in order.

    Attributes:
        on_post: Called with channel, id and post when a user posts.
    """

    def __init__(self, *channels: str) -> None:
        self.channels: dict[str, dict[str, Post]] = {name: {} for name in channels}
        self.on_post: Callable[[str, str, Post], Coroutine[Any, Any, None]] | None = None
        self.changed = asyncio.Event()
        self._ids = count(1)

    def subscribe(
        self, handler: Callable[[str, str, Post], Coroutine[Any, Any, None]] | None
    ) -> None:
        """Deliver the events of users to a handler; to none if `None`."""
        self.on_post = handler
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds of the board."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def direct(self, account: str) -> str:
        """Return the channel of the direct messages with a user."""
        self.channels.setdefault(f"@{account}", {})
        return f"@{account}"

    def post(self, channel: str, author: str, text: str, buttons: tuple[str, ...] = ()) -> str:
        """Add a post and return its id."""
        if channel not in self.channels:
            raise GoneError(channel)
        message_id = str(next(self._ids))
        self.channels[channel][message_id] = Post(author, text, buttons)
        self.changed.set()
        return message_id

    async def say(self, channel: str, author: str, text: str) -> str:
        """Post as a user, and deliver the event."""
        message_id = self.post(channel, author, text)
        if self.on_post is not None:
            await self.on_post(channel, message_id, self.channels[channel][message_id])
        return message_id

    def at(self, channel: str, message_id: str) -> Post:
        """Return a post."""
        try:
            return self.channels[channel][message_id]
        except KeyError:
            raise GoneError(message_id) from None

    def edit(self, channel: str, message_id: str, text: str, buttons: tuple[str, ...]) -> None:
        """Replace the content of a post."""
        post = self.at(channel, message_id)
        post.text, post.buttons = text, buttons
        self.changed.set()

"""What can be shown, and what a person looks at."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bot.platforms.base import Announcement, CommandReply, Confirmation, RunCard
from bot.values import Identity, RunStatus


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply, whole.

    Attributes:
        failed: The turn failed, and the text says why.
    """

    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """A short thing said to the person, in Markdown."""

    text: str


@dataclass(frozen=True, slots=True)
class Typed:
    """What a person typed, shown above once it was sent."""

    user: Identity
    text: str


#: Everything that can be shown for good. A `RunCard` among these is that of a run that ended.
Said = Answer | Note | Typed | Announcement | CommandReply | Confirmation | RunCard


class Surface(Protocol):
    """What the person looks at: a screen, or a pipe.

    Attributes:
        can_ask: Whether somebody is there to answer a question.
    """

    can_ask: bool

    def show(self, said: Said, as_shown: Callable[[], None] | None = None) -> asyncio.Future[None]:
        """Show something for good; what is returned is done when it can be read.

        Args:
            said: What to show.
            as_shown: Called in the moment it appears, before anything is drawn again.

        Returns:
            A future that ends in a `DeliveryError` when it cannot be shown any more.
        """
        ...

    def card_moved(self, card: RunCard, before: RunStatus | None) -> None:
        """Show a card's newest state; `before` is the state shown so far, `None` for a new card."""
        ...

    def moved(self) -> None:
        """Know that something in the room has changed."""
        ...

    def person_changed(self, user: Identity) -> None:
        """Know who is at the prompt from now on."""
        ...

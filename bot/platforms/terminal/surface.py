"""The items that the terminal can show, and the port to its output: a screen or a pipe."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bot.platforms.base import Announcement, CommandReply, Confirmation, RunCard
from bot.values import Identity, RunStatus


@dataclass(frozen=True, slots=True)
class FinalReply:
    """A complete reply.

    Attributes:
        failed: Whether the turn failed; the text then gives the reason.
    """

    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """A short note to the user, in Markdown."""

    text: str


@dataclass(frozen=True, slots=True)
class TypedLine:
    """A line that the user sent, shown above the prompt."""

    user: Identity
    text: str


#: All items that can be printed permanently. A `RunCard` is printed when its run has ended, on a
#: pipe at each new status.
Printable = FinalReply | Notice | TypedLine | Announcement | CommandReply | Confirmation | RunCard


class Surface(Protocol):
    """The output that the user sees: a screen or a pipe.

    Attributes:
        can_ask: Whether a user can answer questions here.
    """

    can_ask: bool

    def show(
        self, item: Printable, as_shown: Callable[[], None] | None = None
    ) -> asyncio.Future[None]:
        """Print an item permanently.

        Args:
            item: The item.
            as_shown: Called when the item appears, before the live region is redrawn.

        Returns:
            A future that is done when the item is visible; it raises a `DeliveryError` if the item
            cannot be shown.
        """

    def card_moved(self, card: RunCard, before: RunStatus | None) -> None:
        """Show a run's newest card; `before` is the status shown so far, `None` for a new card."""

    def moved(self) -> None:
        """Handle a change of the terminal's state."""

    def user_changed(self, user: Identity) -> None:
        """Handle a change of the user at the prompt."""

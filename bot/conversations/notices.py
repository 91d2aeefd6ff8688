"""Sends signals to a place in the background: received, answered, a short text to one user."""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.platforms.base import Outlet
from bot.tasks import Tasks
from bot.values import Identity, Place


@dataclass(frozen=True, slots=True)
class Notices:
    """Sends signals in the background; does nothing for a platform without an outlet here."""

    outlets: Mapping[str, Outlet]
    tasks: Tasks

    def acknowledge(self, place: Place) -> None:
        """Show in a place that the message was received."""
        if outlet := self.outlets.get(place.platform):
            self.tasks.start(outlet.acknowledge(place), name="acknowledge")

    def answered(self, place: Place) -> None:
        """Remove the sign that the message waits for an answer."""
        if outlet := self.outlets.get(place.platform):
            self.tasks.start(outlet.answered(place), name="answered")

    def notify(self, place: Place, user: Identity, text: str) -> None:
        """Send a short text to one user in a place."""
        if outlet := self.outlets.get(place.platform):
            self.tasks.start(outlet.tell(place, user, text), name="notify")

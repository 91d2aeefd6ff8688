"""The rule for slots: the caps, and the usage that they are compared with."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCaps:
    """Caps on the slots that runs hold at once."""

    per_user: int
    everyone: int

    def admit(self, running: int, running_global: int) -> bool:
        """Return True if both caps leave a slot for a user whose runs hold `running` slots."""
        return running < self.per_user and running_global < self.everyone


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUsage:
    """Usage from the tables at the moment of the decision, read in its transaction.

    Attributes:
        started_in_window: Runs this user started within the rate window, without refused ones; for
            a delegated task, the tasks that were delegated.
        oldest_in_window: Start of the first of these.
        running: Slots that this user's runs hold.
        queued: This user's runs that wait for a slot.
        running_global: Slots that the runs of all users hold.
    """

    started_in_window: int = 0
    oldest_in_window: datetime | None = None
    running: int = 0
    queued: int = 0
    running_global: int = 0

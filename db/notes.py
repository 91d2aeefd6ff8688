"""Notes that users asked the bot to store. `db.search` finds them by their words."""

from dataclasses import dataclass
from datetime import datetime

from db.tables import notes
from db.user_texts import UserTexts


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note of one user.

    Attributes:
        number: The number by which the user refers to it; 0 until it is stored.
    """

    id: str
    number: int = 0
    title: str
    text: str
    created_at: datetime

    @property
    def name(self) -> str:
        """The text by which a user recognises it."""
        return self.title or self.text


NOTES = UserTexts(Note, notes)

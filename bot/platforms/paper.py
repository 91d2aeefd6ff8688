"""Holds a text of any length as messages, or as a file if the messages are too many (pure)."""

from dataclasses import dataclass

#: Most messages in a row; more would annoy users, so a file replaces them.
MOST_PARTS = 5


@dataclass(frozen=True, slots=True)
class Paper:
    """A text of any length, split into messages.

    Attributes:
        parts: The messages; at least one.
        whole: The content of the file that is sent if the messages are too many.
        name: The name of the file.
    """

    parts: tuple[str, ...]
    whole: str
    name: str

    @property
    def long(self) -> bool:
        """True if a file replaces all messages but the first."""
        return len(self.parts) > MOST_PARTS

"""A text of any length in messages, or in a file when these would be too many (pure)."""

from dataclasses import dataclass

#: More messages than this in a row are a nuisance: a file takes their place.
MOST_PARTS = 5


@dataclass(frozen=True, slots=True)
class Paper:
    """A text of any length, in messages.

    Attributes:
        parts: The messages; there is at least one.
        whole: The text as it stands in the file, when these are too many.
        name: Of the file.
    """

    parts: tuple[str, ...]
    whole: str
    name: str

    @property
    def long(self) -> bool:
        """Whether a file takes the place of all messages but the first."""
        return len(self.parts) > MOST_PARTS

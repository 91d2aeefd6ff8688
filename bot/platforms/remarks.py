"""What a look at a platform finds: one line about one thing."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Remark:
    """One line about one thing.

    Attributes:
        good: `None` where nothing is wrong and nothing is there.
    """

    good: bool | None
    text: str

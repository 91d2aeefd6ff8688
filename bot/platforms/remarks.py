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


def reason_of(error: BaseException) -> str:
    """Return why something failed, for admins, where the error itself is worded for others.

    Returns:
        What was noted at the error, or what the system said; else its text without the advice.
    """
    if notes := getattr(error, "__notes__", ()):
        return "; ".join(notes)
    cause = error.__cause__ or error.__context__
    while cause is not None:
        # Some are only named, since users read them too.
        if isinstance(cause, OSError) and " " in str(cause):
            return str(cause)
        cause = cause.__cause__ or cause.__context__
    return str(error).partition(" Try ")[0].rstrip(".")

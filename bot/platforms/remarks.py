"""Defines the findings of a checkup, one line each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Remark:
    """One finding of a checkup.

    Attributes:
        good: Whether the check passed; `None` if the checked part is absent and not required.
    """

    good: bool | None
    text: str


def reason_of(error: BaseException) -> str:
    """Return the technical reason of a failure, for admins, since error texts are for users.

    Returns:
        The notes of the error, or the text of the system error behind it; else the text of the
        error without the advice.
    """
    if notes := getattr(error, "__notes__", ()):
        return "; ".join(notes)
    cause = error.__cause__ or error.__context__
    while cause is not None:
        # The text of some errors is a bare name, since users read it too.
        if isinstance(cause, OSError) and " " in str(cause):
            return str(cause)
        cause = cause.__cause__ or cause.__context__
    return str(error).partition(" Try ")[0].rstrip(".")

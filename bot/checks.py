"""The results of `check` and `doctor`, one line each."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

_MARKS = {True: "✓", False: "✗", None: "–"}


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    Attributes:
        good: Whether the part works; `None` if it is off, or not needed yet.
        subject: The checked part, in one or two words; empty where the caller names it.
    """

    good: bool | None
    text: str
    subject: str = ""

    def __str__(self) -> str:
        return f"{_MARKS[self.good]} {self.subject:<10} {self.text}"


def works(text: str, subject: str = "") -> Check:
    """Return the result of a check that passed."""
    return Check(good=True, text=text, subject=subject)


def fails(text: str, subject: str = "") -> Check:
    """Return the result of a check that failed."""
    return Check(good=False, text=text, subject=subject)


def is_off(text: str, subject: str = "") -> Check:
    """Return the result of a check on a part that is off, or not needed yet."""
    return Check(good=None, text=text, subject=subject)


def about(subject: str, checks: Iterable[Check]) -> list[Check]:
    """Return checks with the name of the part that they examined."""
    return [replace(each, subject=subject) for each in checks]


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


async def all_of(looks: Iterable[Coroutine[Any, Any, Check]]) -> list[Check]:
    """Carry out checks concurrently, and return their results in this order."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in looks]
    return [task.result() for task in tasks]


def some(ids: Sequence[str] | None, noun: str, *, none: str = "") -> str:
    """Return the number of ids in words; `None` admits all, and an empty list admits none."""
    if ids is None:
        return f"all {noun}s"
    if not ids:
        return none or f"no {noun}"
    return f"1 {noun}" if len(ids) == 1 else f"{len(ids)} {noun}s"

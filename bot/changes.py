"""The cause and the id of changes that can be undone (pure)."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from bot.values import Identity, Place

#: Note for the model, appended to the result of a call whose effect can be undone.
CAN_BE_UNDONE = "`/retinue undo` takes it back."

#: Text for the model instead of a change that requires the user's yes.
STORE_IS_FULL = (
    "The undo store is full of changes that can still be undone, and this would push some of them "
    "out. Make the call again, by itself: the user is then asked."
)

#: Characters of an id that hold its time, in µs.
_TIME = 14
#: Characters after the time that a user is shown, and fewest that a user must type.
_SHOWN, _TYPED = 6, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The call that changes something.

    Attributes:
        user_id: `Identity.key` of the user who owns the turn, run or command.
        work_id: The id of the turn, run or command.
        run_id: The id of the run; `None` for a turn or a command.
        undoes: The id of the change that this one undoes; empty for none.
    """

    user_id: str
    work_id: str
    run_id: str | None
    undoes: str = ""


def new_id(now: datetime, *, after: str = "") -> str:
    """Return an id for a change, greater than the id of the change before it."""
    time = max(int(now.timestamp() * 1_000_000), int(after[:_TIME], 16) + 1 if after else 0)
    return f"{time:0{_TIME}x}{secrets.token_hex(9)}"


def time_of(change_id: str) -> datetime:
    """Return the time of a change; the minimum time for an invalid id."""
    try:
        return datetime.fromtimestamp(int(change_id[:_TIME], 16) / 1_000_000, UTC)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)


def handle(change_id: str) -> str:
    """Return the part of an id that users see and type: the characters after its time."""
    return change_id[_TIME : _TIME + _SHOWN]


def is_meant(typed: str, change_id: str) -> bool:
    """Return True if `typed` denotes this change."""
    return len(typed) >= _TYPED and change_id[_TIME:].startswith(typed.lower())


@dataclass(frozen=True, slots=True)
class Undone:
    """The outcome of an undo.

    Attributes:
        id: The id of the change that it made, which can be undone itself; empty for none.
        failed: Whether nothing was restored.
    """

    text: str
    id: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnChange:
    """A change that a skill stored itself.

    Attributes:
        id: The id: see `new_id`.
        cause: The call that made it.
        undone: Whether it was undone already.
        names: The names of all things that it is about.
        what: The description for the user: a verb in the past, and names.
        undo: Undoes it, by the command of this id. Raises `BotError` if it cannot be undone; the
            text has the reason.
    """

    id: str
    cause: Cause
    undone: bool
    names: str
    what: str
    undo: Callable[[str], Awaitable[Undone]]


class ChangeStore(Protocol):
    """Stores the changes of a skill that can be undone."""

    async def changes(self, user: Identity, place: Place | None) -> Sequence[OwnChange]:
        """Return a user's changes, newest first for each owner of what was changed.

        Args:
            user: The user.
            place: The place in which the user asks, if its users share a conversation.
        """

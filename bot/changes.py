"""Changes that can be undone: who made them, and how they are called (pure)."""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

#: For the model, behind the result of a call whose effect can be undone.
CAN_BE_UNDONE = "`/retinue undo` takes it back."

#: For the model, in place of a change that it may make only with the user's yes.
STORE_IS_FULL = (
    "The undo store is full of changes that can still be undone, and this would push some of them "
    "out. Make the call again, by itself: the user is then asked."
)

#: How many characters of an id are its time, in µs.
_TIME = 14
#: How many characters behind these a user is shown, and has to type at least.
_SHOWN, _TYPED = 6, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The call that changes something.

    Attributes:
        user_id: `Identity.key` of the user whose turn, run or command it is.
        work_id: The turn, the run or the command.
        run_id: The run; `None` for a turn or a command.
        undoes: The id of the change that this one takes back; empty for none.
    """

    user_id: str
    work_id: str
    run_id: str | None
    undoes: str = ""


def new_id(now: datetime, *, after: str = "") -> str:
    """Return an id for a change: greater than that of the change before it."""
    time = max(int(now.timestamp() * 1_000_000), int(after[:_TIME], 16) + 1 if after else 0)
    return f"{time:0{_TIME}x}{secrets.token_hex(9)}"


def time_of(change_id: str) -> datetime:
    """Return the time of a change; the beginning of time for what is no id."""
    try:
        return datetime.fromtimestamp(int(change_id[:_TIME], 16) / 1_000_000, UTC)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)


def handle(change_id: str) -> str:
    """Return the part of an id that users see and type: its beginning is the time."""
    return change_id[_TIME : _TIME + _SHOWN]


def is_meant(typed: str, change_id: str) -> bool:
    """Return whether a user means this change."""
    return len(typed) >= _TYPED and change_id[_TIME:].startswith(typed.lower())

"""What is said in the same words on every platform with buttons and messages (pure)."""

from typing import NamedTuple

from bot.values import RunStatus


class Look(NamedTuple):
    """How a state is shown: a mark and a word."""

    mark: str
    word: str


def look_of(status: RunStatus) -> Look:
    """Return how a state is shown."""
    match status:
        case RunStatus.QUEUED | RunStatus.ACCEPTED:
            return Look("⏳", str(status))
        case RunStatus.RUNNING:
            return Look("🔵", "running")
        case RunStatus.WAITING_APPROVAL | RunStatus.WAITING_INPUT:
            return Look("❓", "waiting for you")
        case RunStatus.COMPLETED:
            return Look("✅", "completed")
        case RunStatus.CANCELLED:
            return Look("⏹️", "stopped")
        case RunStatus.TIMEOUT:
            return Look("❌", "ran out of time")
        case _:
            return Look("❌", str(status).replace("_", " "))


def stop_watch(seconds: float) -> str:
    """Return a length of time as a stop watch shows it: `0:42`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

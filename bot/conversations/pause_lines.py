"""Texts about pauses: below every answer, and to a message that waits (pure)."""

from bot.agent.sanitizer import one_line
from bot.conversations.access import is_private
from bot.platforms.catalog import declared
from bot.values import Place
from db.pauses import Pause

KEPT = "⏸ {name} has paused {what}. Your message is kept, and is answered after the pause."
LEAVING = (
    "⏸ I am about to end for maintenance. Your message is kept, and is answered after the restart."
)


def pause_line(pause: Pause) -> str:
    """Return the line below an answer in the scope of a pause."""
    verb = "stopped and paused" if pause.killed else "paused"
    since = f"{pause.created_at:%d %b %H:%M} UTC"
    return f"⏸ {_name(pause)} {verb} {scope_text(pause)} ({since}): nothing new begins."


def kept_text(pause: Pause) -> str:
    """Return the answer to a message that begins nothing."""
    return KEPT.format(name=_name(pause), what=scope_text(pause, you=True))


def scope_text(pause: Pause, *, you: bool = False) -> str:
    """Return the scope of a pause in words.

    Args:
        pause: The pause.
        you: Whether the reader is the user of a pause of one user.
    """
    whose = "" if not pause.user_id else "your work" if you else "the work of this user"
    where = where_text(pause.place)
    if not where:
        return whose or "the whole bot"
    return f"{whose} in {where}" if whose else where


def where_text(place: Place) -> str:
    """Return the server or channel of a pause in words; empty for everywhere."""
    if not place.platform:
        return ""
    if not place.channel:
        return f"this {declared(place.platform).server_name}"
    return "this conversation" if is_private(place) else "this channel"


def _name(pause: Pause) -> str:
    return one_line(pause.name, 60) or "An admin"

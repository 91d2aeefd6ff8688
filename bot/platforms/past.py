"""Messages that a platform returns when it is asked, and their files and keys."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from bot.values import Identity, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A file that a person sent along with a message; not yet fetched.

    Attributes:
        media_type: As the platform names it (`image/png`); empty when it does not.
        size: In bytes, as the platform says.
        read: Fetches the content. Raises `DeliveryError` when the platform does not give it.
    """

    name: str
    media_type: str
    size: int
    read: Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Quoted:
    """Content of a message that its speaker did not write.

    Attributes:
        kind: `forwarded`, `replied_to`, `shared`, `link_preview`, `note` of the bot on a file, or
            `said_before`: what was said in the place while the bot was away.
    """

    kind: str
    text: str


def message_key(workspace: str, channel: str, message: str) -> str:
    """Return the event id of a message: the same whether it was delivered or fetched.

    Args:
        workspace: Empty where ids of channels are unique on the whole platform.
        channel: The channel or thread that holds the message.
        message: The platform's id of the message.
    """
    return f"message:{workspace}:{channel}:{message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastMessage:
    """A message that stands in a place, as the platform returns it when it is asked.

    Attributes:
        event_id: The same as that of the message when it was delivered: see `message_key`.
        place: Where it stands; `place.message` is its id.
        author: Its author; for a bot that is the bot's account.
        author_name: The name that the platform shows; empty where it tells none.
        sent_at: When the platform took it.
        by_bot: A bot, an app or the platform itself wrote it, and no user.
        own: This bot wrote it.
        addressed: It is a direct message to the bot, or mentions or answers it.
    """

    event_id: str
    place: Place
    author: Identity
    author_name: str
    text: str
    sent_at: datetime
    by_bot: bool = False
    own: bool = False
    addressed: bool = False
    files: tuple[Attached, ...] = ()
    quoted: tuple[Quoted, ...] = ()
    reply_to: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """What to read after a gap.

    Attributes:
        since: Read from then on: somewhat before the gap.
        heard_at: Until then everything was heard; what was said later may be missed.
        places: Where the bot talks, the latest first.
        most_places: How many of them to read.
        most_messages: How many of the newest messages to read in each.
    """

    since: datetime
    heard_at: datetime
    places: tuple[Place, ...]
    most_places: int
    most_messages: int

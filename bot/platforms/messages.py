"""Defines the messages that a platform returns on request, with their files and keys."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bot.values import Identity, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that a user attached to a message; not yet fetched.

    Attributes:
        media_type: The type that the platform reports (`image/png`); empty if it reports none.
        size: The size that the platform reports, in bytes.
        read: Fetches the content. Raises `DeliveryError` if the platform does not return it.
    """

    name: str
    media_type: str
    size: int
    read: Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Quoted:
    """Content of a message that its author did not write.

    Attributes:
        kind: `forwarded`, `replied_to`, `shared`, `link_preview`, `note` of the bot on a file, or
            `said_before`: messages in the place from the time when the bot was away.
    """

    kind: str
    text: str


#: The reactions that say something about a message: done, refused, in favour, against.
REACTIONS = ("✅", "❌", "👍", "👎")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastMessage:
    """A message of a place, as the platform returns it on request.

    Attributes:
        event_id: The same id as that of the delivered message: see `message_key`.
        place: The place of the message; `place.message` is its id.
        author: The author; for a bot the bot's account.
        author_name: The name that the platform shows; empty if it reports none.
        sent_at: The time at which the platform accepted the message.
        by_bot: The author is a bot, an app or the platform itself.
        own: The author is this bot.
        addressed: The message is a direct message to the bot, or mentions or answers the bot.
        only_mention: The message mentions the bot and contains nothing else.
        edited: Its author has edited it.
        reactions: The number of users who gave each of the reactions `REACTIONS`.
        channel_name: The name of its channel, of a message that was found elsewhere.
        link: The address of the message, of a message that was found elsewhere.
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
    only_mention: bool = False
    edited: bool = False
    files: tuple[Attachment, ...] = ()
    quoted: tuple[Quoted, ...] = ()
    reply_to: str = ""
    reactions: Mapping[str, int] = field(default_factory=dict)
    channel_name: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """The places to read after a gap, and the limits of the reading.

    Attributes:
        since: The time from which to read, with a margin before the gap.
        heard_at: The start of the gap: all earlier messages were received.
        places: The places of the bot's conversations, the latest first.
        most_places: The most places to read.
        most_messages: The most messages to read in each place; the newest are read.
    """

    since: datetime
    heard_at: datetime
    places: tuple[Place, ...]
    most_places: int
    most_messages: int

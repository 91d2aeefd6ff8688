"""Places messages in conversations with their authors, and begins the turn of the usual one."""

from datetime import datetime

from bot.agent.sanitizer import one_line
from bot.conversations.access import is_private
from bot.conversations.model_texts import stored_quotes
from bot.platforms.base import Incoming
from bot.platforms.messages import Quoted
from bot.values import ConversationMode, Identity, Role, new_sortable_id
from db import conversations, history, users
from db.conversations import Attribution
from db.database import Transaction
from db.turn_inbox import KnownConversation
from db.turns import Turn


def is_current(
    known: KnownConversation, incoming: Incoming, mode: ConversationMode, now: datetime
) -> bool:
    """Return True if a message changes nothing of its user and continues the conversation."""
    silent = mode.silence is not None and known.newest_at < now - mode.silence
    joined = known.number > 0 or not mode.shared
    return joined and not silent and known.name == users.as_stored(incoming.user_name)


async def conversation_of(
    tx: Transaction,
    incoming: Incoming,
    known: KnownConversation | None,
    mode: ConversationMode,
    now: datetime,
) -> tuple[str, Attribution]:
    """Return the conversation of a message, and its author; open and store what is missing."""
    user, place = incoming.user, incoming.place
    if known is not None:
        conversation_id, overheard = known.conversation_id, known.overheard
        number, name = (known.number, known.shown_name) if mode.shared else (0, "")
    else:
        await users.ensure_user(tx, user, incoming.user_name, now)
        conversation_id = await conversations.find_or_open(tx, user, place, now, mode)
        overheard, number, name = bool(place.message), 0, ""
        if mode.shared:
            number, name = await join(tx, conversation_id, user, incoming.user_name)
    if overheard and not is_private(place):
        await conversations.unhear(tx, conversation_id, place.message)
    return conversation_id, attribution(incoming, number, name)


def begun(
    known: KnownConversation,
    incoming: Incoming,
    role: Role,
    mode: ConversationMode,
    message_id: str,
    now: datetime,
) -> Turn:
    """Return the turn of a message in a free conversation, in its first attempt."""
    return Turn(
        id=new_sortable_id(),
        conversation_id=known.conversation_id,
        user=incoming.user,
        user_name=known.name,
        place=incoming.place,
        message_id=message_id,
        status="running",
        kind="message",
        role=role,
        attempt=1,
        crashes=0,
        reply_message_id="",
        stop_requested_at=None,
        created_at=now,
        sent_at=incoming.said_at,
        model=known.model,
        shared=mode.shared,
        number=known.number,
        looked_at=known.looked_at,
        seen_id=max(message_id, known.newest, known.read) if mode.shared else "",
    )


async def join(tx: Transaction, conversation_id: str, user: Identity, name: str) -> tuple[int, str]:
    """Return the number and the shown name of a user whose words a conversation holds."""
    shown = one_line(name, history.NAME_LENGTH)
    return await history.join(tx, conversation_id, user.key, shown)


def attribution(incoming: Incoming, number: int = 0, name: str = "") -> Attribution:
    """Return the author of a message, by number and name in a shared conversation."""
    return Attribution(
        author=incoming.user.key,
        author_number=number,
        author_name=name,
        reference=incoming.place.message,
        reply_to=incoming.reply_to,
        said_at=incoming.said_at,
    )


async def put_overheard(
    tx: Transaction,
    conversation_id: str,
    incoming: Incoming,
    *,
    by_bot: bool,
    now: datetime,
    sorted_at: datetime | None = None,
) -> None:
    """Store a message as context in a conversation, with its author and the names of its files.

    Args:
        tx: The transaction.
        conversation_id: The conversation.
        incoming: The message.
        by_bot: Whether another bot wrote it.
        now: The time.
        sorted_at: The time by which it is sorted among the others; `None` for now.
    """
    files = [Quoted("note", f"attached: {each.name}") for each in incoming.files]
    number, name = await join(tx, conversation_id, incoming.user, incoming.user_name)
    await conversations.say(
        tx,
        conversation_id,
        role="bot" if by_bot else "user",
        text=incoming.text,
        now=now,
        quoted=stored_quotes([*incoming.quoted, *files]),
        foreign=True,
        by=attribution(incoming, number, name),
        overheard=True,
        sorted_at=sorted_at,
    )

"""Queries on conversations, their messages, and the files of these."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime

from sqlalchemy import ColumnElement, bindparam, false, func, insert, select

from bot.platforms.catalog import declared
from bot.values import PERSONAL, ConversationMode, Identity, Json, Place, new_sortable_id
from db.database import Transaction
from db.rows import RowMapper, change, has_row, insert_new, is_at, place_columns, remove
from db.tables import conversations, messages, participants, seen_events

_INSERT = insert(messages)
_RESULT = ("id", "role", "text", "run_id", "foreign_content", "created_at")
_ROUTE = ("channel", "place_workspace", "place_channel", "place_thread")

_HOLD = (
    select(conversations.c.id)
    .where(conversations.c.id == bindparam("b_conversation"))
    .with_for_update(read=True, key_share=True)
)
_INSERT_RESULT = insert(messages).from_select(
    ["conversation_id", *_RESULT],
    _HOLD.add_columns(*(bindparam(f"b_{name}", type_=messages.c[name].type) for name in _RESULT)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message in a conversation.

    Attributes:
        role: `user`, `bot` (another bot), `assistant`, `result`, `reset`: earlier messages are
            ignored, or `summary`: it stands for the earlier messages.
        text: For a user's message, the user's own words.
        turn_id: For an answer, its turn; for a user's message, the turn that read it at a step.
        author_number: The number of the participant who wrote it; 0 in a personal conversation.
        reference: The platform's id of the message; empty if unknown.
        reply_to: The platform's id of the message that it answers; empty for none.
        said_at: When it was sent, if that was before the bot received it.
        quoted: Content by others that came with the message: `kind` and `text` of each.
        foreign: Whether it has content that neither the user nor the bot wrote.
        sort_id: The id of the message behind which it stands in the history, or its own.
    """

    id: str
    role: str
    text: str
    run_id: str | None
    created_at: datetime
    turn_id: str | None = None
    author: str = ""
    author_number: int = 0
    author_name: str = ""
    reference: str = ""
    reply_to: str = ""
    said_at: datetime | None = None
    quoted: tuple[Json, ...] = ()
    foreign: bool = False
    sort_id: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The author of a message, and its identification on the platform: see `StoredMessage`."""

    author: str = ""
    author_number: int = 0
    author_name: str = ""
    reference: str = ""
    reply_to: str = ""
    said_at: datetime | None = None


NOBODY = Attribution()


MESSAGES = RowMapper(
    StoredMessage,
    messages,
    others={"foreign": messages.c.foreign_content, "sort_id": messages.c.id},
    convert={"quoted": lambda quoted: tuple(quoted or ())},
)


async def is_new_event(tx: Transaction, platform: str, event_id: str, now: datetime) -> bool:
    """Store an event; `False` if it was stored before, so that it is handled only once."""
    event = {"platform": platform, "event_id": event_id, "created_at": now}
    return await insert_new(tx, seen_events, event)


async def find(
    tx: Transaction, user: Identity, place: Place, mode: ConversationMode = PERSONAL
) -> str | None:
    """Return the id of the open conversation of a user in a place, or of the shared one."""
    which = _of(user, place, shared=mode.shared)
    found: str | None = await tx.scalar(
        select(conversations.c.id).where(*which, conversations.c.closed_at.is_(None))
    )
    return found


def _of(user: Identity, place: Place, *, shared: bool) -> list[ColumnElement[bool]]:
    """Return the conditions for the conversations of a place, closed ones included."""
    here = is_at(conversations, place, *_ROUTE)
    if shared:
        return [conversations.c.shared, *here]
    return [conversations.c.user_id == user.key, ~conversations.c.shared, *here]


async def open_at(tx: Transaction, place: Place, *, shared: bool) -> list[str]:
    """Return the ids of the open conversations of a place: the shared one, or those of users."""
    here = is_at(conversations, place, *_ROUTE)
    kind = conversations.c.shared if shared else ~conversations.c.shared
    query = select(conversations.c.id).where(*here, kind, conversations.c.closed_at.is_(None))
    return [*await tx.scalars(query.order_by(conversations.c.id))]


async def find_or_open(
    tx: Transaction,
    user: Identity,
    place: Place,
    now: datetime,
    mode: ConversationMode = PERSONAL,
) -> str:
    """Return the id of the open conversation of a place; open one if there is none.

    Args:
        tx: The transaction.
        user: The user who speaks.
        place: The place.
        now: The time.
        mode: The mode of the place.
    """
    shared, silent = mode.shared, False
    found = await find(tx, user, place, mode)
    if found and await hold(tx, found):
        silent = mode.silence is not None and await _newest_at(tx, found) < now - mode.silence
        if not silent:
            return found
        await close(tx, found, now)
    # The mode of the place has changed: both conversations would be open.
    await change(
        tx,
        conversations,
        *_of(user, place, shared=not shared),
        conversations.c.closed_at.is_(None),
        closed_at=now,
    )
    # What was said before `/new` is not read again.
    read = not silent and await has_row(tx, conversations, *_of(user, place, shared=shared))
    opened = {"id": new_sortable_id(), "user_id": user.key, "created_at": now, "shared": shared}
    opened |= {"looked_at": now if read else None, **place_columns(place)}
    await insert_new(tx, conversations, opened)
    found = await find(tx, user, place, mode)
    if found is None:
        raise LookupError("a conversation was closed while it was opened")
    return found


async def _newest_at(tx: Transaction, conversation_id: str) -> datetime:
    """Return the time of the newest message of a conversation, or of its opening."""
    newest = (
        select(messages.c.created_at)
        .where(messages.c.conversation_id == conversation_id)
        .order_by(messages.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    query = select(func.coalesce(newest, conversations.c.created_at))
    found: datetime = await tx.scalar(query.where(conversations.c.id == conversation_id))
    return found


async def hold(tx: Transaction, conversation_id: str) -> bool:
    """Lock a conversation against deletion until the commit; `False` if it does not exist."""
    return await tx.scalar(_HOLD, {"b_conversation": conversation_id}) is not None


async def last_word(tx: Transaction, user: Identity, place: Place) -> datetime | None:
    """Return the time of the last message between a user and the bot, in a personal conversation.

    A conversation that `/new` has closed counts until its closing: the next message there may need
    no mention either.
    """
    last_message = (
        select(messages.c.created_at)
        .where(messages.c.conversation_id == conversations.c.id, ~messages.c.overheard)
        .order_by(messages.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    times = (conversations.c.closed_at, last_message, conversations.c.created_at)
    query = select(func.coalesce(*times)).where(*_of(user, place, shared=False))
    found: datetime | None = await tx.scalar(query.order_by(conversations.c.id.desc()).limit(1))
    return found


async def places(
    tx: Transaction, platform: str, *, since: datetime, limit: int = 2_000
) -> list[Place]:
    """Return the places where the bot is active, without messages, latest first.

    Direct messages with a conversation of any age; and threads and channels in which the bot has
    sent a message since the given time. For a thread, its channel is included.
    """
    route = [conversations.c[name] for name in _ROUTE]
    match declared(platform).direct:
        case None:
            direct: ColumnElement[bool] = false()
        case "":
            direct = conversations.c.place_workspace == ""
        case beginning:
            direct = conversations.c.place_channel.like(f"{beginning}%")
    said = (messages.c.role == "assistant") & (messages.c.created_at >= since)
    newest = func.max(func.coalesce(messages.c.created_at, conversations.c.created_at))
    rows = await tx.execute(
        select(*route)
        .outerjoin(messages, (messages.c.conversation_id == conversations.c.id) & said)
        .where(conversations.c.channel == platform, direct | messages.c.id.is_not(None))
        .group_by(*route)
        .order_by(newest.desc())
        .limit(limit)
    )
    found: dict[Place, None] = {}
    for row in rows:
        place = Place(*row)
        found.update(dict.fromkeys((place, replace(place, thread=""))))
    return list(found)


async def model_of(tx: Transaction, conversation_id: str, user: Identity) -> str:
    """Return the model that answers a user, as `provider/model`; empty for the default."""
    theirs = (participants.c.conversation_id == conversations.c.id) & (
        participants.c.author == user.key
    )
    found: str | None = await tx.scalar(
        select(func.coalesce(participants.c.model, conversations.c.model))
        .select_from(conversations.outerjoin(participants, theirs))
        .where(conversations.c.id == conversation_id)
    )
    return found or ""


async def choose_model(tx: Transaction, conversation_id: str, user: Identity, model: str) -> None:
    """Set the model that answers a user from the next turn on; empty for the default."""
    theirs = (
        participants.c.conversation_id == conversation_id,
        participants.c.author == user.key,
    )
    if not await change(tx, participants, *theirs, model=model):
        await change(tx, conversations, conversations.c.id == conversation_id, model=model)


async def close(tx: Transaction, conversation_id: str, now: datetime) -> None:
    """Close a conversation; its runs continue."""
    this = (conversations.c.id == conversation_id, conversations.c.closed_at.is_(None))
    await change(tx, conversations, *this, closed_at=now)


async def say(  # noqa: PLR0913 - the columns of a message
    tx: Transaction,
    conversation_id: str,
    *,
    role: str,
    text: str,
    now: datetime,
    turn_id: str | None = None,
    run_id: str | None = None,
    quoted: Sequence[Json] = (),
    foreign: bool = False,
    by: Attribution = NOBODY,
    overheard: bool = False,
    sorted_at: datetime | None = None,
) -> str:
    """Store a message and return its id, which sorts by `sorted_at`, by default now."""
    message_id = new_sortable_id(sorted_at)
    row = {
        **asdict(by),
        "id": message_id,
        "conversation_id": conversation_id,
        "role": role,
        "text": text,
        "turn_id": turn_id,
        "run_id": run_id,
        "quoted": list(quoted) or None,
        "foreign_content": foreign or bool(quoted),
        "overheard": overheard,
        "created_at": now,
    }
    await tx.execute(_INSERT, row)
    return message_id


async def say_result(
    tx: Transaction, conversation_id: str, run_id: str, text: str, now: datetime
) -> str:
    """Store the result of a run and return its id; nothing if the conversation does not exist."""
    message_id = new_sortable_id()
    row: Json = {"id": message_id, "role": "result", "text": text, "run_id": run_id}
    row |= {"foreign_content": True, "created_at": now}
    values = {"b_conversation": conversation_id, **{f"b_{key}": row[key] for key in _RESULT}}
    return message_id if (await tx.execute(_INSERT_RESULT, values)).rowcount else ""


async def requote(tx: Transaction, message_id: str, quoted: Sequence[Json]) -> None:
    """Replace the quoted content of a message, once its files were fetched."""
    await change(tx, messages, messages.c.id == message_id, quoted=list(quoted) or None)


async def unhear(tx: Transaction, conversation_id: str, reference: str) -> None:
    """Delete a message that was stored as context, since it is for the bot after all."""
    this = (messages.c.conversation_id == conversation_id, messages.c.reference == reference)
    await remove(tx, messages, *this, messages.c.overheard)


async def has(tx: Transaction, conversation_id: str, reference: str) -> bool:
    """Return True if a conversation holds the message with an id of the platform."""
    this = (messages.c.conversation_id == conversation_id, messages.c.reference == reference)
    return await has_row(tx, messages, *this, messages.c.reference != "")


async def references(tx: Transaction, conversation_id: str) -> set[str]:
    """Return the platform's ids of the messages that a conversation holds."""
    of = (messages.c.conversation_id == conversation_id, messages.c.reference != "")
    return {*await tx.scalars(select(messages.c.reference).where(*of))}


async def looked_at(tx: Transaction, conversation_id: str) -> datetime | None:
    """Return the time when the messages above the first mention were read."""
    query = select(conversations.c.looked_at).where(conversations.c.id == conversation_id)
    found: datetime | None = await tx.scalar(query)
    return found


async def mark_looked_at(tx: Transaction, conversation_id: str, now: datetime) -> None:
    """Record that the messages above the first mention were read."""
    await change(tx, conversations, conversations.c.id == conversation_id, looked_at=now)


async def get(tx: Transaction, message_id: str) -> StoredMessage | None:
    """Return a message."""
    return await MESSAGES.find_one(tx, messages.c.id == message_id)


async def user_texts(
    tx: Transaction, conversation_id: str, user: Identity, limit: int
) -> list[str]:
    """Return a user's last texts in a conversation, newest first, with their quoted content."""
    rows = await tx.execute(
        select(messages.c.text, messages.c.quoted)
        .where(
            messages.c.conversation_id == conversation_id,
            messages.c.role == "user",
            # Before version 0.2, messages had no author and conversations one user.
            messages.c.author.in_((user.key, "")),
        )
        .order_by(messages.c.id.desc())
        .limit(limit)
    )
    return [text for row in rows for text in (row.text, *(q["text"] for q in row.quoted or ()))]


async def text_of(tx: Transaction, message_id: str) -> str:
    """Return the text of a message; empty if the message does not exist."""
    found: str | None = await tx.scalar(select(messages.c.text).where(messages.c.id == message_id))
    return found or ""

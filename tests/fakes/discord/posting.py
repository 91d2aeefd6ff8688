"""Messages come to be, change and go: what Discord allows, and what it makes of them."""

import time
from dataclasses import dataclass, field
from typing import Any

from bot.values import Json
from tests.fakes.discord.payloads import reaction_json
from tests.fakes.discord.refusals import Refusal, invalid
from tests.fakes.discord.rules import (
    IN_ANSWERS,
    IN_MESSAGES,
    check_form,
    check_whole,
    numbered,
    pinged,
)
from tests.fakes.discord.things import (
    COMPONENTS_V2,
    HAS_THREAD,
    LOADING,
    THREAD_STARTER,
    Channel,
    File,
    Kind,
    Message,
    Pinged,
    User,
    bits,
)
from tests.fakes.discord.world import World

#: What may be set on a message by whoever sends it: no embeds, silent, components.
NO_EMBEDS, SILENT = 1 << 2, 1 << 12
#: The types of messages that somebody said; all others are Discord's own.
SAID = {0, 19, 20, 23}
MAY_SET = NO_EMBEDS | SILENT | COMPONENTS_V2


@dataclass(frozen=True, slots=True)
class Letter:
    """What is to become a message.

    Attributes:
        usual: Whom it may ping when its payload does not say.
        flags: Added to those of the payload.
        interaction: The id of the interaction that it answers; 0 for none.
        kind: Discord's type of the message; `None` follows from the payload.
    """

    author: User
    payload: Json
    files: dict[int, File] = field(default_factory=dict)
    usual: Json = field(default_factory=lambda: IN_MESSAGES)
    flags: int = 0
    interaction: int = 0
    kind: int | None = None


def send(world: World, channel: Channel, letter: Letter) -> Message:
    """Send a message of the bot by the REST API, or refuse."""
    if earlier := _by_nonce(world, letter.payload):
        return earlier
    check_form(letter.payload)
    _check_place(world, channel, letter)
    message = make(world, channel, letter)
    if letter.payload.get("nonce"):
        world.nonces[str(letter.payload["nonce"])] = (time.monotonic(), message)
    return deliver(world, message)


def deliver(world: World, message: Message) -> Message:
    """Put a message where it belongs, and tell the bot."""
    channel = message.channel
    if channel.archived:
        channel.archived = False
        world.tell_channel(channel, "THREAD_UPDATE")
    channel.messages[message.id] = message
    world.tell_message(message)
    return message


def make(world: World, channel: Channel, letter: Letter) -> Message:
    """Make a message without putting it anywhere, or refuse."""
    payload = letter.payload
    reference, answered = _reference(channel, payload)
    message = Message(
        world.new_id(),
        channel,
        letter.author,
        content=(payload.get("content") or "").strip(),
        kind=(19 if reference else 0) if letter.kind is None else letter.kind,
        flags=(payload.get("flags") or 0) & MAY_SET | letter.flags,
        components=numbered(payload.get("components") or []),
        embeds=payload.get("embeds") or [],
        attachments=attached(world, payload, letter.files),
        nonce=str(payload.get("nonce") or ""),
        allowed_mentions=payload.get("allowed_mentions"),
        reference=reference,
        interaction=letter.interaction,
    )
    check(message)
    message.pings = _pings(world, message, letter.usual, answered)
    message.mentions = _named(world, message.pings)
    message.history.append(message.text())
    return message


def check(message: Message) -> None:
    """Refuse a message that may not stand like that."""
    if not message.loading and message.kind in SAID:
        check_whole(
            message.content,
            message.embeds,
            message.components,
            message.attachments,
            message.flags,
        )


def amend(world: World, message: Message, payload: Json, files: dict[int, File]) -> None:
    """Edit a message, or refuse; what is not named stays."""
    check_form(payload)
    flags = message.flags & ~LOADING
    if payload.get("flags") is not None:
        # That a message is made of components can be set, and never again unset.
        flags = flags & ~NO_EMBEDS | payload["flags"] & (NO_EMBEDS | COMPONENTS_V2)
    edited = Message(message.id, message.channel, message.author, flags=flags)
    edited.content = _kept(payload, "content", message.content) or ""
    edited.embeds = _kept(payload, "embeds", message.embeds) or []
    edited.components = numbered(_kept(payload, "components", message.components) or [])
    edited.attachments = attached(world, payload, files, before=message.attachments)
    check(edited)
    edited.allowed_mentions = payload.get("allowed_mentions")
    usual = IN_ANSWERS if message.interaction else IN_MESSAGES
    marked = _pings(world, edited, usual, 0)
    message.edit_pings |= marked
    message.mentions = _named(world, marked)
    if message.loading:
        message.pings = marked
    for key in ("content", "embeds", "components", "attachments", "flags"):
        setattr(message, key, getattr(edited, key))
    message.edits += 1
    message.history.append(message.text())
    if not message.ephemeral:
        world.tell_message(message, "MESSAGE_UPDATE")
    world.touch()


def edit(world: World, message: Message, payload: Json, files: dict[int, File]) -> None:
    """Edit a message of the bot by the REST API, or refuse."""
    if message.author is not world.bot:
        raise Refusal(50005)
    if message.channel.archived:
        raise Refusal(50083)
    if message.channel.locked and not world.may(message.channel, "manage_threads"):
        raise Refusal(160005)
    if message.old:
        raise Refusal(30046, retry_after=world.old_edit_retry_after)
    amend(world, message, payload, files)


def remove(world: World, message: Message) -> None:
    """Delete a message."""
    message.deleted = True
    message.channel.messages.pop(message.id, None)
    if message.ephemeral:
        return
    data = {"id": str(message.id), "channel_id": str(message.channel.id)}
    if message.channel.guild:
        data["guild_id"] = str(message.channel.guild.id)
    world.tell("MESSAGE_DELETE", data, where=message.channel)


def react(world: World, message: Message, emoji: str, user: User, *, add: bool = True) -> None:
    """Give a message an emoji, or take it back."""
    users = message.reactions.setdefault(emoji, [])
    if add is (user.id in users):
        return
    (users.append if add else users.remove)(user.id)
    if not users:
        del message.reactions[emoji]
    data = {
        "user_id": str(user.id),
        "channel_id": str(message.channel.id),
        "message_id": str(message.id),
        "message_author_id": str(message.author.id),
        "emoji": reaction_json(emoji, users, world.bot)["emoji"],
        "burst": False,
        "type": 0,
    }
    if message.channel.guild:
        data["guild_id"] = str(message.channel.guild.id)
    name = "MESSAGE_REACTION_ADD" if add else "MESSAGE_REACTION_REMOVE"
    world.tell(name, data, where=message.channel)


def open_thread(
    world: World, parent: Channel, owner: User, payload: Json, start: Message | None = None
) -> Channel:
    """Open a thread below a channel; from a message it gets that message's id."""
    kind = Kind(payload.get("type", Kind.THREAD))
    if parent.kind is Kind.NEWS:
        kind = Kind.NEWS_THREAD
    thread = Channel(
        start.id if start else world.new_id(),
        kind,
        payload["name"],
        guild=parent.guild,
        parent=parent,
        owner=owner,
        auto_archive=payload.get("auto_archive_duration") or 1440,
    )
    world.channels[thread.id] = thread
    world.tell_channel(thread, "THREAD_CREATE", newly_created=True)
    if start:
        start.thread = thread
        start.flags |= HAS_THREAD
        world.tell_message(start, "MESSAGE_UPDATE")
        first = Message(
            world.new_id(), thread, start.author, kind=THREAD_STARTER, reference=start.id
        )
        deliver(world, first)
    return thread


def attached(
    world: World, payload: Json, files: dict[int, File], before: list[File] | None = None
) -> list[File]:
    """Return the files of a message: those before it that are kept, then the new ones."""
    too_large = any(len(file.content) > world.file_limit for file in files.values())
    if files and (world.refuse_files or too_large):
        raise Refusal(40005)
    named = payload.get("attachments")
    kept = before or []
    if named is not None:
        wanted = {str(each.get("id")) for each in named}
        kept = [file for file in kept if str(file.id) in wanted]
        for each in named:
            if (new := files.get(int(each.get("id", -1)))) is not None:
                new.name = each.get("filename") or new.name
                new.description = each.get("description") or ""
    for file in files.values():
        file.id = file.id or world.new_id()
        world.files[file.id] = file
    return [*kept, *files.values()]


def _by_nonce(world: World, payload: Json) -> Message | None:
    nonce = payload.get("nonce")
    if not nonce or not payload.get("enforce_nonce"):
        return None
    at, message = world.nonces.get(str(nonce), (0.0, None))
    return message if message and time.monotonic() - at < world.nonce_seconds else None


def _check_place(world: World, channel: Channel, letter: Letter) -> None:
    """Refuse what the bot may not say there."""
    if channel.recipient and channel.recipient.closed:
        raise Refusal(50007)
    if channel.kind in {Kind.CATEGORY, Kind.FORUM}:
        raise Refusal(50008)
    send_it = "send_messages_in_threads" if channel.kind.is_thread else "send_messages"
    needed = [send_it, "attach_files"] if letter.files else [send_it]
    if not world.may(channel, " ".join(needed)):
        raise Refusal(50013)
    if channel.locked and not world.may(channel, "manage_threads"):
        raise Refusal(160005)
    if letter.payload.get("message_reference") and not world.may(channel, "read_message_history"):
        raise Refusal(160002)


def _reference(channel: Channel, payload: Json) -> tuple[int, int]:
    """Return the id of the message answered and of its author."""
    reference = payload.get("message_reference")
    if not reference:
        return 0, 0
    answered = channel.messages.get(int(reference["message_id"]))
    if answered:
        if answered.kind not in SAID:
            text = "Cannot reply to a system message"
            raise invalid("message_reference", "REPLIES_CANNOT_REPLY_TO_SYSTEM_MESSAGE", text)
        return answered.id, answered.author.id
    if reference.get("fail_if_not_exists", True):
        raise invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
    return 0, 0


def _pings(world: World, message: Message, usual: Json, replied_to: int) -> set[Pinged]:
    found = pinged(message.texts(), message.allowed_mentions, usual=usual, replied_to=replied_to)
    guild = message.channel.guild
    if guild is None:
        return {each for each in found if each in world.users}
    may_ping_all = guild.permissions(message.author, message.channel) & bits("mention_everyone")
    if not may_ping_all:
        found.discard("everyone")
        barred = {role.id for role in guild.roles.values() if not role.mentionable}
        found -= barred
    return found


def _named(world: World, pings: set[Pinged]) -> list[User]:
    return [
        world.users[each] for each in sorted(map(int, pings - {"everyone"})) if each in world.users
    ]


def _kept(payload: Json, key: str, before: Any) -> Any:
    return payload.get(key, before)

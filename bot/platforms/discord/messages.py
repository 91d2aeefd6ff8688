"""Reads Discord's messages: text, quotations and files."""

import re
from dataclasses import replace
from functools import partial

import discord

from bot.agent.sanitizer import one_line
from bot.platforms.discord.people import identity_of
from bot.platforms.discord.settings import API_URL
from bot.platforms.messages import REACTIONS, Attachment, PastMessage, Quoted
from bot.platforms.messaging.attachments import FileHost
from bot.platforms.messaging.intake import message_key
from bot.values import Place

HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})
#: The types of messages that Discord did not write itself, as it writes that of a new member.
SAID = frozenset({discord.MessageType.default, discord.MessageType.reply})


def is_from_user(message: discord.Message) -> bool:
    """Return True if a user wrote the message: not a bot, a webhook or Discord itself."""
    return message.type in SAID and not message.author.bot and message.webhook_id is None


def is_from_bot(message: discord.Message, me: int) -> bool:
    """Return True if another bot or a webhook wrote the message."""
    return message.type in SAID and message.author.bot and message.author.id != me


def is_addressed(message: discord.Message, me: int) -> bool:
    """Return True for a direct message, a mention of the bot, or a reply to the bot."""
    if message.guild is None and isinstance(message.channel, discord.DMChannel):
        return True
    if any(user.id == me for user in message.mentions):
        return True
    role = message.guild.self_role if message.guild else None
    return (role is not None and role in message.role_mentions) or _answered(message) == me


def is_to_another(message: discord.Message, me: int) -> bool:
    """Return True if a message mentions anybody but the bot, or answers another user."""
    mentioned = {int(account) for account in re.findall(r"<@[!&]?(\d+)>", message.content)}
    answers_another = _answered(message) not in {None, me, message.author.id}
    return answers_another or message.mention_everyone or bool(mentioned - {me})


def text_of(message: discord.Message, me: discord.ClientUser | None) -> str:
    """Return the message text without mentions of the bot.

    Mentions at the ends are removed; mentions elsewhere become the bot's name.
    """
    if me is None:
        return message.content.strip()
    names = [f"<@{me.id}>", f"<@!{me.id}>"]
    if message.guild is not None and (role := message.guild.self_role) is not None:
        names.append(f"<@&{role.id}>")
    name = "|".join(map(re.escape, names))
    text = re.sub(rf"\A\s*(?:(?:{name})[\s,:]*)+", "", message.content)
    text = re.sub(rf"(?:\s*(?:{name}))+\s*\Z", "", text)
    return re.sub(name, lambda _: f"@{me.display_name}", text).strip()


def quoted_in(message: discord.Message, me: int, *, whole: bool = False) -> tuple[Quoted, ...]:
    """Return the quotes of a message: forwarded messages, and the message that it replies to.

    A replied-to message of the bot or the author is omitted, since the conversation contains it
    already. `whole` includes it, for a message without text of its own.
    """
    found = [Quoted("forwarded", each.content) for each in message.message_snapshots]
    replied_to = message.reference.resolved if message.reference else None
    is_reply = message.type is discord.MessageType.reply
    if is_reply and isinstance(replied_to, discord.Message):
        of_others = whole or replied_to.author.id not in {me, message.author.id}
        forwarded = [each.content for each in replied_to.message_snapshots]
        texts = [replied_to.content, *forwarded] if of_others else forwarded
        found += [Quoted("replied_to", text) for text in texts]
    return tuple(each for each in found if each.text.strip())


def _answered(message: discord.Message) -> int | None:
    """Return the id of the replied-to message's author; `None` if unknown or not a reply."""
    if message.type is not discord.MessageType.reply or message.reference is None:
        return None
    resolved = message.reference.resolved
    return resolved.author.id if isinstance(resolved, discord.Message) else None


def reply_to_of(message: discord.Message) -> str:
    """Return the id of the replied-to message; empty for none."""
    if message.type is not discord.MessageType.reply or message.reference is None:
        return ""
    return str(message.reference.message_id or "")


def store(api_url: str) -> FileHost:
    """Return the file store of Discord.

    Args:
        api_url: The address of the REST API; another address than Discord's may serve files too.
    """
    return FileHost(name="Discord", hosts=HOSTS, stand_in="" if api_url == API_URL else api_url)


def past_of(
    message: discord.Message, place: Place, me: discord.ClientUser | None, api_url: str
) -> PastMessage:
    """Return a fetched message.

    Args:
        message: The message.
        place: The place that was read; its thread is the one that holds the message, if any.
        me: The bot's account.
        api_url: The address of Discord's REST API.
    """
    text = text_of(message, me)
    # Users who gave each reaction, whatever the tone of the skin.
    reactions: dict[str, int] = {}
    for each in message.reactions:
        emoji = str(each.emoji)[:1]
        if emoji in REACTIONS:
            reactions[emoji] = reactions.get(emoji, 0) + each.count
    return PastMessage(
        event_id=message_key("", place.thread or place.channel, str(message.id)),
        place=replace(place, message=str(message.id)),
        author=identity_of(message.author.id),
        author_name=message.author.display_name,
        text=text,
        sent_at=message.created_at,
        by_bot=not is_from_user(message),
        own=me is not None and message.author.id == me.id,
        addressed=not place.workspace or (me is not None and is_addressed(message, me.id)),
        only_mention=bool(message.content.strip()) and not text,
        edited=message.edited_at is not None,
        files=files_of(message, api_url),
        quoted=quoted_in(message, me.id, whole=not text) if me else (),
        reply_to=reply_to_of(message),
        reactions=reactions,
    )


def files_of(message: discord.Message, api_url: str) -> tuple[Attachment, ...]:
    """Return the files of a message and of its forwarded messages, not yet downloaded.

    Args:
        message: The message.
        api_url: The address of Discord's REST API.
    """
    host, found = store(api_url), []
    forwarded = [file for each in message.message_snapshots for file in each.attachments]
    for each in (*message.attachments, *forwarded):
        name = one_line(each.filename)
        found.append(
            Attachment(
                name=name,
                media_type=each.content_type or "",
                size=each.size,
                read=partial(host.fetch, each.url, name),
            )
        )
    return tuple(found)

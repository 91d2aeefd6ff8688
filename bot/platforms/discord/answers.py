"""Sends replies to commands and notices as ordinary messages without pings."""

import logging
from dataclasses import dataclass

from bot.platforms.base import CommandReply
from bot.platforms.discord.sending import Draft, Sender, made_harmless
from bot.platforms.discord.texts import parts_of
from bot.platforms.messaging.outlet import RefusedError
from bot.platforms.messaging.splitting import MessageParts

log = logging.getLogger(__name__)

FOR_YOU_ALONE = (
    "What you asked for is meant for you alone, and I could not show it to you. Use the slash "
    "command, or let me write to you (Privacy Settings of this server → Direct Messages)."
)
SENT_PRIVATELY = "I sent it to you in a direct message."


def with_more(reply: CommandReply) -> str:
    """Return the text of a reply, with the command for the next page if there is one."""
    return f"{reply.text}\n\nMore: `{reply.more}`" if reply.more else reply.text


async def parts_for(text: str) -> MessageParts:
    """Return an answer as harmless Markdown, split into messages or put in a file if too long."""
    return parts_of(await made_harmless(text), name="answer.md")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """The recipient of an answer, and the channel and message that it answers.

    Attributes:
        key: The idempotency key of the answer.
        channel: The channel or thread.
        message: The id of the user's message there; empty for none.
        shared: Whether other users can read the channel.
    """

    key: str
    account: str
    channel: str
    message: str = ""
    shared: bool = False


async def answer(sender: Sender, recipient: Recipient, text: str, *, private: bool = False) -> None:
    """Send an answer to the user's channel or, if that is refused, as a direct message.

    Args:
        sender: Sends the answer.
        recipient: The recipient.
        text: Markdown, not yet cleaned.
        private: Whether only the user may read the answer. It then goes to a direct message, and a
            shared channel only gets a notice about that.

    Raises:
        DeliveryError: The answer was not delivered.
    """
    place, account, key = recipient.channel, recipient.account, recipient.key
    if private and recipient.shared:
        try:
            await _say(sender, await sender.direct_channel(account), text, key=key)
            text = SENT_PRIVATELY
        except RefusedError as error:
            log.info("%s cannot be answered in private: %s", key, error)
            text = FOR_YOU_ALONE
    try:
        await _say(sender, place, text, key=key, reply_to=recipient.message)
    except RefusedError as error:
        if private or not recipient.shared:
            raise
        log.info("%s cannot be answered in its place: %s", key, error)
        await _say(sender, await sender.direct_channel(account), text, key=key)


async def _say(sender: Sender, channel: str, text: str, *, key: str, reply_to: str = "") -> None:
    parts = await parts_for(text)
    await sender.post(channel, Draft(text=parts.texts[0], reply_to=reply_to), key=key)
    if len(parts.texts) > 1:
        await sender.post_rest(channel, parts, key=key)

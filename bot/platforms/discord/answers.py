"""Replies to commands, and other short things: cut to size, and sent so that nothing pings."""

import asyncio
import io
import logging
import re
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass

import aiohttp
import discord

from bot.agent.sanitizer import LARGE, for_discord
from bot.errors import DeliveryError
from bot.platforms.splitting import split

log = logging.getLogger(__name__)

MOST_CHARACTERS = 2_000
MOST_MESSAGES = 5
FILE_NAME = "answer.md"
REST_IN_FILE = "\n\n*The whole answer is in the file.*"
NOTHING = "There is nothing to show."
FOR_YOU_ALONE = (
    "What you asked for is meant for you alone, and I could not show it to you. Use the slash "
    "command, or let me write to you (Privacy Settings of this server → Direct Messages)."
)
SENT_PRIVATELY = "I sent it to you in a direct message."

#: What a request to Discord may fail with; the breaker and the network are among it.
UNSENT = (discord.DiscordException, aiohttp.ClientError, OSError, DeliveryError)
#: A place that cannot be written to, however often one tries.
CLOSED = (discord.Forbidden, discord.NotFound)

#: Commands whose answers show what a run read and wrote.
_PRIVATE = re.compile(r"[/!]?\s*(?:retinue|subagents?)\s+(?:log|info)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    """One message: its text, and the text of the file that comes with it."""

    text: str
    file: str = ""

    def files(self) -> list[discord.File]:
        """Return the file, if there is one, ready to be sent once."""
        content = self.file.encode()
        return [discord.File(io.BytesIO(content), FILE_NAME)] if content else []


def is_private(command: str) -> bool:
    """Whether the answer to a command is for nobody else's eyes, even in a shared channel."""
    return _PRIVATE.match(command) is not None


async def parts_of(text: str) -> list[Part]:
    """Return a text as Discord takes it: harmless, in few messages, or else with a file."""
    if len(text) > LARGE:
        return await asyncio.to_thread(_parts_of, text)
    return _parts_of(text)


def _parts_of(text: str) -> list[Part]:
    texts = split(for_discord(text), MOST_CHARACTERS) or [NOTHING]
    if len(texts) <= MOST_MESSAGES:
        return [Part(each) for each in texts]
    first = split(texts[0], MOST_CHARACTERS - len(REST_IN_FILE))[0]
    return [Part(first + REST_IN_FILE, file=for_discord(text))]


def without_file(part: Part) -> list[Part]:
    """Return the same in messages only: no text is lost when a file is refused."""
    return [Part(each) for each in split(part.file, MOST_CHARACTERS)]


def refuses_files(error: BaseException) -> bool:
    """Whether Discord took offence at a file, and may take the text without it."""
    return isinstance(error, discord.HTTPException) and error.status in {400, 403, 413}


async def say(
    channel: discord.abc.Messageable,
    text: str,
    *,
    key: str,
    answers: discord.Message | None = None,
) -> None:
    """Send a text as ordinary messages that ping nobody.

    Args:
        channel: Where.
        text: Markdown, not yet cleaned.
        key: At most 20 characters; what is sent again under it within minutes is sent once.
        answers: The message to which the first one is a reply, while it is there.

    Raises:
        discord.DiscordException, aiohttp.ClientError, OSError, DeliveryError: See `UNSENT`.
    """
    numbers = iter(range(1, 1_000))
    for part in await parts_of(text):
        try:
            await _send(channel, part, key, numbers, answers)
        except discord.HTTPException as error:
            if not (part.file and refuses_files(error)):
                raise
            for each in without_file(part):
                await _send(channel, each, key, numbers, answers)
        answers = None


async def _send(
    channel: discord.abc.Messageable,
    part: Part,
    key: str,
    numbers: Iterator[int],
    answers: discord.Message | None,
) -> None:
    reference = answers.to_reference(fail_if_not_exists=False) if answers else None
    await channel.send(
        part.text,
        files=part.files(),
        reference=reference,  # type: ignore[arg-type] # None is how the library spells no reference
        nonce=f"{key}.{next(numbers)}",
        allowed_mentions=discord.AllowedMentions.none(),
        suppress_embeds=True,
    )


async def reply_to(message: discord.Message, text: str, *, private: bool = False) -> None:
    """Reply to a message, or write to its author where that cannot be. Never raises.

    Args:
        message: What to reply to.
        text: Markdown, not yet cleaned.
        private: Nobody else may read it.
    """
    if private and message.guild is not None:
        sent = await _tried(_to_author(message, text), message)
        await _tried(_here(message, SENT_PRIVATELY if sent else FOR_YOU_ALONE), message)
        return
    try:
        await _here(message, text)
    except CLOSED as error:
        log.info("The place of message %s is closed (%s); writing to its author", message.id, error)
        await _tried(_to_author(message, text), message)
    except UNSENT as error:
        log.warning("The reply to message %s did not get through: %s", message.id, error)


async def _here(message: discord.Message, text: str) -> None:
    await say(message.channel, text, key=f"n{message.id}", answers=message)


async def _to_author(message: discord.Message, text: str) -> None:
    await say(await message.author.create_dm(), text, key=f"d{message.id}")


async def _tried(sending: Coroutine[None, None, None], message: discord.Message) -> bool:
    try:
        await sending
    except UNSENT as error:
        log.warning("The reply to message %s did not get through: %s", message.id, error)
        return False
    return True

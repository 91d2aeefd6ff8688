"""Makes requests to Discord: sends, edits, reads and deletes messages; maps errors."""

import asyncio
import hashlib
import io
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import aiohttp
import discord
from discord.http import handle_message_parameters

from bot.agent.sanitizer import LARGE
from bot.errors import DeliveryError
from bot.platforms.base import OutgoingFile
from bot.platforms.discord.problems import (
    BUSY,
    NO_PLACE,
    TOO_MANY_EDITS,
    UNKNOWN_CHANNEL,
    UNKNOWN_MESSAGE,
    UNREACHABLE,
    problem_of,
)
from bot.platforms.discord.texts import IN_FILE, harmless
from bot.platforms.messaging.outlet import RefusedError
from bot.platforms.messaging.pacing import Queues
from bot.platforms.messaging.splitting import MessageParts
from bot.values import Place

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Error codes of a refused reply reference; the message is then sent without the reference.
NO_REFERENCE = frozenset({160002, 50035, UNKNOWN_MESSAGE})
#: Age of a message from which Discord limits its edits much more strictly.
OLD = timedelta(hours=1)

REQUEST_SECONDS = 45.0
PAUSES = (1.0, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The content of a message to send or edit.

    Attributes:
        text: Harmless Markdown of at most 2,000 characters; empty if the view is the message.
        view: Buttons below the text, or the whole message.
        files: Files to send along.
        reply_to: The message in the same channel to reply to; empty for none.
        ping: The only account to ping, if the text mentions it; empty for none.
    """

    text: str = ""
    view: discord.ui.View | discord.ui.LayoutView | None = None
    files: tuple[OutgoingFile, ...] = ()
    reply_to: str = ""
    ping: str = ""


@dataclass(eq=False, slots=True)
class Sender:
    """Makes requests through a logged-in client, without gateway and cache.

    Sending is idempotent: Discord drops a message with the same key within minutes, so that a
    request of unknown fate can be repeated.

    Attributes:
        client: A logged-in client.
        pauses: Pauses before the retries of a request without a response, in seconds.
        seconds: Timeout of one request.
    """

    client: discord.Client
    _: KW_ONLY
    pauses: tuple[float, ...] = PAUSES
    seconds: float = REQUEST_SECONDS
    #: Messages to one channel are sent one at a time, to preserve their order.
    _posting: Queues = field(default_factory=Queues)

    async def post(self, channel: str, draft: Draft, *, key: str, exact: bool = False) -> str:
        """Send a message and return its id.

        Args:
            channel: The channel or thread.
            draft: The message.
            key: The idempotency key of the message within the channel.
            exact: Whether to edit the message if an earlier attempt sent another text.

        Raises:
            RefusedError: Discord refuses the message in this channel.
            DeliveryError: The request failed for now.
        """
        try:
            data = await self._post(channel, draft, key)
        except RefusedError as error:
            if not draft.reply_to or error.code not in NO_REFERENCE:
                raise
            data = await self._post(channel, replace(draft, reply_to=""), key)
        message_id = str(data["id"])
        components = draft.view.to_components() if draft.view else []
        drafted = _text_of({"content": draft.text, "components": components})
        if exact and _text_of(data).strip() != drafted.strip():
            await self.edit(channel, message_id, draft)
        return message_id

    async def _post(self, channel: str, draft: Draft, key: str) -> Mapping[str, Any]:
        target = _number(channel)
        # Discord drops a message with the nonce of an earlier one; a nonce has up to 25 characters.
        nonce = hashlib.blake2s(f"{key} in {channel}".encode(), digest_size=12).hexdigest()
        async with self._posting.lock(channel):
            return await self.ask(lambda: self._write(target, draft, nonce=nonce))

    async def post_rest(
        self,
        channel: str,
        parts: MessageParts,
        *,
        key: str,
        view: discord.ui.View | None = None,
        exact: bool = False,
    ) -> tuple[str, ...]:
        """Send all parts of a text but the first, as messages or in a file if there are too many.

        Raises:
            DeliveryError: A part was not delivered.
        """
        if parts.long:
            whole = OutgoingFile(parts.name, parts.whole.encode())
            draft = Draft(text=IN_FILE, files=(whole,), view=view)
            try:
                return (await self.post(channel, draft, key=f"{key}/file"),)
            except RefusedError as error:
                log.info("Discord does not take the file of %s: %s", key, error)
        ids = []
        last = len(parts.texts) - 1
        for number, part in enumerate(parts.texts[1:], start=1):
            draft = Draft(text=part, view=view if number == last else None)
            ids.append(await self.post(channel, draft, key=f"{key}/{number}", exact=exact))
        return tuple(ids)

    async def edit(self, channel: str, message_id: str, draft: Draft) -> None:
        """Edit a message of the bot.

        Raises:
            RefusedError: The message does not exist, or is too old for so many edits.
            DeliveryError: The request failed for now.
        """
        target, number = _number(channel), _number(message_id)
        try:
            await self.ask(lambda: self._write(target, draft, edited=number))
        except DeliveryError as error:
            # The library gives no error code when Discord demands a long wait.
            age = discord.utils.utcnow() - discord.utils.snowflake_time(number)
            if isinstance(error.__cause__, discord.RateLimited) and age > OLD:
                raise RefusedError(BUSY, TOO_MANY_EDITS) from error
            raise

    async def _write(
        self, channel: int, draft: Draft, *, edited: int = 0, nonce: str | None = None
    ) -> Mapping[str, Any]:
        """Send or edit a message, which pings at most one user and embeds nothing.

        Args:
            channel: The channel or thread.
            draft: The content.
            edited: The message to edit; 0 to send a new one.
            nonce: The nonce of a new message.
        """
        reference = missing = discord.utils.MISSING
        files = [discord.File(io.BytesIO(each.content), each.name) for each in draft.files]
        if draft.reply_to and not edited:
            reference = discord.MessageReference(
                message_id=_number(draft.reply_to), channel_id=channel, fail_if_not_exists=False
            ).to_message_reference_dict()
        with handle_message_parameters(
            content=draft.text or missing,
            nonce=nonce,
            flags=discord.MessageFlags(suppress_embeds=True),
            files=files or missing,
            view=draft.view or missing,
            allowed_mentions=discord.AllowedMentions(
                everyone=False,
                roles=False,
                users=[discord.Object(_number(draft.ping))] if draft.ping else False,
                replied_user=False,
            ),
            message_reference=reference,
        ) as parameters:
            if edited:
                return await self.client.http.edit_message(channel, edited, params=parameters)
            return await self.client.http.send_message(channel, params=parameters)

    async def newest(
        self, channel: str, most: int, *, after: datetime | str = "", guild: str = ""
    ) -> list[discord.Message]:
        """Return the newest messages of a channel or thread, the newest first.

        Args:
            channel: The channel or thread.
            most: Most messages to return.
            after: A time or the id of a message; older messages are not returned.
            guild: The server; empty for direct messages, or if irrelevant to the caller.

        Raises:
            DeliveryError: The messages cannot be read.
        """
        since: datetime | discord.Object | None
        since = after if isinstance(after, datetime) else None
        if isinstance(after, str) and after:
            since = discord.Object(_number(after))

        # With `after` alone the library would return the oldest messages.
        return await self._history(channel, guild, limit=most, after=since, oldest_first=False)

    async def around(self, channel: str, message_id: str, most: int) -> list[discord.Message]:
        """Return the messages around one of a channel or thread, which is among them if it exists.

        Raises:
            DeliveryError: The messages cannot be read.
        """
        middle = discord.Object(_number(message_id))
        return await self._history(channel, "", limit=max(2, min(most, 100)), around=middle)

    async def _history(self, channel: str, guild: str, **asked: Any) -> list[discord.Message]:
        there = self.client.get_partial_messageable(
            _number(channel), guild_id=_number(guild) if guild else None
        )

        async def read() -> list[discord.Message]:
            return [each async for each in there.history(**asked)]

        return await self.ask(read)

    async def opening(self, place: Place) -> discord.Message | None:
        """Return the message of a channel from which a thread was opened; `None` for none.

        Raises:
            DeliveryError: It is unknown now whether there is one.
        """
        there = self.client.get_partial_messageable(
            _number(place.channel), guild_id=_number(place.workspace)
        )
        try:
            return await self.ask(lambda: there.fetch_message(_number(place.thread)))
        except DeliveryError as error:
            if error.permanent:
                return None
            raise

    async def text_of(self, channel: str, message_id: str) -> str:
        """Return the text of a message of the bot, including its components.

        Raises:
            DeliveryError: The message cannot be read.
        """
        target, number = _number(channel), _number(message_id)
        return _text_of(await self.ask(lambda: self.client.http.get_message(target, number)))

    async def delete(self, channel: str, message_id: str) -> None:
        """Delete a message of the bot.

        Raises:
            DeliveryError: The message was not deleted, or did not exist.
        """
        target, number = _number(channel), _number(message_id)
        await self.ask(lambda: self.client.http.delete_message(target, number))

    async def react(self, channel: str, message_id: str, emoji: str, *, away: bool = False) -> None:
        """Add a reaction to a message, or remove the bot's own if `away`.

        Raises:
            DeliveryError: The request failed.
        """
        target, number = _number(channel), _number(message_id)
        http = self.client.http
        change = http.remove_own_reaction if away else http.add_reaction
        await self.ask(lambda: change(target, number, emoji))

    async def type(self, channel: str) -> None:
        """Show the typing indicator for ten seconds.

        Raises:
            DeliveryError: The request failed.
        """
        target = _number(channel)
        await self.ask(lambda: self.client.http.send_typing(target))

    async def begin_thread(self, channel: str, message_id: str, name: str) -> None:
        """Open a thread for a message; the thread gets the message's id.

        Raises:
            RefusedError: The message does not exist, or the bot lacks a permission.
            DeliveryError: The request failed for now.
        """
        target, number = _number(channel), _number(message_id)
        await self.ask(
            lambda: self.client.http.start_thread_with_message(
                target, number, name=name, auto_archive_duration=1440
            )
        )

    async def has_channel(self, channel: str) -> bool:
        """Return True if a channel or thread with this id exists and the bot may see it.

        Raises:
            DeliveryError: The request failed for now.
        """
        target = _number(channel)
        try:
            await self.ask(lambda: self.client.http.get_channel(target))
        except RefusedError:
            return False
        return True

    async def direct_channel(self, account: str) -> str:
        """Return the channel of direct messages with a user.

        Raises:
            RefusedError: The user does not exist.
            DeliveryError: The request failed for now.
        """
        number = _number(account)
        data = await self.ask(lambda: self.client.http.start_private_message(number))
        return str(data["id"])

    async def ask(self, request: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Make a request; retry it if no response arrived, since all requests are idempotent.

        A request that timed out is not retried.

        Raises:
            RefusedError: Discord refuses it permanently.
            DeliveryError: It failed for now.
        """
        pauses = iter(self.pauses)
        while True:
            if self.client.is_closed():
                raise DeliveryError(UNREACHABLE)
            try:
                async with asyncio.timeout(self.seconds):
                    return await request()
            except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
                problem = problem_of(error)
                pause = next(pauses, None)
                if pause is None or not problem.fate_unknown or isinstance(error, TimeoutError):
                    raise problem from error
            await asyncio.sleep(pause)


async def made_harmless(text: str, *, links: bool = True) -> str:
    """Return harmless Markdown; a long text is processed in a worker thread.

    Args:
        text: Markdown.
        links: Whether links may have labels; `False` shows every address.
    """
    if len(text) > LARGE:
        return await asyncio.to_thread(harmless, text, links=links)
    return harmless(text, links=links)


def _text_of(part: Mapping[str, Any]) -> str:
    """Return the text of a message or component, with that of the components inside it."""
    inner = "".join(map(_text_of, part.get("components", [])))
    return str(part.get("content", "")) + inner


def _number(snowflake: str) -> int:
    """Return an id as a number.

    Raises:
        RefusedError: The text is not an id.
    """
    if not (snowflake.isascii() and snowflake.isdigit()):
        raise RefusedError(NO_PLACE, UNKNOWN_CHANNEL)
    return int(snowflake)

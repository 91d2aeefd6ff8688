"""Messages on their way to Discord: sent, edited, deleted; what goes wrong is told apart."""

import asyncio
import hashlib
import io
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import aiohttp
import discord
from discord.http import MultipartParameters, handle_message_parameters

from bot.agent.sanitizer import LARGE
from bot.errors import DeliveryError
from bot.platforms.discord.problems import (
    BUSY,
    NO_PLACE,
    TOO_MANY_EDITS,
    UNKNOWN_CHANNEL,
    UNKNOWN_MESSAGE,
    UNREACHABLE,
    RefusedError,
    problem_of,
)
from bot.platforms.discord.texts import IN_FILE, harmless
from bot.platforms.pacing import Queues
from bot.platforms.paper import Paper

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Discord does not let us point at the message that is answered: it is said without.
NO_REFERENCE = frozenset({160002, 50035, UNKNOWN_MESSAGE})
#: From then on Discord limits the edits of a message much more.
OLD = timedelta(hours=1)

REQUEST_SECONDS = 45.0
PAUSES = (1.0, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message to be sent or edited.

    Attributes:
        text: Harmless Markdown of at most 2,000 characters; empty when the view says it all.
        view: Buttons below the text, or the whole message.
        file: Name and content of a file.
        reply_to: The message in the same channel that it answers.
        ping: The one account that it pings, where our own words mention it.
    """

    text: str = ""
    view: discord.ui.View | discord.ui.LayoutView | None = None
    file: tuple[str, str] | None = None
    reply_to: str = ""
    ping: str = ""


class Sender:
    """Sends messages over a client that is logged in; it needs no gateway and no cache.

    What is sent again under the same key within minutes is the same message, so that a request
    whose fate is unknown can be repeated.

    Args:
        client: Logged in.
        pauses: How long to wait before each repetition of a request that got no answer.
        seconds: The most that one request may take.
    """

    def __init__(
        self,
        client: discord.Client,
        *,
        pauses: tuple[float, ...] = PAUSES,
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._client = client
        self._pauses = pauses
        self._seconds = seconds
        #: Messages to one channel are sent one after another, so that they keep their order.
        self._posting = Queues()

    async def post(self, channel: str, draft: Draft, *, key: str, exact: bool = False) -> str:
        """Send a message and return its id.

        Args:
            channel: The channel or thread.
            draft: The message.
            key: Whatever is sent under it again, in the same channel, is a repetition.
            exact: Change what an earlier attempt left, should it say something else.

        Raises:
            RefusedError: Not here.
            DeliveryError: Not now.
        """
        try:
            data = await self._post(channel, draft, key)
        except RefusedError as error:
            if not draft.reply_to or error.code not in NO_REFERENCE:
                raise
            data = await self._post(channel, replace(draft, reply_to=""), key)
        message_id = str(data["id"])
        if exact and _shown(data).strip() != _drafted(draft).strip():
            await self.edit(channel, message_id, draft)
        return message_id

    async def _post(self, channel: str, draft: Draft, key: str) -> Mapping[str, Any]:
        target, nonce = _number(channel), nonce_of(key, channel)
        reference = _reference(target, draft.reply_to) if draft.reply_to else None

        async def send() -> Mapping[str, Any]:
            with _parameters(draft, nonce=nonce, reference=reference) as parameters:
                return await self._client.http.send_message(target, params=parameters)

        async with self._posting.turn(channel):
            return await self._ask(send)

    async def post_rest(
        self,
        channel: str,
        paper: Paper,
        *,
        key: str,
        view: discord.ui.View | None = None,
        exact: bool = False,
    ) -> tuple[str, ...]:
        """Send all of a paper but its first part: as messages, or in a file if these are too many.

        Raises:
            DeliveryError: Some of it was not taken.
        """
        if paper.long:
            draft = Draft(text=IN_FILE, file=(paper.name, paper.whole), view=view)
            try:
                return (await self.post(channel, draft, key=f"{key}/file"),)
            except RefusedError as error:
                log.info("Discord does not take the file of %s: %s", key, error)
        ids = []
        last = len(paper.parts) - 1
        for number, part in enumerate(paper.parts[1:], start=1):
            draft = Draft(text=part, view=view if number == last else None)
            ids.append(await self.post(channel, draft, key=f"{key}/{number}", exact=exact))
        return tuple(ids)

    async def edit(self, channel: str, message_id: str, draft: Draft) -> None:
        """Change a message of ours.

        Raises:
            RefusedError: It is gone, or too old to be edited so often.
            DeliveryError: Not now.
        """
        target, number = _number(channel), _number(message_id)

        async def edit() -> object:
            with _parameters(draft) as parameters:
                return await self._client.http.edit_message(target, number, params=parameters)

        try:
            await self._ask(edit)
        except DeliveryError as error:
            # The library tells no reason when Discord's answer is to wait for long.
            if isinstance(error.__cause__, discord.RateLimited) and _is_old(number):
                raise RefusedError(BUSY, TOO_MANY_EDITS) from error
            raise

    async def newest(
        self, channel: str, most: int, *, after: datetime | str = "", guild: str = ""
    ) -> list[discord.Message]:
        """Return the newest messages of a channel or thread, the newest first.

        Args:
            channel: The channel or thread.
            most: How many.
            after: A time or the id of a message; older ones are not returned.
            guild: The server; empty for direct messages, or where it does not matter.

        Raises:
            DeliveryError: They cannot be read.
        """
        there = self._client.get_partial_messageable(
            _number(channel), guild_id=_number(guild) if guild else None
        )
        since: datetime | discord.Object | None
        since = after if isinstance(after, datetime) else None
        if isinstance(after, str) and after:
            since = discord.Object(_number(after))

        async def read() -> list[discord.Message]:
            # With `after` alone the library would return the oldest.
            found = there.history(limit=most, after=since, oldest_first=False)
            return [each async for each in found]

        return await self._ask(read)

    async def text_of(self, channel: str, message_id: str) -> str:
        """Return the text that a message of ours shows.

        Raises:
            DeliveryError: It cannot be read.
        """
        target, number = _number(channel), _number(message_id)
        return _shown(await self._ask(lambda: self._client.http.get_message(target, number)))

    async def delete(self, channel: str, message_id: str) -> None:
        """Delete a message of ours.

        Raises:
            DeliveryError: It is still there, or was gone already.
        """
        target, number = _number(channel), _number(message_id)
        await self._ask(lambda: self._client.http.delete_message(target, number))

    async def react(self, channel: str, message_id: str, emoji: str, *, away: bool = False) -> None:
        """Put an emoji below a message, or take our own away.

        Raises:
            DeliveryError: It could not be done.
        """
        target, number = _number(channel), _number(message_id)
        http = self._client.http
        change = http.remove_own_reaction if away else http.add_reaction
        await self._ask(lambda: change(target, number, emoji))

    async def type(self, channel: str) -> None:
        """Show for ten seconds that the bot is typing.

        Raises:
            DeliveryError: It could not be done.
        """
        target = _number(channel)
        await self._ask(lambda: self._client.http.send_typing(target))

    async def begin_thread(self, channel: str, message_id: str, name: str) -> None:
        """Make a thread of a message; it has the id of the message.

        Raises:
            RefusedError: There is no message, or the bot may not.
            DeliveryError: Not now.
        """
        target, number = _number(channel), _number(message_id)
        await self._ask(
            lambda: self._client.http.start_thread_with_message(
                target, number, name=name, auto_archive_duration=1440
            )
        )

    async def has_channel(self, channel: str) -> bool:
        """Return whether there is a channel or thread with this id that the bot may see.

        Raises:
            DeliveryError: That cannot be told now.
        """
        target = _number(channel)
        try:
            await self._ask(lambda: self._client.http.get_channel(target))
        except RefusedError:
            return False
        return True

    async def direct_channel(self, account: str) -> str:
        """Return the channel of direct messages with a person.

        Raises:
            RefusedError: There is no such person.
            DeliveryError: Not now.
        """
        number = _number(account)
        data = await self._ask(lambda: self._client.http.start_private_message(number))
        return str(data["id"])

    async def _ask(self, request: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Make a request; one that got no answer is made again, since that changes nothing."""
        for pause in self._pauses:
            try:
                return await self._ask_once(request)
            except DeliveryError as error:
                if not error.fate_unknown or isinstance(error.__cause__, TimeoutError):
                    raise
            await asyncio.sleep(pause)
        return await self._ask_once(request)

    async def _ask_once(self, request: Callable[[], Awaitable[T]]) -> T:
        if self._client.is_closed():
            raise DeliveryError(UNREACHABLE)
        try:
            async with asyncio.timeout(self._seconds):
                return await request()
        except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
            raise problem_of(error) from error


async def made_harmless(text: str) -> str:
    """Return Markdown as Discord may show it; a long one takes no time from others."""
    return await asyncio.to_thread(harmless, text) if len(text) > LARGE else harmless(text)


def nonce_of(key: str, channel: str) -> str:
    """Return the mark under which Discord takes a message of this key once, 24 characters."""
    return hashlib.blake2s(f"{key} in {channel}".encode(), digest_size=12).hexdigest()


def _parameters(
    draft: Draft,
    *,
    nonce: str | None = None,
    reference: discord.MessageReference | None = None,
) -> MultipartParameters:
    """Return a draft as it goes over the wire: only the one person is pinged, nothing embedded."""
    missing = discord.utils.MISSING
    return handle_message_parameters(
        content=draft.text or missing,
        nonce=nonce,
        flags=discord.MessageFlags(suppress_embeds=True),
        file=_file(*draft.file) if draft.file else missing,
        view=draft.view or missing,
        allowed_mentions=discord.AllowedMentions(
            everyone=False,
            roles=False,
            users=[discord.Object(_number(draft.ping))] if draft.ping else False,
            replied_user=False,
        ),
        message_reference=reference.to_message_reference_dict() if reference else missing,
    )


def _reference(channel: int, message_id: str) -> discord.MessageReference:
    return discord.MessageReference(
        message_id=_number(message_id), channel_id=channel, fail_if_not_exists=False
    )


def _file(name: str, content: str) -> discord.File:
    return discord.File(io.BytesIO(content.encode()), name)


def _drafted(draft: Draft) -> str:
    return draft.text + (_texts_in(draft.view.to_components()) if draft.view else "")


def _shown(message: Mapping[str, Any]) -> str:
    return str(message.get("content", "")) + _texts_in(message.get("components", []))


def _texts_in(components: list[Any]) -> str:
    """Return all text displays, those inside other components included."""
    return "".join(
        str(each.get("content", "")) + _texts_in(each.get("components", [])) for each in components
    )


def _number(snowflake: str) -> int:
    """Return an id as the library takes it.

    Raises:
        RefusedError: It is none.
    """
    if not (snowflake.isascii() and snowflake.isdigit()):
        raise RefusedError(NO_PLACE, UNKNOWN_CHANNEL)
    return int(snowflake)


def _is_old(message_id: int) -> bool:
    return discord.utils.utcnow() - discord.utils.snowflake_time(message_id) > OLD

"""A reply that grows in one message while the model writes; long ones end in several messages."""

import asyncio
import logging
import uuid
from dataclasses import dataclass

from bot.errors import DeliveryError
from bot.platforms.base import Delivered, OnBegun
from bot.platforms.discord.live import LiveMessage
from bot.platforms.discord.problems import RefusedError
from bot.platforms.discord.sending import Draft, Sender, made_harmless
from bot.platforms.discord.texts import NO_ANSWER, newest, parts_of
from bot.platforms.discord.threads import Threads
from bot.platforms.messaging.pacing import Paced, Spacing
from bot.platforms.messaging.replies import ResumedText
from bot.platforms.messaging.splitting import MessageParts
from bot.tasks import Tasks
from bot.values import Identity, Place

log = logging.getLogger(__name__)

#: Interval of the typing indicator, which Discord shows for ten seconds.
TYPING_SECONDS = 8.0
TYPING_AT_MOST_SECONDS = 1_800.0
#: Grace period for an edit in flight when a reply is abandoned for another process.
LEAVE_SECONDS = 1.0
FILE_NAME = "answer.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """Shared dependencies and intervals of all replies.

    Attributes:
        edit_seconds: Shortest time between two edits of one message.
        typing_seconds: Interval at which the typing indicator is sent.
        typing_at_most_seconds: Longest time that a reply shows the typing indicator.
    """

    sender: Sender
    threads: Threads
    tasks: Tasks
    edit_seconds: float
    typing_seconds: float = TYPING_SECONDS
    typing_at_most_seconds: float = TYPING_AT_MOST_SECONDS


@dataclass(frozen=True, slots=True)
class _Step:
    """A state of the first message of a reply.

    Attributes:
        text: Markdown from the model; if `final`, harmless Markdown that fits one message.
    """

    text: str
    final: bool = False


class DiscordReply:
    """A reply on Discord."""

    def __init__(
        self, means: Means, place: Place, owner: Identity, *, message_id: str, begun: OnBegun
    ) -> None:
        self._means = means
        self._key = f"reply {place.message or uuid.uuid4()}"
        self._message = LiveMessage(
            means.sender,
            means.threads,
            place,
            key=self._key,
            message_id=message_id,
            begun=begun,
            replies=True,
        )
        self._before = ResumedText(self._message.text if message_id else None)
        self._shown = ""
        self._refused = False
        self._paced = Paced(
            self._send,
            Spacing(means.edit_seconds),
            means.tasks,
            name="move a reply",
            failed=self._failed,
        )
        self._typing = means.tasks.start(self._type(), name="type")

    def update(self, text: str) -> None:
        """Show the whole text so far; only the newest text is sent, rate-limited. Never waits."""
        if not self._refused:
            self._paced.put(_Step(text))

    async def finish(self, text: str, *, failed: bool = False) -> Delivered:
        """Show the complete final text, in several messages or a file if needed.

        Raises:
            DeliveryError: The text was not delivered.
        """
        try:
            return await self._say(await made_harmless(text))
        finally:
            self._typing.cancel()

    async def abandon(self) -> None:
        """Stop updating the reply: the turn will be resumed, in this process or another."""
        self._typing.cancel()
        await self._paced.close(seconds=LEAVE_SECONDS)

    async def _say(self, markdown: str) -> Delivered:
        parts = parts_of(markdown, name=FILE_NAME, empty=NO_ANSWER)
        await self._paced.flush(_Step(parts.texts[0], final=True))
        return Delivered((self._message.message_id, *await self._rest(parts)))

    async def _rest(self, parts: MessageParts) -> tuple[str, ...]:
        if len(parts.texts) == 1:
            return ()
        channel = await self._message.channel()
        return await self._means.sender.post_rest(channel, parts, key=self._key, exact=True)

    async def _send(self, step: _Step) -> None:
        text = step.text if step.final else newest(await made_harmless(step.text))
        if not text or text == self._shown:
            return
        if not step.final and await self._before.is_longer_than(text):
            return
        await self._message.show(Draft(text=text))
        self._shown = text
        self._typing.cancel()

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, DeliveryError):
            log.error("A reply could not be moved", exc_info=error)
            return
        log.info("A reply was not moved: %s", error)
        # A refused update would be refused again; only the final text is worth another attempt.
        self._refused = error.permanent

    async def _type(self) -> None:
        means = self._means
        try:
            async with asyncio.timeout(means.typing_at_most_seconds):
                channel = await self._message.channel()
                while True:
                    await self._type_once(channel)
                    await asyncio.sleep(means.typing_seconds)
        except (DeliveryError, TimeoutError) as error:
            log.debug("Typing is not shown: %s", error)

    async def _type_once(self, channel: str) -> None:
        try:
            await self._means.sender.type(channel)
        except RefusedError:
            raise
        except DeliveryError as error:
            log.debug("Typing was not shown: %s", error)

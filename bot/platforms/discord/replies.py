"""A reply that grows in one message while the model writes it, and ends in as many as it takes."""

import asyncio
import logging
import uuid
from dataclasses import dataclass

from bot.errors import DeliveryError
from bot.platforms.base import Delivered, OnBegun
from bot.platforms.discord.live import LiveMessage
from bot.platforms.discord.problems import RefusedError
from bot.platforms.discord.sending import Draft, Sender, made_harmless
from bot.platforms.discord.texts import NO_ANSWER, newest, paper_of
from bot.platforms.discord.threads import Threads
from bot.platforms.pacing import Paced, Spacing
from bot.platforms.paper import Paper
from bot.platforms.resumed import ShownBefore
from bot.tasks import Tasks
from bot.values import Identity, Place

log = logging.getLogger(__name__)

#: Discord shows for ten seconds that somebody is typing.
TYPING_SECONDS = 8.0
TYPING_AT_MOST_SECONDS = 1_800.0
#: How long an edit under way may take when a reply is left to somebody else.
LEAVE_SECONDS = 1.0
FILE_NAME = "answer.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What replies are given with.

    Attributes:
        edit_seconds: The least time between two edits of one message.
        typing_seconds: How often it is shown that the bot is typing.
        typing_at_most_seconds: The longest that a reply shows it, should nobody end it.
    """

    sender: Sender
    threads: Threads
    tasks: Tasks
    edit_seconds: float
    typing_seconds: float = TYPING_SECONDS
    typing_at_most_seconds: float = TYPING_AT_MOST_SECONDS


@dataclass(frozen=True, slots=True)
class _Step:
    """What the first message is to show.

    Attributes:
        text: Markdown as the model wrote it, or the final part, which is harmless already.
    """

    text: str
    final: bool = False


class DiscordReply:
    """One reply."""

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
        self._before = ShownBefore(self._message.text if message_id else None)
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
        """Show the whole text so far; the newest wins, at Discord's pace. Never waits."""
        if not self._refused:
            self._paced.put(_Step(text))

    async def finish(self, text: str, *, failed: bool = False) -> Delivered:
        """Show the final text, whole, in as many messages as it takes.

        Raises:
            DeliveryError: It did not get through.
        """
        try:
            return await self._say(await made_harmless(text))
        finally:
            self._typing.cancel()

    async def abandon(self) -> None:
        """Leave what is shown as it is: the turn will be resumed, here or elsewhere."""
        self._typing.cancel()
        await self._paced.close(seconds=LEAVE_SECONDS)

    async def _say(self, markdown: str) -> Delivered:
        paper = paper_of(markdown, name=FILE_NAME, empty=NO_ANSWER)
        await self._paced.flush(_Step(paper.parts[0], final=True))
        return Delivered((self._message.message_id, *await self._rest(paper)))

    async def _rest(self, paper: Paper) -> tuple[str, ...]:
        if len(paper.parts) == 1:
            return ()
        channel = await self._message.channel()
        return await self._means.sender.post_rest(channel, paper, key=self._key, exact=True)

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
        # What is refused once is refused again; only the final text is worth another attempt.
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

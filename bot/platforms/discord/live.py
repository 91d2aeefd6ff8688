"""Messages on Discord that are updated during work: replies and run cards; opens their threads."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import discord

from bot.errors import DeliveryError
from bot.platforms.base import RunCard
from bot.platforms.discord.buttons import RunButton, Unkept, run_buttons
from bot.platforms.discord.problems import ARCHIVED, THREAD_EXISTS, TOO_MANY_EDITS, UNKNOWN_MESSAGE
from bot.platforms.discord.sending import PAUSES, Draft, Sender, made_harmless
from bot.platforms.discord.texts import (
    COLOURS,
    NO_ANSWER,
    RED,
    YELLOW,
    batch_text,
    card_text,
    newest,
    parts_of,
    start_of,
    thread_name,
)
from bot.platforms.messaging.cards import LAST_PAUSES, CardMessage, batch_head
from bot.platforms.messaging.live import FILE_NAME, GrowingReply, LiveMessage
from bot.platforms.messaging.outlet import RefusedError
from bot.platforms.messaging.pacing import Spacing
from bot.platforms.messaging.splitting import MessageParts
from bot.recent import Recent
from bot.tasks import Tasks
from bot.values import Place, RunStatus

log = logging.getLogger(__name__)

#: Error codes of a message that exists but cannot be edited.
STILL_THERE = frozenset({TOO_MANY_EDITS, ARCHIVED})
#: Interval of the typing indicator, which Discord shows for ten seconds.
TYPING_SECONDS = 8.0
TYPING_AT_MOST_SECONDS = 1_800.0
#: Size of the cache of threads; the oldest entries are evicted first.
REMEMBERED = 10_000
#: Error codes after which the thread may still exist: opened by another process, or left after its
#: message was deleted.
MAY_BE_THERE = frozenset({THREAD_EXISTS, UNKNOWN_MESSAGE})
#: Timeout for opening a thread, and for the lookup that follows a timeout. Afterwards the channel
#: is used.
OPEN_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tempo:
    """Intervals and timeouts; tests use shorter ones.

    Attributes:
        edit_seconds: Shortest time between two edits of one message.
        typing_seconds: Interval at which the typing indicator is sent.
        typing_at_most_seconds: Longest time that one reply shows the typing indicator.
        open_seconds: Time for opening a thread before its channel is used instead.
        pauses: Pauses before the retries of a request without a response, in seconds.
        last_pauses: Pauses before the retries of a card's last edit, in seconds.
    """

    edit_seconds: float
    typing_seconds: float = TYPING_SECONDS
    typing_at_most_seconds: float = TYPING_AT_MOST_SECONDS
    open_seconds: float = OPEN_SECONDS
    pauses: tuple[float, ...] = PAUSES
    last_pauses: tuple[float, ...] = LAST_PAUSES


@dataclass(eq=False, slots=True)
class Threads:
    """Opens the thread of a place whose message arrived before the thread existed.

    Such a place contains the id of its thread in advance: the id of the message that starts the
    thread. If Discord does not open the thread in time, this process sends all further output of
    the place to the channel, so that answers, cards and announcements stay together and in order.
    The place still has its thread's id, and with it its conversation.

    Attributes:
        client: Caches the messages from which threads get their names.
        sender: Makes the requests.
        tasks: Owns the tasks of the requests.
        open_seconds: Timeout for opening a thread, and for the lookup afterwards.
    """

    client: discord.Client
    sender: Sender
    tasks: Tasks
    _: KW_ONLY
    open_seconds: float = OPEN_SECONDS
    _usable: Recent[str, bool] = field(default_factory=lambda: Recent(REMEMBERED))
    _under_way: dict[str, asyncio.Task[bool | DeliveryError]] = field(default_factory=dict)

    async def ready(self, place: Place) -> bool:
        """Open the thread of a place if necessary; return True if the thread is usable.

        Raises:
            DeliveryError: The thread cannot be opened now; a retry is possible soon.
        """
        if place.thread != place.message or not place.thread:
            return bool(place.thread)
        if place.thread in self._usable:
            return self._usable[place.thread]
        task = self._under_way.get(place.thread)
        if task is None:
            making = self._make(place)
            task = self.tasks.start(making, name=f"make thread {place.thread}")
            self._under_way[place.thread] = task
            task.add_done_callback(lambda _: self._under_way.pop(place.thread, None))
        # One waiting caller may be cancelled while others still need the thread.
        made = await asyncio.shield(task)
        if isinstance(made, DeliveryError):
            raise made
        return made

    async def _make(self, place: Place) -> bool | DeliveryError:
        messages = self.client.cached_messages
        found = discord.utils.find(lambda each: str(each.id) == place.message, messages)
        name = thread_name(found.content if found else "")
        usable = True
        try:
            async with asyncio.timeout(self.open_seconds):
                await self.sender.begin_thread(place.channel, place.message, name)
        except RefusedError as error:
            usable = error.code in MAY_BE_THERE
            if not usable:
                log.info("No thread for message %s: %s", place.message, error)
        except TimeoutError:
            usable = await self._exists(place)
        except DeliveryError as error:
            if error.retry_after_seconds <= self.open_seconds:
                return error
            usable = await self._exists(place)
        self._usable[place.thread] = usable
        return usable

    async def _exists(self, place: Place) -> bool:
        """Return True if the thread exists although Discord did not confirm it in time."""
        try:
            async with asyncio.timeout(self.open_seconds):
                there = await self.sender.has_channel(place.thread)
        except (DeliveryError, TimeoutError) as error:
            log.info("It is unknown whether message %s has a thread: %s", place.message, error)
            there = False
        if not there:
            log.warning(
                "Discord does not open a thread for message %s in time: it is answered in its "
                "channel",
                place.message,
            )
        return there


@dataclass(eq=False)
class DiscordMessage(LiveMessage[Draft]):
    """A message in the thread of a place, or in its channel if no thread is usable.

    Attributes:
        sender: Sends and edits the message.
        threads: Opens the thread if needed.
        place: The place of the message.
        key: The idempotency key of the message; the same after a crash.
        message_id: The id of the message from before a restart; empty for none.
        begun: Called with the id of each message that is posted.
        replies: Whether the message is a reply to the place's message, if sent to its channel.
    """

    sender: Sender
    threads: Threads
    place: Place
    _: KW_ONLY
    key: str
    replies: bool = False
    _channel: str = ""

    async def channel(self) -> str:
        """Return the channel or thread of the message, also before it is posted.

        Raises:
            DeliveryError: The thread cannot be opened now.
        """
        if not self._channel:
            place = self.place
            self._channel = place.thread if await self.threads.ready(place) else place.channel
        return self._channel

    async def text(self) -> str:
        """Return the text of the message."""
        return await self.sender.text_of(await self.channel(), self.message_id)

    async def post(self, draft: Draft) -> str:
        """Post the message in its thread or channel."""
        channel, place = await self.channel(), self.place
        answers = self.replies and place.workspace and channel == place.channel
        draft = replace(draft, reply_to=place.message if answers else "")
        key = f"{self.key} after {self.message_id}"
        return await self.sender.post(channel, draft, key=key, exact=True)

    async def edit(self, draft: Draft, *, final: bool) -> DeliveryError | None:
        """Edit the message; return the refusal if it can no longer be edited."""
        place, refused = self.place, None
        for channel in dict.fromkeys(filter(None, (self._channel, place.thread, place.channel))):
            try:
                await self.sender.edit(channel, self.message_id, draft)
            except RefusedError as error:
                refused = error
                if error.code not in STILL_THERE:
                    continue
            else:
                refused = None
            self._channel = channel
            break
        return refused

    def still_shown(self, refused: DeliveryError) -> bool:
        """Return True if Discord refuses the edits of a message that exists."""
        return isinstance(refused, RefusedError) and refused.code in STILL_THERE

    async def delete(self, message_id: str) -> None:
        """Delete an earlier message."""
        await self.sender.delete(self._channel, message_id)


class CardView(Unkept, discord.ui.LayoutView):
    """The components of a card; the library does not store them, since the ids suffice."""

    def __init__(self, card: RunCard, text: str) -> None:
        super().__init__(timeout=None)
        row: discord.ui.ActionRow[CardView] = discord.ui.ActionRow()
        for button in run_buttons(card.run_id, card.status):
            row.add_item(button)
        shown: discord.ui.TextDisplay[CardView] = discord.ui.TextDisplay(text)
        self.add_item(discord.ui.Container(shown, row, accent_colour=_colour(card)))


class BatchView(Unkept, discord.ui.LayoutView):
    """The components of a message that shows several runs: a line with a button for each."""

    def __init__(self, cards: Sequence[RunCard], lines: Sequence[str]) -> None:
        super().__init__(timeout=None)
        going = [card for card in cards if not card.status.final]
        box: discord.ui.Container[BatchView] = discord.ui.Container(
            accent_colour=_colour((going or cards)[0])
        )
        box.add_item(discord.ui.TextDisplay(f"**{batch_head(cards)}**"))
        for card, line in zip(cards, lines, strict=True):
            button = run_buttons(card.run_id, card.status)[0]
            box.add_item(discord.ui.Section(line, accessory=button))
        if going:
            row: discord.ui.ActionRow[BatchView] = discord.ui.ActionRow()
            row.add_item(RunButton("stop", f"{going[0].run_id}+"))
            box.add_item(row)
        self.add_item(box)


def _colour(card: RunCard) -> int:
    degraded = card.degraded and card.status is RunStatus.COMPLETED
    return YELLOW if degraded else COLOURS.get(card.status, RED)


class DiscordCard(CardMessage[Draft]):
    """The card of one run or several.

    Args:
        message: The message that shows the card.
        tasks: Owns the task that edits the message.
        tempo: The intervals of the edits.
        now: A clock, in seconds since 1970.
    """

    def __init__(
        self, message: DiscordMessage, tasks: Tasks, tempo: Tempo, now: Callable[[], float]
    ) -> None:
        super().__init__(message, Spacing(tempo.edit_seconds), tasks, pauses=tempo.last_pauses)
        self._now = now
        self._started: dict[str, int] = {}

    def render(self, cards: Sequence[RunCard]) -> tuple[str, Draft]:
        """Return the states as text and components."""
        for card in cards:
            before = self._started.get(card.run_id, 0)
            self._started[card.run_id] = start_of(card, self._now(), before)
        text_of = card_text if len(cards) == 1 else batch_text
        lines = [text_of(card, self._started[card.run_id]) for card in cards]
        view = CardView(cards[0], lines[0]) if len(cards) == 1 else BatchView(cards, lines)
        return "\n".join(lines), Draft(view=view)


class DiscordReply(GrowingReply[Draft]):
    """A reply on Discord, with the typing indicator until its first text.

    Args:
        message: The first message of the reply.
        tasks: Owns the tasks of the edits.
        tempo: The intervals of the edits and of the typing indicator.
    """

    _message: DiscordMessage

    def __init__(self, message: DiscordMessage, tasks: Tasks, tempo: Tempo) -> None:
        super().__init__(message, Spacing(tempo.edit_seconds), tasks)
        self._typing = tasks.start(self._type(tempo), name="type")

    async def _preview(self, text: str) -> str:
        return newest(await made_harmless(text))

    async def _parts(self, text: str) -> MessageParts:
        return parts_of(await made_harmless(text), name=FILE_NAME, empty=NO_ANSWER)

    def _draft(self, markdown: str) -> Draft:
        return Draft(text=markdown)

    async def _post_rest(self, parts: MessageParts) -> tuple[str, ...]:
        message = self._message
        return await message.sender.post_rest(
            await message.channel(), parts, key=message.key, exact=True
        )

    def _ended(self, *, abandoned: bool = False) -> None:
        self._typing.cancel()

    async def _type(self, tempo: Tempo) -> None:
        try:
            async with asyncio.timeout(tempo.typing_at_most_seconds):
                channel = await self._message.channel()
                while not self._shown:
                    try:
                        await self._message.sender.type(channel)
                    except DeliveryError as error:
                        if error.permanent:
                            raise
                        log.debug("Typing was not shown: %s", error)
                    await asyncio.sleep(tempo.typing_seconds)
        except (DeliveryError, TimeoutError) as error:
            log.debug("Typing is not shown: %s", error)

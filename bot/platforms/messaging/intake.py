"""Shared inbound handling: de-duplication, ordering per key, rate-limited refusals."""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from bot.errors import BotError, DatabaseUnreachableError
from bot.platforms.base import CommandReply, Incoming
from bot.platforms.handler import InboundHandler
from bot.platforms.messages import PastMessage
from bot.platforms.messaging.pacing import Queues
from bot.recent import Recent
from bot.tasks import Tasks
from bot.values import Place
from db.database import patiently

log = logging.getLogger(__name__)

Result = TypeVar("Result")

#: Interval between two refusals to the same user in the same channel, in seconds.
TELL_AGAIN_SECONDS = 3_600.0
#: Most keys in the cache; the oldest are evicted first.
REMEMBERED = 10_000

#: Backoff before each further attempt, in seconds: five minutes in all. Each pause is short, so
#: that a message is stored soon after the database is back.
STORE_PAUSES = (1.0, 2.0, 5.0, 10.0, 15.0, *(20.0,) * 14)

#: Longest wait of a change of a message until the messages at hand are stored.
GRACE_SECONDS = 10.0

AGAIN = "I try again by myself for a few minutes, so do not send it twice."
GIVEN_UP = "I could not take what you said: {reason} Please send it again later."

TROUBLE = "Something went wrong on our side; the log has the details. Please try again."
DONE_ALREADY = "That was done already."
NO_TEXT = "That message has no text that I can read. Tell me in words what I can do for you."
NO_DIRECT_MESSAGES = "I do not answer direct messages. Mention me in a {where} instead."
NOT_THIS_PLACE = "I do not answer in this {where}. The people who run me choose where I do."
NOT_YOU = "You cannot use this bot here. Ask the people who run it if you think you should."


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """The reason for which a user gets no answer.

    Attributes:
        silent: The bot is not admitted to this place: ignore its messages.
    """

    text: str
    silent: bool = False


class Deduplicator:
    """De-duplicates events and tracks the tasks that handle them.

    Args:
        monotonic: A monotonic clock in seconds.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now = monotonic
        self._last: Recent[Hashable, float] = Recent(REMEMBERED)
        self._under_way: set[asyncio.Task[object]] = set()

    def first(self, key: Hashable, *, again_after: float = float("inf")) -> bool:
        """Return True, and record the time, if an event is new or its last record has expired.

        Args:
            key: The key of the event.
            again_after: Seconds after which a record expires.
        """
        now = self._now()
        last = self._last.get(key)
        if last is not None and now - last < again_after:
            return False
        self._last[key] = now
        return True

    def forget(self, key: Hashable) -> None:
        """Remove an event from the cache, so that it counts as new again."""
        self._last.pop(key, None)

    @contextmanager
    def tracking(self) -> Iterator[None]:
        """Let `wait_idle` wait for the task that executes this block."""
        task = asyncio.current_task()
        assert task is not None, "Only a task can be tracked."
        self._under_way.add(task)
        try:
            yield
        finally:
            self._under_way.discard(task)

    async def wait_idle(self, seconds: float) -> None:
        """Wait until the tracked tasks have finished, at most `seconds`."""
        if pending := set(self._under_way):
            await asyncio.wait(pending, timeout=seconds)


def message_key(workspace: str, channel: str, message: str) -> str:
    """Return the event id of a message, the same for a delivered and for a fetched message.

    Args:
        workspace: Empty if ids of channels are unique on the whole platform.
        channel: The channel or thread that holds the message.
        message: The platform's id of the message.
    """
    return f"message:{workspace}:{channel}:{message}"


async def outcome(asked: Awaitable[Result], what: str) -> Result | CommandReply:
    """Return the result of a call to the core; an error becomes a failed `CommandReply`."""
    try:
        return await asked
    except BotError as error:
        return CommandReply(text=str(error), failed=True, refused=True)
    except Exception:
        log.exception("The call of the core for %s failed", what)
        return CommandReply(text=TROUBLE, failed=True, refused=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """A message that may be for the bot, as its adapter understood it on arrival.

    Attributes:
        incoming: The message; place and name may be completed once its user is admitted.
        queue: Messages with the same queue are handled in order.
        addressed: Whether the message is certainly for the bot.
        to_another: Whether it mentions or answers another user: unless it is addressed to the bot
            too, it is context.
        by_bot: Whether another bot wrote it.
        hidden: The notice that the platform withholds the text; empty if it does not.
    """

    incoming: Incoming
    queue: Hashable = None
    addressed: bool = True
    to_another: bool = False
    by_bot: bool = False
    hidden: str = ""

    @property
    def key(self) -> tuple[str, bool]:
        """The de-duplication key, with `addressed` since an edit can add a mention of the bot."""
        return self.incoming.event_id, self.addressed


def incoming_of(past: PastMessage) -> Incoming:
    """Return a fetched message in the form of a received one."""
    return Incoming(
        event_id=past.event_id,
        user=past.author,
        user_name=past.author_name,
        place=past.place,
        text=past.text,
        files=past.files,
        quoted=past.quoted,
        reply_to=past.reply_to,
        said_at=past.sent_at,
        only_mention=past.only_mention,
    )


MessageT = TypeVar("MessageT", bound=ReceivedMessage)


class MessageReceiver(ABC, Generic[MessageT]):
    """Passes messages to the core: once each, in order, with answers and retries.

    Args:
        inbound: Receives the messages.
        deduplicator: De-duplicates messages and limits the notices to refused users.
        tasks: Owns the tasks that handle messages.
        pauses: Backoff before each further attempt to store a message, in seconds.

    Attributes:
        stuck: Queues with a message that could not be stored yet; later messages wait behind it.
    """

    #: Whether the platform delivers a message again that could not be stored.
    redelivers = False

    def __init__(
        self,
        inbound: InboundHandler,
        deduplicator: Deduplicator,
        tasks: Tasks,
        *,
        pauses: tuple[float, ...] = STORE_PAUSES,
    ) -> None:
        self.inbound = inbound
        self.stuck: set[Hashable] = set()
        self._deduplicator = deduplicator
        self._tasks = tasks
        self._pauses = pauses
        self._queues = Queues(seconds=None)

    def start(self, message: MessageT) -> "asyncio.Task[None] | None":
        """Handle a message after the earlier ones of its queue; `None` for a repeated delivery."""
        event_id = message.incoming.event_id
        if not self._deduplicator.first(message.key):
            log.info("The %s was delivered again", event_id)
            return None
        return self._tasks.start(self._handle(message), name=event_id)

    def follow(self, place: Place, text: str | None) -> "asyncio.Task[None]":
        """Pass on that a message was edited, or deleted for `None`, once it is stored."""

        async def changed() -> None:
            await self._deduplicator.wait_idle(GRACE_SECONDS)
            try:
                await patiently(partial(self.inbound.changed, place, text))
            except BotError as error:
                log.warning("A change of %s is not stored: %s", place.message, error)

        return self._tasks.start(changed(), name=f"change of {place.message}")

    async def receive_missed(self, past: PastMessage) -> bool:
        """Pass a fetched message for the bot to the core, unless it was received already.

        Returns:
            True if the message has a turn; False for a command, a refused or an empty message.

        Raises:
            BotError: The message could not be stored.
        """
        if not (past.text or past.files or past.quoted or past.only_mention):
            return False
        incoming = incoming_of(past)
        if not self._deduplicator.first((past.event_id, True)):
            return True
        try:
            message = await self._fetched(incoming)
            if message is None:
                return False
            message, refusal = await self._admit(message)
            if refusal is not None:
                return False
            reply = await self.inbound.receive(message.incoming)
        except BotError:
            self._deduplicator.forget((past.event_id, True))
            raise
        if reply is not None and not reply.refused:
            await self._answer(message, reply)
        return reply is None

    async def _handle(self, message: MessageT) -> None:
        """Pass a message to the core and send its immediate answer, if any."""
        with self._deduplicator.tracking():
            async with self._queues.lock(message.queue):
                try:
                    reply = await self._store(message)
                    if reply is not None:
                        await self._answer(message, reply)
                        if reply.answered:
                            await self._show_settlement(message, reply)
                except Exception:
                    log.exception("The %s could not be handled", message.incoming.event_id)
                    if message.addressed:
                        await self._answer(message, CommandReply(text=TROUBLE, failed=True))

    async def _store(self, message: MessageT) -> CommandReply | None:
        """Pass a message to the core, with a retry after each pause while the database is down."""
        try:
            for number, pause in enumerate(self._pauses):
                try:
                    return await self._receive(message)
                except DatabaseUnreachableError as error:
                    self.stuck.add(message.queue)
                    if number == 0 and message.addressed:
                        again = CommandReply(text=f"{error} {AGAIN}")
                        await self._answer(message, again, first=True)
                await asyncio.sleep(pause)
            return await self._receive(message)
        except DatabaseUnreachableError as error:
            if self.redelivers or not message.addressed:
                # A later delivery, or the next catch-up, receives the message as a new one.
                self._deduplicator.forget(message.key)
            text = GIVEN_UP.format(reason=error)
            return CommandReply(text=text, failed=True) if message.addressed else None
        except BotError as error:
            return CommandReply(text=str(error), failed=True)
        finally:
            self.stuck.discard(message.queue)

    async def _receive(self, message: MessageT) -> CommandReply | None:
        """Admit a message and pass it to the core; return the immediate reply, if any."""
        message, refusal = await self._admit(message)
        incoming, addressed = message.incoming, message.addressed
        place, first = incoming.place, self._deduplicator.first
        if message.by_bot and not (addressed and self.inbound.answers_bot(incoming.user)):
            if place.thread and not (message.hidden or (refusal and refusal.silent)):
                await self.inbound.overhear(incoming, by_bot=True)
            return None
        if refusal is not None:
            key = ("refused", incoming.user.account, place.channel)
            if not addressed or refusal.silent or not first(key, again_after=TELL_AGAIN_SECONDS):
                return None
            return CommandReply(text=refusal.text, failed=True)
        inside = place.thread or self.inbound.hears_all(place)
        may_mean_us = inside and not message.to_another
        if not addressed and not (may_mean_us and await self._listens(incoming)):
            if inside and not message.hidden:
                await self.inbound.overhear(await self._named(message))
            return None
        if message.hidden:
            notice = CommandReply(text=message.hidden, failed=True)
            return notice if addressed or first(("hidden", place.thread)) else None
        if not (incoming.text or incoming.files or incoming.quoted or incoming.only_mention):
            return CommandReply(text=NO_TEXT, failed=True) if addressed else None
        try:
            return await self.inbound.receive(await self._named(message))
        except BotError:
            raise
        except Exception:
            # It is for the bot, whether addressed or not: its user waits for an answer.
            log.exception("The %s could not be handled", incoming.event_id)
            return CommandReply(text=TROUBLE, failed=True)

    async def _listens(self, incoming: Incoming) -> bool:
        try:
            return await self.inbound.listens(incoming.user, replace(incoming.place, message=""))
        except DatabaseUnreachableError:
            raise
        except BotError as error:
            log.warning("Whether the %s is for us is unknown: %s", incoming.event_id, error)
            return False

    async def _named(self, message: MessageT) -> Incoming:
        """Return a message with the name of its user, if the name has to be looked up."""
        return message.incoming

    @abstractmethod
    async def _fetched(self, incoming: Incoming) -> MessageT | None:
        """Return a message that was fetched after a gap; `None` if its place is gone."""

    @abstractmethod
    async def _admit(self, message: MessageT) -> tuple[MessageT, AccessRefusal | None]:
        """Return the completed message, and the refusal if its user is not admitted."""

    @abstractmethod
    async def _answer(self, message: MessageT, reply: CommandReply, *, first: bool = False) -> None:
        """Answer the user of a message. Never raises.

        Args:
            message: The message.
            reply: The answer.
            first: Whether the answer is a notice before the answer.
        """

    @abstractmethod
    async def _show_settlement(self, message: MessageT, reply: CommandReply) -> None:
        """Show the answer to a question that a message answered. Never raises."""

"""Sends messages to their place, or else to the user directly, never to more readers."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from bot.conversations.access import around, can_read, is_private
from bot.errors import DeliveryError
from bot.platforms.base import (
    Announcement,
    Confirmation,
    Delivered,
    FileMessage,
    OnBegun,
    OnDrawn,
    RunCard,
    not_kept,
    not_noted,
)
from bot.platforms.messaging.cards import CardMessage
from bot.platforms.messaging.live import GrowingReply
from bot.platforms.reading import PlaceOnly
from bot.recent import Recent
from bot.values import Identity, Place

log = logging.getLogger(__name__)

#: Timeouts for adding and removing the sign that a message was received, in seconds.
RECEIPT_SECONDS, TAKE_SECONDS = 10.0, 20.0
#: Most messages whose sign is cached; the oldest are evicted first.
REMEMBERED = 1_000


class RefusedError(DeliveryError):
    """Raised when a platform refuses a request permanently; a retry cannot help.

    Attributes:
        code: The platform's code of the error.
    """

    def __init__(self, text: str, code: str | int = "") -> None:
        super().__init__(text, permanent=True)
        self.code = code

    @property
    def thread_gone(self) -> bool:
        """True if the thread is unavailable but its channel may accept the message."""
        return False

    @property
    def place_gone(self) -> bool:
        """True if another place could accept the message."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A delivery route to a user.

    Attributes:
        place: The thread, channel or direct message.
        head: The prefix of the message: a mention of the user, or the reason for this route.
        ping: The account to ping; empty for none.
        reply_to: The message to reply to; empty for none.
    """

    place: Place
    head: str = ""
    ping: str = ""
    reply_to: str = ""

    @property
    def channel(self) -> str:
        """The thread or else the channel of the route."""
        return self.place.thread or self.place.channel


#: Sends one text over a route and returns the ids of its messages.
Say = Callable[[Route], Awaitable[tuple[str, ...]]]


@dataclass(slots=True)
class _Mark:
    """The state of the mark of one message.

    Attributes:
        shown: Whether the message has our reaction; `None` when another process may have added it.
    """

    answered: bool = False
    shown: bool | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Acknowledgements:
    """Adds marks to messages and removes them.

    A mark that is removed before it was added is never added.
    """

    def __init__(self) -> None:
        self._marks: Recent[Place, _Mark] = Recent(REMEMBERED)

    async def put(self, place: Place, show: Callable[[], Awaitable[bool]]) -> None:
        """Mark a message, unless it was answered meanwhile. Logs why it could not be marked.

        Args:
            place: The place with the message.
            show: Adds the mark; returns True if the mark has to be removed later.
        """
        mark = self._marks[place] = self._marks.get(place) or _Mark()
        async with mark.lock:
            if mark.answered:
                return
            mark.shown = True  # if `show` is cancelled, the mark may exist
            try:
                mark.shown = await show()
            except DeliveryError as error:
                mark.shown = False
                log.info("It was not shown that a message was received: %s", error)

    async def take(
        self, place: Place, hide: Callable[[], Awaitable[object]], *, unknown: bool = True
    ) -> None:
        """Remove the mark of a message, once. Never raises.

        Args:
            place: The place with the message.
            hide: Removes the mark.
            unknown: Call `hide` also if it is unknown whether the message has a mark.
        """
        mark = self._marks[place] = self._marks.get(place) or _Mark()
        mark.answered = True
        try:
            async with asyncio.timeout(TAKE_SECONDS), mark.lock:
                shown, mark.shown = mark.shown, False
                if unknown if shown is None else shown:
                    await hide()
        except (DeliveryError, TimeoutError) as error:
            log.info("It is still shown that a message was received: %s", error)

    async def show(self, mark: Callable[[], Awaitable[object]]) -> None:
        """Add a mark that stays. Never raises."""
        try:
            async with asyncio.timeout(TAKE_SECONDS):
                await mark()
        except (DeliveryError, TimeoutError) as error:
            log.info("It is not shown that a message was read: %s", error)


#: Turns whose further runs are shown in the message of the first ones.
MOST_BATCHES = 100


class MessagingOutlet(PlaceOnly, ABC):
    """The shared part of the outlets of chat platforms; implements most of `Outlet`.

    Args:
        nowhere: The error if neither the place nor the user can be reached.
    """

    takes_files = True

    def __init__(self, nowhere: str) -> None:
        self._receipts = Acknowledgements()
        #: The messages of the runs whose final state is not shown yet.
        self._cards: dict[str, CardMessage[Any]] = {}
        #: The newest message of each turn that started runs, for further ones; the last turns only.
        self._batches: dict[str, CardMessage[Any]] = {}
        #: The replies that are under way: a card that is posted meanwhile moves them below itself.
        self._replies: WeakValueDictionary[Place, GrowingReply[Any]] = WeakValueDictionary()
        self._nowhere = nowhere

    async def acknowledge(self, place: Place) -> None:
        """Show at once that the message was received. Never raises."""
        try:
            async with asyncio.timeout(RECEIPT_SECONDS):
                await self._show_receipt(place)
        except (DeliveryError, TimeoutError) as error:
            log.info("It was not shown that a message was received: %s", error)

    def open_reply(
        self,
        place: Place,
        owner: Identity,
        message_id: str = "",
        *,
        begun: OnBegun = not_kept,
    ) -> GrowingReply[Any]:
        """Begin a reply, or continue the reply with the given message id."""
        reply = self._replies[place] = self._begin_reply(place, owner, message_id, begun)
        return reply

    def show_card(
        self, card: RunCard, *, begun: OnBegun = not_kept, drawn: OnDrawn = not_noted
    ) -> None:
        """Show or update a run card; the newest state wins, at the platform's rate. Never waits."""
        shown = self._cards.get(card.run_id) or self._batches.get(card.batch)
        if shown is None or not (card.run_id in shown.cards or shown.takes(card)):
            shown = self._begin_card(card)
            shown.posted = partial(self._cover, card.place)
        self._cards[card.run_id] = shown
        if card.batch:
            self._batches.pop(card.batch, None)
            self._batches[card.batch] = shown
            for oldest in list(self._batches)[:-MOST_BATCHES]:
                del self._batches[oldest]
        shown.show(card, begun, ended=partial(self._forget, shown), drawn=drawn)

    def _cover(self, place: Place) -> None:
        if reply := self._replies.get(place):
            reply.cover()

    def _forget(self, shown: CardMessage[Any]) -> None:
        """Forget the message of runs that have all ended."""
        for run_id in shown.cards:
            self._cards.pop(run_id, None)

    async def announce(self, announcement: Announcement) -> Delivered:
        """Send an announcement to its place, or else to its owner; ping only the owner.

        If the platform refuses both, the parent channel of a public thread gets a notice without
        the content.

        Raises:
            DeliveryError: The announcement was not delivered.
        """
        place, owner = announcement.place, announcement.owner
        say = await self._announcement(announcement)
        if not owner.account:
            route = await self._usual_route(place, owner)
            if route is None:
                raise RefusedError("There is no place for it.")
            return Delivered(await say(replace(route, head="", ping="")))
        try:
            return Delivered(await self._reach(place, owner, say, quiet=announcement.quiet))
        except RefusedError:
            raise
        except DeliveryError as error:
            readable = place.thread and not is_private(place) and can_read(around(place), place)
            if error.permanent and readable:
                try:
                    await self._post_notice(around(place), owner, f"kept {announcement.key}")
                except DeliveryError as failed:
                    log.info("The channel of %s got no notice: %s", announcement.key, failed)
            raise

    async def ask(self, confirmation: Confirmation) -> str:
        """Ask the owner a question, unless a message shows it already.

        Returns:
            The id of the message.

        Raises:
            DeliveryError: The question was not delivered; the answer is then no.
        """
        if confirmation.message_id:
            return confirmation.message_id
        say = await self._question(confirmation)
        return (await self._reach(confirmation.place, confirmation.owner, say))[-1]

    async def post(self, place: Place, owner: Identity, text: str) -> Delivered:
        """Post a text in a place for all who read there, without a ping, and nowhere else.

        Raises:
            DeliveryError: The text was not delivered.
        """
        route = await self._usual_route(place, owner)
        if route is None:
            raise RefusedError("There is no place for it.")
        return Delivered(await self._post_text(replace(route, head="", ping=""), text))

    async def send_files(self, message: FileMessage) -> Delivered:
        """Post files to a place, or else to the owner, in one message without a ping.

        Raises:
            DeliveryError: The files were not delivered.
        """

        async def say(route: Route) -> tuple[str, ...]:
            return await self._post_files(route, message)

        return Delivered(await self._reach(message.place, message.owner, say))

    async def _reach(
        self, place: Place, owner: Identity, say: Say, *, quiet: bool = False
    ) -> tuple[str, ...]:
        """Send something to its place, or else to the user directly.

        Args:
            place: The place.
            owner: The user.
            say: Sends it over a route.
            quiet: Whether the user is not pinged in the place.

        Raises:
            DeliveryError: The delivery failed for now; if permanent, no route is left.
        """
        refused = None
        try:
            if (route := await self._usual_route(place, owner)) is not None:
                return await say(replace(route, head="", ping="") if quiet else route)
        except RefusedError as error:
            log.info("A message is refused in its place: %s", error)
            if not error.place_gone:
                raise
            refused = error
        try:
            if (route := await self._direct_route(place, owner, refused)) is not None:
                return await say(route)
        except RefusedError as error:
            refused = error
        raise DeliveryError(f"{self._nowhere} {refused}", permanent=True) from refused

    @abstractmethod
    async def _show_receipt(self, place: Place) -> None:
        """Show that a message was received, by `Acknowledgements.put`."""

    @abstractmethod
    def _begin_reply(
        self, place: Place, owner: Identity, message_id: str, begun: OnBegun
    ) -> GrowingReply[Any]:
        """Return a new reply, or the reply with the given message id."""

    @abstractmethod
    def _begin_card(self, card: RunCard) -> CardMessage[Any]:
        """Return the message of a run without a message, and of others of its turn."""

    @abstractmethod
    async def _announcement(self, announcement: Announcement) -> Say:
        """Return the function that sends an announcement."""

    @abstractmethod
    async def _question(self, confirmation: Confirmation) -> Say:
        """Return the function that sends a question; the last id is that of its buttons."""

    @abstractmethod
    async def _post_text(self, route: Route, text: str) -> tuple[str, ...]:
        """Post a text over a route, and return the ids of its messages.

        Raises:
            DeliveryError: The text was not delivered.
        """

    @abstractmethod
    async def _post_files(self, route: Route, message: FileMessage) -> tuple[str, ...]:
        """Post files in one message, and return its id if the platform names it.

        Raises:
            DeliveryError: The files were not delivered.
        """

    @abstractmethod
    async def _post_notice(self, channel: Place, owner: Identity, key: str) -> None:
        """Notify the owner in a channel that a result is stored, with this idempotency key."""

    @abstractmethod
    async def _usual_route(self, place: Place, owner: Identity) -> Route | None:
        """Return the route to a place; `None` for a user without a place."""

    @abstractmethod
    async def _direct_route(
        self, place: Place, owner: Identity, refused: RefusedError | None
    ) -> Route | None:
        """Return the route to the user alone; `None` if it is the refused one."""

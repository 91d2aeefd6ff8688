"""What a thread shows while the bot is at work: "is thinking…", and Slack's own Stop button."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from bot.errors import DeliveryError
from bot.platforms.slack.abilities import Abilities, Ability
from bot.platforms.slack.budget import EDITS_PER_MINUTE, Budget
from bot.platforms.slack.problems import RefusedError
from bot.platforms.slack.sending import Request, Sender
from bot.platforms.slack.texts import THINKING
from bot.tasks import Tasks
from bot.values import Place

log = logging.getLogger(__name__)

#: Slack takes the line away after two minutes.
REFRESH_SECONDS = 90.0
#: The longest that it is shown, whoever forgot to end it.
AT_MOST_SECONDS = 3_600.0

PROCESSING, SUSPENDED, ACTIVE = "processing", "suspended", "active"

_Key = tuple[str, str, str]


@dataclass(eq=False, slots=True)
class _Thread:
    """One thread.

    Attributes:
        place: The thread, no message in it.
        working: How many answers are being given there.
        questions: Those that wait for an answer, by id, each with its alarm clock.
        text: The line as we last set it; `None` when it is not known.
        session: The state of its session, likewise.
        alarm: Rings when the line has to be set again.
        refreshed: How often that was.
        users: How many are telling Slack about it, or are going to.
    """

    place: Place
    working: int = 0
    questions: dict[str, asyncio.TimerHandle] = field(default_factory=dict)
    text: str | None = None
    session: str | None = None
    alarm: asyncio.TimerHandle | None = None
    refreshed: int = 0
    users: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def wanted_text(self) -> str:
        return THINKING if self.working else ""

    @property
    def wanted_session(self) -> str:
        return PROCESSING if self.working else self.after

    @property
    def after(self) -> str:
        """The state of the session once nobody works there."""
        return SUSPENDED if self.questions else ACTIVE

    @property
    def idle(self) -> bool:
        return not (self.working or self.questions or self.users)


class Status:
    """Shows in threads that the bot is at work. Nothing here ever fails: it is only shown.

    Args:
        sender: Takes it to Slack.
        abilities: Know where that works.
        tasks: Owns what goes on in the background.
        refresh_seconds: How often the line is set again.
    """

    def __init__(
        self,
        sender: Sender,
        abilities: Abilities,
        tasks: Tasks,
        *,
        refresh_seconds: float = REFRESH_SECONDS,
    ) -> None:
        self._sender = sender
        self._abilities = abilities
        self._tasks = tasks
        self._refresh_seconds = refresh_seconds
        self._threads: dict[_Key, _Thread] = {}

    # -- what goes on ----------------------------------------------------------------------------

    async def heard(self, place: Place) -> bool:
        """Show at once that a message was heard; return whether that can be seen.

        It is not shown again: the one who answers does that, maybe in another process.
        """
        if not place.thread:
            return False
        thread = self._of(place)
        async with self._using(thread):
            return bool(thread.working) or await self._set_text(thread, THINKING)

    def works(self, place: Place) -> bool:
        """Return True if places of this kind show such a line, as far as it is known."""
        return bool(place.thread) and self._abilities.has(Ability.STATUS, place)

    def begin(self, place: Place) -> None:
        """Show that an answer is being given, until `end` or `leave`."""
        if not place.thread:
            return
        thread = self._of(place)
        thread.working += 1
        self._wind(thread)
        self._tell(thread)

    def end(self, place: Place, *, session: str = "") -> None:
        """Show that the answer is given.

        Args:
            place: Where.
            session: The state of the session that Slack has been told along with the answer.
        """
        thread = self._threads.get(_key(place))
        if thread is None or not thread.working:
            return
        thread.working -= 1
        thread.session = session or thread.session
        self._tell(thread)

    def leave(self, place: Place) -> None:
        """Show nothing more of an answer that somebody else goes on with."""
        thread = self._threads.get(_key(place))
        if thread is not None and thread.working:
            thread.working -= 1
            self._forget(thread)

    def after(self, place: Place) -> str:
        """Return the state of the session for when one answer is given there."""
        thread = self._threads.get(_key(place))
        if thread is None:
            return ACTIVE
        return PROCESSING if thread.working > 1 else thread.after

    # -- questions -------------------------------------------------------------------------------

    def asked(self, place: Place, question_id: str, seconds: float) -> None:
        """Show that a question waits for its answer, for so long."""
        if not place.thread:
            return
        thread = self._of(place)
        loop = asyncio.get_running_loop()
        thread.questions[question_id] = loop.call_later(seconds, self.answered, question_id)
        self._tell(thread)

    def answered(self, question_id: str, place: Place | None = None) -> None:
        """Show that a question waits no more.

        Args:
            question_id: Which.
            place: Where it was asked, maybe by another process.
        """
        found = [thread for thread in self._threads.values() if question_id in thread.questions]
        if not found and place is not None and place.thread:
            thread = self._of(place)
            thread.session = thread.session or SUSPENDED
            self._tell(thread)
        for thread in found:
            thread.questions.pop(question_id).cancel()
            self._tell(thread)

    def close(self) -> None:
        """Set nothing again from now on."""
        for thread in self._threads.values():
            for alarm in (thread.alarm, *thread.questions.values()):
                if alarm is not None:
                    alarm.cancel()

    # -- at the start ----------------------------------------------------------------------------

    async def clear_open(self, places: Iterable[Place]) -> None:
        """Take away what a process that died has left in threads, one after the other."""
        budget = Budget(EDITS_PER_MINUTE)
        for place in {_key(place): place for place in places if place.thread}.values():
            await budget.turn()
            thread = self._of(place)
            thread.text, thread.session = THINKING, PROCESSING
            self._tell(thread)

    # -- telling Slack ---------------------------------------------------------------------------

    def _of(self, place: Place) -> _Thread:
        return self._threads.setdefault(_key(place), _Thread(replace(place, message="")))

    def _forget(self, thread: _Thread) -> None:
        if not thread.working and thread.alarm is not None:
            thread.alarm.cancel()
            thread.alarm, thread.refreshed = None, 0
        if thread.idle:
            self._threads.pop(_key(thread.place), None)

    def _wind(self, thread: _Thread) -> None:
        if thread.alarm is None and thread.refreshed * self._refresh_seconds < AT_MOST_SECONDS:
            loop = asyncio.get_running_loop()
            thread.alarm = loop.call_later(self._refresh_seconds, self._refresh, thread)

    def _refresh(self, thread: _Thread) -> None:
        thread.alarm = None
        if thread.working:
            thread.text = None
            thread.refreshed += 1
            self._wind(thread)
            self._tell(thread)

    @asynccontextmanager
    async def _using(self, thread: _Thread) -> AsyncIterator[None]:
        """Let nobody else tell Slack about a thread meanwhile, and forget it if nothing is left."""
        thread.users += 1
        try:
            async with thread.lock:
                yield
        finally:
            thread.users -= 1
            self._forget(thread)

    def _tell(self, thread: _Thread) -> None:
        thread.users += 1
        self._tasks.start(self._sync(thread), name="show what goes on in a thread")

    async def _sync(self, thread: _Thread) -> None:
        """Let the thread show what it should by now: of several calls the first does it all."""
        thread.users -= 1
        async with self._using(thread):
            if thread.text != thread.wanted_text:
                await self._set_text(thread, thread.wanted_text)
            if thread.session != thread.wanted_session:
                await self._set_session(thread, thread.wanted_session)

    async def _set_text(self, thread: _Thread, text: str) -> bool:
        place = thread.place
        thread.text = text
        return await self._try(
            Ability.STATUS,
            place,
            lambda client: client.assistant_threads_setStatus(
                channel_id=place.channel, thread_ts=place.thread, status=text
            ),
        )

    async def _set_session(self, thread: _Thread, session: str) -> bool:
        place = thread.place
        thread.session = session
        return await self._try(
            Ability.SESSION,
            place,
            lambda client: client.agents_sessions_setStatus(
                channel_id=place.channel, thread_ts=place.thread, status=session
            ),
        )

    async def _try(self, ability: Ability, place: Place, request: Request) -> bool:
        """Make a request unless it is known to be in vain; return whether it worked."""
        if not self._abilities.has(ability, place):
            return False
        try:
            await self._sender.ask(place.workspace, request)
        except RefusedError as error:
            self._abilities.lost(ability, place, error)
            return False
        except DeliveryError as error:
            log.info("It is not shown what goes on in a thread: %s", error)
            return False
        return True


def _key(place: Place) -> _Key:
    return place.workspace, place.channel, place.thread

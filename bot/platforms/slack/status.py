"""Sets the status of threads while the bot works: "is thinking…" and Slack's own Stop button."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from bot.errors import DeliveryError
from bot.platforms.slack.abilities import Abilities, Ability
from bot.platforms.slack.budget import EDITS_PER_MINUTE, RequestBudget
from bot.platforms.slack.problems import RefusedError
from bot.platforms.slack.sending import Request, Sender
from bot.platforms.slack.texts import THINKING
from bot.tasks import Tasks
from bot.values import Place

log = logging.getLogger(__name__)

#: Interval at which the line is set again, in seconds: Slack removes it after two minutes.
REFRESH_SECONDS = 90.0
#: Longest display of the line, in seconds, even if the work is never ended.
AT_MOST_SECONDS = 3_600.0

PROCESSING, SUSPENDED, ACTIVE = "processing", "suspended", "active"

_Key = tuple[str, str, str]


@dataclass(eq=False, slots=True)
class _Thread:
    """The status of one thread.

    Attributes:
        place: The thread, without a message.
        working: The number of replies in progress.
        questions: The timers of the open questions, by id.
        text: The line as last set; `None` if unknown.
        session: The state of the session as last set; `None` if unknown.
        alarm: The timer for the next refresh of the line.
        refreshed: The number of refreshes so far.
        users: The number of updates to Slack that are running or scheduled.
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
        """The state of the session after the last reply in progress."""
        return SUSPENDED if self.questions else ACTIVE

    @property
    def idle(self) -> bool:
        return not (self.working or self.questions or self.users)


class Status:
    """Shows in threads that the bot is working. Errors of Slack are only logged.

    Args:
        sender: Makes the requests to Slack.
        abilities: Know the features that a workspace supports.
        tasks: Owns the background tasks.
        refresh_seconds: Interval at which the line is set again.
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

    # -- replies in progress ---------------------------------------------------------------------

    async def heard(self, place: Place) -> bool:
        """Show at once that a message was received; return True if the thread shows the line.

        The line is not refreshed: the process that answers does so, which may be another process.
        """
        if not place.thread:
            return False
        thread = self._of(place)
        async with self._using(thread):
            return bool(thread.working) or await self._set_text(thread, THINKING)

    def works(self, place: Place) -> bool:
        """Return True for a thread, unless places of its kind are known to refuse the line."""
        return bool(place.thread) and self._abilities.has(Ability.STATUS, place)

    def begin(self, place: Place) -> None:
        """Show that a reply is in progress, until `end` or `leave`."""
        if not place.thread:
            return
        thread = self._of(place)
        thread.working += 1
        self._wind(thread)
        self._tell(thread)

    def end(self, place: Place, *, session: str = "") -> None:
        """Show that a reply is complete.

        Args:
            place: The place of the reply.
            session: The state of the session that was sent with the reply; empty for none.
        """
        thread = self._threads.get(_key(place))
        if thread is None or not thread.working:
            return
        thread.working -= 1
        thread.session = session or thread.session
        self._tell(thread)

    def leave(self, place: Place) -> None:
        """Stop updating the status of a reply that another process will continue."""
        thread = self._threads.get(_key(place))
        if thread is not None and thread.working:
            thread.working -= 1
            self._forget(thread)

    def after(self, place: Place) -> str:
        """Return the state of the session after the end of one reply in progress."""
        thread = self._threads.get(_key(place))
        if thread is None:
            return ACTIVE
        return PROCESSING if thread.working > 1 else thread.after

    # -- questions -------------------------------------------------------------------------------

    def asked(self, place: Place, question_id: str, seconds: float) -> None:
        """Show that a question is open, for at most `seconds`."""
        if not place.thread:
            return
        thread = self._of(place)
        loop = asyncio.get_running_loop()
        thread.questions[question_id] = loop.call_later(seconds, self.answered, question_id)
        self._tell(thread)

    def answered(self, question_id: str, place: Place | None = None) -> None:
        """Show that a question is closed.

        Args:
            question_id: The id of the question.
            place: The place of the question, which another process may have asked.
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
        """Cancel all timers."""
        for thread in self._threads.values():
            for alarm in (thread.alarm, *thread.questions.values()):
                if alarm is not None:
                    alarm.cancel()

    # -- start-up --------------------------------------------------------------------------------

    async def clear_open(self, places: Iterable[Place]) -> None:
        """Clear the status that a crashed process left in threads, at the rate of edits."""
        budget = RequestBudget(EDITS_PER_MINUTE)
        for place in {_key(place): place for place in places if place.thread}.values():
            await budget.turn()
            thread = self._of(place)
            thread.text, thread.session = THINKING, PROCESSING
            self._tell(thread)

    # -- updates to Slack ------------------------------------------------------------------------

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
        """Lock a thread during an update, then remove its state if the thread is idle."""
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
        """Send the current status of a thread; later calls find nothing left to send."""
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
        """Make a request unless its feature is known to be refused; return True on success."""
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

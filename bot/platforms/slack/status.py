"""Sets the status of threads while the bot works: "is thinking…" and Slack's own Stop button."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from slack_sdk.web.async_client import AsyncWebClient

from bot.errors import DeliveryError
from bot.platforms.slack.budget import EDITS_PER_MINUTE, RequestBudget
from bot.platforms.slack.problems import CONTENT, RefusedError
from bot.platforms.slack.sending import Method, Sender, thread_of
from bot.platforms.slack.texts import THINKING
from bot.tasks import Tasks
from bot.values import Place

log = logging.getLogger(__name__)

#: Interval at which the line is set again, in seconds: Slack removes it after two minutes.
REFRESH_SECONDS = 90.0
#: Longest display of the line, in seconds, even if the work is never ended.
AT_MOST_SECONDS = 3_600.0
#: Time after which a refused feature is tried again, in seconds: the app may have been granted the
#: feature meanwhile, and the refusal may have been temporary.
TRY_AGAIN_SECONDS = 600.0

PROCESSING, SUSPENDED, ACTIVE = "processing", "suspended", "active"


class Ability(StrEnum):
    """A feature that Slack grants to some apps in some workspaces."""

    STREAM = "answers that stream"
    STATUS = "the line that says that the bot is thinking"
    SESSION = "the Stop button of Slack itself"


#: Set the line and the session of a thread.
_METHODS: dict[Ability, Method] = {
    Ability.STATUS: AsyncWebClient.assistant_threads_setStatus,
    Ability.SESSION: AsyncWebClient.agents_sessions_setStatus,
}
#: Refusals that concern a kind of channel (channels, direct messages, groups), not one channel.
_OF_THE_KIND = frozenset({"channel_type_not_supported", "method_not_supported_for_channel_type"})


class Abilities:
    """Remembers the features that Slack refused, by workspace and kind of channel.

    The first letter of a channel's id is the kind of channel.

    Args:
        now: A monotonic clock in seconds.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._refused: dict[tuple[Ability, str, str], float] = {}

    def has(self, ability: Ability, place: Place) -> bool:
        """Return True if a feature may work in places of this kind."""
        refused = self._refused.get((ability, place.workspace, place.channel[:1]))
        return refused is None or self._now() - refused >= TRY_AGAIN_SECONDS

    def lost(self, ability: Ability, place: Place, error: RefusedError) -> None:
        """Record the refusal of a feature.

        Ignores refusals caused by the token, the content or one single place.
        """
        if error.token_refused or error.code in CONTENT:
            return
        if error.place_gone and error.code not in _OF_THE_KIND:
            return
        if self.has(ability, place):
            log.info("Slack does not have %s in %s: %s", ability, place.workspace, error)
        self._refused[ability, place.workspace, place.channel[:1]] = self._now()


@dataclass(eq=False, slots=True)
class _Thread:
    """The status of one thread.

    Attributes:
        place: The thread, without a message.
        working: The number of replies in progress.
        questions: The timers of the open questions, by id.
        shown: The line and the state of the session as last set; without those that are unknown.
        alarm: The timer for the next refresh of the line.
        refreshed: The number of refreshes so far.
        users: The number of updates to Slack that are running or scheduled.
    """

    place: Place
    working: int = 0
    questions: dict[str, asyncio.TimerHandle] = field(default_factory=dict)
    shown: dict[Ability, str] = field(default_factory=dict)
    alarm: asyncio.TimerHandle | None = None
    refreshed: int = 0
    users: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def wanted(self, ability: Ability) -> str:
        """Return the line or the state of the session as it should be."""
        if ability is Ability.STATUS:
            return THINKING if self.working else ""
        return PROCESSING if self.working else self.after

    @property
    def after(self) -> str:
        """The state of the session after the last reply in progress."""
        return SUSPENDED if self.questions else ACTIVE


class Status:
    """Shows in threads that the bot is working. Errors of Slack are only logged.

    Args:
        sender: Makes the requests to Slack.
        tasks: Owns the background tasks.
        refresh_seconds: Interval at which the line is set again.

    Attributes:
        abilities: Know the features that a workspace supports.
    """

    def __init__(self, sender: Sender, tasks: Tasks, *, refresh_seconds: float) -> None:
        self.abilities = Abilities()
        self._sender = sender
        self._tasks = tasks
        self._refresh_seconds = refresh_seconds
        self._threads: dict[Place, _Thread] = {}

    # -- replies in progress ---------------------------------------------------------------------

    async def heard(self, place: Place) -> bool:
        """Show at once that a message was received; return True if the thread shows the line.

        The line is not refreshed: the process that answers does so, which may be another process.
        """
        if not place.thread:
            return False
        thread = self._of(place)
        async with self._using(thread):
            return bool(thread.working) or await self._set(thread, Ability.STATUS, THINKING)

    def works(self, place: Place) -> bool:
        """Return True for a thread, unless places of its kind are known to refuse the line."""
        return bool(place.thread) and self.abilities.has(Ability.STATUS, place)

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
        thread = self._threads.get(thread_of(place))
        if thread is None or not thread.working:
            return
        thread.working -= 1
        if session:
            thread.shown[Ability.SESSION] = session
        self._tell(thread)

    def leave(self, place: Place) -> None:
        """Stop updating the status of a reply that another process will continue."""
        thread = self._threads.get(thread_of(place))
        if thread is not None and thread.working:
            thread.working -= 1
            self._forget(thread)

    def after(self, place: Place) -> str:
        """Return the state of the session after the end of one reply in progress."""
        thread = self._threads.get(thread_of(place))
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
            thread.shown.setdefault(Ability.SESSION, SUSPENDED)
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
        for place in dict.fromkeys(thread_of(each) for each in places if each.thread):
            await budget.wait()
            thread = self._of(place)
            thread.shown = {Ability.STATUS: THINKING, Ability.SESSION: PROCESSING}
            self._tell(thread)

    # -- updates to Slack ------------------------------------------------------------------------

    def _of(self, place: Place) -> _Thread:
        place = thread_of(place)
        return self._threads.setdefault(place, _Thread(place))

    def _forget(self, thread: _Thread) -> None:
        if not thread.working and thread.alarm is not None:
            thread.alarm.cancel()
            thread.alarm, thread.refreshed = None, 0
        if not (thread.working or thread.questions or thread.users):
            self._threads.pop(thread.place, None)

    def _wind(self, thread: _Thread) -> None:
        if thread.alarm is None and thread.refreshed * self._refresh_seconds < AT_MOST_SECONDS:
            loop = asyncio.get_running_loop()
            thread.alarm = loop.call_later(self._refresh_seconds, self._refresh, thread)

    def _refresh(self, thread: _Thread) -> None:
        thread.alarm = None
        if thread.working:
            thread.shown.pop(Ability.STATUS, None)
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
            for ability in _METHODS:
                if thread.shown.get(ability) != (wanted := thread.wanted(ability)):
                    await self._set(thread, ability, wanted)

    async def _set(self, thread: _Thread, ability: Ability, status: str) -> bool:
        """Set the line or the session, unless Slack is known to refuse that; True on success."""
        place, thread.shown[ability] = thread.place, status
        if not self.abilities.has(ability, place):
            return False
        try:
            await self._sender.ask(
                place.workspace,
                _METHODS[ability],
                channel_id=place.channel,
                thread_ts=place.thread,
                status=status,
            )
        except RefusedError as error:
            self.abilities.lost(ability, place, error)
            return False
        except DeliveryError as error:
            log.info("It is not shown what goes on in a thread: %s", error)
            return False
        return True

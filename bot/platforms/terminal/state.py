"""State of one terminal: the active user, and each user's replies, runs and questions."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.errors import NotPresentError
from bot.platforms.base import Confirmation, RunCard
from bot.platforms.terminal.surface import Notice, Surface
from bot.platforms.terminal.texts import farewell
from bot.values import Identity, Place


@dataclass(slots=True)
class OpenReply:
    """A reply in progress.

    Attributes:
        since: Start of its turn, in seconds of the terminal's clock.
        text: The whole text so far.
        drawn_text: The text that was rendered last.
        drawn: The last rendered lines of `drawn_text`, with colours.
    """

    owner: Identity
    place: Place
    since: float
    text: str = ""
    drawn_text: str = ""
    drawn: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveCard:
    """The newest card of a run and the time it arrived, in seconds of the terminal's clock."""

    card: RunCard
    since: float


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """An open confirmation and its deadline, in seconds of the terminal's clock."""

    confirmation: Confirmation
    until: float


class TerminalState:
    """Stores the active user and the replies, runs and questions of all users.

    Every user sees only their own.

    Args:
        monotonic: A monotonic clock, in seconds.

    Attributes:
        present: The user at the prompt; `None` before and after the chat.
        thinking: Time of the newest message by channel, until its reply is opened.
        closed: Number of ended replies by user.
        unannounced: Ids of the ended runs without an announcement.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.now = monotonic
        self.present: Identity | None = None
        self.replies: list[OpenReply] = []
        self.cards: dict[str, LiveCard] = {}
        self.thinking: dict[str, float] = {}
        self.closed: Counter[Identity] = Counter()
        self.unannounced: set[str] = set()
        self._surface: Surface | None = None
        self._questions: dict[str, OpenQuestion] = {}
        self._ended: set[str] = set()
        self._changed = asyncio.Event()

    # --- the active user ------------------------------------------------------------------------

    def enter(self, user: Identity, surface: Surface) -> None:
        """Make a user active; show the user's runs that ended during their absence."""
        self.present, self._surface = user, surface
        surface.user_changed(user)
        for live in [live for live in self.cards.values() if live.card.owner == user]:
            if live.card.status.final:
                del self.cards[live.card.run_id]
                surface.card_moved(live.card, None)
        self.notify()

    def leave(self) -> None:
        """Note what is unfinished on the surface; clear the active user and the surface."""
        words = farewell(len(self.going), answering=bool(self.replies))
        if words and self._surface is not None:
            self._surface.show(Notice(words))
        self.present, self._surface = None, None
        self.notify()

    def surface_for(self, owner: Identity) -> Surface:
        """Return the surface that this user sees.

        Raises:
            NotPresentError: The user is not at the prompt.
        """
        if self._surface is None or owner != self.present:
            raise NotPresentError(
                f"{owner.account} is not at the terminal now; this waits until they are back."
            )
        return self._surface

    # --- replies --------------------------------------------------------------------------------

    def receive_message(self, place: Place) -> None:
        """Record that a message was received whose reply is in preparation."""
        self.thinking[place.channel] = self.now()
        self.notify()

    def forget(self, place: Place) -> None:
        """Record that the newest message of a place gets no reply."""
        if self.thinking.pop(place.channel, None) is not None:
            self.notify()

    def open_reply(self, owner: Identity, place: Place) -> OpenReply:
        """Open a reply and return it."""
        since = self.thinking.pop(place.channel, self.now())
        reply = OpenReply(owner, place, since)
        self.replies.append(reply)
        self.notify()
        return reply

    def close_reply(self, reply: OpenReply) -> None:
        """Close a reply, whether shown or not; a second call has no effect."""
        if reply in self.replies:
            self.replies.remove(reply)
            self.closed[reply.owner] += 1
            self.notify()

    def replies_of(self, user: Identity) -> list[OpenReply]:
        """Return the open replies of one user."""
        return [reply for reply in self.replies if reply.owner == user]

    def next_reply(self) -> Callable[[], Awaitable[None]]:
        """Return a function that waits for the end of the active user's next reply."""
        user = self.present
        assert user is not None, "Nobody is at the prompt."
        number = self.closed[user] + len(self.replies_of(user)) + 1
        return lambda: self.until(lambda: self.closed[user] >= number)

    def busy(self, user: Identity) -> bool:
        """Return True while a turn of this user is in progress."""
        return user.account in self.thinking or bool(self.replies_of(user))

    # --- runs -----------------------------------------------------------------------------------

    def move_card(self, card: RunCard) -> None:
        """Store a run's newest card and show it; cards after the run's end are ignored."""
        if card.run_id in self._ended:
            return
        if card.status.final:
            self._ended.add(card.run_id)
            if not card.awaited:
                self.unannounced.add(card.run_id)
        before = self.cards.get(card.run_id)
        self.cards[card.run_id] = LiveCard(card, self.now())
        if self._surface is not None and card.owner == self.present:
            if card.status.final:
                del self.cards[card.run_id]
            self._surface.card_moved(card, before.card.status if before else None)
        self.notify()

    def announced(self, run_id: str) -> None:
        """Record that the result of a run was announced."""
        self.unannounced.discard(run_id)
        self.notify()

    def cards_of(self, user: Identity) -> list[LiveCard]:
        """Return the cards of one user's runs, oldest first."""
        return [live for live in self.cards.values() if live.card.owner == user]

    @property
    def going(self) -> list[RunCard]:
        """The cards of all users' runs that have not ended."""
        return [live.card for live in self.cards.values() if not live.card.status.final]

    # --- questions ------------------------------------------------------------------------------

    def add_question(self, confirmation: Confirmation) -> None:
        """Store a question that was shown."""
        until = self.now() + confirmation.expires_in_seconds
        self._questions[confirmation.id] = OpenQuestion(confirmation, until)

    def drop_question(self, confirmation_id: str) -> bool:
        """Remove a closed question; return True if it was stored."""
        return self._questions.pop(confirmation_id, None) is not None

    def questions_of(self, user: Identity, word: str = "") -> list[Confirmation]:
        """Return the open questions of one user, oldest first.

        Args:
            user: The user.
            word: The key of a choice that the questions must offer; empty for all questions.
        """
        now = self.now()
        self._questions = {key: item for key, item in self._questions.items() if item.until > now}
        asked = [question.confirmation for question in self._questions.values()]
        own = [confirmation for confirmation in asked if confirmation.owner == user]
        return [each for each in own if not word or word in {it.key for it in each.choices}]

    # --- waiting --------------------------------------------------------------------------------

    def notify(self) -> None:
        """Notify the waiting tasks and the surface of a change."""
        self._changed.set()
        if self._surface is not None:
            self._surface.moved()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true; it is checked after each change."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

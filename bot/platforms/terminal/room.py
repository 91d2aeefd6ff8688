"""What is going on at one terminal, and for whom: each person sees only their own."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.errors import NotPresentError
from bot.platforms.base import Confirmation, RunCard
from bot.platforms.terminal.surface import Surface
from bot.values import Identity, Place


@dataclass(slots=True)
class OpenReply:
    """A reply that grows.

    Attributes:
        text: All of it so far.
        drawn_text: The text that was laid out last.
        drawn: The last lines of that, with their colours.
    """

    owner: Identity
    place: Place
    since: float
    text: str = ""
    drawn_text: str = ""
    drawn: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveCard:
    """A run's newest state and when it came, in seconds of the room's clock."""

    card: RunCard
    since: float


@dataclass(frozen=True, slots=True)
class Question:
    """A confirmation that waits for its answer until a moment of the room's clock."""

    confirmation: Confirmation
    until: float


class Room:
    """Who is at this terminal, and what is going on for whom.

    Args:
        monotonic: A clock in seconds that never goes back.

    Attributes:
        present: The person at the prompt; `None` before the chat and after it.
        thinking: When each place's newest message was heard, while nothing of its reply is there.
        closed: How many replies of each person have ended.
        unannounced: The runs that have ended and of which nothing was announced.
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
        self._questions: dict[str, Question] = {}
        self._ended: set[str] = set()
        self._stirred = asyncio.Event()

    # --- who is there ---------------------------------------------------------------------------

    def enter(self, user: Identity, surface: Surface) -> None:
        """Let a person take the prompt; what ended while they were away is shown to them now."""
        self.present, self._surface = user, surface
        surface.person_changed(user)
        for live in [live for live in self.cards.values() if live.card.owner == user]:
            if live.card.status.final:
                del self.cards[live.card.run_id]
                surface.card_moved(live.card, None)
        self.stir()

    def leave(self) -> None:
        """Know that nobody is there any more."""
        self.present, self._surface = None, None
        self.stir()

    def surface_for(self, owner: Identity) -> Surface:
        """Return what this person looks at.

        Raises:
            NotPresentError: They are not at the prompt.
        """
        if self._surface is None or owner != self.present:
            raise NotPresentError(
                f"{owner.account} is not at the terminal now; this waits until they are back."
            )
        return self._surface

    # --- replies --------------------------------------------------------------------------------

    def hear(self, place: Place) -> None:
        """Know that a message was heard and that its reply is being made."""
        self.thinking[place.channel] = self.now()
        self.stir()

    def forget(self, place: Place) -> None:
        """Know that the newest message in a place brings no reply."""
        if self.thinking.pop(place.channel, None) is not None:
            self.stir()

    def open_reply(self, owner: Identity, place: Place) -> OpenReply:
        """Begin a reply."""
        since = self.thinking.pop(place.channel, self.now())
        reply = OpenReply(owner, place, since)
        self.replies.append(reply)
        self.stir()
        return reply

    def close_reply(self, reply: OpenReply) -> None:
        """End a reply, shown or not; closing it again changes nothing."""
        if reply in self.replies:
            self.replies.remove(reply)
            self.closed[reply.owner] += 1
            self.stir()

    def replies_of(self, user: Identity) -> list[OpenReply]:
        """Return the replies that grow for one person."""
        return [reply for reply in self.replies if reply.owner == user]

    def next_reply(self) -> Callable[[], Awaitable[None]]:
        """Return what waits for the end of the next reply to the person who is there now."""
        user = self.present
        assert user is not None, "Nobody is at the prompt."
        number = self.closed[user] + len(self.replies_of(user)) + 1
        return lambda: self.until(lambda: self.closed[user] >= number)

    def busy(self, user: Identity) -> bool:
        """Whether a turn of this person is under way."""
        return user.account in self.thinking or bool(self.replies_of(user))

    # --- runs -----------------------------------------------------------------------------------

    def move_card(self, card: RunCard) -> None:
        """Take a run's newest state; what comes after its end is too late and is passed over."""
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
        self.stir()

    def announced(self, run_id: str) -> None:
        """Know that the result of a run was announced."""
        self.unannounced.discard(run_id)
        self.stir()

    def cards_of(self, user: Identity) -> list[LiveCard]:
        """Return the cards of one person's runs, oldest first."""
        return [live for live in self.cards.values() if live.card.owner == user]

    @property
    def going(self) -> list[RunCard]:
        """The runs of everyone that have not ended."""
        return [live.card for live in self.cards.values() if not live.card.status.final]

    # --- questions ------------------------------------------------------------------------------

    def add_question(self, confirmation: Confirmation) -> None:
        """Remember a question that was shown."""
        until = self.now() + confirmation.expires_in_seconds
        self._questions[confirmation.id] = Question(confirmation, until)

    def drop_question(self, confirmation_id: str) -> bool:
        """Forget a question that waits no more; return whether it was still known."""
        return self._questions.pop(confirmation_id, None) is not None

    def questions_of(self, user: Identity, word: str = "") -> list[Confirmation]:
        """Return what this person is still asked, oldest first.

        Args:
            user: The person.
            word: Only what can be answered with this: the key of a choice; empty for all.
        """
        now = self.now()
        self._questions = {key: item for key, item in self._questions.items() if item.until > now}
        asked = [question.confirmation for question in self._questions.values()]
        own = [confirmation for confirmation in asked if confirmation.owner == user]
        return [each for each in own if not word or word in {it.key for it in each.choices}]

    # --- waiting --------------------------------------------------------------------------------

    def stir(self) -> None:
        """Tell everyone who waits, and the surface, that something has changed."""
        self._stirred.set()
        if self._surface is not None:
            self._surface.moved()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something about this room holds."""
        while not condition():
            self._stirred.clear()
            await self._stirred.wait()

"""A fake `Outlet`: records what is said, can fail, and can be waited on."""

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from bot.errors import DeliveryError, NotPresentError
from bot.platforms.base import (
    Announcement,
    Confirmation,
    Delivered,
    FileMessage,
    OnBegun,
    OnDrawn,
    OutgoingFile,
    RunCard,
    Settlement,
    not_kept,
    not_noted,
)
from bot.platforms.messages import PastMessage
from bot.platforms.reading import NOT_FOUND, Membership, ReadRequest
from bot.values import Identity, Place, RunStatus
from tests.fakes.patience import PATIENCE_SECONDS, Pulse

Kind = Literal["reply", "announcement", "question", "post", "files"]


@dataclass(frozen=True, slots=True)
class Told:
    """One `Outlet.tell` or `Outlet.post`."""

    place: Place
    user: Identity
    text: str


@dataclass(slots=True)
class FakeReply:
    """One reply.

    Attributes:
        message_id: The id of its message: given when it was opened, or new.
        updates: Every text that was shown while it grew.
        final: The text it ended with; `None` until then.
        failed: Whether that is the reason of a failure.
    """

    outlet: "FakeOutlet"
    place: Place
    owner: Identity
    message_id: str
    updates: list[str] = field(default_factory=list)
    final: str | None = None
    failed: bool = False
    abandoned: bool = False

    def update(self, text: str) -> None:
        """Remember the text so far."""
        self.updates.append(text)
        self.outlet.stir()

    async def finish(self, text: str, *, failed: bool = False) -> Delivered:
        """Take the final text, unless this send is to fail."""
        with self.outlet.sending("reply", self.owner) as taken:
            if taken:
                self.final, self.failed = text, failed
                self.outlet.finished.append(self)
        return Delivered((self.message_id,))

    async def abandon(self) -> None:
        """Remember that the turn stopped here."""
        self.abandoned = True
        self.outlet.stir()


@dataclass(slots=True)
class _Failure:
    error: Exception
    taken: bool


class _Send:
    """One send: says whether the platform took it, and raises afterwards if it is to fail."""

    def __init__(self, outlet: "FakeOutlet", failure: _Failure | None) -> None:
        self._outlet = outlet
        self._failure = failure

    def __enter__(self) -> bool:
        return self._failure is None or self._failure.taken

    def __exit__(self, *_: object) -> None:
        self._outlet.stir()
        if self._failure is not None:
            raise self._failure.error


class FakeOutlet:
    """An outlet whose platform is a few lists.

    Args:
        platform: The name it answers to.
        patience: How long the waiting methods wait, in seconds, before they fail the test.

    Attributes:
        repeated_files: For each message with files, whether it may be a repetition.
        replies: Every reply that was opened, in order.
        finished: The replies that have their final text, in the order in which they ended.
        announcements: Everything announced, in order, a repeated key included.
        cards: For each run, the states its card was given, in order.
        settled: What became of each question, by its id.
        past: What stands in its places, for `history`.
        unreadable: Raised by `history`; `None` for nothing.
        silent: `history` never returns.
        elsewhere: What stands in other places, by its link; for `linked` and `search`.
        requests: What was asked of other places, in order.
        members: What is known of members, by server; the empty one is every other.
        looked_up: Which members were looked up, and in which server.
        with_groups: Whose groups were wanted.
        absent: The people who are not there: everything for them raises `NotPresentError`.
    """

    def __init__(self, platform: str = "fake", *, patience: float = PATIENCE_SECONDS) -> None:
        self.platform = platform
        self.acknowledged: list[Place] = []
        self.answered_places: list[Place] = []
        self.read_places: list[Place] = []
        self.sent_files: list[tuple[Place, OutgoingFile]] = []
        self.repeated_files: list[bool] = []
        self.takes_files = True
        self.replies: list[FakeReply] = []
        self.finished: list[FakeReply] = []
        self.announcements: list[Announcement] = []
        self.cards: defaultdict[str, list[RunCard]] = defaultdict(list)
        self.questions: list[Confirmation] = []
        self.settled: dict[str, Settlement] = {}
        self.told: list[Told] = []
        self.posted: list[Told] = []
        self.absent: set[Identity] = set()
        self.past: list[PastMessage] = []
        self.elsewhere: dict[str, list[PastMessage]] = {}
        self.requests: list[tuple[str, ReadRequest]] = []
        self.members: dict[tuple[Identity, str], Membership] = {}
        self.looked_up: list[tuple[Identity, str]] = []
        self.with_groups: list[Identity] = []
        self.unreadable: DeliveryError | None = None
        self.silent = False
        self._failures: defaultdict[Kind, deque[_Failure]] = defaultdict(deque)
        self._pulse = Pulse(patience)
        self.until = self._pulse.until

    # --- the port -------------------------------------------------------------------------------

    async def membership(self, user: Identity, place: Place, *, groups: bool = True) -> Membership:
        """Return what the test says of a member, of every server alike or of one."""
        self.looked_up.append((user, place.workspace))
        if groups:
            self.with_groups.append(user)
        if self.unreadable is not None:
            raise self.unreadable
        there = self.members.get((user, place.workspace))
        return there or self.members.get((user, ""), Membership())

    async def acknowledge(self, place: Place) -> None:
        """Remember the place."""
        self.acknowledged.append(place)
        self.stir()

    async def answered(self, place: Place, *, read: bool = False) -> None:
        """Remember the place."""
        (self.read_places if read else self.answered_places).append(place)
        self.stir()

    def open_reply(
        self,
        place: Place,
        owner: Identity,
        message_id: str = "",
        *,
        begun: OnBegun = not_kept,
    ) -> FakeReply:
        """Begin a reply, or go on with the message whose id is given."""
        new_id = message_id or f"message-{len(self.replies) + 1}"
        reply = FakeReply(self, place, owner, new_id)
        begun(new_id)
        self.replies.append(reply)
        self.stir()
        return reply

    async def announce(self, announcement: Announcement) -> Delivered:
        """Take an announcement, unless this send is to fail."""
        with self.sending("announcement", announcement.owner) as taken:
            if taken:
                self.announcements.append(announcement)
        return Delivered((f"announcement-{len(self.announcements)}",))

    def show_card(
        self, card: RunCard, *, begun: OnBegun = not_kept, drawn: OnDrawn = not_noted
    ) -> None:
        """Remember the card's newest state."""
        if not self.cards[card.run_id]:
            begun(card.message_id or f"card-{len(self.cards)}")
        self.cards[card.run_id].append(card)
        if card.status.final:
            drawn()
        self.stir()

    async def ask(self, confirmation: Confirmation) -> str:
        """Take a question, unless this send is to fail."""
        with self.sending("question", confirmation.owner) as taken:
            if taken:
                self.questions.append(confirmation)
        return confirmation.message_id or f"question-{len(self.questions)}"

    async def show_settlement(self, question: Confirmation, settlement: Settlement) -> None:
        """Remember what became of a question."""
        self.settled[question.id] = settlement
        self.stir()

    async def post(self, place: Place, owner: Identity, text: str) -> Delivered:
        """Take a text, unless this send is to fail."""
        with self.sending("post", owner) as taken:
            if taken:
                self.posted.append(Told(place, owner, text))
        return Delivered((f"post-{len(self.posted)}",))

    async def send_files(self, message: FileMessage) -> Delivered:
        """Keep the files, unless this send is to fail."""
        with self.sending("files", message.owner) as taken:
            if taken:
                self.sent_files += [(message.place, each) for each in message.files]
                self.repeated_files += [message.maybe_repeated]
        return Delivered()

    async def history(
        self, place: Place, after: datetime | str, limit: int, *, opening: bool = False
    ) -> list[PastMessage]:
        """Return the messages of `past` in this place."""
        if self.silent:
            await asyncio.Event().wait()
        if self.unreadable is not None:
            raise self.unreadable
        there = [each for each in self.past if replace(each.place, message="") == place]
        there.sort(key=lambda each: each.sent_at)
        ids = [each.place.message for each in there]
        if isinstance(after, datetime):
            there = [each for each in there if each.sent_at > after]
        elif after in ids:
            there = there[ids.index(after) + 1 :]
        first = there[:1] if opening and place.thread and len(there) > limit else []
        return [*first, *there[-limit:]]

    async def linked(self, link: str, request: ReadRequest) -> list[PastMessage]:
        """Return the messages of `elsewhere` under a link."""
        self.requests.append((link, request))
        if self.unreadable is not None:
            raise self.unreadable
        if link not in self.elsewhere:
            raise DeliveryError(NOT_FOUND, permanent=True)
        return self.elsewhere[link][: request.limit]

    async def search(self, query: str, request: ReadRequest) -> list[PastMessage]:
        """Return the messages of `elsewhere` that hold a query."""
        self.requests.append((query, request))
        if self.unreadable is not None:
            raise self.unreadable
        found = (each for there in self.elsewhere.values() for each in there)
        return [each for each in found if query in each.text][: request.limit]

    async def tell(self, place: Place, user: Identity, text: str) -> None:
        """Remember what was said."""
        if user not in self.absent:
            self.told.append(Told(place, user, text))
        self.stir()

    # --- what a test arranges -------------------------------------------------------------------

    def fail_next(self, kind: Kind, error: Exception, *, taken: bool = False) -> None:
        """Let the next send of this kind raise `error`; call it again for the one after that.

        Args:
            kind: `reply` (its `finish`), `announcement`, `question`, `post` or `files`.
            error: What is raised.
            taken: The platform took the text all the same (for `fate_unknown`).
        """
        self._failures[kind].append(_Failure(error, taken))

    # --- what a test reads ----------------------------------------------------------------------

    def texts(self) -> list[str]:
        """Return the final texts of the replies, in the order in which they ended."""
        return [reply.final for reply in self.finished if reply.final is not None]

    def card(self, run_id: str) -> RunCard:
        """Return the newest state of a run's card."""
        return self.cards[run_id][-1]

    # --- what a test waits on -------------------------------------------------------------------

    async def replied(self, count: int = 1) -> FakeReply:
        """Wait until that many replies are finished, and return the last of these."""
        await self.until(lambda: len(self.finished) >= count, f"{count} finished replies")
        return self.finished[count - 1]

    async def announced(self, key: str, times: int = 1) -> Announcement:
        """Wait until something was announced under a key, so many times."""
        await self.until(lambda: len(self._under(key)) >= times, f"announcement {key!r}")
        return self._under(key)[times - 1]

    async def asked(self, count: int = 1) -> Confirmation:
        """Wait until that many questions were asked, and return the last of them."""
        await self.until(lambda: len(self.questions) >= count, f"{count} questions")
        return self.questions[count - 1]

    async def card_shows(self, run_id: str, status: RunStatus) -> RunCard:
        """Wait until a run's card was in this state."""
        await self.until(lambda: bool(self._in_state(run_id, status)), f"{run_id} {status}")
        return self._in_state(run_id, status)[-1]

    # --- for the reply it opens -----------------------------------------------------------------

    def stir(self) -> None:
        """Wake who waits: something happened."""
        self._pulse.beat()

    def sending(self, kind: Kind, owner: Identity) -> _Send:
        """Begin a send, which may be one that is to fail."""
        if owner in self.absent:
            error = NotPresentError("Nobody is there to read this; it waits until they are back.")
            return _Send(self, _Failure(error, taken=False))
        failures = self._failures[kind]
        return _Send(self, failures.popleft() if failures else None)

    def _under(self, key: str) -> list[Announcement]:
        return [said for said in self.announcements if said.key == key]

    def _in_state(self, run_id: str, status: RunStatus) -> list[RunCard]:
        return [card for card in self.cards[run_id] if card.status is status]


class LateOutlet(FakeOutlet):
    """Posts a question, and returns the id of its message once it is released."""

    def __init__(self, platform: str = "fake") -> None:
        super().__init__(platform)
        self.released = asyncio.Event()

    async def ask(self, confirmation: Confirmation) -> str:
        """Take a question."""
        message_id = await super().ask(confirmation)
        await self.released.wait()
        return message_id

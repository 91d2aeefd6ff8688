"""A fourth platform, complete: the skeleton that docs/platforms.md explains."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from bot.agent.sanitizer import one_line, safe_markdown
from bot.errors import DeliveryError
from bot.platforms.base import (
    Announcement,
    CommandReply,
    Confirmation,
    FileMessage,
    Incoming,
    OnBegun,
    RunCard,
    Settlement,
    not_kept,
)
from bot.platforms.handler import InboundHandler
from bot.platforms.messages import PastMessage
from bot.platforms.messaging.cards import CardMessage
from bot.platforms.messaging.intake import (
    NOT_YOU,
    AccessRefusal,
    Deduplicator,
    MessageReceiver,
    ReceivedMessage,
    message_key,
)
from bot.platforms.messaging.live import GrowingReply, LiveMessage
from bot.platforms.messaging.outlet import MessagingOutlet, RefusedError, Route, Say
from bot.platforms.messaging.pacing import Spacing
from bot.platforms.messaging.splitting import MessageParts, split
from bot.platforms.messaging.texts import KEPT_FOR_USER, call_lines, decision
from bot.run_texts import status_text
from bot.tasks import Tasks
from bot.values import Identity, Live, Place
from db.database import Database
from tests.fakes.bulletin.service import Bulletin, GoneError, Post
from tests.fakes.bulletin.settings import BulletinSettings

log = logging.getLogger(__name__)

PLATFORM = "bulletin"
BOT = "retinue"
MOST_CHARACTERS = 1_000
EDIT_SECONDS = 0.0
GRACE_SECONDS = 1.0


@contextmanager
def requests() -> Iterator[None]:
    """Map the errors of the SDK to those of the core."""
    try:
        yield
    except GoneError as error:
        raise RefusedError("That place or message is gone.") from error


def parts_of(text: str) -> MessageParts:
    """Return a text without control characters, split into posts."""
    clean = safe_markdown(text)
    return MessageParts(tuple(split(clean, MOST_CHARACTERS)) or ("(empty)",), clean, "text.md")


@dataclass(frozen=True, slots=True)
class Draft:
    """The content of a post."""

    text: str
    buttons: tuple[str, ...] = ()


@dataclass(eq=False)
class BulletinMessage(LiveMessage[Draft]):
    """A post that is updated during work."""

    service: Bulletin
    channel: str

    async def text(self) -> str:
        """Return the visible text of the post."""
        with requests():
            return self.service.at(self.channel, self.message_id).text

    async def post(self, draft: Draft) -> str:
        """Add the post."""
        with requests():
            return self.service.post(self.channel, BOT, draft.text, draft.buttons)

    async def edit(self, draft: Draft, *, final: bool) -> DeliveryError | None:
        """Edit the post; return the refusal if it is gone."""
        try:
            with requests():
                self.service.edit(self.channel, self.message_id, draft.text, draft.buttons)
        except RefusedError as error:
            return error
        return None

    def still_shown(self, refused: DeliveryError) -> bool:
        """Return False: only posts that are gone refuse an edit."""
        return False

    async def delete(self, message_id: str) -> None:
        """Delete an earlier post."""
        self.service.channels[self.channel].pop(message_id, None)


class BulletinCard(CardMessage[Draft]):
    """The card of one run, or of the runs of one turn."""

    def render(self, cards: Sequence[RunCard]) -> tuple[str, Draft]:
        """Return the states as text."""
        lines: list[str] = []
        for card in cards:
            status = status_text(card.status, card.stopped_by, degraded=card.degraded)
            steps = [(step.tool, step.state) for step in card.steps]
            lines.append(f"{status.icon} {one_line(card.label)}: {status.words}")
            lines += call_lines(steps, calls=card.tool_calls)
        text = safe_markdown("\n".join(lines))
        return text, Draft(text)


class BulletinReply(GrowingReply[Draft]):
    """A reply that grows in one post."""

    _message: BulletinMessage

    async def _preview(self, text: str) -> str:
        return parts_of(text).texts[-1]

    async def _parts(self, text: str) -> MessageParts:
        return parts_of(text)

    def _draft(self, markdown: str) -> Draft:
        return Draft(markdown)

    async def _post_rest(self, parts: MessageParts) -> tuple[str, ...]:
        message = self._message
        with requests():
            return tuple(
                message.service.post(message.channel, BOT, text) for text in parts.texts[1:]
            )

    def _ended(self, *, abandoned: bool = False) -> None:
        """Do nothing: the board has no sign of typing."""


class BulletinOutlet(MessagingOutlet):
    """Sends posts."""

    platform = PLATFORM
    takes_files = False

    def __init__(self, service: Bulletin, tasks: Tasks) -> None:
        self._service = service
        self._tasks = tasks
        #: The questions that this process has asked, with the ids of their posts.
        self.questions: dict[str, Confirmation] = {}
        super().__init__("The board accepts no post.")

    async def _show_receipt(self, place: Place) -> None:
        await self._receipts.put(place, partial(self._mark, place, shown=True))

    async def answered(self, place: Place, *, read: bool = False) -> None:
        """Remove the sign of receipt; the board has no sign of a message read."""
        await self._receipts.take(place, partial(self._mark, place, shown=False))

    async def _post_text(self, route: Route, text: str) -> tuple[str, ...]:
        return await self._say(text, (), route)

    async def _post_files(self, route: Route, message: FileMessage) -> tuple[str, ...]:
        raise DeliveryError("The board takes no files.", permanent=True)

    async def _mark(self, place: Place, *, shown: bool) -> bool:
        if place.message:
            with requests():
                marks = self._service.at(place.channel, place.message).marks
            (marks.add if shown else marks.discard)("seen")
        return bool(place.message)

    def _begin_reply(
        self, place: Place, owner: Identity, message_id: str, begun: OnBegun
    ) -> BulletinReply:
        message = BulletinMessage(self._service, place.channel, message_id=message_id, begun=begun)
        return BulletinReply(message, Spacing(EDIT_SECONDS), self._tasks)

    def _begin_card(self, card: RunCard) -> BulletinCard:
        message = BulletinMessage(
            self._service, card.place.channel, message_id=card.message_id, begun=not_kept
        )
        return BulletinCard(message, Spacing(EDIT_SECONDS), self._tasks)

    async def _announcement(self, announcement: Announcement) -> Say:
        note = "This may be a repetition." if announcement.maybe_repeated else ""
        lines = [announcement.title, announcement.text, announcement.footer, note]
        return partial(self._say, "\n".join(line for line in lines if line), ())

    async def _question(self, confirmation: Confirmation) -> Say:
        labels = (one_line(safe_markdown(each.label)) or each.key for each in confirmation.choices)
        return partial(self._say, confirmation.text, tuple(labels))

    async def _say(self, text: str, buttons: tuple[str, ...], route: Route) -> tuple[str, ...]:
        *before, last = parts_of(f"{route.head}{text}").texts
        with requests():
            ids = [self._service.post(route.channel, BOT, each) for each in before]
            return (*ids, self._service.post(route.channel, BOT, last, buttons))

    async def _post_notice(self, channel: Place, owner: Identity, key: str) -> None:
        with requests():
            self._service.post(channel.channel, BOT, f"@{owner.account} {KEPT_FOR_USER}")

    async def _usual_route(self, place: Place, owner: Identity) -> Route | None:
        return Route(place=place)

    async def _direct_route(
        self, place: Place, owner: Identity, refused: RefusedError | None
    ) -> Route | None:
        channel = self._service.direct(owner.account)
        return Route(place=Place(PLATFORM, channel=channel), head="In your channel:\n")

    async def ask(self, confirmation: Confirmation) -> str:
        """Ask the owner a question, and remember its post."""
        message_id = await super().ask(confirmation)
        self.questions[confirmation.id] = replace(confirmation, message_id=message_id)
        return message_id

    async def show_settlement(self, question: Confirmation, settlement: Settlement) -> None:
        """Replace the buttons of a question by its outcome."""
        outcome = safe_markdown(settlement.chosen)
        if settlement.by is not None:
            outcome = decision(settlement.by.account, outcome, settlement.key)
        try:
            with requests():
                post = self._service.at(question.place.channel, question.message_id)
                text = f"{post.text}\n{outcome}"
                self._service.edit(question.place.channel, question.message_id, text, ())
        except DeliveryError as error:
            log.info("The question %s still has its buttons: %s", question.id, error)

    async def tell(self, place: Place, user: Identity, text: str) -> None:
        """Send a short text to one user."""
        try:
            await self._reach(place, user, partial(self._say, text, ()))
        except DeliveryError as error:
            log.info("Not told in %s: %s", place.channel, error)

    async def history(
        self, place: Place, after: datetime | str, limit: int, *, opening: bool = False
    ) -> list[PastMessage]:
        """Return an empty list: this bot does not read the board."""
        return []


class BulletinReceiver(MessageReceiver[ReceivedMessage]):
    """Maps posts to messages, and answers."""

    def __init__(
        self,
        service: Bulletin,
        outlet: BulletinOutlet,
        settings: BulletinSettings,
        inbound: InboundHandler,
        policy: Deduplicator,
        tasks: Tasks,
    ) -> None:
        super().__init__(inbound, policy, tasks)
        self._service = service
        self._outlet = outlet
        self._settings = settings

    async def on_post(self, channel: str, message_id: str, post: Post) -> None:
        """Queue a post for the bot."""
        mention = f"@{self._settings.name}"
        direct = channel == self._service.direct(post.author)
        incoming = Incoming(
            event_id=message_key("", channel, message_id),
            user=Identity(PLATFORM, "", post.author),
            user_name=post.author,
            place=Place(PLATFORM, "" if direct else "board", channel, message=message_id),
            text=post.text.replace(mention, "").strip(),
        )
        addressed = direct or mention in post.text
        self.start(
            ReceivedMessage(incoming=incoming, queue=(post.author, channel), addressed=addressed)
        )

    async def _fetched(self, incoming: Incoming) -> ReceivedMessage:
        return ReceivedMessage(incoming=incoming)

    async def _admit(
        self, message: ReceivedMessage
    ) -> tuple[ReceivedMessage, AccessRefusal | None]:
        users = self._settings.users
        refused = users is not None and message.incoming.user.account not in users
        return message, AccessRefusal(NOT_YOU) if refused else None

    async def _answer(
        self, message: ReceivedMessage, reply: CommandReply, *, first: bool = False
    ) -> None:
        incoming = message.incoming
        # A private answer goes to the user's own channel.
        direct = self._service.direct(incoming.user.account)
        channel = direct if reply.private else incoming.place.channel
        try:
            with requests():
                for text in parts_of(reply.text).texts:
                    self._service.post(channel, BOT, text)
        except DeliveryError as error:
            log.warning("The reply to %s is lost: %s", incoming.event_id, error)

    async def _show_settlement(self, message: ReceivedMessage, reply: CommandReply) -> None:
        incoming = message.incoming
        if question := self._outlet.questions.get(reply.answered):
            settlement = Settlement(reply.chosen or incoming.text, incoming.user)
            await self._outlet.show_settlement(question, settlement)


class BulletinIntake:
    """Receives the events of the board."""

    platform = PLATFORM

    def __init__(
        self, service: Bulletin, outlet: BulletinOutlet, settings: BulletinSettings, tasks: Tasks
    ) -> None:
        self._service = service
        self._outlet = outlet
        self._settings = settings
        self._tasks = tasks

    async def run(self, inbound: InboundHandler) -> None:
        """Receive until cancelled."""
        policy = Deduplicator()
        receiver = BulletinReceiver(
            self._service, self._outlet, self._settings, inbound, policy, self._tasks
        )
        self._service.subscribe(receiver.on_post)
        try:
            await asyncio.Event().wait()
        finally:
            self._service.subscribe(None)
            await policy.wait_idle(GRACE_SECONDS)


@dataclass(frozen=True, slots=True)
class BulletinPlatform:
    """The outlet and the intake of the board."""

    service: Bulletin
    outlet: BulletinOutlet
    intake: BulletinIntake


@asynccontextmanager
async def open_platform(
    current: Live[BulletinSettings],
    database: Database,
    *,
    receives: bool,
) -> AsyncIterator[BulletinPlatform]:
    """Open the board; close it when the block ends."""
    tasks, service = Tasks(), Bulletin("general")
    outlet = BulletinOutlet(service, tasks)
    intake = BulletinIntake(service, outlet, current(), tasks)
    try:
        yield BulletinPlatform(service, outlet, intake)
    finally:
        await tasks.wait_idle(GRACE_SECONDS)
        await tasks.close()

"""Defines the outbound port to a platform, `Outlet`, and the data of both ports."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol

from bot.platforms.messages import Attachment, Quoted
from bot.platforms.reading import MemberReader, MessageReader
from bot.values import Identity, Place, RunStatus, StepState, Stopper


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A message or command that a platform received from a user.

    Attributes:
        text: The user's own text; lines that begin with `>` are quotations.
        quoted: Content of the message that other authors wrote.
        event_id: Unique per platform for 24 h: an event that is delivered twice is answered once.
            The `message_key` of a message; the platform's own id for other events only.
        admin: The platform makes this user an admin here, for instance by a role.
        reply_to: The platform's id of the message that this message answers; empty for none, and
            if the thread identifies that message.
        said_at: The time of a message that was missed and fetched later.
        only_mention: The message mentions the bot and contains nothing else.
        search_token: The platform's permission to search for the user; empty for none.
        groups: The user's roles and user groups there, as in `Membership`; `None` if unknown.
    """

    event_id: str
    user: Identity
    user_name: str
    place: Place
    text: str
    files: tuple[Attachment, ...] = ()
    quoted: tuple[Quoted, ...] = ()
    admin: bool = False
    reply_to: str = ""
    said_at: datetime | None = None
    only_mention: bool = False
    search_token: str = ""
    groups: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class CardStep:
    """A tool call of a run; a card shows neither its arguments nor its result.

    Attributes:
        call: The id of the call within its run; not shown.
    """

    tool: str
    state: StepState
    call: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCard:
    """The state of a run as its card shows it; the newest state wins.

    Attributes:
        elapsed_seconds: Time since the start of the run, without the time spent waiting for a user.
        tool: The tool that runs now; empty for none.
        tokens: The tokens used so far, of `token_budget`.
        line: The newest progress report, at most 100 characters; empty for none.
        steps: The newest tool calls, oldest first.
        awaited: A turn waits for the run: its result is in the reply and is not announced.
        message_id: The id of the message that showed the card before a restart; empty for none.
        stopped_by: The display name of the admin who stopped the run; empty for its owner.
        degraded: The run completed, but all of its tool calls were refused or failed.
        batch: The id of the turn that started the run: the runs of a batch share a message. Empty
            for a run with a message of its own.
    """

    run_id: str
    owner: Identity
    place: Place
    label: str
    agent: str
    status: RunStatus
    elapsed_seconds: float = 0.0
    tool: str = ""
    tool_calls: int = 0
    tokens: int = 0
    token_budget: int = 0
    line: str = ""
    steps: tuple[CardStep, ...] = ()
    awaited: bool = False
    message_id: str = ""
    stopped_by: str = ""
    degraded: bool = False
    batch: str = ""


class Weight(StrEnum):
    """The style of a choice, on platforms that support styles."""

    GOOD = "good"
    BAD = "bad"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer that a user may choose.

    Attributes:
        key: The value that is returned: `yes`, `all`, `no`, or a number; at most 8 characters.
        label: The text that the user reads, at most 70 characters.
    """

    key: str
    label: str
    weight: Weight = Weight.PLAIN


@dataclass(frozen=True, slots=True)
class NoticeButton:
    """A button of a notice to admins; it is pressed like the answer to a question.

    Attributes:
        notice: The id of the notice.
        line: The command line that it carries out, for platforms without buttons.
    """

    notice: str
    choice: Choice
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """A message about a run, a reply that could not be delivered in its turn, or a notice.

    Attributes:
        key: The idempotency key, the same for every attempt, for platforms that support such keys.
        text: Markdown for users, already cleaned; the outlet escapes it for its platform.
        owner: The only user who may be pinged; without an account, it is for all readers of its
            place, and for nobody elsewhere.
        quiet: Whether even the owner is not pinged.
        maybe_repeated: The result of an earlier attempt is unknown: mark the message as a possible
            duplicate.
        footer: One line in small type (tokens, time).
        stopped_by: The user who stopped the run, unless that was its owner. Is not pinged.
        resumable: The id of the run that a new run could continue; empty for none.
        results: The runs that it reports, with the text of each, in order.
        buttons: The buttons of a notice to admins.
    """

    key: str
    place: Place
    owner: Identity
    title: str
    text: str
    footer: str = ""
    maybe_repeated: bool = False
    stopped_by: Stopper | None = None
    resumable: str = ""
    quiet: bool = False
    results: tuple[tuple[str, str], ...] = ()
    buttons: tuple[NoticeButton, ...] = ()


YES = Choice("yes", "Yes", Weight.GOOD)
NO = Choice("no", "No", Weight.BAD)
#: The choice that answers a rule's question for later calls too, and its duration.
ALWAYS, ALWAYS_FOR = Choice("always", "Always, for 30 days"), timedelta(days=30)
FOR_A_DAY = Choice("day", "Yes, in this thread for 24 h")


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A question that only its owner (or an admin) may answer, once.

    Attributes:
        choices: The possible answers; at most 6.
        open_ended: Any message of the owner in this place is an answer as well.
        message_id: The id of the message that showed the question before a restart; empty for none.
    """

    id: str
    owner: Identity
    place: Place
    text: str
    expires_in_seconds: float
    choices: tuple[Choice, ...] = (YES, NO)
    open_ended: bool = False
    message_id: str = ""


@dataclass(frozen=True, slots=True)
class Settlement:
    """The outcome of a question.

    Attributes:
        chosen: The label of the choice, or the answer in short; without an answer, a sentence
            about the outcome.
        by: The user who answered; `None` for nobody.
        key: The key of the choice; empty for none.
    """

    chosen: str
    by: Identity | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class Delivered:
    """The platform's ids of the messages that it accepted, in order."""

    message_ids: tuple[str, ...] = ()


class ReplyStream(Protocol):
    """A reply that is updated while the model generates it."""

    def update(self, text: str) -> None:
        """Show the whole text so far; the newest text wins, at the platform's rate. Never waits."""

    async def finish(self, text: str, *, failed: bool = False) -> Delivered:
        """Show the complete final text, in as many messages as necessary.

        Args:
            text: The final text.
            failed: The turn failed, and the text gives the reason.

        Raises:
            DeliveryError: The text could not be delivered.
        """

    async def abandon(self) -> None:
        """Leave the message unchanged: this or another process will resume the turn."""


#: Most files in one message, and most bytes of them together: Discord takes 10 MB.
MOST_FILES, MOST_FILE_BYTES = 10, 9_500_000


class OutgoingFile(NamedTuple):
    """A file to post: the name that users see, and the content."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMessage:
    """Files to post in one message.

    Attributes:
        owner: The user for whom they are sent.
        files: At most `MOST_FILES`.
        key: The idempotency key, for platforms that support such keys.
        maybe_repeated: The result of an earlier attempt is unknown: mark the message as a possible
            duplicate.
    """

    place: Place
    owner: Identity
    files: Sequence[OutgoingFile]
    key: str
    maybe_repeated: bool = False


#: Called with the platform's id of a reply or card once it exists: for a process that resumes it.
OnBegun = Callable[[str], None]


def not_kept(_: str) -> None:
    """Ignore the id of a message that no process has to find again."""


#: Called once the final state of a run is shown, or can never be shown.
OnDrawn = Callable[[], None]


def not_noted() -> None:
    """Ignore that a final state is shown: no process has to draw it again."""


class Outlet(MessageReader, MemberReader, Protocol):
    """Sends messages to the places of a platform, and reads there. A `worker` has outlets only."""

    platform: str

    @property
    def takes_files(self) -> bool:
        """True if `send_files` can succeed."""

    async def acknowledge(self, place: Place) -> None:
        """Show at once that the message was received (a reaction, typing). Never raises."""

    async def answered(self, place: Place, *, read: bool = False) -> None:
        """Remove the sign of `acknowledge`; `read`: show that a turn read it. Never raises."""

    def open_reply(
        self,
        place: Place,
        owner: Identity,
        message_id: str = "",
        *,
        begun: OnBegun = not_kept,
    ) -> ReplyStream:
        """Begin a reply, or continue the reply with the given message id."""

    async def announce(self, announcement: Announcement) -> Delivered:
        """Send an announcement to its place and ping only its owner.

        Raises:
            NotPresentError: The owner is not present; store the announcement for the next chat.
            DeliveryError: The announcement could not be delivered.
        """

    def show_card(
        self, card: RunCard, *, begun: OnBegun = not_kept, drawn: OnDrawn = not_noted
    ) -> None:
        """Show or update a run card; the newest state wins, at the platform's rate. Never waits."""

    async def ask(self, confirmation: Confirmation) -> str:
        """Ask the owner a question, or reuse the message that shows the question already.

        Returns:
            The platform's id of that message; empty if the message could not be found again.

        Raises:
            NotPresentError: The owner is not present.
            DeliveryError: The owner cannot be asked; the answer is then no.
        """

    async def show_settlement(self, question: Confirmation, settlement: Settlement) -> None:
        """Show the outcome of a question that is closed. Never raises."""

    async def tell(self, place: Place, user: Identity, text: str) -> None:
        """Send a short text to one user, privately if the platform can do so. Never raises."""

    async def post(self, place: Place, owner: Identity, text: str) -> Delivered:
        """Post a text in a place for all who read there, without a ping, and nowhere else.

        Raises:
            NotPresentError: The owner is not present.
            DeliveryError: The text was not delivered.
        """

    async def send_files(self, message: FileMessage) -> Delivered:
        """Post files to a place, or else to the owner, in one message without a ping.

        Raises:
            DeliveryError: The files were not delivered.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReply:
    """The reply to a command: Markdown for the user who typed it, private where possible.

    Attributes:
        failed: The command failed; the text gives the reason and a remedy.
        refused: An answer to a confirmation was not accepted; the question stays unchanged.
        answered: The id of the confirmation that a message answered; empty for none.
        chosen: With `answered`: the label of the choice, or the answer in short.
        more: The command that shows the next page; empty for none.
        private: Only this user may read the reply: never send it to a place with other readers.
    """

    text: str
    failed: bool = False
    refused: bool = False
    answered: str = ""
    chosen: str = ""
    more: str = ""
    private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """An overview of the runs and limits of one user.

    Attributes:
        active: The user's active and queued runs, newest first.
        ended: The user's recently finished runs, newest first.
        usage: The user's usage and limits, Markdown.
        agents: The agents that the user may name, a line each.
    """

    active: tuple[RunCard, ...]
    ended: tuple[RunCard, ...]
    usage: str
    agents: tuple[str, ...]

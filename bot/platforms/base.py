"""The two ports to a platform: an Intake hears, an Outlet says."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from bot.platforms.past import Attached, Missed, PastMessage, Quoted
from bot.values import Identity, Place, RunStatus, StepState, Stopper


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """What a person said.

    Attributes:
        text: The user's own words; lines that begin with `>` quote somebody.
        quoted: What came with them and was written by others.
        event_id: Unique per platform for 24 h: the same event delivered twice is answered once.
            For a message its `message_key`; the platform's own id only for what is no message.
        admin: The platform makes this person an admin here, by a role for instance.
        reply_to: The platform's id of the message that this one answers; empty for none, or where
            a thread says it.
        said_at: When it was said, for a message that was missed and fetched later.
        only_mention: It mentions the bot, and there is nothing else in it.
    """

    event_id: str
    user: Identity
    user_name: str
    place: Place
    text: str
    files: tuple[Attached, ...] = ()
    quoted: tuple[Quoted, ...] = ()
    admin: bool = False
    reply_to: str = ""
    said_at: datetime | None = None
    only_mention: bool = False


@dataclass(frozen=True, slots=True)
class CardStep:
    """A tool that a run called: what it was given and what it brought is not for a card.

    Attributes:
        call: Which call it is, within its run; not shown.
    """

    tool: str
    state: StepState
    call: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCard:
    """What a run card shows; the newest state wins.

    Attributes:
        elapsed_seconds: Since the run started, waiting for a person not counted.
        tool: The tool that is at work now; empty for none.
        tokens: Used so far, of `token_budget`.
        line: The newest progress report, at most 100 characters; empty for none.
        steps: The newest tool calls, oldest first.
        awaited: A turn waits for the run: its result is in the reply, and is not announced.
        message_id: Of the message that shows it, from before a restart; empty for none.
        stopped_by: The shown name of the admin who stopped it; empty for its owner.
        degraded: It completed, but every tool call that it made was refused or failed.
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

    @property
    def earlier_steps(self) -> int:
        """How many tool calls there were before those in `steps`."""
        return max(0, self.tool_calls - len(self.steps)) if self.steps else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What is said about a run, or a reply that could not be given when it was due.

    Attributes:
        key: The same for every attempt; a platform that can, refuses a second message under it.
        text: For people, Markdown; already cleaned, to be made harmless in the platform's terms.
        owner: The only one who may be pinged.
        maybe_repeated: The fate of an earlier send is unknown: say that it may be a duplicate.
        footer: One quiet line (tokens, time).
        stopped_by: Who stopped the run, when that was not its owner. They are not pinged.
        resumable: The run that a new run could continue; empty for none.
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


class Weight(StrEnum):
    """How a choice looks where a platform has a way to show it."""

    GOOD = "good"
    BAD = "bad"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer that a person may pick.

    Attributes:
        key: What is handed back: `yes`, `all`, `no`, or a number; no longer than 8 characters.
        label: What the person reads, at most 70 characters.
    """

    key: str
    label: str
    weight: Weight = Weight.PLAIN


YES = Choice("yes", "Yes", Weight.GOOD)
NO = Choice("no", "No", Weight.BAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A question that only its owner (or an admin) may answer, once.

    Attributes:
        choices: What may be picked; at most 6.
        open_ended: Any message of the owner in this place is an answer as well.
        message_id: Of the message that shows it, from before a restart; empty for none.
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
    """Why a question waits no more.

    Attributes:
        chosen: The label that was picked, or what was said, in short; when nobody answered, a
            sentence that says what became of it.
        by: Who answered; `None` for nobody.
        key: Of the choice that was picked; empty for none.
    """

    chosen: str
    by: Identity | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class Delivered:
    """The platform took it: its ids of the messages, in order."""

    message_ids: tuple[str, ...] = ()


class ReplyStream(Protocol):
    """One reply that grows while the model writes it."""

    def update(self, text: str) -> None:
        """Show the whole text so far; the newest wins, at the platform's pace. Never waits."""
        ...

    async def finish(self, text: str, *, failed: bool = False) -> Delivered:
        """Show the final text, whole, in as many messages as it takes.

        Args:
            text: The final text.
            failed: The turn failed, and the text says why.

        Raises:
            DeliveryError: It did not get through.
        """
        ...

    async def abandon(self) -> None:
        """Leave what is shown as it is: the turn will be resumed, here or elsewhere."""
        ...


#: Told the platform's id of a reply or card as soon as there is one, for whoever resumes the work.
OnBegun = Callable[[str], None]


def not_kept(_: str) -> None:
    """Take the id of a message that need not be found again."""


class Outlet(Protocol):
    """Says things in the places of one platform. A `worker` has outlets only."""

    platform: str

    async def acknowledge(self, place: Place) -> None:
        """Show at once that the message was heard (a reaction, typing). Never raises."""
        ...

    async def answered(self, place: Place) -> None:
        """Show no more that the message was heard: it is answered. Never raises."""
        ...

    def open_reply(
        self,
        place: Place,
        owner: Identity,
        message_id: str = "",
        *,
        begun: OnBegun = not_kept,
    ) -> ReplyStream:
        """Begin a reply, or go on with the one whose id is given."""
        ...

    async def announce(self, announcement: Announcement) -> Delivered:
        """Say something new in its place, pinging only its owner.

        Raises:
            NotPresentError: That person is not there; keep it for the next chat.
            DeliveryError: It did not get through.
        """
        ...

    def show_card(self, card: RunCard, *, begun: OnBegun = not_kept) -> None:
        """Show or move a run card; the newest state wins, at the platform's pace. Never waits."""
        ...

    async def ask(self, confirmation: Confirmation) -> str:
        """Ask the owner a question, or go on with the message that shows it already.

        Returns:
            The platform's id of that message; empty where it could not be found again.

        Raises:
            NotPresentError: That person is not there.
            DeliveryError: There is no one to ask; the answer is then no.
        """
        ...

    async def settle(self, question: Confirmation, settlement: Settlement) -> None:
        """Show that a question waits no more, and why. Never raises."""
        ...

    async def tell(self, place: Place, user: Identity, text: str) -> None:
        """Say a short thing to one person, privately where the platform can. Never raises."""
        ...

    async def history(self, place: Place, after: datetime | str, limit: int) -> list[PastMessage]:
        """Return the newest `limit` messages of a place after a moment, oldest first.

        A thread is read by itself: a place with a thread returns the messages of that thread, one
        without returns those of its channel. A platform that keeps no messages returns none.

        Args:
            place: The channel, direct message or thread.
            after: A time, or the id of a message, which is not returned; empty for the beginning.
            limit: Of what is returned.

        Raises:
            DeliveryError: The place cannot be read now; permanent when it never can.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReply:
    """What a command answers: Markdown for the one who asked, privately where that is possible.

    Attributes:
        failed: It was not done; the text says why and what would work.
        refused: An answer to a confirmation did not count; what was asked stays as it is.
        answered: The confirmation that was answered in words; empty for none.
        chosen: With `answered`: the label that was meant, or what was said, in short.
        more: The command that shows the next page; empty for none.
        private: Nobody else may read it: never said in a place with other readers.
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
    """What a person may see of their runs and limits at one glance.

    Attributes:
        active: Their runs that are going on or wait, newest first.
        ended: Those that ended lately, newest first.
        usage: What they have used of what they may use, Markdown.
        agents: The agents that they may name, a line each.
    """

    active: tuple[RunCard, ...]
    ended: tuple[RunCard, ...]
    usage: str
    agents: tuple[str, ...]


class Ears(Protocol):
    """What an Intake calls: implemented by the orchestrator."""

    async def hear(self, incoming: Incoming) -> CommandReply | None:
        """Take what a person said, stored when this returns: a command is answered at once."""
        ...

    async def listens(self, user: Identity, place: Place) -> bool:
        """Say whether this person talked with the bot here lately, so that no mention is due."""
        ...

    async def missed(self, platform: str, listener: str) -> Missed | None:
        """Return the places to read after a gap of a connection; `None` when nothing is missing."""
        ...

    async def listening(self, listener: str) -> None:
        """Record that a connection hears its platform now, and has missed nothing."""
        ...

    async def idle_places(self, platform: str) -> list[Place]:
        """Return where an answer was given lately and none is being given now."""
        ...

    async def stop_turn(
        self, user: Identity, place: Place, *, event_id: str = ""
    ) -> CommandReply | None:
        """Stop the turn under way in this place, if it is this person's.

        In a place without a thread it may be in any thread there. The same event stops once;
        afterwards it is answered with nothing.
        """
        ...

    async def answer(
        self, user: Identity, confirmation_id: str, *, choice: str, admin: bool = False
    ) -> CommandReply:
        """Take the owner's answer to a confirmation, or an admin's.

        Args:
            user: Who answers.
            confirmation_id: What was asked.
            choice: The `key` of one of its choices.
            admin: As in `Incoming`.
        """
        ...

    async def run_choices(
        self, user: Identity, typed: str, *, action: str = ""
    ) -> list[tuple[str, str]]:
        """Return (id, label) of this user's runs that fit what was typed and the action."""
        ...

    async def overview(self, user: Identity) -> Overview:
        """Return a person's runs, usage and agents."""
        ...


class Intake(Protocol):
    """Hears what people say on one platform."""

    platform: str

    async def run(self, ears: Ears) -> None:
        """Listen until cancelled, or until the person leaves."""
        ...

"""The values that all parts share: identity, place, status and others."""

import secrets
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar, get_args
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, model_validator

#: Returns the current time, aware, in UTC.
Clock = Callable[[], datetime]

#: The type of a JSON document; our own modules pass typed values instead.
Json = dict[str, Any]


def utc_now() -> datetime:
    """Return the current time, aware, in UTC. Parts are given this function as their clock."""
    return datetime.now(UTC)  # noqa: TID251 - the one place that reads the clock


class Settings(BaseModel):
    """A frozen group of settings: each part defines its own and `bot.config` fills it."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=True,
        allow_inf_nan=False,
        # An input may be a secret, or a URL with a password.
        hide_input_in_errors=True,
        defer_build=True,  # most sections are checked only as a part of the whole
    )
    #: The keys that are read at the start only: a change needs a restart.
    at_start: ClassVar[tuple[str, ...]] = ()

    def __call__(self) -> Self:
        """Return itself: a fixed group stands in for a live one."""
        return self

    @model_validator(mode="before")
    @classmethod
    def _has_no_truth_for_numbers(cls, given: Any) -> Any:
        """Refuse `yes` for a number, which would be 1: one day, one step."""
        if not isinstance(given, dict):
            return given
        wrong: dict[str, str] = {}
        for name, value in given.items():
            if type(value) is bool and name in cls.model_fields:
                kind = cls.model_fields[name].annotation
                kinds = {kind, *get_args(kind)}
                if bool not in kinds and kinds & {int, float}:
                    # As a text it is no number: the error names the key.
                    wrong[name] = str(value)
        return {**given, **wrong} if wrong else given


Section = TypeVar("Section", bound=Settings)

#: Returns the settings in force. Parts call it at each use and keep no copy.
Live = Callable[[], Section]


class Sections(Protocol):
    """The sections of the configuration in force, by their class."""

    def section(self, kind: type[Section]) -> Section:
        """Return the section of this class."""

    def live(self, kind: type[Section]) -> Live[Section]: ...  # noqa: D102


class PlatformSettings(Settings):
    """A section of `config.yaml` that belongs to a chat platform: its module `settings` holds it.

    Attributes:
        section: The name of the section, of the package, and of the platform in places.
        title: The name that users know.
        about: The description of the section.
        needs: The required settings, as part of a sentence.
        guide: The page with the setup instructions.
        environment: Variables that fill keys of the section when nothing else sets them, by key.
        account: The pattern of an account in `access.admins`, after the name of the section.
        account_form: The instruction how to write such an account.
        accounts_of_workspaces: Whether an account belongs to a workspace, whose id stands before
            it.
        server: The pattern of the id of a server or workspace; empty where there are none.
        server_name: The name of a server or workspace for users.
        server_form: The instruction how to write one, as part of a sentence.
        channel: The pattern of the id of a channel.
        channel_form: The instruction how to write one, as part of a sentence.
        direct: The beginning of the ids of direct messages; empty where they are the places without
            a server; `None` if no place is private.
        open_threads: Whether every reader of a channel can read all of its threads.
    """

    section: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    needs: ClassVar[str]
    guide: ClassVar[str]
    environment: ClassVar[Mapping[str, str]] = {}
    account: ClassVar[str]
    account_form: ClassVar[str]
    accounts_of_workspaces: ClassVar[bool] = False
    server: ClassVar[str] = ""
    server_name: ClassVar[str] = "workspace"
    server_form: ClassVar[str] = ""
    channel: ClassVar[str] = ""
    channel_form: ClassVar[str] = ""
    direct: ClassVar[str | None] = None
    open_threads: ClassVar[bool] = False

    @property
    def configured(self) -> bool:
        """True if the platform is set up, which enables it."""
        raise NotImplementedError


class SkillSettings(Settings):
    """A section of `config.yaml` that belongs to a skill: the skill's module `settings` holds it.

    Attributes:
        section: The name of the section; empty in a class that is no section.
        about: The description of the section.
        refused_secrets: Keys that refuse a plaintext secret, below the section; `*` is any key.
        warned_secrets: Keys for which `check` warns of a plaintext secret.
    """

    section: ClassVar[str] = ""
    about: ClassVar[str] = ""
    refused_secrets: ClassVar[tuple[tuple[str, ...], ...]] = ()
    warned_secrets: ClassVar[tuple[tuple[str, ...], ...]] = ()

    @property
    def is_on(self) -> bool:
        """True if the skill is needed, by default unless `enabled` is false: else it stays out."""
        return bool(getattr(self, "enabled", True))

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders with files of users."""
        return ()

    @property
    def accounts(self) -> Mapping[str, Sequence[str]]:
        """The accounts that the section names, by their key below the section."""
        return {}

    @property
    def live_skills(self) -> tuple[str, ...]:
        """The names of the skills whose tools come and go."""
        return ()

    def check_installed(self) -> None:
        """Check that the libraries of the skill are installed.

        Raises:
            ConfigError: A library is missing.
        """

    @property
    def needs_claude(self) -> str:
        """The setting that needs a key for Claude; empty for none."""
        return ""


@dataclass(frozen=True, slots=True)
class Identity:
    """The account of a user: never a display name.

    Attributes:
        platform: `discord`, `slack` or `terminal`.
        workspace: Slack: enterprise or team. Discord and terminal: empty, so that a user has one
            set of limits everywhere.
        account: The platform's immutable id of the account.
    """

    platform: str
    workspace: str
    account: str

    @property
    def key(self) -> str:
        """The value of `user_id` columns: unique, and never parsed again."""
        return ":".join(quote(part, safe="") for part in self.parts)

    @property
    def parts(self) -> tuple[str, str, str]:
        """Platform, workspace and account."""
        return (self.platform, self.workspace, self.account)


@dataclass(frozen=True, slots=True)
class Stopper:
    """The admin who stopped a run of another user, with the name that the platform shows."""

    identity: Identity
    name: str


class Role(StrEnum):
    """The rights of a user: see `bot.conversations.access`.

    An operator is an admin of everything, an admin one of the server or workspace of the place.
    """

    USER = "user"
    ADMIN = "admin"
    OPERATOR = "operator"


ADMINS = frozenset({Role.ADMIN, Role.OPERATOR})


#: Begins the keys of files that belong to a place. No `Identity.key` contains a slash.
PLACE_FILES = "place/"


@dataclass(frozen=True, slots=True)
class Place:
    """The full route of an answer; parts that a platform does not have are empty."""

    platform: str
    workspace: str = ""
    channel: str = ""
    thread: str = ""
    message: str = ""

    @property
    def files_key(self) -> str:
        """The key of the files that belong to this place, other than any `Identity.key`."""
        route = (self.platform, self.workspace, self.channel, self.thread)
        return PLACE_FILES + "/".join(quote(part, safe="") for part in route)


@dataclass(frozen=True, slots=True)
class ConversationMode:
    """The mode of the conversations of a place.

    Attributes:
        shared: Whether all users of the place share one.
        silence: The silence after which a new one begins; `None` for never.
    """

    shared: bool = False
    silence: timedelta | None = None


PERSONAL = ConversationMode()


@dataclass(frozen=True, slots=True)
class File:
    """A stored file that was attached to a user's message.

    Attributes:
        media_type: The media type of an image or a document; empty for a text, in UTF-8.
    """

    name: str
    media_type: str
    data: bytes


def inbox_path(name: str) -> str:
    """Return the path of an attached file in the workspace."""
    return f"inbox/{name.replace('/', '_').strip('. ') or 'file'}"


class RunStatus(StrEnum):
    """The state of a run; exactly one final state is ever written."""

    QUEUED = "queued"
    ACCEPTED = "accepted"
    RUNNING = "running"
    WAITING_APPROVAL = "waiting_approval"
    WAITING_INPUT = "waiting_input"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    BUDGET_EXCEEDED = "budget_exceeded"
    MAX_TOOL_CALLS = "max_tool_calls"
    MAX_STEPS = "max_steps"
    STALLED = "stalled"
    LOST = "lost"

    @property
    def final(self) -> bool:
        """True if the run has ended."""
        return self not in UNFINISHED

    @property
    def resumable(self) -> bool:
        """True if a new run may continue the run: it ended and did not complete."""
        return self.final and self is not RunStatus.COMPLETED


#: The status of turns that are not over.
OPEN_TURN = ("queued", "running")

UNFINISHED = frozenset(
    {
        RunStatus.QUEUED,
        RunStatus.ACCEPTED,
        RunStatus.RUNNING,
        RunStatus.WAITING_APPROVAL,
        RunStatus.WAITING_INPUT,
    }
)

#: The states in which a run waits for its owner.
WAITING = frozenset({RunStatus.WAITING_APPROVAL, RunStatus.WAITING_INPUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCaps:
    """Caps on the slots that runs hold at once."""

    per_user: int
    everyone: int

    def admit(self, running: int, running_global: int) -> bool:
        """Return True if both caps leave a slot for a user whose runs hold `running` slots."""
        return running < self.per_user and running_global < self.everyone


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUsage:
    """Usage from the tables at the moment of the decision, read in its transaction.

    Attributes:
        started_in_window: Runs this user started within the rate window, without refused ones; for
            a delegated task, the tasks that were delegated.
        oldest_in_window: Start of the first of these.
        running: Slots that this user's runs hold.
        queued: This user's runs that wait for a slot.
        running_global: Slots that the runs of all users hold.
    """

    started_in_window: int = 0
    oldest_in_window: datetime | None = None
    running: int = 0
    queued: int = 0
    running_global: int = 0


class StepState(StrEnum):
    """The state of one tool call of a run, as its card shows it."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


#: The states in which a run holds one of its owner's slots. A queued run has no slot yet, and a run
#: that waits for its owner has given its slot back.
HOLDING_A_SLOT = frozenset({RunStatus.ACCEPTED, RunStatus.RUNNING})


def new_run_id() -> str:
    """Return a new run id: a uuid4 in its usual spelling."""
    return str(uuid.uuid4())


def derived_run_id(work_id: str, call_id: str) -> str:
    """Return the run id that belongs to one tool call; repeated calls return the same id.

    A turn that is resumed after a crash requests the same id again and so finds its run.
    """
    return str(uuid.uuid5(_RUN_NAMESPACE, f"{work_id}/{call_id}"))


_RUN_NAMESPACE = uuid.UUID("6f1a3f0e-33a8-4a4e-9d46-5a7f6c1f0b11")


def new_sortable_id(at: datetime | None = None) -> str:
    """Return a new id that sorts by time, by default now: 14 hex digits of µs, 18 random ones."""
    microseconds = time.time_ns() // 1_000 if at is None else int(at.timestamp() * 1_000_000)
    return f"{microseconds:014x}{secrets.token_hex(9)}"


def short(run_id: str) -> str:
    """Return the part of a run id that users see and type: its first 8 hex digits."""
    return run_id[:8]

"""Requests to the manager, and its answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bot.subagents.limits import SubagentSettings
from bot.values import Identity, Json, Place, Role, RunUsage
from db.audit import AuditEntry
from db.runs import Run as Run  # noqa: PLC0414 - skills see only this module
from db.spending import Grouping, SpendingSum
from skills.base import ToolContext

#: Keys of a run's metadata: the task was written from a prompt with foreign content, or with
#: private material.
FOREIGN, PRIVATE = "foreign", "private"
#: Keys of a run's metadata: it was started in a shared conversation; the task was written from a
#: prompt with words of other people.
SHARED, OTHERS = "shared", "others"
#: The keys that a run's continuation takes over.
ORIGINS = (FOREIGN, PRIVATE, SHARED, OTHERS)
#: Key of a run's metadata: the turn that began the work to which the run belongs.
ROOT = "root_id"
#: Key of a run's metadata: the run that began it, the run that began that one, and so on.
CALLERS = "callers"
#: Key of a run's metadata: the run that this one continues.
CONTINUES = "continues"
#: Key of a run's metadata: the run has a workspace of its own, or works in that of the run named.
OWN_WORKSPACE = "own_workspace"
#: Key of a run's metadata: the main agent reports its progress in sentences.
WORDED = "worded"
#: Key of a run's metadata: the requested provider and model, if any.
ASKED_MODEL = "asked_model"
#: Key of a run's metadata: the notifications about it that were asked for (`NOTIFY`).
NOTIFY_OF_RUN = "notify"
#: Notifications about a run: of its result, of its progress as well, or none.
NOTIFY = ("done", "progress", "silent")
#: Key of a run's metadata: the rights that applied at its spawn, as `Rights.as_json`.
RIGHTS = "rights"
#: Key of a run's metadata: the source of the token budget (`request`, `agent`, `cap`, `parent`).
BUDGET_SOURCE = "budget_source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The user, place and piece of work behind a request: an `Asker` of the access rule.

    Attributes:
        typed: Whether the user typed a command or pressed a button: only these have admin powers.
        message_id: The message of the turn that makes the request; empty for a command.
        batch_id: The turn; all runs requested in one turn share it.
        call_key: (work, call) of a tool call. A call repeated after a crash maps to the same run.
        run_id: The run that makes the request; `None` for the main agent and for commands.
        depth: 0 for the main agent and for commands.
        root_id: The turn that began this work, or the run that no turn began; empty for a command.
        command_id: The stored command behind the request; empty for none. A command repeated after
            a crash maps to the same run and the same message.
        foreign: Whether the caller's prompt holds content that neither the user nor the bot wrote.
        private: Whether the caller's prompt holds private material.
        shared: Whether the users of the place share the conversation.
        others: Whether the caller's prompt holds words of other people.
    """

    user: Identity
    role: Role
    place: Place
    typed: bool = False
    conversation_id: str = ""
    message_id: str = ""
    batch_id: str = ""
    call_key: tuple[str, str] | None = None
    run_id: str | None = None
    depth: int = 0
    root_id: str = ""
    command_id: str = ""
    foreign: bool = False
    private: bool = False
    shared: bool = False
    others: bool = False

    @property
    def origins(self) -> dict[str, bool]:
        """The metadata of a run on the origin of its task."""
        flags = (self.foreign, self.private, self.shared, self.others)
        return {name: True for name, is_set in zip(ORIGINS, flags, strict=True) if is_set}

    @property
    def key(self) -> tuple[str, str] | None:
        """The key from which row ids are derived, so that a repeated request creates one row."""
        return self.call_key or (("command", self.command_id) if self.command_id else None)

    def entry(
        self,
        action: str,
        now: datetime,
        *,
        owner: str = "",
        subject: str = "",
        effect: str = "",
        id_: str = "",
    ) -> AuditEntry:
        """Return the entry of the audit log for an action of this caller.

        Args:
            action: What is done.
            now: The time.
            owner: The key of the user whose work it is; empty for nobody's.
            subject: What it is done to.
            effect: What comes of it.
            id_: The id of the entry; empty for that of the command, whose only action it then is.
        """
        return AuditEntry(
            actor=self.user.key,
            action=action,
            owner=owner,
            place=self.place,
            subject=subject,
            effect=effect,
            created_at=now,
            id=id_ or self.command_id,
        )

    @classmethod
    def of_user(cls, user: Identity, role: Role, place: Place) -> "Caller":
        """Return the caller for an answer that a user typed or pressed."""
        return cls(user=user, role=role, place=place, typed=True)

    @classmethod
    def of(cls, context: ToolContext) -> "Caller":
        """Return the caller for a tool call: a model, without the admin powers of its user."""
        return cls(
            user=context.user,
            role=context.role,
            place=context.place,
            conversation_id=context.conversation_id,
            message_id=context.message_id,
            batch_id=context.work_id,
            call_key=(context.work_id, context.call_id),
            run_id=context.run_id,
            depth=context.depth,
            foreign=context.foreign,
            private=context.private,
            shared=context.shared,
            others=context.others,
            root_id=context.root,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The parameters of a requested run.

    Attributes:
        allowed_tools: `None` for all tools that the agent may have, empty for none.
        instructions: Appended below the fixed preamble, never replacing it.
        permissions: The caller's rules for the run, as `read_rules` takes them; they only restrict.
        notify: One of `NOTIFY`; `None` for the user's own choice.
        given: The input from which the task was built, if the agent takes more than a task.
    """

    task: str
    label: str = ""
    agent: str = ""
    context: str = ""
    instructions: str = ""
    provider: str | None = None
    model: str | None = None
    timeout_minutes: float | None = None
    allowed_tools: Sequence[str] | None = None
    blocked_tools: Sequence[str] = ()
    max_turns: int | None = None
    token_budget: int | None = None
    announce: str | None = None
    notify: str | None = None
    progress: str | None = None
    whiteboard: dict[str, str] = field(default_factory=dict)
    permissions: Mapping[str, str] | None = None
    given: Json | None = None


def notify_of(metadata: Json, chosen: str) -> str:
    """Return the notifications about a run: those asked for with it, else its owner's choice."""
    asked: str = metadata.get(NOTIFY_OF_RUN, "")
    return asked or chosen or NOTIFY[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawned:
    """A run that was admitted or queued.

    Attributes:
        position: The position among the owner's queued runs; `None` if the run may start.
        notes: Deviations from the request (clamped values, unknown agent), in sentences.
        new: False if an identical request had created the run already.
    """

    run: Run
    position: int | None = None
    notes: tuple[str, ...] = ()
    new: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingReport:
    """The tokens and costs of a user, and for admins the groups that cost most this month.

    Attributes:
        today: Since midnight UTC.
        month: Since the first day of the month, UTC.
        last: The newest answer to the user in the place, with its summaries; `None` for none.
        top: The ten groups of this month that cost most, by what they are grouped; empty for one's
            own report.
        names: The shown names of the users in `top`, by their keys.
    """

    today: SpendingSum
    month: SpendingSum
    last: SpendingSum | None = None
    top: Mapping[Grouping, Sequence[SpendingSum]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """A user's usage and limits.

    Attributes:
        runs: Background runs in the rate window, and the slots that are taken.
        delegated: Delegated tasks in their rate window.
        tokens_today: Tokens of the last 24 hours, as `weighted_today` and `runs_today`.
        people: The number of all users, for admins.
    """

    settings: SubagentSettings
    runs: RunUsage
    delegated: int
    tokens_today: int
    weighted_today: int
    runs_today: int
    people: int | None

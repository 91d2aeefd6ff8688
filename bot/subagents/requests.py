"""What is asked of the manager, and what it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bot.values import Identity, Json, Place, Role
from db.runs import Run
from skills.base import ToolContext

__all__ = [
    "ASKED_MODEL",
    "CONTINUES",
    "FOREIGN",
    "OWN_WORKSPACE",
    "PRIVATE",
    "ROOT",
    "Caller",
    "Run",
    "RunRequest",
    "Spawned",
]

#: Keys of a run's metadata: its task was written from a prompt with foreign content, or with
#: private material.
FOREIGN, PRIVATE = "foreign", "private"
#: Key of a run's metadata: the turn that began the work which it belongs to.
ROOT = "root_id"
#: Key of a run's metadata: the run that it continues.
CONTINUES = "continues"
#: Key of a run's metadata: it has a workspace of its own; the run whose that is, if not its own.
OWN_WORKSPACE = "own_workspace"
#: Key of a run's metadata: the provider and the model that were asked for, if any were.
ASKED_MODEL = "asked_model"
#: Key of a run's metadata: what set its tokens (`request`, `agent`, `cap`, `parent`), if anything.
BUDGET_SOURCE = "budget_source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, where, and in which piece of work: an `Asker` of the access rule.

    Attributes:
        typed: The user typed a command or pressed a button: only these have admin powers.
        message_id: The message of the turn that asks; empty for a command.
        batch_id: The turn: runs asked for in one turn share it.
        call_key: (work, call) when a tool asks: asked again after a crash, it means the same run.
        run_id: The run that asks; `None` for the main agent and for commands.
        depth: 0 for the main agent and for commands.
        root_id: The turn that began this work, or the run that no turn began; empty for a command.
        command_id: The stored command that asks: carried out again after a crash, it means the
            same run and the same message; empty for none.
        foreign: The prompt that asks holds content that neither the user nor the bot wrote.
        private: The prompt that asks holds private material.
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

    @property
    def key(self) -> tuple[str, str] | None:
        """What the ids of rows are derived from, so that asking twice makes one row."""
        return self.call_key or (("command", self.command_id) if self.command_id else None)

    @classmethod
    def of_user(cls, user: Identity, role: Role) -> "Caller":
        """Return the caller for an answer that a user typed or pressed."""
        return cls(user=user, role=role, place=Place(user.platform), typed=True)

    @classmethod
    def of(cls, context: ToolContext) -> "Caller":
        """Return the caller for a tool call: a model, whatever the role of its user."""
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
            root_id=context.root,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A run that someone wants.

    Attributes:
        allowed_tools: `None` for all that the agent may have, empty for none.
        instructions: Appended below the fixed preamble, never in its place.
        permissions: Rules of the caller for the run, as `read_rules` takes them: they take away.
        given: The input that the task was made of, where the agent takes more than a task.
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
    whiteboard: dict[str, str] = field(default_factory=dict)
    permissions: Mapping[str, str] | None = None
    given: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawned:
    """A run that was let in.

    Attributes:
        position: Its place among its owner's waiting runs; `None` when it may start.
        notes: What is not as it was asked for (clamped, unknown agent), in sentences.
        new: `False` when the very same run had been asked for already.
    """

    run: Run
    position: int | None = None
    notes: tuple[str, ...] = ()
    new: bool = True

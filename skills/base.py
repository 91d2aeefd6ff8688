"""What a skill is: a name, a guide, and tools; a tool is an async function with a docstring."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from bot.agent.brief import brief
from bot.agent.messages import Usage
from bot.agent.subjects import Subjects
from bot.changes import Cause
from bot.errors import ToolError
from bot.values import Clock, Identity, Json, Place, Role

__all__ = ["Effects", "Reach", "Skill", "Tool", "ToolContext", "ToolError", "tool"]


class Effects(StrEnum):
    """What happens when a call is made twice, as it may be after a crash."""

    #: It only reads: repeat it freely.
    NONE = "none"
    #: It writes, but under an id taken from the call: a second time changes nothing more.
    REPEATABLE = "repeatable"
    #: It acts on the world: never repeated; the model and the user are told that it may have run.
    ONCE = "once"


class Reach(StrEnum):
    """The farthest that a call of a tool reaches."""

    #: It reads what belongs to the place: its files, the runs started there, their whiteboards. It
    #: changes nothing. In a turn that no user began only these tools are offered.
    READS_HERE = "reads_here"
    #: It reads what lies elsewhere: the web, a service, the user's notes. It changes nothing.
    READS_BEYOND = "reads_beyond"
    #: It changes only what belongs to the user, the place or the work, and can be undone.
    CHANGES_OWN = "changes_own"
    #: It changes only what belongs to the user, the place or the work, but not all of that can be
    #: undone afterwards: it destroys what cannot be restored, or drops former versions that can.
    #: With foreign content in the prompt the user is asked before such a call.
    DESTROYS = "destroys"
    #: It sends or changes something beyond the place, or has work done later. With foreign content
    #: in the prompt the user is asked before such a call.
    ACTS_BEYOND = "acts_beyond"


async def _unheard(message: str) -> None:
    """Take a progress report that nobody reads."""


def _uncounted(usage: Usage) -> None:
    """Take a cost that nobody counts."""


async def _nobody(_: str, __: str, ___: Sequence[str]) -> str:
    """Refuse a question: there is no run that could wait for the answer."""
    raise ToolError("Only a run can ask like this. Put your question into your answer.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Who calls a tool, where, and for which piece of work. A tool trusts this and no argument.

    Attributes:
        work_id: The id of the turn or run whose step makes the call.
        call_id: The id of the call, unique within the work.
        message_id: Our id of the message that is being answered; empty in a run.
        run_id: The run that makes the call; `None` when the main agent does.
        own_workspace: The run in whose workspace the files are kept; empty for the user's.
        depth: 0 for the main agent, 1 for its runs.
        report: Moves the run card; does nothing for the main agent.
        ask: Asks the person of a run something and waits: (id of the call, question, options) →
            what the model is told.
        spent: Takes what the tool itself asked of a model, which is charged to the work.
        background: Nobody waits for the work: the tool's requests to a model come after those of
            users' turns.
        foreign: The prompt of the step that makes the call holds content that neither the user nor
            the bot wrote: pages, files, results, other users' messages.
        private: The prompt of the step that makes the call holds private material: files, notes,
            memories, calendars, personal services, other places.
        root_id: The id of the turn whose run makes the call; empty in the turn itself.
        agreed: The user agreed to this call.
    """

    user: Identity
    role: Role
    place: Place
    conversation_id: str
    work_id: str
    call_id: str
    run_id: str | None
    now: Clock
    depth: int = 0
    own_workspace: str = ""
    message_id: str = ""
    report: Callable[[str], Awaitable[None]] = _unheard
    ask: Callable[[str, str, Sequence[str]], Awaitable[str]] = _nobody
    spent: Callable[[Usage], None] = _uncounted
    background: bool = False
    foreign: bool = False
    private: bool = False
    root_id: str = ""
    agreed: bool = False

    @property
    def spares_former(self) -> bool:
        """Whether the call must not push former versions out of the undo store."""
        return self.foreign and not self.agreed

    @property
    def root(self) -> str:
        """The id of the turn that this work belongs to; of the run, where no turn began it."""
        return self.root_id or self.work_id

    @property
    def cause(self) -> Cause:
        """The cause of what the call changes, for undo."""
        return Cause(user_id=self.user.key, work_id=self.work_id, run_id=self.run_id)


Prepare = Callable[[ToolContext, Json], Awaitable[tuple[Json, str]]]
Check = Callable[[Json], object]
ReachOf = Callable[[ToolContext, Json], Awaitable[Reach]]
ReasonToAsk = Callable[[ToolContext, Json], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that a model may call.

    Attributes:
        schema: The JSON Schema of its arguments.
        main_agent_only: Never offered to a subagent, and refused when one calls it.
        needs_confirmation: Asked of the person before it happens.
        timeout_seconds: Its own time limit; `None` takes the agent's.
        auto_approved: It changes nothing but the work itself (a report, a list of its own), so
            it is allowed unless a rule says otherwise, as what only reads is.
        subjects: What a call is about, for the patterns of permissions; nothing in particular for
            `None`.
        prepare: For a tool that needs confirmation: gives, before anyone is asked, the arguments
            made definite (the one run that `last` means), and what will happen, in words.
        foreign: Its results hold content that neither the user nor the bot wrote.
        private: Its results hold private material.
        reach: The farthest that any of its calls reaches.
        reach_of: Returns the reach of one call, where the calls of a tool differ (a new file, or
            one that replaces another). It runs before the call, and must not change anything.
        reason_to_ask: Returns why the user must agree to one call, where that depends on the call;
            empty when they need not. It may raise `ToolError` to refuse the call.
        check: Raises `ToolError` for arguments with which the call must fail, before a user is
            asked about it. It changes nothing and does not wait.
    """

    name: str
    description: str
    schema: Json
    run: Callable[[ToolContext, Json], Awaitable[str]]
    main_agent_only: bool = False
    needs_confirmation: bool = False
    effects: Effects = Effects.ONCE
    timeout_seconds: float | None = None
    auto_approved: bool = False
    subjects: Subjects | None = None
    prepare: Prepare | None = None
    foreign: bool = True
    private: bool = True
    reach: Reach = Reach.ACTS_BEYOND
    reach_of: ReachOf | None = None
    reason_to_ask: ReasonToAsk | None = None
    check: Check | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A group of tools under one name.

    Attributes:
        guide: A few lines for the main agent's prompt on when and how to use the tools; a function
            that gives them where they change while the bot runs.
        live: Gives tools that come and go while the bot runs; asked each time. Their names begin
            with the skill's and two underscores.
    """

    name: str
    description: str
    tools: tuple[Tool, ...] = field(default=())
    guide: str | Callable[[], str] = ""
    live: Callable[[], tuple[Tool, ...]] | None = None

    @property
    def guide_now(self) -> str:
        """The guide, as it is now."""
        return self.guide if isinstance(self.guide, str) else self.guide()

    def may_own(self, tool: str) -> bool:
        """Whether a tool of this name would be one of those that come and go."""
        return self.live is not None and tool.startswith(f"{self.name}__")


def tool(  # noqa: PLR0913 - every declaration of a tool
    *,
    main_agent_only: bool = False,
    needs_confirmation: bool = False,
    effects: Effects = Effects.ONCE,
    timeout_seconds: float | None = None,
    auto_approved: bool = False,
    subjects: Subjects | None = None,
    prepare: Prepare | None = None,
    foreign: bool = True,
    private: bool = True,
    reach: Reach | None = None,
    reach_of: ReachOf | None = None,
    reason_to_ask: ReasonToAsk | None = None,
    name: str | None = None,
) -> Callable[[Callable[..., Awaitable[str]]], Tool]:
    """Make a tool of an async function: its signature and docstring are what the model reads.

    The first parameter is the `ToolContext`; the others are the arguments. A parameter is described
    by `Annotated[str, "what it is"]`. The function returns text, or raises `ToolError` with a
    sentence that tells the agent what to try.

    A tool that says nothing of its effects is taken to act on the world, and is never repeated
    after a crash; one that only reads should say so. The other declarations default to the
    cautious side: its results are foreign and private, and it acts beyond the place, or reads
    beyond it when its effects are `Effects.NONE`.
    """
    if reach is None:
        reach = Reach.READS_BEYOND if effects is Effects.NONE else Reach.ACTS_BEYOND

    def decorate(function: Callable[..., Awaitable[str]]) -> Tool:
        arguments = _arguments_of(function)
        tool_name = name or function.__name__

        def validated(given: Json) -> BaseModel:
            try:
                return arguments.model_validate(given)
            except ValidationError as error:
                raise ToolError(_explain(tool_name, error)) from None

        async def run(context: ToolContext, given: Json) -> str:
            values = validated(given)
            return await function(
                context, **{key: getattr(values, key) for key in arguments.model_fields}
            )

        return Tool(
            name=tool_name,
            description=inspect.getdoc(function) or "",
            schema=brief(arguments.model_json_schema()),
            run=run,
            main_agent_only=main_agent_only,
            needs_confirmation=needs_confirmation,
            effects=effects,
            timeout_seconds=timeout_seconds,
            auto_approved=auto_approved,
            subjects=subjects,
            prepare=prepare,
            foreign=foreign,
            private=private,
            reach=reach,
            reach_of=reach_of,
            reason_to_ask=reason_to_ask,
            check=validated,
        )

    return decorate


def _arguments_of(function: Callable[..., Awaitable[str]]) -> type[BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    fields: dict[str, Any] = {}
    for parameter in parameters[1:]:
        default = ... if parameter.default is parameter.empty else parameter.default
        hint = hints[parameter.name]
        notes = [note for note in getattr(hint, "__metadata__", ()) if isinstance(note, str)]
        info: FieldInfo = Field(default, description=notes[0] if notes else None)
        fields[parameter.name] = (hint, info)
    config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)
    return create_model(f"{function.__name__}_arguments", __config__=config, **fields)


def _explain(name: str, error: ValidationError) -> str:
    """Return what is wrong with the arguments, in a sentence that the model can act on."""
    problems = []
    for item in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in item["loc"]) or "arguments"
        message = {"missing": "is required", "extra_forbidden": "is not an argument"}.get(
            item["type"], item["msg"]
        )
        problems.append(f"`{where}` {message}")
    return f"{name} was not called: {'; '.join(problems)}. Correct the arguments and call it again."

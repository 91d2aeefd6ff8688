"""The types of skills: a skill has a name, a guide, and tools, which wrap async functions."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, TypedDict, Unpack, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from bot.agent.brief import brief
from bot.agent.messages import Media, Usage
from bot.agent.subjects import Subjects
from bot.changes import Cause
from bot.errors import ToolError
from bot.rights.effective import UNLIMITED_RIGHTS, Rights
from bot.spending.pools import Payer
from bot.values import Clock, Identity, Json, Place, Role

__all__ = ["Audience", "Effects", "Reach", "Skill", "Tool", "ToolContext", "ToolError", "tool"]


class Effects(StrEnum):
    """The effects of making a call twice, as may happen after a crash."""

    #: The call only reads: it may be repeated freely.
    NONE = "none"
    #: The call writes under an id derived from the call: a repetition changes nothing more.
    REPEATABLE = "repeatable"
    #: The call acts on the outside world and is never repeated; the model and the user are informed
    #: that it may have run.
    ONCE = "once"


class Reach(StrEnum):
    """The farthest that a call of a tool reaches."""

    #: It reads data of the place: its files, the runs started there, their whiteboards. It changes
    #: nothing. A turn that no user began is offered only these tools.
    READS_HERE = "reads_here"
    #: It reads data from elsewhere: the web, a service, the user's notes. It changes nothing.
    READS_BEYOND = "reads_beyond"
    #: It changes only data of the user, the place or the work, and can be undone.
    CHANGES_OWN = "changes_own"
    #: It changes only data of the user, the place or the work, but part of that cannot be undone:
    #: it destroys data that cannot be restored, or drops former versions. With foreign content in
    #: the prompt the user is asked before such a call.
    DESTROYS = "destroys"
    #: It sends or changes something beyond the place, or schedules work. With foreign content in
    #: the prompt the user is asked before such a call.
    ACTS_BEYOND = "acts_beyond"


class Audience(StrEnum):
    """The readers of the data that a tool reads."""

    #: Everyone who reads the place: the web, the place's files, the runs started there.
    PLACE = "place"
    #: The turn of the user: the to-do list. It needs no yes, and is not kept in a conversation of
    #: several users.
    TURN = "turn"
    #: The user alone: notes, memories, a calendar, a personal service. Where the prompt holds words
    #: of other people, the user is asked before each call.
    PERSONAL = "personal"


async def _unheard(message: str) -> None:
    """Discard a progress report of the main agent, which has no run card."""


async def _nobody(_: str, __: str, ___: Sequence[str]) -> str:
    """Refuse a question: only a run can wait for the answer."""
    raise ToolError("Only a run can ask like this. Put your question into your answer.")


async def _unrecorded(_: "ToolContext", __: str) -> None:
    """Record nothing about a credential."""


async def _unlimited() -> Rights:
    return UNLIMITED_RIGHTS


async def _all(names: Iterable[str]) -> frozenset[str]:
    return frozenset(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """The caller of a tool, its place and its piece of work. A tool trusts these and no argument.

    Attributes:
        work_id: The id of the turn or run whose step makes the call.
        call_id: The id of the call, unique within the work.
        message_id: Our id of the message that the turn answers; empty in a run.
        run_id: The run that makes the call; `None` if the main agent makes it.
        own_workspace: The run whose workspace holds the files; empty for the user's workspace.
        depth: 0 for the main agent, 1 for its runs.
        report: Publishes progress on the run card; does nothing for the main agent.
        ask: Asks the owner of a run and waits: (id of the call, question, options) → text for the
            model.
        show: Shows an image or a PDF to the model, with the text of the result.
        spent: Receives the cost of the tool's own model requests, which the work is charged for.
        background: Whether no user waits for the work: the tool's model requests then rank below
            those of users' turns.
        foreign: Whether the prompt of the calling step holds content that neither the user nor the
            bot wrote: pages, files, results, other users' messages.
        private: Whether the prompt of the calling step holds private material: files, notes,
            memories, calendars, personal services, other places.
        shared: Whether the users of the place share the conversation: its files are the place's.
        others: Whether the prompt of the calling step holds words of other people.
        granted: The tools for the user alone that the user has allowed in this conversation.
        root_id: The id of the turn whose run makes the call; empty in the turn itself.
        agreed: Whether the user agreed to this call.
        found: Receives the names of tools that the call found, which a model can then load.
        payer: The payer of the tool's own model requests; `None` for none.
        rights: Returns the rights of the user in the place, as they are now; in a run within those
            that applied at its spawn.
        credential_used: Records that a call uses a credential of the bot.
        tools: The names of the caller's tools.
        named_skills: The Agent Skills whose texts are in the caller's prompt.
        usable_skills: Returns, of names of Agent Skills, those that the caller may use.
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
    show: Callable[[Media], None] = lambda _: None
    spent: Callable[[Usage], None] = lambda _: None
    background: bool = False
    foreign: bool = False
    private: bool = False
    shared: bool = False
    others: bool = False
    granted: frozenset[str] = frozenset()
    root_id: str = ""
    agreed: bool = False
    found: Callable[[Sequence[str]], None] = lambda _: None
    payer: Payer | None = None
    rights: Callable[[], Awaitable[Rights]] = _unlimited
    credential_used: "CredentialUsed" = _unrecorded
    tools: frozenset[str] = frozenset()
    named_skills: frozenset[str] = frozenset()
    usable_skills: Callable[[Iterable[str]], Awaitable[frozenset[str]]] = _all

    @property
    def spares_former(self) -> bool:
        """True if the call must not push former versions out of the undo store."""
        return self.foreign and not self.agreed

    @property
    def files_of(self) -> str:
        """The owner of the workspace: the user's key, or a key of the place if that is shared."""
        return self.place.files_key if self.shared else self.user.key

    @property
    def root(self) -> str:
        """The id of the turn that this work belongs to; the id of the run if no turn began it."""
        return self.root_id or self.work_id

    @property
    def cause(self) -> Cause:
        """The cause to record for changes by this call, for undo."""
        return Cause(user_id=self.user.key, work_id=self.work_id, run_id=self.run_id)


CredentialUsed = Callable[[ToolContext, str], Awaitable[None]]
Prepare = Callable[[ToolContext, Json], Awaitable[tuple[Json, str]]]
Check = Callable[[Json], object]
AudienceOf = Callable[[Json], Audience]
ReachOf = Callable[[ToolContext, Json], Awaitable[Reach]]
ReasonToAsk = Callable[[ToolContext, Json], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that a model may call.

    Attributes:
        schema: The JSON Schema of the arguments.
        main_agent_only: Whether the tool is never offered to a subagent, and refused if one calls
            it.
        needs_confirmation: Whether the user is asked before each call.
        timeout_seconds: The time limit of a call; `None` for the agent's limit.
        auto_approved: Whether a call changes nothing but the work itself (a report, a list of its
            own). Like a tool that only reads, it is allowed unless a rule denies it.
        subjects: Returns the subjects of a call, for the patterns of permissions; `None` for a tool
            without subjects.
        prepare: Called before the user is asked for a confirmation. Returns the arguments made
            definite (the one run that `last` denotes), and a description of the effect.
        foreign: Whether results hold content that neither the user nor the bot wrote.
        private: Whether results hold private material.
        audience: The readers of the data that the tool reads.
        audience_of: Returns the readers for one call by its arguments, if the calls of a tool
            differ.
        reach: The farthest that any call of the tool reaches.
        reach_of: Returns the reach of one call, if the calls of a tool differ (a new file, or one
            that replaces another). It runs before the call, and must not change anything.
        reason_to_ask: Returns the reason why the user must agree to one call, if that depends on
            the call; empty if no agreement is needed. It may raise `ToolError` to refuse the call.
        check: Raises `ToolError` for invalid arguments, before the user is asked about the call. It
            changes nothing and does not wait.
        deferred: Whether requests do not carry the tool: the agent has to find it.
        credential: The service whose credential, stored by an admin, a call uses: `rest github`;
            empty for none. The first use by a piece of work is recorded in the audit log.
        files: Returns the paths of the files that a call reads, to which the rules about
            `file_read` apply as well; `None` for a tool whose own rules are enough.
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
    audience: Audience = Audience.PERSONAL
    audience_of: AudienceOf | None = None
    reach: Reach = Reach.ACTS_BEYOND
    reach_of: ReachOf | None = None
    reason_to_ask: ReasonToAsk | None = None
    check: Check | None = None
    deferred: bool = False
    credential: str = ""
    files: Subjects | None = None

    def read_by(self, arguments: Json) -> Audience:
        """Return the readers of the data that a call with these arguments reads."""
        return self.audience if self.audience_of is None else self.audience_of(arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A group of tools under one name.

    Attributes:
        guide: A few lines for the main agent's prompt on using the tools; a function if they change
            while the bot runs.
        live: Returns tools that come and go while the bot runs; called each time. Their names begin
            with the skill's name and two underscores.
    """

    name: str
    description: str
    tools: tuple[Tool, ...] = field(default=())
    guide: str | Callable[[], str] = ""
    live: Callable[[], tuple[Tool, ...]] | None = None

    @property
    def guide_now(self) -> str:
        """The current guide."""
        return self.guide if isinstance(self.guide, str) else self.guide()

    def may_own(self, tool: str) -> bool:
        """Return True if `live` may provide a tool of this name."""
        return self.live is not None and tool.startswith(f"{self.name}__")


class ToolOptions(TypedDict, total=False):
    """The declarations of a tool that `tool` passes on to `Tool`; the attributes are those."""

    main_agent_only: bool
    needs_confirmation: bool
    effects: Effects
    timeout_seconds: float | None
    auto_approved: bool
    subjects: Subjects | None
    prepare: Prepare | None
    foreign: bool
    private: bool
    audience: Audience
    audience_of: AudienceOf | None
    reach: Reach
    reach_of: ReachOf | None
    reason_to_ask: ReasonToAsk | None
    credential: str


def tool(
    *, name: str | None = None, **options: Unpack[ToolOptions]
) -> Callable[[Callable[..., Awaitable[str]]], Tool]:
    """Make a tool of an async function: the model reads its signature and docstring.

    The first parameter is the `ToolContext`; the others are the arguments. `Annotated[str, "…"]`
    describes a parameter. The function returns text, or raises `ToolError` with a sentence that
    gives the agent an alternative.

    Without declared effects a tool is assumed to act on the outside world, and is never repeated
    after a crash; a tool that only reads should declare that. The other declarations default to the
    cautious side: the results are foreign, private and for the user alone, and the tool acts beyond
    the place, or reads beyond it if its effects are `Effects.NONE`.
    """
    if options.get("effects") is Effects.NONE:
        options.setdefault("reach", Reach.READS_BEYOND)

    def decorate(function: Callable[..., Awaitable[str]]) -> Tool:
        arguments = _arguments_of(function)
        tool_name = name or function.__name__

        def validated(given: Json) -> BaseModel:
            try:
                return arguments.model_validate(given)
            except ValidationError as error:
                problems = []
                for item in error.errors(include_url=False, include_input=False):
                    where = ".".join(str(part) for part in item["loc"]) or "arguments"
                    message = {
                        "missing": "is required",
                        "extra_forbidden": "is not an argument",
                    }.get(item["type"], item["msg"])
                    problems.append(f"`{where}` {message}")
                raise ToolError(
                    f"{tool_name} was not called: {'; '.join(problems)}. Correct the arguments and "
                    "call it again."
                ) from None

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
            check=validated,
            **options,
        )

    return decorate


#: The decorator of a tool that reads what belongs to its place.
reads_here = partial(tool, effects=Effects.NONE, audience=Audience.PLACE, reach=Reach.READS_HERE)
#: The decorator of a tool that changes only what belongs to its own work.
changes_own = partial(
    tool,
    effects=Effects.REPEATABLE,
    auto_approved=True,
    foreign=False,
    private=False,
    audience=Audience.PLACE,
    reach=Reach.CHANGES_OWN,
)


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

"""Validates a run request and builds its database row (pure)."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bot.agent.permissions import read_rules
from bot.agent.plain import plain
from bot.agent.sanitizer import one_line
from bot.catalog.agents import ANNOUNCE, PROGRESS, AgentDefinition, Agents, find
from bot.errors import BadRequestError, NotAllowedError, NotFoundError
from bot.rights.effective import UNLIMITED_RIGHTS, USER, Rights, model_names
from bot.subagents.limits import SubagentSettings, clamp, spoken
from bot.subagents.requests import (
    ASKED_MODEL,
    BUDGET_SOURCE,
    CALLERS,
    CONTINUES,
    NOTIFY,
    NOTIFY_OF_RUN,
    ORIGINS,
    OWN_WORKSPACE,
    RIGHTS,
    ROOT,
    WORDED,
    Caller,
    RunRequest,
)
from bot.values import Json, Live, derived_run_id, new_run_id
from db.admission import MOST_RUNNING
from db.runs import NewRun, Run

MAX_TASK = 20_000
MAX_LABEL = 60
MAX_STEPS = 50
LEAST_MS = 1000
#: The largest number in a request; up to it, more than a cap is clamped.
MOST_ASKED = 10**12
#: The date at the end of the model name in a provider's response.
_VERSION = re.compile(r"-\d{8}\Z|-\d{4}-\d\d-\d\d\Z")
MAX_BOARD = (100, 200, 20_000)  # entries, characters of a key, characters of a value

#: (asked provider, asked model, definition) → (provider, model); raises when it is not allowed.
Choose = Callable[[str | None, str | None, AgentDefinition], tuple[str, str]]
#: Names of tools or skills → names of tools; raises for unknown ones.
Resolve = Callable[[Sequence[str]], frozenset[str]]


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run that may be admitted.

    Attributes:
        notes: Deviations from the request, in sentences.
    """

    run: NewRun
    notes: list[str]


@dataclass(frozen=True, slots=True)
class RunPlanner:
    """Turns requests into rows.

    Attributes:
        rights: The rights of the user for whom runs are planned.
    """

    settings: Live[SubagentSettings]
    agents: Agents
    choose: Choose
    resolve: Resolve
    main_agent_only: Callable[[], frozenset[str]]
    rights: Rights = UNLIMITED_RIGHTS

    def within(self, rights: Rights) -> "RunPlanner":
        """Return a planner for a user with these rights."""
        return replace(self, settings=rights.narrowed(self.settings()), rights=rights)

    def plan(self, request: RunRequest, caller: Caller, *, mode: str) -> PlannedRun:
        """Return the row for a request.

        Raises:
            BadRequestError: The request is invalid; the text gives the valid form.
            NotAllowedError: The user may not use the agent or the model.
        """
        task = plain(request.task, limit=None).strip()
        _check(task, request)
        definition, known = find(self.agents, request.agent)
        provider, model = self._model(request.provider, request.model, definition)
        notes: list[str] = []
        if not known:
            notes.append(
                f"There is no agent “{one_line(request.agent, 60)}”; `{definition.name}` took it."
            )
        metadata = _metadata(request, definition, caller) | self._stored_rights()
        if (request.progress or definition.progress or self.settings().progress) == "worded":
            metadata[WORDED] = True
        wanted = request.token_budget or definition.token_budget
        if wanted is not None:
            source = "request" if request.token_budget else "agent"
            above = wanted >= self.settings().max_token_budget
            metadata[BUDGET_SOURCE] = "cap" if above else source
        step_cap = max(MAX_STEPS, definition.max_steps)
        steps, clamped = clamp(request.max_turns, definition.max_steps, step_cap)
        timeout_ms = self._timeout_ms(request, definition, notes, mode)
        budget = self._budget(request, definition, notes)
        if clamped:
            notes.append(f"You asked for {request.max_turns} steps; a run gets {step_cap} at most.")
        run = NewRun(
            id=derived_run_id(*caller.key) if caller.key else new_run_id(),
            user_id=caller.user.key,
            conversation_id=caller.conversation_id,
            parent_message_id=caller.message_id,
            parent_run_id=caller.run_id,
            batch_id=caller.batch_id,
            label=label_for(request.label, task),
            agent=definition.name,
            task=task,
            context=plain(request.context, limit=None).strip(),
            instructions=plain(request.instructions, limit=None).strip(),
            mode=mode,
            depth=caller.depth + 1,
            announce=request.announce or definition.announce,
            provider=provider,
            model=model,
            timeout_ms=timeout_ms,
            token_budget=budget,
            max_steps=int(steps),
            allowed_tools=self._allowed(request, definition, notes),
            blocked_tools=sorted(self.resolve([*request.blocked_tools, *definition.disallowed])),
            metadata=metadata,
            place=caller.place,
        )
        return PlannedRun(run, notes)

    def again(self, run: Run, run_id: str) -> PlannedRun:
        """Return the row of a run that continues another one, with a time and budget of its own.

        The new run has the rights of the other run, less those its agent's file no longer grants.

        Args:
            run: The run to continue.
            run_id: The id of the new run.
        """
        definition, _ = find(self.agents, run.agent)
        notes: list[str] = []
        default = RunRequest(task=run.task)
        provider, model = self._model_again(run, definition, notes)
        own = self._of_definition(definition)
        allowed = run.allowed_tools
        if own is not None:
            allowed = tuple(own if allowed is None else own & set(allowed))
        minutes = run.timeout_ms if run.mode == "async" else 0
        metadata = {
            name: run.metadata[name]
            for name in ("permissions", *ORIGINS, BUDGET_SOURCE, ASKED_MODEL, WORDED)
            if name in run.metadata
        }  # fmt: skip
        if apart := run.metadata.get(OWN_WORKSPACE):
            metadata[OWN_WORKSPACE] = apart if isinstance(apart, str) else run.id
        again = NewRun(
            id=run_id,
            user_id=run.user_id,
            conversation_id=run.conversation_id,
            parent_message_id=run.parent_message_id,
            label=run.label,
            agent=definition.name,
            task=run.task,
            context=run.context,
            instructions=run.instructions,
            mode="async",
            depth=run.depth,
            announce="result" if run.announce == "silent" else run.announce,
            provider=provider,
            model=model,
            timeout_ms=min(
                max(minutes, self._timeout_ms(default, definition, notes, "async")),
                round(self.settings().max_timeout_minutes * 60_000),
            ),
            token_budget=min(
                max(run.token_budget, self._budget(default, definition, notes)),
                self.settings().max_token_budget,
            ),
            max_steps=run.max_steps,
            allowed_tools=None if allowed is None else sorted(allowed),
            blocked_tools=sorted({*run.blocked_tools, *self.resolve(definition.disallowed)}),
            metadata=metadata
            | self._stored_rights()
            | {CONTINUES: run.id, ROOT: run.metadata.get(ROOT) or run.id},
            place=run.place,
        )
        return PlannedRun(again, notes)

    def _model_again(
        self, run: Run, definition: AgentDefinition, notes: list[str]
    ) -> tuple[str, str]:
        """Return provider and model of a continued run: the requested ones, else its agent's.

        The row names the model that answered last, which may be a version of the requested one, or
        a fallback that replaced it.
        """
        named, asked = run.metadata.get(ASKED_MODEL) or (None, None)
        try:
            provider, model = self._model(named, asked, definition)
        except (BadRequestError, NotAllowedError):
            provider, model = self._model(None, None, definition)
        worked = run.model or model
        if model not in {worked, _VERSION.sub("", worked)}:
            notes.append(f"`{worked}` worked on it before; `{provider}/{model}` does now.")
        return provider, model

    def _model(
        self, provider: str | None, model: str | None, definition: AgentDefinition
    ) -> tuple[str, str]:
        """Return provider and model of a run; if none is requested, one that the user may use.

        Raises:
            BadRequestError: No such model may be requested.
            NotAllowedError: The user may not use the agent or the model.
        """
        if refused := self.rights.refusal("agents", definition.name):
            raise NotAllowedError(f"{refused[:1].upper()}{refused[1:]}.")
        chosen = self.choose(provider, model, definition)
        refused = self.rights.refusal("models", *model_names(*chosen))
        if not refused:
            return chosen
        for name in () if provider or model else self.rights.named_models:
            try:
                other = self.choose(None, name, definition)
            except BadRequestError:
                continue
            if not self.rights.refusal("models", *model_names(*other)):
                return other
        raise NotAllowedError(f"{refused[:1].upper()}{refused[1:]}.")

    def _stored_rights(self) -> Json:
        """Return the metadata of a run with the rights that apply at its spawn."""
        if not self.rights.levels and self.rights.role in {"", USER}:
            return {}
        return {
            RIGHTS: self.rights.as_json,
            MOST_RUNNING: self.settings().max_concurrent_per_user,
        }

    def agent_meant(self, name: object) -> str:
        """Return the name of the agent that executes a run: `general` for an unknown one."""
        definition, _ = find(self.agents, name if isinstance(name, str) else None)
        return definition.name

    def _timeout_ms(
        self, request: RunRequest, definition: AgentDefinition, notes: list[str], mode: str
    ) -> int:
        if mode == "sync":
            return round(self.settings().sync_timeout_seconds * 1000)
        default = definition.timeout_minutes or self.settings().default_timeout_minutes
        cap = self.settings().max_timeout_minutes
        minutes, clamped = clamp(request.timeout_minutes, min(default, cap), cap)
        if clamped:
            asked = spoken((request.timeout_minutes or 0) * 60)
            notes.append(f"You asked for {asked}; a run gets {spoken(cap * 60)} at most.")
        return max(LEAST_MS, round(minutes * 60_000))

    def _budget(self, request: RunRequest, definition: AgentDefinition, notes: list[str]) -> int:
        default = definition.token_budget or self.settings().default_token_budget
        cap = self.settings().max_token_budget
        tokens, clamped = clamp(request.token_budget, min(default, cap), cap)
        if clamped:
            notes.append(
                f"You asked for {request.token_budget:,} tokens; a run gets {cap:,} at most."
            )
        return int(tokens)

    def _allowed(
        self, request: RunRequest, definition: AgentDefinition, notes: list[str]
    ) -> list[str] | None:
        """Return the requested tools, limited to those that the definition allows."""
        own = self._of_definition(definition)
        if request.allowed_tools is None:
            return None if own is None else sorted(own)
        asked = self.resolve(request.allowed_tools)
        if own is not None:
            asked &= own
        reserved = self.main_agent_only()
        refused = sorted(asked & reserved)
        if refused:
            notes.append(f"Only the main agent may use {', '.join(refused)}; left out.")
        return sorted(asked - reserved)

    def _of_definition(self, definition: AgentDefinition) -> frozenset[str] | None:
        """Return the tools that an agent may use, with all those of the MCP servers it names."""
        if definition.tools is None:
            return None
        servers = (f"mcp__{server}" for server in definition.mcp_servers)
        return self.resolve(definition.tools) | {f"{server}__*" for server in servers}


def _metadata(request: RunRequest, definition: AgentDefinition, caller: Caller) -> Json:
    """Return the metadata with the rules of the caller and of the agent's file.

    The rules are stored so that they still hold if the agent's file is gone when the run begins.
    """
    given = dict(request.permissions or {})
    try:
        read_rules(given)
    except BadRequestError as error:
        raise BadRequestError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from None
    metadata: Json = {}
    if rules := [each for each in (given, definition.permissions.as_given) if each]:
        metadata["permissions"] = rules
    if definition.workspace == "run":
        metadata[OWN_WORKSPACE] = True
    # The task may pass on content of the prompt that it was written from.
    metadata |= caller.origins
    if caller.root_id:
        metadata[ROOT] = caller.root_id
    if request.provider or request.model:
        metadata[ASKED_MODEL] = [request.provider, request.model]
    if request.notify:
        metadata[NOTIFY_OF_RUN] = request.notify
    return metadata


def _check(task: str, request: RunRequest) -> None:
    if not task:
        raise BadRequestError("There is no task: say what the run should do.")
    if len(task) + len(request.context) + len(request.instructions) > MAX_TASK:
        raise BadRequestError(
            f"Task, context and instructions together may have {MAX_TASK:,} characters. Shorten "
            "them, or put the material on the run's whiteboard."
        )
    numbers = {
        "timeout_minutes": request.timeout_minutes,
        "token_budget": request.token_budget,
        "max_turns": request.max_turns,
    }
    for name, value in numbers.items():
        if value is not None and not 0 < value <= MOST_ASKED:
            raise BadRequestError(
                f"`{name}` must be more than 0, and {MOST_ASKED:,} at most; leave it out for the "
                "default."
            )
    if request.token_budget is not None and request.token_budget < 100:
        raise BadRequestError("`token_budget` must be at least 100 tokens.")
    if request.announce not in {None, *ANNOUNCE}:
        raise BadRequestError(f"`announce` must be one of {', '.join(ANNOUNCE)}.")
    if request.notify not in {None, *NOTIFY}:
        raise BadRequestError(f"`notify` must be one of {', '.join(NOTIFY)}.")
    if request.progress not in {None, *PROGRESS}:
        raise BadRequestError(f"`progress` must be one of {', '.join(PROGRESS)}.")
    board = request.whiteboard
    entries, key_length, value_length = MAX_BOARD
    if len(board) > entries or any(
        len(key) > key_length or len(value) > value_length for key, value in board.items()
    ):
        raise BadRequestError(
            f"A whiteboard holds {entries} entries of {value_length:,} characters, with keys of "
            f"at most {key_length}."
        )


def label_for(label: str, task: str) -> str:
    """Return the label of a run: the given one, or the first words of its task."""
    given = one_line(label, MAX_LABEL)
    if given:
        return given
    words = re.sub(r"\s+", " ", one_line(task, 200)).strip()
    return words if len(words) <= 40 else words[:40].rsplit(" ", 1)[0] + "…"


def within_parent(run: NewRun, parent: Run | None) -> NewRun:
    """Restrict a nested run to its parent's tools and to the tokens that its parent has left.

    Raises:
        NotFoundError: The parent no longer exists or has ended.
    """
    if parent is None or parent.status.final:
        raise NotFoundError("The run that asks for this is over.")
    wanted, allowed = run.allowed_tools, parent.allowed_tools
    if allowed is not None:
        wanted = sorted(set(allowed) if wanted is None else set(wanted) & set(allowed))
    # A nested run inherits its parent's restrictions on actions and on visible files.
    own, inherited = run.metadata, parent.metadata
    metadata = {
        **own,
        "permissions": [*own.get("permissions", ()), *inherited.get("permissions", ())],
        OWN_WORKSPACE: bool(own.get(OWN_WORKSPACE) or inherited.get(OWN_WORKSPACE)),
        CALLERS: [parent.id, *inherited.get(CALLERS, ())],
    }
    left = max(100, parent.token_budget - parent.weighted_tokens)
    if left < run.token_budget:
        metadata[BUDGET_SOURCE] = "parent"
    return replace(
        run,
        allowed_tools=wanted,
        blocked_tools=sorted({*run.blocked_tools, *parent.blocked_tools}),
        metadata=metadata,
        token_budget=min(left, run.token_budget),
    )

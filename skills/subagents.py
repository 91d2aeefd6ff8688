"""The eight tools of the main agent for delegating work to subagents."""

import json
from dataclasses import replace
from functools import partial
from typing import Annotated

from bot.agent.sanitizer import escape_for_model, one_line
from bot.events import EventBus
from bot.run_texts import status_text
from bot.subagents.limits import SubagentSettings, spoken
from bot.subagents.manager import SubagentManager
from bot.subagents.records import Records
from bot.subagents.requests import Caller, Run, RunRequest, Spawned
from bot.subagents.waiting import LONGEST_SECONDS, RunWaits
from bot.values import Json, short
from skills.base import (
    Audience,
    Effects,
    Reach,
    Skill,
    Tool,
    ToolContext,
    ToolError,
    changes_own,
    reads_here,
    tool,
)
from skills.declaration import BotServices, SkillDeclaration

GUIDE = """\
Handing over work:
- `delegate_to_subagent` for one to three tool calls whose result you need.
- `sessions_spawn` for longer work: it returns at once. Tell the user the short id. Spawn \
several independent things in one answer.
- The other `sessions_` tools take a run by its id or its beginning, label, `#n` or `last`. Look \
when the user asks for them.
- When a call is refused, tell the user which limit it was and when to try again."""

RunId = str
#: Most characters of a result that a wait shows; `sessions_log` shows all of it.
MOST_RESULT = 1_000
#: Time beside the wait itself.
WAIT_MARGIN_SECONDS = 10.0


def build(
    manager: SubagentManager, records: Records, events: EventBus, *, nested: bool = False
) -> Skill:
    """Return the skill.

    Args:
        manager: Admits and stops runs.
        records: Finds and describes runs.
        events: Publishes the ends of runs.
        nested: Whether subagents may have these tools too (`subagents.max_depth` above 1).
    """
    tools = (*_starting(manager), *_watching(records), *_steering(manager, records))
    if nested:
        # A tool that needs a confirmation stays with the main agent.
        tools = tuple(
            each if each.needs_confirmation else replace(each, main_agent_only=False)
            for each in tools
        )
    waits = RunWaits(manager.database, records, events)

    @reads_here(
        main_agent_only=True,
        foreign=True,
        private=True,
        timeout_seconds=LONGEST_SECONDS + WAIT_MARGIN_SECONDS,
    )
    async def sessions_wait(
        context: ToolContext,
        run_ids: tuple[str, ...] = (),
        everything: bool = False,  # noqa: FBT001, FBT002 - as the model passes it
    ) -> str:
        """Wait up to 60 s until a run, or `everything`, has ended."""
        outcome = await waits.wait(run_ids, Caller.of(context), everything=everything)
        if not outcome.runs:
            return "No runs are going on, so there is nothing to wait for."
        left = [run for run in outcome.runs if run not in outcome.over]
        lines = ["A message has arrived; it is shown next."] if outcome.interrupted else []
        lines += [_waited(run) for run in outcome.over]
        if left:
            lines += ["Still going on:", *(_line(run) for run in left)]
        return "\n".join(lines)

    tools = (*tools, sessions_wait)
    return Skill(
        name="subagents",
        description="Hands work to subagents and manages their runs.",
        tools=tools,
        guide=GUIDE,
    )


def _starting(manager: SubagentManager) -> tuple[Tool, ...]:
    def agent_meant(arguments: Json) -> tuple[str, ...]:
        return (manager.planner.agent_meant(arguments.get("agent")),)

    starts = partial(changes_own, main_agent_only=True, subjects=agent_meant)

    @starts(timeout_seconds=manager.longest_wait_seconds, foreign=True, private=True)
    async def delegate_to_subagent(
        context: ToolContext,
        task: Annotated[str, "With everything needed to do it"],
        tools_needed: Annotated[list[str] | None, "[] for none; the `agent`'s if left out"] = None,
        worker_name: str | None = None,
        worker_instructions: Annotated[str | None, "How to go about it"] = None,
        agent: Annotated[str | None, "`general` if left out"] = None,
    ) -> str:
        """Have a quick task done now; the result comes back in this same turn."""
        if tools_needed is None and not agent:
            raise ToolError("Give `tools_needed` ([] for none), or name an `agent`.")
        request = RunRequest(
            task=task,
            label=worker_name or "",
            agent=agent or "",
            instructions=worker_instructions or "",
            allowed_tools=tools_needed,
        )
        return await manager.delegate(request, Caller.of(context))

    @starts()
    async def sessions_spawn(  # noqa: PLR0913, PLR0917 - what a model may say about a run
        call: ToolContext,
        task: Annotated[str, "With everything needed to do it"],
        label: Annotated[str | None, "Two to five words"] = None,
        agent: Annotated[str | None, "`general` if left out"] = None,
        context: Annotated[str | None, "Background"] = None,
        model: Annotated[str | None, "If the user asked for one"] = None,
        provider: str | None = None,
        timeout_minutes: float | None = None,
        allowed_tools: Annotated[
            list[str] | None, "Tools or skills; all if left out, [] for none"
        ] = None,
        blocked_tools: list[str] | None = None,
        max_turns: Annotated[int | None, "Most steps"] = None,
        token_budget: int | None = None,
        announce: Annotated[str | None, "`result`, `summary` (in your words) or `silent`"] = None,
        notify: Annotated[str | None, "`done`, `progress` or `silent`"] = None,
        progress: Annotated[str | None, "`card` or `worded`"] = None,
        whiteboard: dict[str, str] | None = None,
        permissions: Annotated[
            dict[str, str] | None,
            'What it may not do: {"file_write": "deny", "shell:git *": "ask"}.',
        ] = None,
    ) -> str:
        """Start a longer task in the background; the result is announced here when it is done."""
        request = RunRequest(
            task=task,
            label=label or "",
            agent=agent or "",
            context=context or "",
            model=model,
            provider=provider,
            timeout_minutes=timeout_minutes,
            allowed_tools=allowed_tools,
            blocked_tools=blocked_tools or (),
            max_turns=max_turns,
            token_budget=token_budget,
            announce=announce,
            notify=notify,
            progress=progress,
            whiteboard=whiteboard or {},
            permissions=permissions,
        )
        return _accepted(await manager.spawn(request, Caller.of(call)))

    return delegate_to_subagent, sessions_spawn


def _watching(records: Records) -> tuple[Tool, ...]:
    reads = reads_here(main_agent_only=True, foreign=True, private=True)

    @reads
    async def sessions_list(context: ToolContext) -> str:
        """List the user's runs, also those that ended in the last half hour."""
        active, ended = await records.list(Caller.of(context))
        if not active and not ended:
            return "No runs are going on, and none ended in the last half hour."
        lines = [f"Running ({len(active)}):", *(_line(run) for run in active)]
        if ended:
            lines += ["Recently finished:", *(_line(run) for run in ended)]
        return "\n".join(lines)

    @reads
    async def sessions_log(
        context: ToolContext,
        run_id: RunId,
        page: int = 1,
    ) -> str:
        """Show what a run said and did, step by step."""
        found = await records.log(run_id, Caller.of(context), page=page)
        named = f"“{one_line(found.run.label, 60)}” ({short(found.run.id)})"
        head = f"Log of {named}, page {found.page} of {found.pages}:"
        return escape_for_model("\n".join([head, *found.lines]))

    @reads
    async def sessions_info(context: ToolContext, run_id: RunId) -> str:
        """Show a run's status, tokens, time, and the beginning of its result."""
        details = await records.info(run_id, Caller.of(context))
        run = details.run
        document = {
            "run_id": run.id,
            "label": run.label,
            "agent": run.agent,
            "status": status_text(run.status, degraded=run.degraded).words,
            "tokens": run.tokens,
            "weighted_tokens": run.weighted_tokens,
            "token_budget": run.token_budget,
            "steps": details.steps,
            "tool_calls": run.tool_call_count,
            "working_time": spoken(run.seconds_used),
            "model": run.model,
            "unread_messages": sum(item.read_at_step is None for item in details.messages),
            "asks": details.asks or None,
            "error": run.error,
            "result_preview": (run.result or "")[:500] or None,
        }
        return escape_for_model(json.dumps(document, ensure_ascii=False))

    return sessions_list, sessions_log, sessions_info


def _waited(run: Run) -> str:
    """Return the line of a run that has ended or asks, and the beginning of its result."""
    result = escape_for_model(f"  {(run.result or '')[:MOST_RESULT]}".rstrip())
    return f"{_line(run)}\n{result}" if run.result else _line(run)


def _steering(manager: SubagentManager, records: Records) -> tuple[Tool, ...]:
    async def run_to_stop(context: ToolContext, arguments: Json) -> tuple[Json, str]:
        """Return the one run to stop, so that the user confirms exactly that run."""
        handle = str(arguments.get("run_id", ""))
        run = await records.find(handle, Caller.of(context), action="")
        if run.status.final:
            words = status_text(run.status, degraded=run.degraded).words
            raise ToolError(f"{_name(run)} is over already ({words}); there is nothing to stop.")
        return {"run_id": run.id}, f"stop “{one_line(run.label, 60)}” ({short(run.id)})"

    async def message_to_send(context: ToolContext, arguments: Json) -> tuple[Json, str]:
        """Return the arguments with the one run that the message is for, and a description."""
        handle = str(arguments.get("run_id", ""))
        run = await records.find(handle, Caller.of(context), action="")
        words = f"leave this message for “{one_line(run.label, 60)}” ({short(run.id)})"
        return {**arguments, "run_id": run.id}, words

    steers = partial(
        tool,
        main_agent_only=True,
        effects=Effects.REPEATABLE,
        foreign=False,
        private=False,
        audience=Audience.PLACE,
        reach=Reach.ACTS_BEYOND,
    )

    @steers(auto_approved=True, prepare=message_to_send)
    async def sessions_send(context: ToolContext, run_id: RunId, message: str) -> str:
        """Leave a message for a run; it reads it at its next step."""
        return escape_for_model(await manager.send(run_id, message, Caller.of(context)))

    @steers(needs_confirmation=True, prepare=run_to_stop)
    async def sessions_stop(context: ToolContext, run_id: RunId) -> str:
        """Stop a run. The user is asked first."""
        stopped = await manager.stop(run_id, Caller.of(context))
        if not stopped:
            return "It is over already; nothing was stopped."
        return f"Stopped: {', '.join(_name(run) for run in stopped)}."

    return sessions_send, sessions_stop


def _accepted(spawned: Spawned) -> str:
    run = spawned.run
    document: dict[str, object] = {
        "status": "queued" if spawned.position is not None else "accepted",
        "run_id": run.id,
        "short_id": short(run.id),
        "label": run.label,
        "agent": run.agent,
    }
    if spawned.position is not None:
        document["position"] = spawned.position
    if not spawned.new:
        document["note"] = "This very run was asked for already; it is not started twice."
    if spawned.notes:
        document["changed"] = list(spawned.notes)
    return escape_for_model(json.dumps(document, ensure_ascii=False))


def _name(run: Run) -> str:
    return escape_for_model(f"“{one_line(run.label, 60)}” ({short(run.id)})")


def _line(run: Run) -> str:
    words = status_text(run.status, degraded=run.degraded).words
    return escape_for_model(
        f"- {short(run.id)} #{run.number} “{one_line(run.label, 60)}” ({run.agent}): {words}, "
        f"{spoken(run.seconds_used)}, {run.weighted_tokens:,} of {run.token_budget:,} tokens"
    )


def _configured(services: BotServices) -> Skill | None:
    settings = services.config.section(SubagentSettings)
    if not settings.enabled:
        return None
    nested = settings.max_depth > 1
    return build(services.manager, services.records, services.events, nested=nested)


SKILL = SkillDeclaration(build=_configured)

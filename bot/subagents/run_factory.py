"""Builds the tools, prompt, budget and journal of an attempt at a run."""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from zoneinfo import ZoneInfo

from bot.agent.activity import Activity
from bot.agent.base_agent import BaseAgent
from bot.agent.budget import TokenBudget, WorkClock
from bot.agent.context import fit, noted, run_prompt, run_task, servers_away
from bot.agent.credentials import CredentialLog
from bot.agent.journal import StoredJournal, usage_of
from bot.agent.messages import Answer, Message, ToolResults, from_json
from bot.agent.permissions import Permissions, read_rules
from bot.agent.progress import Progress
from bot.agent.protocols import AgentConfig, AgentContext
from bot.agent.sanitizer import one_line
from bot.agent.settings import AgentSettings
from bot.agent.toolbox import Toolbox
from bot.catalog.agents import Agents, find
from bot.errors import NotAllowedError
from bot.events import EventBus
from bot.models.base import Model
from bot.rights.effective import Rights, RightsOf, unlimited
from bot.spending.pools import Payer
from bot.subagents.active import ActiveRun, RunAccount, RunInbox
from bot.subagents.asking import OwnerQuestions
from bot.subagents.cards import RunReporter
from bot.subagents.limits import SubagentSettings
from bot.subagents.requests import (
    CALLERS,
    CONTINUES,
    FOREIGN,
    OTHERS,
    OWN_WORKSPACE,
    PRIVATE,
    RIGHTS,
    ROOT,
    SHARED,
)
from bot.tasks import Tasks
from bot.values import Clock, Identity, Json, Live, Role
from db import steps
from db.database import Database
from db.runs import Run
from db.steps import StepWriter
from skills.base import Tool, ToolContext
from skills.mcp.tools import is_of

#: The largest share of a run's token budget for the carried transcript in its first prompt.
SHARE_OF_BUDGET = 1 / 3
LEAST_TOKENS = 1_000
#: The most calls that are listed, and the most characters of each.
MOST_CALLS, CALL_CHARACTERS = 60, 150

LEFT_OUT = "Calls of the earlier run that are left out above. They were made:\n{calls}"
CALLS_CAP = "max_tool_calls_per_run"
FEWER_CALLS = "`{source}` allows {calls} tool calls a run: end your work with what you have."
LACKED = "It worked without these MCP servers, which were not connected: {servers}."


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFactory:
    """Builds the agent, the journal and the first messages of an attempt at a run.

    Attributes:
        permissions: The rules of the configuration.
        tools_of: Returns the tools that a run may have.
        guide_of: Returns the prompt text about Agent Skills, from the names that an agent lists
            and the names of the run's tools.
        servers_away: Returns the unconnected MCP servers whose tools a run may use; waits for the
            connections after a start.
        model_of: Returns the model for the provider and the model name of a run's row.
        rights: Returns the rights of a user in a place, as they are now.
    """

    database: Database
    writer: StepWriter
    tasks: Tasks
    events: EventBus
    agents: Agents
    permissions: Callable[[], Permissions]
    settings: Live[SubagentSettings]
    agent_settings: Live[AgentSettings]
    tools_of: Callable[[Run], tuple[Tool, ...]]
    guide_of: Callable[[tuple[str, ...], tuple[str, ...]], str]
    servers_away: Callable[[Run], Awaitable[tuple[str, ...]]]
    model_of: Callable[[str, str], Model]
    now: Clock
    rights: RightsOf = unlimited

    def agent(
        self,
        run: Run,
        owner: Identity,
        active: ActiveRun,
        questions: OwnerQuestions,
        progress: Progress,
    ) -> BaseAgent:
        """Return the agent of one attempt at a run."""
        definition, _ = find(self.agents, run.agent)
        # The tools are limited by the rules of the run and of all its callers.
        permissions = self.permissions()
        for rules in run.metadata.get("permissions", ()):
            permissions = permissions.within(read_rules(rules))
        approvals = definition.approvals or self.settings().approvals
        stored = Rights.of_json(run.metadata.get(RIGHTS))
        settings = stored.narrowed(self.settings())
        toolbox = Toolbox(
            (each for each in self.tools_of(run) if not stored.refusal("tools", each.name)),
            is_subagent=True,
            tasks=self.tasks,
            timeout_seconds=self.settings().tool_timeout_seconds,
            permissions=permissions.within(definition.permissions),
            gate=questions if approvals == "ask" else None,
        )
        skills = tuple(name for name in definition.skills if not stored.refusal("skills", name))
        agent_settings = self.agent_settings()
        config = AgentConfig(
            prompt=run_prompt(
                definition.prompt,
                run.instructions,
                tools=toolbox.names,
                guide=self.guide_of(skills, toolbox.names),
            ),
            model=run.model or "",
            background=run.mode != "sync",
            effort=definition.effort,
            max_steps=run.max_steps,
            max_tool_calls=settings.max_tool_calls_per_run,
            max_response_tokens=agent_settings.max_response_tokens,
            context_tokens=agent_settings.context_tokens,
            tool_result_characters=agent_settings.tool_result_characters,
            user_hash=opaque(run.user_id),
        )
        active.account = RunAccount(progress, TokenBudget(run.token_budget))
        context = self._context(run, owner, active, active.account.budget, questions)
        rights = partial(self._rights, stored, run, owner, active.account, active.clocks[0])
        caller = replace(context.caller, rights=rights, named_skills=frozenset(skills))
        context = replace(context, caller=caller)
        model = self.model_of(run.provider or "", config.model)
        return BaseAgent(config, model, toolbox, context, progress=progress)

    async def _rights(
        self, stored: Rights, run: Run, owner: Identity, account: RunAccount, clock: WorkClock
    ) -> Rights:
        """Return the rights of a run: those of its spawn, which are stored, within those of now.

        A lower limit counts from the next step, a higher one from the next run.

        Raises:
            NotAllowedError: The rights of now cannot be known, or allow no further tool call.
        """
        rights = stored.within(await self.rights(owner, run.place))
        settings = self.settings()
        account.budget.lower(int(rights.cap("max_token_budget", settings.max_token_budget)[0]))
        minutes, _ = rights.cap("max_timeout_minutes", settings.max_timeout_minutes)
        clock.lower(settings.sync_timeout_seconds if run.mode == "sync" else minutes * 60)
        calls, source = rights.cap(
            CALLS_CAP, settings.max_tool_calls_per_run, f"subagents.{CALLS_CAP}"
        )
        if account.progress.tool_calls > calls:
            raise NotAllowedError(FEWER_CALLS.format(source=source, calls=int(calls)))
        return rights

    def _context(
        self,
        run: Run,
        owner: Identity,
        active: ActiveRun,
        budget: TokenBudget,
        questions: OwnerQuestions,
    ) -> AgentContext:
        clock = active.clocks[0]
        reporter = RunReporter(self.events, run, clock)
        return AgentContext(
            journal=self.journal(run, clock),
            budget=budget,
            timer=clock,
            inbox=RunInbox(self.database, run.id, active),
            report=reporter.update,
            activity=active.activity or Activity(),
            tool_called=self.events.publish,
            caller=ToolContext(
                user=owner,
                role=Role.USER,
                place=run.place,
                conversation_id=run.conversation_id,
                work_id=run.id,
                call_id="",
                run_id=run.id,
                depth=run.depth,
                own_workspace=own_workspace(run),
                now=self.now,
                report=reporter.report,
                ask=questions.ask,
                foreign=bool(run.metadata.get(FOREIGN)),
                private=bool(run.metadata.get(PRIVATE)),
                shared=bool(run.metadata.get(SHARED)),
                others=bool(run.metadata.get(OTHERS)),
                root_id=run.metadata.get(ROOT, ""),
                payer=payer_of(run, owner),
                credential_used=CredentialLog(self.database).record,
            ),
            spent_before=usage_of(run, discount=run.discounted_tokens),
        )

    def journal(self, run: Run, clock: WorkClock) -> StoredJournal:
        """Return the journal of one attempt at a run."""
        return StoredJournal(
            database=self.database,
            writer=self.writer,
            table="runs",
            work_id=run.id,
            attempt=run.attempt,
            now=self.now,
            seconds_used=clock.used,
        )

    async def beginning(self, run: Run, away: Sequence[str]) -> list[Message]:
        """Return the first messages of a run: its task, and the carried transcript.

        Args:
            run: The run.
            away: The MCP servers whose tools the run lacks.
        """
        zone = self.agent_settings().timezone
        began = (run.started_at or run.created_at).astimezone(ZoneInfo(zone))
        time = f"{began:%A %d %B %Y, %H:%M} ({zone})"
        task = run_task(run.task, run.context, time=time)
        messages: list[Message] = [task]
        if CONTINUES in run.metadata:
            carried = await self.database.read(steps.carried, run.id)
            if carried is not None:
                characters = self.agent_settings().tool_result_characters
                messages = with_carried(
                    task, carried, budget=run.token_budget, result_characters=characters
                )
        if away:
            messages[-1] = noted(messages[-1], servers_away(away))
        return messages

    def lacked(self, run: Run, away: Sequence[str], progress: Progress) -> str:
        """Return a note for the owner on the MCP servers that the run lacked; empty for none.

        Args:
            run: The run.
            away: The servers whose tools the run did not have.
            progress: The steps of the run.
        """
        definition, _ = find(self.agents, run.agent)
        called = [call.name for answer in progress.answers for call in answer.calls]
        names = (*called, *(run.allowed_tools or ()))
        lacked = [
            server
            for server in away
            if server in definition.mcp_servers or any(is_of(server, name) for name in names)
        ]
        return LACKED.format(servers=", ".join(lacked)) if lacked else ""


def with_carried(
    task: Message, document: Json, *, budget: int, result_characters: int
) -> list[Message]:
    """Return the first messages of a run: its task, and the carried transcript.

    A transcript that exceeds its share of the budget loses its older part, but keeps the list of
    the calls in that part.

    Args:
        task: The first message.
        document: The carried transcript, as `resuming.carried` returns it.
        budget: The token budget of the run.
        result_characters: The most characters of a tool result.
    """
    whole = [task, *map(from_json, document["messages"])]
    tokens = max(LEAST_TOKENS, int(budget * SHARE_OF_BUDGET))
    shown = list(fit(whole, tokens=tokens, result_characters=result_characters))
    results = [each for one in whole if isinstance(one, ToolResults) for each in one.results]
    failed = {result.call_id for result in results if result.failed}
    left_out = [
        f"- {one_line(f'{call.name}({call.arguments})', CALL_CHARACTERS)}"
        + (" – failed" if call.id in failed else "")
        for answer in whole
        if isinstance(answer, Answer) and answer not in shown
        for call in answer.calls
    ]
    if left_out:
        calls = "\n".join(left_out[-MOST_CALLS:])
        shown[-1] = noted(shown[-1], LEFT_OUT.format(calls=calls))
    return shown


def own_workspace(run: Run) -> str:
    """Return the id of the run whose workspace a run uses: itself or one it continues; or empty."""
    kept = run.metadata.get(OWN_WORKSPACE)
    return kept if isinstance(kept, str) else run.id if kept else ""


def payer_of(run: Run, owner: Identity) -> Payer:
    """Return the payer of a run: its owner, with the runs that began it."""
    callers = run.metadata.get(CALLERS, ())
    return Payer(user=owner, place=run.place, work_id=run.id, runs=(run.id, *callers))


def opaque(user_id: str) -> str:
    """Return a stable pseudonym of a user for the provider."""
    return hashlib.sha256(f"retinue {user_id}".encode()).hexdigest()[:32]

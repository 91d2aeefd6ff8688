"""What a run is given for its work: tools, prompt, budget, and whom it may ask."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from bot.agent.agent_config import AgentConfig
from bot.agent.context import run_prompt, run_task
from bot.agent.definition import Agents, find
from bot.agent.journal import StoredJournal
from bot.agent.messages import UserMessage
from bot.agent.permissions import Permissions, Rules, read_rules
from bot.agent.protocols import Surroundings
from bot.agent.settings import AgentSettings
from bot.agent.toolbox import Toolbox
from bot.events import EventBus
from bot.models.base import Model
from bot.subagents.active import ActiveRun, ActiveRuns, RunInbox
from bot.subagents.asking import Asking, AskingDesk
from bot.subagents.budget import Budget
from bot.subagents.clock import WorkClock
from bot.subagents.limits import SubagentSettings
from bot.subagents.progress import Cards, RunReporter
from bot.subagents.requests import FOREIGN, PRIVATE, ROOT
from bot.subagents.restarts import Restarts
from bot.tasks import Tasks
from bot.values import Clock, Identity, Role, utc_now
from db.database import Database
from db.runs import Run
from db.steps import StepWriter
from skills.base import Tool, ToolContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What every run works with.

    Attributes:
        turns: The turns at work here: a delegated task pauses the clock of the one that waits.
        permissions: What the configuration allows.
        model_of: Gives the provider that a run's row names.
        tools_of: Gives the tools that a run may have.
        guide_of: Gives what is written for a run's prompt about what it may read: of the Agent
            Skills that its agent names, and of those that there are.
    """

    database: Database
    writer: StepWriter
    tasks: Tasks
    events: EventBus
    agents: Agents
    turns: ActiveRuns
    asking: AskingDesk
    permissions: Permissions
    settings: SubagentSettings
    agent_settings: AgentSettings
    cards: Cards
    model_of: Callable[[str], Model]
    tools_of: Callable[[Run], tuple[Tool, ...]]
    guide_of: Callable[[tuple[str, ...], tuple[str, ...]], str]
    worker_id: str
    restarts: Restarts
    now: Clock = utc_now


@dataclass(frozen=True, slots=True)
class Equipment:
    """Equips runs."""

    shop: Workshop

    def toolbox(self, run: Run, asking: Asking) -> Toolbox:
        """Return the tools of a run, within what it and all its callers may do."""
        definition, _ = find(self.shop.agents, run.agent)
        permissions = self.shop.permissions
        for rules in (*callers_rules(run), definition.permissions):
            permissions = permissions.within(rules)
        approvals = definition.approvals or self.shop.settings.approvals
        return Toolbox(
            self.shop.tools_of(run),
            is_subagent=True,
            tasks=self.shop.tasks,
            timeout_seconds=self.shop.settings.tool_timeout_seconds,
            permissions=permissions,
            gate=asking if approvals == "ask" else None,
        )

    def around(self, run: Run, owner: Identity, active: ActiveRun, asking: Asking) -> Surroundings:
        """Return what surrounds one attempt at a run."""
        shop, clock = self.shop, active.clocks[0]
        reporter = RunReporter(shop.events, run, clock)
        return Surroundings(
            journal=self.journal(run, clock),
            meter=Budget(run.token_budget),
            timer=clock,
            inbox=RunInbox(shop.database, run.id, active),
            reporter=reporter,
            caller=ToolContext(
                user=owner,
                role=Role.USER,
                place=run.place,
                conversation_id=run.conversation_id,
                work_id=run.id,
                call_id="",
                run_id=run.id,
                depth=run.depth,
                own_workspace=bool(run.metadata.get("own_workspace")),
                now=shop.now,
                report=reporter.report,
                ask=asking.ask,
                foreign=bool(run.metadata.get(FOREIGN)),
                private=bool(run.metadata.get(PRIVATE)),
                root_id=run.metadata.get(ROOT, ""),
            ),
            spent_before=run.tokens,
            discount_before=run.discounted_tokens,
        )

    def journal(self, run: Run, clock: WorkClock) -> StoredJournal:
        """Return the steps of one attempt at a run."""
        shop = self.shop
        return StoredJournal(
            database=shop.database,
            writer=shop.writer,
            table="runs",
            work_id=run.id,
            attempt=run.attempt,
            now=shop.now,
            seconds_used=clock.used,
        )

    def task(self, run: Run) -> UserMessage:
        """Return the first message of a run."""
        zone = self.shop.agent_settings.timezone
        began = (run.started_at or run.created_at).astimezone(ZoneInfo(zone))
        time = f"{began:%A %d %B %Y, %H:%M} ({zone})"
        return run_task(run.task, run.context, time=time)

    def config(self, run: Run, toolbox: Toolbox) -> AgentConfig:
        """Return what makes the agent of a run what it is."""
        settings = self.shop.agent_settings
        definition, _ = find(self.shop.agents, run.agent)
        return AgentConfig(
            prompt=run_prompt(
                definition.prompt,
                run.instructions,
                tools=toolbox.names,
                guide=self.shop.guide_of(definition.skills, toolbox.names),
            ),
            model=run.model or "",
            effort=definition.effort,
            max_steps=run.max_steps,
            max_tool_calls=self.shop.settings.max_tool_calls_per_run,
            max_response_tokens=settings.max_response_tokens,
            context_tokens=settings.context_tokens,
            tool_result_characters=settings.tool_result_characters,
            person=opaque(run.user_id),
        )


def callers_rules(run: Run) -> tuple[Rules, ...]:
    """Return the rules of whoever asked for a run, and of whoever asked for them."""
    return tuple(read_rules(rules) for rules in run.metadata.get("permissions", ()))


def opaque(user_id: str) -> str:
    """Return what a provider is told about who asks: the same for one person, and no name."""
    return hashlib.sha256(f"retinue {user_id}".encode()).hexdigest()[:32]

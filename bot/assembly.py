"""Assembles the larger parts of a bot, runs and turns, from the parts that all work shares."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bot.agent.permissions import Permissions
from bot.agent.settings import AgentSettings
from bot.catalog.agents import AgentCatalog
from bot.catalog.skills import SkillCatalog
from bot.config.reloading import LiveConfig
from bot.conversations.access import AccessSettings
from bot.conversations.admin_notices import AdminNotices
from bot.conversations.approvals import Approvals
from bot.conversations.audit import AuditLog
from bot.conversations.compaction import Compaction
from bot.conversations.health import Health
from bot.conversations.lost_access import LostAccess
from bot.conversations.notices import AdminWatch, Notices
from bot.conversations.pairing import Pairings
from bot.conversations.place_offers import PlaceOffers
from bot.conversations.rights import Memberships, RightsDirectory
from bot.conversations.settings import CatchUpSettings, ConversationSettings
from bot.conversations.turn_context import TurnContext
from bot.conversations.turn_messages import ThreadReader
from bot.conversations.turns import Turns
from bot.conversations.undo import Undo
from bot.conversations.upkeep import Duty
from bot.conversations.worded_progress import WordedProgress
from bot.disk import DiskReserve
from bot.events import EventBus, RunEnded, ServiceTroubled
from bot.models.providers import Models
from bot.platforms.base import Outlet
from bot.rights.names import known_names, unknown_approvers, unknown_names
from bot.rights.settings import RolesSettings
from bot.spending.cleanup import PoolCleanup
from bot.spending.ledger import Ledger
from bot.spending.settings import SpendingSettings
from bot.subagents.active import ActiveRuns, Restarts
from bot.subagents.asking import OwnerQuestions
from bot.subagents.cards import Cards, InnerRuns
from bot.subagents.endings import Endings
from bot.subagents.limits import SubagentSettings
from bot.subagents.manager import SubagentManager
from bot.subagents.planning import RunPlanner
from bot.subagents.records import Records
from bot.subagents.run_factory import RunFactory
from bot.subagents.runner import Runner
from bot.subagents.summaries import Summaries
from bot.tasks import Tasks
from bot.values import Clock
from db.database import Database
from db.steps import StepWriter
from migrations.version import SCHEMA_VERSION
from skills.registry import SkillRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """The parts of a bot that runs, turns and regular work share.

    Attributes:
        config: The configuration in force.
        outlets: The outlets by the name of their platform.
        active_runs: The runs at work in this process.
        active_turns: The turns at work in this process.
        directory: Finds the roles and rights of users.
        ledger: Keeps the spending limits.
    """

    config: LiveConfig
    database: Database
    outlets: Mapping[str, Outlet]
    tasks: Tasks
    events: EventBus
    models: Models
    agents: AgentCatalog
    registry: SkillRegistry
    writer: StepWriter
    notices: Notices
    restarts: Restarts
    active_runs: ActiveRuns
    active_turns: ActiveRuns
    directory: RightsDirectory
    ledger: Ledger
    worker_id: str
    now: Clock

    def permissions(self) -> Permissions:
        """Return the permissions of the configuration in force."""
        return self.config().permissions.permissions


def directory_of(
    config: LiveConfig,
    outlets: Mapping[str, Outlet],
    registry: SkillRegistry,
    database: Database,
    now: Clock,
) -> RightsDirectory:
    """Return the part that finds the roles and rights of users."""
    return RightsDirectory(
        settings=config.live(RolesSettings),
        memberships=Memberships(outlets, now),
        expand=registry.expand,
        access=config.live(AccessSettings),
        direct=config.direct_messages,
        pairings=Pairings(database, now),
        database=database,
        now=now,
    )


def unknown_rights_of(base: Foundation) -> Callable[[], list[str]]:
    """Return a function that returns a sentence for each unknown name in lists and rules."""

    def found() -> list[str]:
        config = base.config()
        choices = (*config.models.choices, *config.models.fallback_choices)
        names = [(each.provider, each.model) for each in choices]
        folders = SkillCatalog([Path(folder) for folder in config.agent_skills.folders])
        known = known_names(names, base.agents.by_name, folders.by_name, base.registry.tools)
        return [
            *unknown_names(config.roles, known, base.registry.has),
            *unknown_approvers(config.permissions.rules, config.roles),
        ]

    return found


def runner_of(base: Foundation, endings: Endings, cards: Cards) -> Runner:
    """Return the runner of runs."""
    return Runner(
        database=base.database,
        factory=RunFactory(
            database=base.database,
            writer=base.writer,
            tasks=base.tasks,
            events=base.events,
            agents=base.agents,
            permissions=base.permissions,
            settings=base.config.live(SubagentSettings),
            agent_settings=base.config.live(AgentSettings),
            tools_of=lambda run: base.registry.tools_of_run(
                allowed=run.allowed_tools, blocked=run.blocked_tools
            ),
            guide_of=base.registry.run_guide,
            servers_away=base.registry.unavailable,
            model_of=base.models.of_run,
            now=base.now,
            rights=base.directory.rights,
        ),
        endings=endings,
        summaries=Summaries(
            database=base.database, agents=base.agents, model_of=base.models.of_run, now=base.now
        ),
        active=base.active_runs,
        turns=base.active_turns,
        events=base.events,
        cards=cards,
        restarts=base.restarts,
        tasks=base.tasks,
        price_of=base.models.price_of,
        ask_owner=partial(
            OwnerQuestions,
            database=base.database,
            outlets=base.outlets,
            endings=endings,
            events=base.events,
            tasks=base.tasks,
            settings=base.config.live(SubagentSettings),
            now=base.now,
        ),
        agent_settings=base.config.live(AgentSettings),
        worker_id=base.worker_id,
        now=base.now,
    )


def manager_of(
    base: Foundation, endings: Endings, cards: Cards, *, records: Records, runner: Runner
) -> SubagentManager:
    """Return the manager of runs."""
    return SubagentManager(
        database=base.database,
        settings=base.config.live(SubagentSettings),
        planner=RunPlanner(
            settings=base.config.live(SubagentSettings),
            agents=base.agents,
            choose=base.models.choose_for_run,
            resolve=base.registry.resolve,
            main_agent_only=lambda: base.registry.main_agent_only,
        ),
        records=records,
        endings=endings,
        active=base.active_runs,
        events=base.events,
        inner=InnerRuns(base.events),
        cards=cards,
        work=runner.work,
        now=base.now,
        rights=base.directory.rights,
        exhausted=base.ledger.exhausted,
    )


def turns_of(base: Foundation, approvals: Approvals) -> Turns:
    """Return the part that works on turns."""
    return Turns(
        database=base.database,
        writer=base.writer,
        tasks=base.tasks,
        outlets=base.outlets,
        events=base.events,
        active=base.active_turns,
        context=TurnContext(
            database=base.database,
            settings=base.config.live(AgentSettings),
            servers_away=base.registry.unavailable,
            place_tools=base.registry.place_tools,
            compaction=Compaction(
                database=base.database,
                main=base.models.for_main,
                settings=base.config.live(AgentSettings),
                now=base.now,
            ),
            reader=ThreadReader(
                base.database, base.outlets, base.config.live(ConversationSettings), base.now
            ),
            now=base.now,
        ),
        settings=base.config.live(AgentSettings),
        offers=PlaceOffers(
            database=base.database,
            settings=base.config.live(AgentSettings),
            agents=base.agents,
            guides=lambda: [skill.guide_now for skill in base.registry.skills],
            tools=partial(base.registry.tools_for, is_subagent=False),
            permissions=base.permissions,
            now=base.now,
        ),
        runs=base.config.live(SubagentSettings),
        approver=approvals,
        permissions=base.permissions,
        main=base.models.for_main,
        notices=base.notices,
        catch_up=base.config.live(CatchUpSettings),
        restarts=base.restarts,
        worker_id=base.worker_id,
        now=base.now,
        rights=base.directory.rights,
        admitted=base.models.admitted,
    )


def duties_of(
    base: Foundation, endings: Endings, watch: AdminWatch, audit: AuditLog
) -> Callable[[], Sequence[Duty]]:
    """Return a function that returns the regular work that exists now, that of skills included."""
    worded = WordedProgress(
        database=base.database,
        outlets=base.outlets,
        active=base.active_runs,
        main=base.models.for_main,
        events=base.events,
        now=base.now,
    )
    lost = LostAccess(
        database=base.database,
        directory=base.directory,
        endings=endings,
        active=base.active_runs,
        turns=base.active_turns,
        platforms=list(base.outlets),
        now=base.now,
    )
    limits = PoolCleanup(base.database, base.config.live(SpendingSettings), base.now)
    own = (
        worded.write_due,
        lost.end_lost,
        watch.look_at_disks,
        audit.seal,
        limits.forget_unlimited,
    )
    return lambda: [*own, *(work for parts in base.registry.parts for work in parts.periodic)]


def undo_of(base: Foundation) -> Undo:
    """Return the part that takes back changes of users."""
    parts = base.registry.parts
    return Undo(
        database=base.database,
        restorers=lambda: {each.kind: each for some in parts for each in some.restorers},
        stores=lambda: [each.changes for each in parts if each.changes],
        now=base.now,
    )


def health_of(base: Foundation) -> Health:
    """Return the description of the state of a bot."""
    config = base.config()
    return Health(
        database=base.database,
        schema=SCHEMA_VERSION,
        shown=config.database.shown,
        folders=config.folders,
        providers=base.models.state,
        now=base.now,
    )


def watch_of(base: Foundation, notices: AdminNotices, reserve: DiskReserve) -> AdminWatch:
    """Return the watch that notifies admins of troubles, subscribed to their events."""
    watch = AdminWatch(
        notices=notices, database=base.database, tasks=base.tasks, reserve=reserve, now=base.now
    )
    base.models.on_refused = watch.on_refused
    base.events.subscribe(RunEnded, watch.on_run_ended)
    base.events.subscribe(ServiceTroubled, watch.on_service_troubled)
    return watch

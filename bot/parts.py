"""The parts of a bot, built from below to above and tied together."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from functools import partial

from bot.agent.definition import AgentDefinition
from bot.agent.shelf import Shelf
from bot.config import Config
from bot.conversations.announcements import Announcements
from bot.conversations.answers import Answers
from bot.conversations.approvals import Approvals
from bot.conversations.commands import Commands
from bot.conversations.durable_commands import DurableCommands
from bot.conversations.gaps import Gaps
from bot.conversations.orchestrator import Orchestrator
from bot.conversations.retention import Retention
from bot.conversations.turn_context import TurnContext
from bot.conversations.turns import Desk, Turns
from bot.conversations.upkeep import Upkeep
from bot.engine import Engine
from bot.events import EventBus, log_event
from bot.models.base import Model
from bot.models.catalog import PROVIDERS, Choice, Models
from bot.platforms.base import Outlet
from bot.running import Bot
from bot.skillset import Skillset
from bot.subagents.active import ActiveRuns
from bot.subagents.asking import AskingDesk
from bot.subagents.endings import Endings
from bot.subagents.equipment import Workshop
from bot.subagents.manager import Office, SubagentManager
from bot.subagents.planning import Planner
from bot.subagents.progress import Cards
from bot.subagents.records import Records
from bot.subagents.restarts import Restarts
from bot.subagents.runner import Runner
from bot.subagents.settling import Settling
from bot.subagents.shown_cards import ShownCards
from bot.tasks import Tasks
from bot.values import Clock, Identity, Place
from bot.wires import Wires
from db.database import Database
from db.runs import Run
from db.steps import StepWriter
from skills import ask_user, progress, whiteboard
from skills.base import Skill, Tool
from skills.registry import SkillRegistry

log = logging.getLogger(__name__)

#: Runs that wait for their people hold no slot of ours, but a place in the engine: enough for all.
MAY_WAIT = 1000


class Parts:
    """Builds the parts of a bot, from below to above."""

    def __init__(
        self,
        config: Config,
        database: Database,
        models: Models,
        tasks: Tasks,
        outlets: Mapping[str, Outlet],
        agents: Shelf,
        worker_id: str,
        now: Clock,
    ) -> None:
        self.config, self.database, self.models, self.tasks = config, database, models, tasks
        self.outlets, self.agents, self.worker_id, self.now = outlets, agents, worker_id, now
        self.events = EventBus()
        self.events.subscribe(log_event)
        self.cards = Cards(
            ShownCards(database, outlets, tasks).show, partial(tasks.later, name="show a run card")
        )
        self.events.subscribe(self.cards.hear)
        self.active, self.turns = ActiveRuns(), ActiveRuns()
        board = whiteboard.build_for_runs(database, now)
        #: What only runs have; built once, since a schema takes time to make.
        self.own_tools = (*progress.build().tools, *board.tools, *self._asking_tools())
        self.wires = Wires(
            tasks,
            alone=database.is_sqlite,
            own_tools=frozenset(tool.name for tool in self.own_tools),
        )
        self.records = self.wires.records = Records(database, now)
        self.gaps = Gaps(database, config.catch_up, now)
        self.restarts = Restarts(tasks)
        self.writer = StepWriter(database, tasks, worker_id=worker_id, stored=self.restarts.passed)
        self.skillset = Skillset(config, database, tasks, agents, self.wires, now)
        self.announcements = self.wires.announcements = Announcements(
            database, outlets, tasks=tasks, worker_id=worker_id, now=now
        )
        self.settling = self.wires.settling = Settling(database, outlets, tasks)
        self.endings = Endings(
            database,
            config.subagents,
            self.events,
            self.wires.hooks(),
            cards=self.cards,
            now=now,
        )

    async def build(
        self,
        stack: AsyncExitStack,
        present: Callable[[], Identity | None],
        further_skills: Sequence[Skill],
    ) -> Bot:
        """Build everything above the database, and start its regular duties."""
        await self.skillset.open(stack, self.models)
        manager = self.wires.manager = self._manager()
        skills = self.skillset.build(manager, self.records)
        registry = self.wires.registry = SkillRegistry([*skills, *further_skills])
        self.agents.knows(lambda name: registry.has(name) or name in self.wires.own_tools)
        runner = self.wires.runner = Runner(self._workshop(), self.endings, self.active)
        approvals = Approvals(self.database, self.outlets, registry.find, self.wires.wake, self.now)
        answers = Answers(self.database, approvals, self.active.stir, self.now)
        turns = Turns(self._desk(approvals), self.turns)
        engine = self.wires.engine = await stack.enter_async_context(
            Engine.open(
                self.config.database.url,
                {"run": runner.work, "turn": turns.work},
                tasks=self.tasks,
                worker_id=self.worker_id,
                lanes=list(self.outlets),
                shared=() if self.database.is_sqlite else ("run",),
                at_once=self.config.subagents.max_concurrent_global + MAY_WAIT,
            )
        )
        orchestrator = self._orchestrator(engine, manager, answers, turns)
        upkeep = self._upkeep(engine, turns, answers, orchestrator, present)
        bot = Bot(
            self.config,
            self.tasks,
            self.database,
            engine,
            self.models,
            self.events,
            manager,
            orchestrator,
            self.announcements,
            upkeep,
            registry,
        )
        await self._start(stack, bot)
        return bot

    def _orchestrator(
        self, engine: Engine, manager: SubagentManager, answers: Answers, turns: Turns
    ) -> Orchestrator:
        parts = (self.database, manager, self.records, self.agents, self.models, self.now)
        commands = Commands(*parts, self.skillset.mcp_commands, self.skillset.undo)
        self.wires.orchestrator = Orchestrator(
            database=self.database,
            engine=engine,
            tasks=self.tasks,
            access=self.config.access,
            commands=DurableCommands(
                commands, self.database, self.tasks, self.worker_id, self._tell, self.now
            ),
            answers=answers,
            turns=turns,
            attachments=self.config.attachments,
            gaps=self.gaps,
            acknowledge=self._acknowledge,
            answered=self._answered,
            tell=self._tell,
            listen_for=timedelta(minutes=self.config.agent.listen_minutes),
            now=self.now,
        )
        return self.wires.orchestrator

    async def _start(self, stack: AsyncExitStack, bot: Bot) -> None:
        await bot.upkeep.enter()
        stack.push_async_callback(bot.upkeep.leave)
        stack.push_async_callback(bot.drain, 0)
        duties = self.tasks.start(bot.upkeep.run(), name="upkeep", fresh_context=True)

        async def end_duties() -> None:
            duties.cancel()
            with suppress(asyncio.CancelledError):
                await duties

        stack.push_async_callback(end_duties)
        self.tasks.start(bot.models.warm(), name="warm up the model")

    def _manager(self) -> SubagentManager:
        settings = self.config.subagents
        planner = Planner(
            settings=settings,
            agents=self.agents,
            choose=self._choose,
            resolve=self.wires.resolve,
            main_agent_only=lambda: self.wires.registry.main_agent_only,
        )
        return SubagentManager(
            Office(
                database=self.database,
                settings=settings,
                planner=planner,
                records=self.records,
                endings=self.endings,
                active=self.active,
                events=self.events,
                cards=self.cards,
                hooks=self.wires.hooks(),
                work=self.wires.work,
                now=self.now,
            )
        )

    def _choose(
        self, provider: str | None, model: str | None, definition: AgentDefinition
    ) -> tuple[str, str]:
        """Return provider and model of a run: as asked for, as its agent says, or the default."""
        default = self.models.of_agent(definition.provider, definition.model)
        choice = self.models.choose(provider, model, default)
        return choice.provider, choice.model

    def _main(self, chosen: str) -> tuple[Model, str]:
        """Return provider and model of the main agent, where `chosen` was asked for or nothing."""
        choice = self.models.choose(None, self.models.kept(chosen), self.models.main())
        return self.models.of(choice), choice.model

    def _model_of(self, provider: str, model: str) -> Model:
        found = next((name for name in PROVIDERS if name == provider), self.models.main().provider)
        return self.models.of(Choice(found, model))

    def _tools_of(self, run: Run) -> tuple[Tool, ...]:
        """Return what a run may call: its scope, and the tools that only runs have."""
        own = self.wires.own_tools
        allowed = run.allowed_tools
        scope = self.wires.registry.tools_for(
            is_subagent=True,
            allowed=None if allowed is None else [name for name in allowed if name not in own],
            blocked=[name for name in run.blocked_tools if name not in own],
        )
        mine = [tool for tool in self.own_tools if tool.name not in run.blocked_tools]
        return (*mine, *(tool for tool in scope if tool.name not in own))

    def _asking_tools(self) -> tuple[Tool, ...]:
        return ask_user.build().tools if self.config.subagents.max_questions_per_run else ()

    def _asking_desk(self) -> AskingDesk:
        return AskingDesk(
            database=self.database,
            outlets=self.outlets,
            endings=self.endings,
            settling=self.settling,
            events=self.events,
            most_questions=self.config.subagents.max_questions_per_run,
            now=self.now,
        )

    def _workshop(self) -> Workshop:
        return Workshop(
            database=self.database,
            writer=self.writer,
            tasks=self.tasks,
            events=self.events,
            agents=self.agents,
            settings=self.config.subagents,
            agent_settings=self.config.agent,
            cards=self.cards,
            model_of=self._model_of,
            tools_of=self._tools_of,
            guide_of=self.skillset.guide_of,
            servers_away=self.skillset.servers_away_for,
            turns=self.turns,
            asking=self._asking_desk(),
            permissions=self.config.permissions.permissions,
            restarts=self.restarts,
            worker_id=self.worker_id,
            now=self.now,
        )

    def _desk(self, approvals: Approvals) -> Desk:
        config = self.config
        return Desk(
            database=self.database,
            writer=self.writer,
            tasks=self.tasks,
            outlets=self.outlets,
            context=TurnContext(
                database=self.database,
                settings=config.agent,
                agents=self.agents,
                guides=lambda: [skill.guide_now for skill in self.wires.registry.skills],
                servers_away=self.skillset.servers_away,
                now=self.now,
            ),
            settings=config.agent,
            tools=lambda: self.wires.registry.tools_for(is_subagent=False),
            tool_timeout_seconds=config.subagents.tool_timeout_seconds,
            approver=approvals,
            permissions=config.permissions.permissions,
            main=self._main,
            wake=self.wires.hooks().wake,
            announce=self.announcements.deliver_soon,
            answered=self._answered,
            is_old=self.gaps.is_old,
            restarts=self.restarts,
            worker_id=self.worker_id,
            now=self.now,
        )

    def _upkeep(
        self,
        engine: Engine,
        turns: Turns,
        answers: Answers,
        orchestrator: Orchestrator,
        present: Callable[[], Identity | None],
    ) -> Upkeep:
        return Upkeep(
            database=self.database,
            engine=engine,
            worker_id=self.worker_id,
            platforms=list(self.outlets),
            active=self.active,
            turns=turns.active,
            cards=self.cards,
            endings=self.endings,
            announcements=self.announcements,
            answers=answers,
            orchestrator=orchestrator,
            typed=orchestrator.commands,
            settings=self.config.subagents,
            retention=Retention(
                database=self.database,
                engine=engine,
                settings=self.config.retention,
                archive_after=timedelta(minutes=self.config.subagents.archive_ttl_minutes),
                now=self.now,
            ),
            tasks=self.tasks,
            present=present,
            stored_outcome=self.wires.runner.stored_outcome,
            now=self.now,
            further=self.skillset.duties(self.wires.manager, list(self.outlets)),
        )

    def _acknowledge(self, place: Place) -> None:
        outlet = self.outlets.get(place.platform)
        if outlet is not None:
            self.tasks.start(outlet.acknowledge(place), name="acknowledge")

    def _answered(self, place: Place) -> None:
        outlet = self.outlets.get(place.platform)
        if outlet is not None:
            self.tasks.start(outlet.answered(place), name="answered")

    def _tell(self, place: Place, user: Identity, text: str) -> None:
        outlet = self.outlets.get(place.platform)
        if outlet is not None:
            self.tasks.start(outlet.tell(place, user, text), name="tell")

"""The composition root: builds the parts of a bot top to bottom, and closes them in reverse.

Each part gets the parts that it uses as arguments. A message to a part that is built later is
published as an event; the subscriptions are at the end of `open_bot`.
"""

import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

from bot.accounts import personal_copies
from bot.catalog.agents import AgentCatalog
from bot.config.model import Config
from bot.conversations.announcements import Announcements, Notices
from bot.conversations.answers import Answers
from bot.conversations.approvals import Approvals
from bot.conversations.command_lines import CommandTable
from bot.conversations.command_table import COMMANDS
from bot.conversations.commands import CommandRunner
from bot.conversations.compaction import Compaction
from bot.conversations.durable_commands import DurableCommands
from bot.conversations.inbound import TurnQueue
from bot.conversations.orchestrator import Orchestrator
from bot.conversations.place_offers import PlaceOffers
from bot.conversations.progress_notices import ProgressNotices
from bot.conversations.retention import Retention
from bot.conversations.thread_reader import ThreadReader
from bot.conversations.turn_context import TurnContext
from bot.conversations.turns import Turns
from bot.conversations.undo import Undo
from bot.conversations.upkeep import Upkeep
from bot.conversations.worded_progress import WordedProgress
from bot.engine import Engine
from bot.events import (
    AnnouncementDue,
    EventBus,
    QuestionSettled,
    RunAdmitted,
    RunEvent,
    TurnWaiting,
    log_event,
)
from bot.models.catalog import Models
from bot.platforms.base import Outlet
from bot.running import Bot
from bot.subagents.active import ActiveRuns, Restarts
from bot.subagents.asking import OwnerQuestions
from bot.subagents.cards import Cards, ShownCards
from bot.subagents.endings import Endings
from bot.subagents.manager import SubagentManager
from bot.subagents.planning import RunPlanner
from bot.subagents.progress import InnerRuns
from bot.subagents.records import Records
from bot.subagents.run_factory import RunFactory
from bot.subagents.runner import Runner
from bot.subagents.settling import Settling
from bot.subagents.summaries import Summaries
from bot.tasks import Tasks
from bot.values import Clock, Identity, utc_now
from db.database import Database
from db.steps import StepWriter
from migrations.run import open_database
from skills.base import Skill
from skills.declaration import BotServices, SkillParts
from skills.opening import open_skills
from skills.registry import SkillRegistry
from skills.store import SkillStore

log = logging.getLogger(__name__)

#: Places in the engine for runs that wait for their owners and hold no slot: enough for all.
MAY_WAIT = 1000


@asynccontextmanager
async def open_bot(
    config: Config,
    outlets: Mapping[str, Outlet],
    *,
    database: Database | None = None,
    now: Clock = utc_now,
    present: Callable[[], Identity | None] = lambda: None,
    further_skills: Sequence[Skill] = (),
) -> AsyncIterator[Bot]:
    """Open a bot that serves the platforms of these outlets, and close it when the block ends.

    Args:
        config: The configuration, which has been checked.
        outlets: The outlets by the name of their platform.
        database: The database from `open_database`; opened here if missing.
        now: The bot's clock.
        present: Returns the user at the terminal; `None` if there is none.
        further_skills: Skills in addition to the built-in ones.

    Raises:
        DatabaseBusyError: Another bot holds the SQLite file.
        ConfigError: An agent or a skill is broken.
    """
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        worker_id = f"{socket.gethostname()[:20]}-{os.getpid()}-{secrets.token_hex(4)}"
        settings, permissions = config.subagents, config.permissions.permissions
        agents = AgentCatalog.of_settings(config.agents)
        for problem in agents.problems:
            log.warning("%s", problem)
        if database is None:
            database = await enter(open_database(config.database))
        models = await enter(Models.open(config.models))
        tasks = Tasks()
        stack.push_async_callback(tasks.close)

        # -- shared by all work
        events = EventBus()
        active_runs, active_turns = ActiveRuns(), ActiveRuns()
        notices = Notices(outlets, tasks)
        restarts = Restarts(tasks)
        writer = StepWriter(database, tasks, worker_id=worker_id, stored=restarts.passed)
        shown_cards = ShownCards(database, outlets, tasks)
        cards = Cards(shown_cards.show, partial(tasks.later, name="show a run card"))
        records = Records(database, now)
        registry = SkillRegistry()

        # -- runs
        endings = Endings(database, settings, events, cards=cards, now=now)
        runner = Runner(
            database=database,
            factory=RunFactory(
                database=database,
                writer=writer,
                tasks=tasks,
                events=events,
                agents=agents,
                permissions=permissions,
                settings=settings,
                agent_settings=config.agent,
                tools_of=lambda run: registry.tools_of_run(
                    allowed=run.allowed_tools, blocked=run.blocked_tools
                ),
                guide_of=registry.run_guide,
                servers_away=registry.unavailable,
                model_of=models.of_run,
                now=now,
            ),
            endings=endings,
            summaries=Summaries(database=database, agents=agents, model_of=models.of_run, now=now),
            active=active_runs,
            turns=active_turns,
            events=events,
            cards=cards,
            restarts=restarts,
            tasks=tasks,
            price_of=models.prices.of,
            ask_owner=partial(
                OwnerQuestions,
                database=database,
                outlets=outlets,
                endings=endings,
                events=events,
                most_questions=settings.max_questions_per_run,
                now=now,
            ),
            max_response_tokens=config.agent.max_response_tokens,
            worker_id=worker_id,
            now=now,
        )
        manager = SubagentManager(
            database=database,
            settings=settings,
            planner=RunPlanner(
                settings=settings,
                agents=agents,
                choose=models.choose_for_run,
                resolve=registry.resolve,
                main_agent_only=lambda: registry.main_agent_only,
            ),
            records=records,
            endings=endings,
            active=active_runs,
            events=events,
            inner=InnerRuns(events),
            cards=cards,
            work=runner.work,
            now=now,
        )
        services = BotServices(
            name="",
            settings={},
            folder=Path(config.skills.data_folder),
            limits=config.fetch,
            reserve=config.reserve,
            config=config,
            database=database,
            tasks=tasks,
            manager=manager,
            records=records,
            agents=agents,
            events=events,
            claude=models.claude,
            outlets=outlets,
            stores=lambda name: SkillStore(database, name, now),
            is_taken=registry.has,
            mode_at=config.conversations.at,
            now=now,
        )
        await open_skills(stack, services, registry)
        registry.add(SkillParts(skills=tuple(further_skills)))
        agents.check_tools(registry.has)

        # -- conversations
        announcements = Announcements(
            database,
            outlets,
            tasks=tasks,
            worker_id=worker_id,
            together=settings.announce_group == "batch",
            present=timedelta(seconds=settings.present_seconds),
            now=now,
        )
        approvals = Approvals(database, outlets, registry.find, events, now)
        answers = Answers(database, approvals, active_runs.notify, now)
        turns = Turns(
            database=database,
            writer=writer,
            tasks=tasks,
            outlets=outlets,
            events=events,
            active=active_turns,
            context=TurnContext(
                database=database,
                settings=config.agent,
                servers_away=registry.unavailable,
                place_tools=registry.place_tools,
                compaction=Compaction(
                    database=database, main=models.for_main, settings=config.agent, now=now
                ),
                reader=ThreadReader(database, outlets, config.conversations, now),
                now=now,
            ),
            settings=config.agent,
            offers=PlaceOffers(
                database=database,
                settings=config.agent,
                agents=agents,
                guides=lambda: [skill.guide_now for skill in registry.skills],
                tools=partial(registry.tools_for, is_subagent=False),
                permissions=permissions,
                now=now,
            ),
            tool_timeout_seconds=settings.tool_timeout_seconds,
            approver=approvals,
            permissions=permissions,
            main=models.for_main,
            notices=notices,
            quote_after=config.catch_up.quote_after,
            together=settings.announce_group == "batch",
            restarts=restarts,
            worker_id=worker_id,
            now=now,
        )
        engine = await enter(
            Engine.open(
                config.database.url,
                {"run": runner.work, "turn": turns.work},
                tasks=tasks,
                worker_id=worker_id,
                lanes=list(outlets),
                shared=() if database.is_sqlite else ("run",),
                at_once=settings.max_concurrent_global + MAY_WAIT,
            )
        )
        parts = registry.parts
        commands = DurableCommands(
            CommandRunner(
                table=CommandTable(
                    (*COMMANDS.commands, *(each for part in parts for each in part.commands))
                ),
                database=database,
                manager=manager,
                records=records,
                agents=agents,
                models=models,
                turns=active_turns,
                undo=Undo(
                    database=database,
                    restorers={each.kind: each for part in parts for each in part.restorers},
                    stores=[part.changes for part in parts if part.changes],
                    now=now,
                ),
                copies=personal_copies(config, database, outlets, (active_runs, active_turns), now),
                preview=turns.preview,
                events=events,
                say=notices.say,
                now=now,
            ),
            database,
            tasks,
            worker_id,
            notices.notify,
            config.conversations,
            now,
        )
        queue = TurnQueue(
            database, engine, tasks, notices, config.attachments, config.conversations, events, now
        )
        orchestrator = Orchestrator(
            database=database,
            access=config.access,
            commands=commands,
            answers=answers,
            queue=queue,
            turns=active_turns,
            catch_up=config.catch_up,
            listen_for=timedelta(minutes=config.agent.listen_minutes),
            sharing=config.conversations,
            now=now,
        )

        # -- regular work
        worded = WordedProgress(
            database=database,
            outlets=outlets,
            active=active_runs,
            main=models.for_main,
            events=events,
            now=now,
        )
        upkeep = Upkeep(
            database=database,
            engine=engine,
            worker_id=worker_id,
            platforms=list(outlets),
            active=active_runs,
            turns=active_turns,
            cards=cards,
            endings=endings,
            announcements=announcements,
            answers=answers,
            queue=queue,
            typed=commands,
            settings=settings,
            retention=Retention(
                database=database,
                engine=engine,
                settings=config.retention,
                archive_after=timedelta(minutes=settings.archive_ttl_minutes),
                now=now,
            ),
            tasks=tasks,
            present=present,
            stored_outcome=runner.stored_outcome,
            now=now,
            further=[worded.write_due, *(work for part in parts for work in part.periodic)],
        )

        # -- events to the parts built above
        settling = Settling(database, outlets, tasks)
        events.subscribe(RunEvent, log_event)
        events.subscribe(RunEvent, cards.handle)
        events.subscribe(
            RunEvent,
            ProgressNotices(database=database, notices=notices, tasks=tasks, now=now).handle,
        )
        events.subscribe(RunAdmitted, engine.on_run_admitted)
        events.subscribe(AnnouncementDue, announcements.on_due)
        events.subscribe(TurnWaiting, queue.on_turn_waiting)
        events.subscribe(QuestionSettled, settling.on_settled)

        bot = Bot(
            config=config,
            tasks=tasks,
            database=database,
            engine=engine,
            models=models,
            events=events,
            manager=manager,
            orchestrator=orchestrator,
            announcements=announcements,
            upkeep=upkeep,
            registry=registry,
        )
        await _start(stack, bot)
        yield bot


async def _start(stack: AsyncExitStack, bot: Bot) -> None:
    """Start the regular work of a bot, and register its draining with the stack."""
    await bot.upkeep.enter()
    stack.push_async_callback(bot.upkeep.leave)
    stack.push_async_callback(bot.drain, 0)
    duties = Tasks()
    stack.push_async_callback(duties.close)
    duties.start(bot.upkeep.run(), name="upkeep", fresh_context=True)
    bot.tasks.start(bot.models.warm(), name="warm up the model")

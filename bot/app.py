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
from functools import partial
from pathlib import Path
from typing import Any

from bot.accounts import personal_copies
from bot.agent.settings import AgentSettings, AgentsSettings
from bot.assembly import (
    Foundation,
    directory_of,
    duties_of,
    health_of,
    manager_of,
    runner_of,
    turns_of,
    undo_of,
    unknown_rights_of,
    watch_of,
)
from bot.catalog.agents import AgentCatalog
from bot.config.differences import fingerprint
from bot.config.model import Config
from bot.config.reloading import LiveConfig
from bot.config_reports import ConfigReports
from bot.conversations.access import AccessSettings
from bot.conversations.admin_notices import AdminNotices
from bot.conversations.announcements import Announcements
from bot.conversations.answers import Answers
from bot.conversations.approvals import Approvals
from bot.conversations.audit import AuditKeys, AuditLog
from bot.conversations.command_lines import CommandTable
from bot.conversations.command_table import COMMANDS
from bot.conversations.commands import CommandRunner
from bot.conversations.control import Control
from bot.conversations.deciding import Deciders
from bot.conversations.durable_commands import DurableCommands
from bot.conversations.files import AttachmentSettings, FileSettings
from bot.conversations.inbound import TurnQueue
from bot.conversations.notices import Notices, ProgressNotices, SpendingNotices
from bot.conversations.orchestrator import Orchestrator
from bot.conversations.retention import Retention
from bot.conversations.settings import AuditSettings, CatchUpSettings, ConversationSettings
from bot.conversations.upkeep import Upkeep
from bot.disk import DiskReserve, DiskSettings
from bot.engine import Engine
from bot.events import (
    AnnouncementDue,
    Event,
    EventBus,
    QuestionSettled,
    RunAdmitted,
    RunEvent,
    TurnWaiting,
    log_event,
)
from bot.models.catalog import ModelSettings
from bot.models.providers import Models
from bot.net.settings import FetchSettings
from bot.platforms.base import Outlet
from bot.running import Bot
from bot.settings_shown import SettingsReport
from bot.spending.ledger import Ledger
from bot.spending.settings import SpendingSettings
from bot.subagents.active import ActiveRuns, Restarts
from bot.subagents.cards import Cards, ShownCards
from bot.subagents.endings import Endings
from bot.subagents.limits import SubagentSettings
from bot.subagents.records import Records
from bot.subagents.retention import RetentionSettings
from bot.subagents.settling import Settling
from bot.tasks import Tasks
from bot.values import Clock, Identity, Live, utc_now
from bot.versions import release
from db.database import Database
from db.steps import StepWriter
from migrations.run import open_database
from migrations.version import SCHEMA_VERSION
from skills.base import Skill
from skills.declaration import BotServices, SkillParts
from skills.opening import OpenSkills
from skills.registry import SkillRegistry
from skills.store import SkillStore

log = logging.getLogger(__name__)

#: Places in the engine for runs that wait for their owners and hold no slot: enough for all.
MAY_WAIT = 1000


@asynccontextmanager
async def open_bot(
    config: Live[Config],
    outlets: Mapping[str, Outlet],
    *,
    database: Database | None = None,
    now: Clock = utc_now,
    present: Callable[[], Identity | None] = lambda: None,
    further_skills: Sequence[Skill] = (),
) -> AsyncIterator[Bot]:
    """Open a bot that serves the platforms of these outlets, and close it when the block ends.

    Args:
        config: Returns the configuration in force, which has been checked; parts read their
            settings from it at each use.
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
        start, current = config(), LiveConfig(config)
        settings, sharing = current.live(SubagentSettings), current.live(ConversationSettings)
        reserve = DiskReserve(current.live(DiskSettings), start.folders)
        agents = AgentCatalog.of_settings(current.live(AgentsSettings))
        for problem in agents.problems:
            log.warning("%s", problem)
        if database is None:
            database = await enter(open_database(start.database))
        tasks = await enter(Tasks())

        # -- shared by all work
        events = EventBus()
        active_runs, active_turns = ActiveRuns(), ActiveRuns()
        notices = Notices(outlets, tasks)
        admin_notices = AdminNotices(
            access=current.live(AccessSettings),
            outlets=outlets,
            database=database,
            events=events,
            present=present,
            now=now,
        )
        registry = SkillRegistry()
        directory = directory_of(current, outlets, registry, database, now)
        ledger = Ledger(
            database=database,
            settings=current.live(SpendingSettings),
            role_of=directory.role_of,
            tasks=tasks,
            worker_id=worker_id,
            now=now,
            tell=SpendingNotices(admins=admin_notices, now=now).tell,
            deliver=admin_notices.deliver,
        )
        models = await enter(
            Models.open(current.live(ModelSettings), meter=ledger, observe=events.publish)
        )
        restarts = Restarts(tasks)
        writer = StepWriter(database, tasks, worker_id=worker_id, stored=restarts.passed)
        cards = Cards(
            ShownCards(database, outlets, tasks).show,
            partial(tasks.later, name="show a run card"),
        )
        records = Records(database, now)
        audit_log = AuditLog(
            database=database,
            keys=AuditKeys(current.live(AuditSettings), start.data_folder),
            now=now,
            tell=admin_notices.announce,
        )

        base = Foundation(
            config=current,
            database=database,
            outlets=outlets,
            tasks=tasks,
            events=events,
            models=models,
            agents=agents,
            registry=registry,
            writer=writer,
            notices=notices,
            restarts=restarts,
            active_runs=active_runs,
            active_turns=active_turns,
            directory=directory,
            ledger=ledger,
            worker_id=worker_id,
            now=now,
        )

        # -- runs
        endings = Endings(database, settings, events, cards=cards, now=now)
        runner = runner_of(base, endings, cards)
        manager = manager_of(base, endings, cards, records=records, runner=runner)
        skills = OpenSkills(
            BotServices(
                name="",
                settings={},
                folder=Path(start.skills.data_folder),
                limits=current.live(FetchSettings),
                reserve=reserve,
                config=current,
                database=database,
                tasks=tasks,
                manager=manager,
                records=records,
                agents=agents,
                events=events,
                claude=lambda: models.claude,
                outlets=outlets,
                stores=lambda name: SkillStore(database, name, now),
                is_taken=registry.has,
                mode_at=lambda place: sharing().at(place),
                now=now,
            ),
            registry,
            lambda: [
                each.task for kind in (active_runs, active_turns) for each in kind.by_id.values()
            ],
        )
        await skills.open(stack)
        registry.add(SkillParts(skills=tuple(further_skills)))
        agents.check_tools(registry.has)

        # -- conversations
        announcements = Announcements(
            database,
            outlets,
            tasks=tasks,
            worker_id=worker_id,
            settings=settings,
            notices=admin_notices,
            publish=events.publish,
            now=now,
        )
        approvals = Approvals(
            database, outlets, registry.find, events, now, Deciders(directory.role_of), tasks
        )
        answers = Answers(database, approvals, active_runs.notify, now)
        turns = turns_of(base, approvals)
        engine = await enter(
            Engine(
                database,
                {"run": runner.work, "turn": turns.work},
                tasks=tasks,
                worker_id=worker_id,
                platforms=list(outlets),
                at_once=settings().max_concurrent_global + MAY_WAIT,
            ).opened()
        )
        control = Control(
            database=database, manager=manager, active_turns=active_turns, events=events, now=now
        )
        commands = DurableCommands(
            CommandRunner(
                table=lambda: CommandTable(
                    (
                        *COMMANDS.commands,
                        *(each for parts in registry.parts for each in parts.commands),
                    )
                ),
                database=database,
                manager=manager,
                records=records,
                agents=agents,
                models=models,
                turns=active_turns,
                undo=undo_of(base),
                copies=personal_copies(
                    current, database, outlets, (active_runs, active_turns), now
                ),
                preview=turns.preview,
                ledger=ledger,
                control=control,
                health=health_of(base),
                audit=audit_log,
                events=events,
                say=notices.say,
                now=now,
                rights=base.directory.rights,
                report=SettingsReport(current, base.directory),
            ),
            database,
            tasks,
            worker_id,
            notices.notify,
            sharing,
            now,
        )
        queue = TurnQueue(
            database,
            engine,
            tasks,
            notices,
            AttachmentSettings(current.live(FileSettings), reserve),
            sharing,
            events,
            now,
            control.draining.is_set,
            turns.begun,
        )
        orchestrator = Orchestrator(
            database=database,
            access=current.live(AccessSettings),
            commands=commands,
            answers=answers,
            notices=admin_notices,
            queue=queue,
            turns=active_turns,
            catch_up=current.live(CatchUpSettings),
            agent=current.live(AgentSettings),
            sharing=sharing,
            now=now,
            directory=base.directory,
        )

        # -- regular work
        watch = watch_of(base, admin_notices, reserve)
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
                settings=current.live(RetentionSettings),
                runs=settings,
                now=now,
            ),
            tasks=tasks,
            present=present,
            stored_outcome=runner.stored_outcome,
            on_crashes=watch.on_crashes,
            now=now,
            configuration=lambda: fingerprint(current()),
            version=release(SCHEMA_VERSION),
            further=duties_of(base, endings, watch, audit_log),
        )
        # -- events to the parts built above
        progress = ProgressNotices(database=database, notices=notices, tasks=tasks, now=now)
        handlers: Sequence[tuple[type[Event], Callable[[Any], None]]] = (
            (RunEvent, log_event),
            (RunEvent, cards.handle),
            (RunEvent, progress.handle),
            (RunAdmitted, engine.on_run_admitted),
            (AnnouncementDue, announcements.on_due),
            (TurnWaiting, queue.on_turn_waiting),
            (QuestionSettled, Settling(database, outlets, tasks).on_settled),
        )
        for kind, handler in handlers:
            events.subscribe(kind, handler)

        bot = Bot(
            config=current,
            config_reports=ConfigReports(
                database=database,
                worker_id=worker_id,
                current=current,
                notices=admin_notices,
                now=now,
                unknown=unknown_rights_of(base),
            ),
            skills=skills,
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
            draining=control.draining,
            agents=agents,
        )
        await bot.start(stack)
        yield bot

"""The commands of a bot without an engine and models."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import SecretStr

from bot.agent.messages import UserMessage
from bot.catalog.agents import AgentDefinition
from bot.conversations.audit import AuditKeys, AuditLog
from bot.conversations.command_lines import CommandTable
from bot.conversations.command_table import COMMANDS
from bot.conversations.commands import ChatCommand, CommandRunner
from bot.conversations.context_preview import ContextPreview
from bot.conversations.control import Control
from bot.conversations.health import Health
from bot.conversations.personal_copies import PersonalCopies, SavedCopies
from bot.conversations.personal_data import PersonalData
from bot.conversations.settings import AuditSettings
from bot.conversations.undo import Undo
from bot.events import EventBus
from bot.personal import PersonalStore
from bot.platforms.base import Outlet
from bot.subagents.active import ActiveRuns
from bot.subagents.limits import SubagentSettings
from bot.tasks import Tasks
from bot.values import Identity, Place
from db.turns import Turn
from tests.fakes.agents import FakeAgents
from tests.fakes.bank import Bank
from tests.fakes.models import FakeModels
from tests.fakes.office import FakeOffice

#: The key of the audit log in tests.
AUDIT_KEY = "a key of thirty-two characters, or more"
#: A folder that cannot be made: who saves copies names one.
NO_FOLDER = Path("/dev/null/exports")


def command_runner(
    office: FakeOffice,
    *more: ChatCommand,
    undo: Undo | None = None,
    turns: ActiveRuns | None = None,
    events: EventBus | None = None,
    stores: Sequence[PersonalStore] = (),
    outlets: Mapping[str, Outlet] | None = None,
    folder: Path = NO_FOLDER,
    say: Callable[[Place, Identity, str], None] = lambda *_: None,
) -> CommandRunner:
    """Return the runner of the built-in commands, and of more."""
    turns, events = turns or ActiveRuns(), events or EventBus()
    general = AgentDefinition(name="general", description="Does anything.", prompt="Do it.")
    return CommandRunner(
        table=lambda: CommandTable((*COMMANDS.commands, *more)),
        database=office.database,
        manager=office.manager,
        records=office.records,
        agents=FakeAgents({"general": general}),
        models=FakeModels(),
        turns=turns,
        undo=undo or Undo(office.database, dict, list, office.now),
        copies=copies_of(office, stores, outlets or {}, folder),
        preview=nothing_sent,
        ledger=Bank(office.database, office.now, Tasks()).ledger(),
        control=Control(
            database=office.database,
            manager=office.manager,
            active_turns=turns,
            events=events,
            now=office.now,
        ),
        health=Health(
            database=office.database,
            schema="1",
            shown="a database",
            folders=(),
            providers=lambda: ["scripted: answered 2 s ago"],
            now=office.now,
        ),
        audit=AuditLog(
            database=office.database,
            keys=AuditKeys(lambda: AuditSettings(key=SecretStr(AUDIT_KEY)), NO_FOLDER),
            now=office.now,
        ),
        events=events,
        say=say,
        now=office.now,
    )


def copies_of(
    office: FakeOffice,
    stores: Sequence[PersonalStore],
    outlets: Mapping[str, Outlet],
    folder: Path,
) -> PersonalCopies:
    """Return the sender of copies of stored data."""
    saved = SavedCopies(folder)
    data = PersonalData(
        database=office.database,
        stores=[*stores, saved],
        settings=SubagentSettings(),
        active=(),
        now=office.now,
    )
    return PersonalCopies(data=data, outlets=outlets, saved=saved)


async def nothing_sent(_: Turn) -> ContextPreview:
    """Return an input without anything."""
    return ContextPreview(prompt="", tools=(), history=(), block=UserMessage(""))

"""One process of the bot, as far as hearing goes: a real database, no engine, no models."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bot.agent.settings import AgentSettings
from bot.conversations.access import AccessSettings
from bot.conversations.admin_notices import AdminNotices
from bot.conversations.answers import Answers
from bot.conversations.approvals import Approvals
from bot.conversations.deciding import Deciders
from bot.conversations.durable_commands import DurableCommands
from bot.conversations.files import AttachmentSettings, FileSettings
from bot.conversations.inbound import TurnQueue
from bot.conversations.notices import Notices
from bot.conversations.orchestrator import Orchestrator
from bot.conversations.pairing import Pairings
from bot.conversations.rights import Memberships, RightsDirectory
from bot.conversations.settings import CatchUpSettings, ConversationSettings
from bot.disk import DiskReserve
from bot.events import EventBus
from bot.platforms.base import Incoming
from bot.rights.settings import RolesSettings
from bot.subagents.active import ActiveRuns
from bot.tasks import Tasks
from bot.values import Identity, Place, new_run_id
from db.database import DatabaseSettings
from tests.fakes.bank import no_role
from tests.fakes.clock import FakeClock
from tests.fakes.commands import command_runner
from tests.fakes.engine import FakeEngine
from tests.fakes.office import FakeOffice, limits
from tests.fakes.outlet import FakeOutlet, Told
from tests.fakes.stored import room
from tests.fakes.watched_database import WatchedDatabase

PERSONAL = ConversationSettings(mode="personal")


@dataclass
class Process:
    """One process of the bot, as far as hearing goes."""

    database: WatchedDatabase
    clock: FakeClock
    engine: FakeEngine = field(default_factory=FakeEngine)
    tasks: Tasks = field(default_factory=Tasks)
    outlet: FakeOutlet = field(default_factory=lambda: FakeOutlet("discord"))
    sharing: ConversationSettings = PERSONAL
    office: FakeOffice = field(init=False)
    orchestrator: Orchestrator = field(init=False)

    @property
    def directory(self) -> RightsDirectory:
        """The rights where no roles are configured."""
        memberships = Memberships({self.outlet.platform: self.outlet}, self.clock)
        return RightsDirectory(
            settings=RolesSettings(),
            memberships=memberships,
            expand=frozenset,
            access=AccessSettings(),
            direct=lambda _: "members",
            pairings=Pairings(self.database, self.clock),
            database=self.database,
            now=self.clock,
        )

    def __post_init__(self) -> None:
        office = self.office = FakeOffice(self.database, limits(), self.clock)
        notices = Notices({self.outlet.platform: self.outlet}, self.tasks)
        # Turns are started here and worked on nowhere.
        turns, deciders = ActiveRuns(), Deciders(no_role)
        self.orchestrator = Orchestrator(
            database=self.database,
            access=AccessSettings(),
            directory=self.directory,
            commands=DurableCommands(
                database=self.database,
                runner=command_runner(office, turns=turns),
                tasks=self.tasks,
                worker_id=new_run_id(),
                tell=notices.notify,
                sharing=self.sharing,
                now=self.clock,
            ),
            answers=Answers(
                self.database,
                Approvals(
                    self.database, {}, lambda _: None, EventBus(), self.clock, deciders, self.tasks
                ),
                lambda _: None,
                self.clock,
            ),
            notices=AdminNotices(
                access=AccessSettings(),
                outlets={self.outlet.platform: self.outlet},
                database=self.database,
                events=EventBus(),
                present=lambda: None,
                now=self.clock,
            ),
            queue=TurnQueue(
                database=self.database,
                engine=self.engine,
                tasks=self.tasks,
                notices=notices,
                attachments=AttachmentSettings(FileSettings(), DiskReserve()),
                sharing=self.sharing,
                events=EventBus(),
                now=self.clock,
            ),
            turns=turns,
            catch_up=CatchUpSettings(),
            agent=AgentSettings(),
            sharing=self.sharing,
            now=self.clock,
        )

    @property
    def acknowledged(self) -> list[Place]:
        """The places in which a message was acknowledged."""
        return self.outlet.acknowledged

    @property
    def told(self) -> list[Told]:
        """The short texts that were sent."""
        return self.outlet.told

    async def started_turns(self) -> list[str]:
        """Return the ids of the turns that were started here."""
        await self.tasks.wait_idle(10)
        return [work_id for _, work_id in self.engine.started]


@asynccontextmanager
async def opened(
    settings: DatabaseSettings, clock: FakeClock, sharing: ConversationSettings = PERSONAL
) -> AsyncIterator[Process]:
    # One connection: a transaction inside a transaction would wait for itself.
    one = settings.model_copy(update={"pool_size": 1})
    async with WatchedDatabase.open(one) as database:
        yield Process(database, clock, sharing=sharing)
        assert database.connections_in_use() == 0, "A connection was not given back."


def message(user: Identity, text: str, *, event_id: str = "", name: str = "Alice") -> Incoming:
    return Incoming(
        event_id=event_id or new_run_id(), user=user, user_name=name, place=room(user), text=text
    )

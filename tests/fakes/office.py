"""The manager of runs with all that it needs, on a real database: no engine, no models."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from bot.agent.permissions import read_rules
from bot.catalog.agents import AgentDefinition
from bot.events import (
    AnnouncementDue,
    EventBus,
    QuestionSettled,
    RunAdmitted,
    RunEvent,
    TurnWaiting,
)
from bot.platforms.base import RunCard
from bot.spending.pools import Payer
from bot.subagents.active import ActiveRuns
from bot.subagents.cards import Cards, InnerRuns
from bot.subagents.endings import Endings
from bot.subagents.limits import DelegationRateLimit, SpawnRateLimit, SubagentSettings
from bot.subagents.manager import SubagentManager
from bot.subagents.planning import RunPlanner
from bot.subagents.records import Records
from bot.subagents.requests import Caller, RunRequest, Spawned
from bot.subagents.wording import Outcome
from bot.values import Clock, Identity, Place, Role, RunStatus
from db import run_claims, runs
from db.database import Database, Transaction
from db.runs import Run
from tests.fakes.agents import FakeAgents


@dataclass(slots=True)
class FakeOffice:
    """A manager, its records and its endings, and the events that they publish.

    Attributes:
        admitted: The ids of the runs that may start, in order.
        announced: The keys of which it was said that an announcement is due.
        woken: The conversations in which a turn may wait.
        later: What is to happen after a while; a test does it.
        work: What a delegated task does; a test sets it.
        publish: Lets everyone hear an event.
    """

    database: Database
    settings: SubagentSettings
    now: Clock
    admitted: list[str] = field(default_factory=list)
    announced: list[str] = field(default_factory=list)
    woken: list[tuple[str, str]] = field(default_factory=list)
    events: list[RunEvent] = field(default_factory=list)
    cards: list[RunCard] = field(default_factory=list)
    later: list[Callable[[], None]] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)
    active: ActiveRuns = field(default_factory=ActiveRuns)
    work: Callable[[str], Awaitable[None]] | None = None
    publish: Callable[[RunEvent], None] = field(init=False)
    manager: SubagentManager = field(init=False)
    endings: Endings = field(init=False)
    records: Records = field(init=False)

    def __post_init__(self) -> None:
        bus = EventBus()
        self.publish = bus.publish
        bus.subscribe(RunAdmitted, lambda event: self.admitted.append(event.run_id))
        bus.subscribe(AnnouncementDue, lambda event: self.announced.append(event.key))
        bus.subscribe(
            TurnWaiting, lambda event: self.woken.append((event.conversation_id, event.platform))
        )
        bus.subscribe(QuestionSettled, lambda event: self.settled.append(event.question_id))
        bus.subscribe(RunEvent, self.events.append)
        cards = Cards(self.cards.append, later=lambda _, action: self.later.append(action))
        bus.subscribe(RunEvent, cards.handle)
        self.endings = Endings(self.database, self.settings, bus, cards=cards, now=self.now)
        self.records = Records(self.database, self.now)
        self.manager = SubagentManager(
            database=self.database,
            settings=self.settings,
            planner=_planner(self.settings),
            records=self.records,
            endings=self.endings,
            active=self.active,
            events=bus,
            inner=InnerRuns(bus),
            cards=cards,
            work=self._work,
            now=self.now,
            exhausted=self._exhausted,
        )

    async def _exhausted(self, _: Transaction, __: Payer) -> str:
        return ""

    async def _work(self, run_id: str) -> None:
        if self.work is not None:
            await self.work(run_id)

    async def spawn(self, user: Identity, task: str = "Count sheep", **wanted: Any) -> Run:
        """Let a run of this user in, as a command would, and return it."""
        return (await self.ask(user, task, **wanted)).run

    async def ask(self, user: Identity, task: str = "Count sheep", **wanted: Any) -> Spawned:
        """Let a run of this user in, and return all that is answered."""
        asker = wanted.pop("caller", None) or caller(user)
        return await self.manager.spawn(RunRequest(task=task, **wanted), asker)

    async def begin(self, run: Run, *, worker: str = "w1") -> Run:
        """Begin an attempt at a run, as the runner does."""
        async with self.database.transaction() as tx:
            assert await run_claims.claim(tx, run.id, worker_id=worker, reserve=100, now=self.now())
            begun = await runs.get(tx, run.id)
        assert begun is not None
        return begun

    async def end(
        self, run: Run, text: str = "Done.", status: RunStatus = RunStatus.COMPLETED
    ) -> Run | None:
        """End a run, whoever has it."""
        return await self.endings.end(run, Outcome(status=status, text=text), attempt=None)

    async def admitted_runs(self, first: int = 0) -> list[Run]:
        """Return the admitted runs as their rows are now, without the first so many."""
        async with self.database.snapshot() as tx:
            found = {run.id: run for run in await runs.get_many(tx, self.admitted)}
        return [found[run_id] for run_id in self.admitted[first:]]

    async def read(self, run: Run) -> Run:
        """Return the run as its row is now."""
        async with self.database.snapshot() as tx:
            found = await runs.get(tx, run.id)
        assert found is not None
        return found


def caller(user: Identity, *, role: Role = Role.USER, typed: bool = True, **more: Any) -> Caller:
    """Return this user as the one who types a command, in a room of their platform."""
    place = more.pop("place", Place(user.platform, user.workspace, "room"))
    return Caller(user=user, role=role, place=place, typed=typed, **more)


def model_of(user: Identity, **more: Any) -> Caller:
    """Return the model that works for this user, in a room of their platform."""
    return caller(user, typed=False, **more)


def limits(
    *, per_user: int = 3, everyone: int = 10, queued: int = 5, rate: int = 1000, **more: Any
) -> SubagentSettings:
    """Return settings whose caps are these; the rate is out of the way unless it is given."""
    return SubagentSettings(
        max_concurrent_per_user=per_user,
        max_concurrent_global=everyone,
        max_queued_per_user=queued,
        spawn_rate_limit=SpawnRateLimit(max_requests=rate),
        delegation_rate_limit=DelegationRateLimit(max_requests=rate),
        **more,
    )


def _planner(settings: SubagentSettings) -> RunPlanner:
    general = AgentDefinition(name="general", description="Does anything.", prompt="Do it.")
    careful = replace(general, name="careful", permissions=read_rules({"shell": "ask"}))
    return RunPlanner(
        settings=settings,
        agents=FakeAgents({"general": general, "careful": careful}),
        choose=lambda provider, model, _: (provider or "offline", model or "offline"),
        resolve=frozenset,
        main_agent_only=frozenset,
    )

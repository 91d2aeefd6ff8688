"""Whatever people start, stop and finish in whatever order: a few lines say who may run."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from bot.errors import BadRequestError, LimitReachedError
from bot.subagents.requests import RunRequest
from bot.values import Identity, RunStatus
from db import runs
from db.database import Database
from db.runs import Run
from db.tables import subagent_runs
from tests.fakes.clock import FakeClock
from tests.fakes.office import FakeOffice, caller, limits
from tests.fakes.stored import Stored

PER_USER, EVERYONE, QUEUED, RATE = 2, 3, 2, 7

moves = st.tuples(
    st.sampled_from(["spawn", "spawn", "delegate", "begin", "end", "stop"]),
    st.integers(0, 2),
    st.integers(0, 4),
)


@dataclass
class Model:
    """Who may run, in a few lines: people by index, runs by number."""

    running: list[tuple[int, int]] = field(default_factory=list)
    waiting: list[tuple[int, int]] = field(default_factory=list)
    last_let_in: list[int] = field(default_factory=lambda: [0, 0, 0])
    started: list[int] = field(default_factory=lambda: [0, 0, 0])
    moment: int = 0

    def start(self, person: int, *, may_wait: bool) -> str:
        """Take a request and return what becomes of it."""
        number = self.started[person] + 1
        free = self._has_room(person)
        waiting = sum(each == person for each, _ in self.waiting)
        if self.started[person] >= RATE or (not free and not may_wait):
            return "refused"
        if free and (not waiting or not may_wait):
            self._let_in(person, number)
        elif waiting < QUEUED:
            self.waiting.append((person, number))
        else:
            return "refused"
        self.started[person] = number
        return "accepted" if (person, number) in self.running else "queued"

    def end(self, person: int, number: int) -> list[tuple[int, int]]:
        """Take a run out, and return who is let in for it, in order."""
        for group in (self.running, self.waiting):
            if (person, number) in group:
                group.remove((person, number))
        let_in = []
        while next_one := self._next():
            self.waiting.remove(next_one)
            self._let_in(*next_one)
            let_in.append(next_one)
        return let_in

    def _next(self) -> tuple[int, int] | None:
        fit = [each for each in self.waiting if self._has_room(each[0])]
        return min(fit, key=lambda each: (self.last_let_in[each[0]], fit.index(each)), default=None)

    def _has_room(self, person: int) -> bool:
        mine = sum(each == person for each, _ in self.running)
        return mine < PER_USER and len(self.running) < EVERYONE

    def _let_in(self, person: int, number: int) -> None:
        self.moment += 1
        self.running.append((person, number))
        self.last_let_in[person] = self.moment


@settings(max_examples=25)
@given(order=st.lists(moves, max_size=25))
async def test_the_manager_lets_in_exactly_whom_the_rules_let_in(
    database: Database, clock: FakeClock, order: list[tuple[str, int, int]]
) -> None:
    await end_everything(database, clock)
    stored = Stored(database, clock)
    people = [await stored.somebody() for _ in range(3)]
    office = FakeOffice(
        database, limits(per_user=PER_USER, everyone=EVERYONE, queued=QUEUED, rate=RATE), clock
    )
    model = Model()

    for move, person, index in order:
        clock.advance(1)
        admitted = len(office.admitted)
        let_in: list[tuple[int, int]] = []
        if move in {"spawn", "delegate"}:
            became = await ask(office, people[person], move)
            assert became == model.start(person, may_wait=move == "spawn")
            if became == "accepted" and move == "spawn":
                let_in = [(person, model.started[person])]
        elif going := await active(database, people[person]):
            run = going[index % len(going)]
            let_in = await finish(office, model, people, run, move)
        new = await office.admitted_runs(admitted)
        handed_over = [(people_of(people, run), run.number) for run in new]
        assert handed_over == let_in
        await check(database, model, people)


async def ask(office: FakeOffice, user: Identity, move: str) -> str:
    try:
        if move == "spawn":
            return (await office.spawn(user)).status
        await office.manager.delegate(RunRequest(task="Now"), caller(user))
    except LimitReachedError:
        return "refused"
    except BadRequestError:
        return "accepted"  # Nobody works it off here.
    raise AssertionError("Nobody did it.")


async def finish(
    office: FakeOffice, model: Model, people: list[Identity], run: Run, move: str
) -> list[tuple[int, int]]:
    """Begin, end or stop a run, and return who should be let in for it."""
    begun = run.status is RunStatus.RUNNING
    if move == "begin":
        if run.status is RunStatus.ACCEPTED:
            await office.begin(run)
        return []
    if move == "stop":
        await office.manager.stop(run.id, caller(people[people_of(people, run)]))
        if begun:
            return []  # Whoever works on it ends it.
    elif run.status is RunStatus.QUEUED:
        return []
    else:
        await office.end(run)
    return model.end(people_of(people, run), run.number)


async def check(database: Database, model: Model, people: list[Identity]) -> None:
    """See that the tables say what the model says, and that no cap is passed."""
    async with database.snapshot() as tx:
        going = await runs.active(tx, None)
    waiting = {
        (people_of(people, run), run.number) for run in going if run.status is RunStatus.QUEUED
    }
    holding = [
        (people_of(people, run), run.number) for run in going if run.status is not RunStatus.QUEUED
    ]
    assert waiting == set(model.waiting)
    assert sorted(holding) == sorted(model.running)
    assert len(holding) <= EVERYONE
    assert max(Counter(person for person, _ in holding).values(), default=0) <= PER_USER
    assert max(Counter(person for person, _ in waiting).values(), default=0) <= QUEUED


def people_of(people: list[Identity], run: Run) -> int:
    return [user.key for user in people].index(run.user_id)


async def active(database: Database, user: Identity) -> list[Run]:
    async with database.snapshot() as tx:
        return sorted(await runs.active(tx, user.key), key=lambda run: run.number)


async def end_everything(database: Database, clock: FakeClock) -> None:
    async with database.transaction() as tx:
        await tx.execute(
            update(subagent_runs)
            .where(subagent_runs.c.completed_at.is_(None))
            .values(status="failed", completed_at=clock())
        )

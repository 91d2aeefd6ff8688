"""How the card of a run moves with what happens in it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from bot.agent.budget import WorkClock
from bot.agent.protocols import Counters
from bot.events import EventBus, RunEvent, RunProgress, RunStatusChanged, ended
from bot.platforms.base import CardStep, RunCard
from bot.subagents.cards import QUICK_SECONDS, Cards, RunReporter, ShownCards, card_of
from bot.tasks import Tasks
from bot.values import Identity, RunStatus, StepState
from db.database import Database
from db.runs import Run
from tests.fakes.clock import FakeClock
from tests.fakes.outlet import FakeOutlet
from tests.fakes.stored import Stored

RUNNING, DONE, FAILED = StepState.RUNNING, StepState.DONE, StepState.FAILED


@dataclass
class Watch:
    """Cards, what they showed, and what they want to do later."""

    run: Run
    user: Identity
    shown: list[RunCard] = field(default_factory=list)
    waiting: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    cards: Cards = field(init=False)

    def __post_init__(self) -> None:
        self.cards = Cards(self.shown.append, lambda *planned: self.waiting.append(planned))
        self.cards.track(self.run, self.user)

    @property
    def newest(self) -> RunCard:
        return self.shown[-1]

    def steps(self) -> list[tuple[str, StepState]]:
        return [(step.tool, step.state) for step in self.newest.steps]

    def moves(self, part: str, tool: str = "", call: str = "", **more: Any) -> None:
        known = {"run_id": self.run.id, "user_id": self.run.user_id, **more}
        self.cards.handle(RunProgress(part=part, tool=tool, call=call, **known))

    def ends(self, status: RunStatus = RunStatus.COMPLETED) -> None:
        self.cards.handle(ended(status, run_id=self.run.id, user_id=self.run.user_id, tool_calls=1))


@pytest.fixture
async def background(database: Database, clock: FakeClock, alice: Identity) -> Watch:
    return Watch(await Stored(database, clock).run(alice, mode="async"), alice)


@pytest.fixture
async def awaited(database: Database, clock: FakeClock, alice: Identity) -> Watch:
    return Watch(await Stored(database, clock).run(alice, mode="sync"), alice)


# --- steps ----------------------------------------------------------------------------------------


def test_each_call_is_a_step_with_what_became_of_it(background: Watch) -> None:
    background.moves("tool", "glob", "1.0", tool_calls=2)
    background.moves("tool", "grep", "1.1", tool_calls=2)
    assert (background.newest.tool, background.steps()) == (
        "grep",
        [("glob", RUNNING), ("grep", RUNNING)],
    )

    background.moves("error", "grep", "1.1", tool_calls=2, content="No such folder.")
    assert background.newest.tool == "glob"
    background.moves("tool_end", "glob", "1.0", tool_calls=2)

    assert background.steps() == [("glob", DONE), ("grep", FAILED)]
    assert (background.newest.tool, background.newest.line) == ("", "No such folder.")


def test_of_two_calls_of_one_tool_the_right_one_is_marked(background: Watch) -> None:
    background.moves("tool", "grep", "1.0")
    background.moves("tool", "grep", "1.1")

    background.moves("tool_end", "grep", "1.1")

    assert background.steps() == [("grep", RUNNING), ("grep", DONE)]


def test_the_newest_six_are_kept_and_the_earlier_ones_counted(background: Watch) -> None:
    for number in range(10):
        background.moves("tool", f"tool{number}", f"{number}.0", tool_calls=number + 1)
    background.moves("tool_end", "tool0", "0.0", tool_calls=10)

    assert [tool for tool, _ in background.steps()] == [f"tool{n}" for n in range(4, 10)]
    assert background.newest.tool_calls == 10


def test_what_is_cut_off_by_the_end_has_failed(background: Watch) -> None:
    background.moves("tool", "grep", "1.0")

    background.ends(RunStatus.CANCELLED)

    assert background.steps() == [("grep", FAILED)]


# --- whose card is shown when ---------------------------------------------------------------------


def test_the_card_of_a_background_run_is_there_at_once(background: Watch) -> None:
    assert [card.awaited for card in background.shown] == [False]
    assert background.waiting == []


def test_that_of_a_run_that_a_turn_waits_for_appears_with_its_first_tool_call(
    awaited: Watch,
) -> None:
    awaited.moves("step", tool_calls=0)
    assert awaited.shown == []

    awaited.moves("tool", "grep", "1.0", tool_calls=1)

    assert (awaited.newest.awaited, awaited.newest.tool) == (True, "grep")


def test_or_when_it_takes_a_while(awaited: Watch) -> None:
    ((seconds, reveal),) = awaited.waiting
    known = {"run_id": awaited.run.id, "user_id": awaited.run.user_id}
    awaited.cards.handle(RunStatusChanged(old=RunStatus.ACCEPTED, new=RunStatus.RUNNING, **known))
    assert (seconds, awaited.shown) == (QUICK_SECONDS, [])

    reveal()
    awaited.moves("tool", "grep", "1.0")
    reveal()

    assert [card.status for card in awaited.shown] == [RunStatus.RUNNING] * 2


def test_one_that_is_over_before_is_never_shown(awaited: Watch) -> None:
    awaited.ends()
    ((_, reveal),) = awaited.waiting
    reveal()

    assert awaited.shown == []


async def test_one_that_had_a_card_before_a_restart_goes_on_in_it_at_once(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    run = await Stored(database, clock).run(alice, mode="sync", card_message_id="m1")

    watch = Watch(run, alice)

    assert [card.message_id for card in watch.shown] == ["m1"]
    assert watch.waiting == []


def test_after_its_end_a_card_moves_no_more(background: Watch) -> None:
    background.ends()
    background.moves("tool", "grep", "1.0")

    assert background.newest.status is RunStatus.COMPLETED


def test_what_a_run_waits_for_is_shown_until_it_goes_on(background: Watch) -> None:
    background.moves("waiting", content="⏳ Acme is busy. I go on by myself in 40 s.")
    waits = background.newest.line
    background.moves("step")
    goes_on = background.newest.line
    background.moves("waiting", content="⏳ Acme is busy. I go on by myself in 40 s.")
    background.ends(RunStatus.CANCELLED)

    assert waits.startswith("⏳ Acme is busy")
    assert (goes_on, background.newest.line) == ("", "")


# --- what another process does with a run ---------------------------------------------------------


def test_a_card_moves_to_what_another_process_stored(background: Watch) -> None:
    (card,) = background.cards.watched([]).values()

    background.cards.refresh(card, replace(background.run, status=RunStatus.RUNNING))

    assert background.newest.status is RunStatus.RUNNING
    assert background.cards.watched([background.run.id]) == {}


def test_a_row_that_was_read_before_the_card_moved_does_not_move_it_back(
    background: Watch,
) -> None:
    (card,) = background.cards.watched([]).values()
    known = {"run_id": background.run.id, "user_id": background.run.user_id}
    background.cards.handle(
        RunStatusChanged(old=RunStatus.ACCEPTED, new=RunStatus.RUNNING, **known)
    )

    background.cards.refresh(card, replace(background.run, tool_call_count=1))

    assert background.newest.status is RunStatus.RUNNING


# --- what the agent reports -----------------------------------------------------------------------


def test_a_report_names_the_call_and_tells_nothing_of_what_it_brought(background: Watch) -> None:
    bus = EventBus()
    heard: list[RunEvent] = []
    bus.subscribe(RunEvent, heard.append)
    reporter = RunReporter(bus, background.run, WorkClock(60.0))

    for part, content in (("tool", ""), ("tool_end", "all the sheep"), ("error", "no\nsheep")):
        reporter.update(part=part, content=content, tool="look", counters=Counters(), call="1.0")

    told = [(e.part, e.tool, e.call, e.content) for e in heard if isinstance(e, RunProgress)]
    assert told == [
        ("tool", "look", "1.0", ""),
        ("tool_end", "look", "1.0", ""),
        ("error", "look", "1.0", "no sheep"),
    ]


def test_a_step_says_which_call_it_is_and_nothing_else_of_it() -> None:
    assert set(CardStep.__slots__) == {"tool", "state", "call"}


async def test_the_message_of_a_card_is_known_although_the_process_ends_then(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    stored = Stored(database, clock)
    run = await stored.run(alice)
    outlet = FakeOutlet(run.place.platform)

    async with Tasks() as tasks:
        ShownCards(database, {outlet.platform: outlet}, tasks).show(card_of(run, alice))

    assert (await stored.read_run(run.id)).card_message_id == "card-1"


async def test_a_run_whose_end_was_not_published_has_its_card_drawn_once_it_is_found(
    background: Watch,
) -> None:
    over = replace(background.run, status=RunStatus.CANCELLED)
    background.cards.track(over, background.user)

    assert background.newest.status is RunStatus.CANCELLED
    assert not background.cards.has(background.run.id)

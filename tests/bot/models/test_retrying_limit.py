"""How many requests go to a provider at once."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.models.retrying import LEAST, MOST, ConcurrencyLimit


@dataclass
class Narrow:
    """A gate at which requests wait in tasks."""

    gate: ConcurrencyLimit = field(default_factory=lambda: ConcurrencyLimit(least=1))
    let_in: list[str] = field(default_factory=list)
    tasks: dict[str, asyncio.Task[int]] = field(default_factory=dict)

    async def ask(self, name: str, *, background: bool) -> asyncio.Task[int]:
        async def enter() -> int:
            number = await self.gate.enter(background=background)
            self.let_in.append(name)
            return number

        self.tasks[name] = asyncio.ensure_future(enter())
        await let_tasks_run()
        return self.tasks[name]

    async def cancel(self, name: str) -> None:
        self.tasks[name].cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.tasks[name]


async def let_tasks_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def one_at_once() -> Narrow:
    narrow = Narrow()
    narrow.gate.refused(await narrow.gate.enter(background=True))
    narrow.gate.leave(background=True)
    assert narrow.gate.limit == 1
    return narrow


async def test_a_provider_that_never_refused_is_asked_by_all_at_once() -> None:
    gate = ConcurrencyLimit()

    for _ in range(500):
        await gate.enter(background=True)

    assert gate.limit == MOST


async def test_a_refusal_halves_what_goes_and_requests_of_the_same_moment_count_once() -> None:
    gate = ConcurrencyLimit()
    numbers = [await gate.enter(background=True) for _ in range(40)]

    for number in numbers:
        gate.refused(number)

    assert gate.limit == 20


async def test_every_answer_lets_one_more_go() -> None:
    gate = ConcurrencyLimit()
    for number in [await gate.enter(background=True) for _ in range(40)]:
        gate.refused(number)

    for _ in range(5):
        gate.answered()

    assert gate.limit == 25


async def test_a_refusal_in_a_quiet_moment_leaves_a_few_at_once() -> None:
    gate = ConcurrencyLimit()

    for _ in range(9):
        gate.refused(await gate.enter(background=True))
        gate.leave(background=True)

    assert gate.limit == LEAST


async def test_turns_go_first_and_each_kind_in_its_order() -> None:
    narrow = await one_at_once()
    await narrow.ask("turn 1", background=False)
    for name, background in (("run 1", True), ("turn 2", False), ("run 2", True)):
        await narrow.ask(name, background=background)
    await narrow.ask("turn 3", background=False)

    for background in (False, False, False, True):
        narrow.gate.leave(background=background)
        await let_tasks_run()

    assert narrow.let_in == ["turn 1", "turn 2", "turn 3", "run 1", "run 2"]


async def test_a_turn_waits_for_no_run() -> None:
    narrow = await one_at_once()
    await narrow.ask("run", background=True)

    await narrow.ask("turn", background=False)

    assert narrow.let_in == ["run", "turn"]


async def test_who_is_cancelled_while_waiting_holds_nobody_up() -> None:
    narrow = await one_at_once()
    for name in ("first", "second", "third"):
        await narrow.ask(name, background=True)

    await narrow.cancel("second")
    narrow.gate.leave(background=True)
    await let_tasks_run()

    assert narrow.let_in == ["first", "third"]


async def test_who_is_cancelled_in_the_moment_of_being_let_in_passes_the_room_on() -> None:
    narrow = await one_at_once()
    for name in ("first", "second", "third"):
        await narrow.ask(name, background=True)

    narrow.gate.leave(background=True)
    await narrow.cancel("second")
    await let_tasks_run()

    assert narrow.let_in == ["first", "third"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["turn", "run", "leave", "refuse", "answer", "cancel"])),
        max_size=60,
    )
)
def test_nobody_waits_while_there_is_room(moves: list[tuple[str]]) -> None:
    asyncio.run(_play([move for (move,) in moves]))


async def _play(moves: list[str]) -> None:
    gate = ConcurrencyLimit(least=1)
    waiting: list[tuple[bool, asyncio.Task[int]]] = []
    going = [(True, await gate.enter(background=True)) for _ in range(4)]
    for move in moves:
        match move:
            case "turn" | "run":
                task = asyncio.ensure_future(gate.enter(background=move == "run"))
                waiting.append((move == "run", task))
            case "leave" if going:
                gate.leave(background=going.pop(0)[0])
            case "refuse" if going:
                gate.refused(going[-1][1])
            case "answer":
                gate.answered()
            case "cancel" if waiting:
                waiting[-1][1].cancel()
        await let_tasks_run()
        going += [(kind, t.result()) for kind, t in waiting if t.done() and not t.cancelled()]
        waiting = [(kind, t) for kind, t in waiting if not t.done()]
        turns = sum(not kind for kind, _ in going)
        if gate.limit > len(going):
            assert not waiting
        if any(not kind for kind, _ in waiting):
            assert turns >= gate.limit
    for _, task in waiting:
        task.cancel()
    if waiting:
        await asyncio.wait([task for _, task in waiting])

"""Command slots: shared between users in turn, with a cap for each."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills.shell.slots import FairSlots, SlotsBusyError


async def let_tasks_run() -> None:
    """Let every task that can continue do so."""
    for _ in range(20):
        await asyncio.sleep(0)


class Commands:
    """Commands that hold a slot until they are told to end, in the order in which they began."""

    def __init__(self, slots: FairSlots) -> None:
        self.slots = slots
        self.began: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}

    async def run(self, user: str, name: str) -> None:
        async with self.slots.hold(user, seconds=1000):
            self.began.append(name)
            end = self.ends[name] = asyncio.Event()
            await end.wait()


async def test_another_user_gets_a_slot_while_one_user_has_twelve_long_commands() -> None:
    commands = Commands(FairSlots(4, 2))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(commands.run("eve", f"eve {n}")) for n in range(12)]
        await let_tasks_run()
        tasks.append(group.create_task(commands.run("alice", "alice 0")))
        await let_tasks_run()

        assert commands.began == ["eve 0", "eve 1", "alice 0"]
        for task in tasks:
            task.cancel()


async def test_a_free_slot_goes_to_the_users_in_turn() -> None:
    commands = Commands(FairSlots(1, 1))
    async with asyncio.TaskGroup() as group:
        names = ("a 0", "a 1", "a 2", "b 0", "b 1", "c 0")
        for name in names:
            group.create_task(commands.run(name[0], name))
            await let_tasks_run()
        for name in ("a 0", "a 1", "b 0", "c 0", "a 2", "b 1"):
            commands.ends[name].set()
            await let_tasks_run()

    assert commands.began == ["a 0", "a 1", "b 0", "c 0", "a 2", "b 1"]


async def test_a_request_that_waits_too_long_is_refused_and_holds_nothing() -> None:
    slots = FairSlots(2, 1)
    async with slots.hold("eve", seconds=1):
        with pytest.raises(SlotsBusyError, match="Nothing was run: 1 commands of this user"):
            async with slots.hold("eve", seconds=0):
                pass
        async with slots.hold("alice", seconds=0):
            with pytest.raises(SlotsBusyError, match="all command slots are in use"):
                async with slots.hold("bob", seconds=0):
                    pass

    async with slots.hold("eve", seconds=0), slots.hold("bob", seconds=0):
        pass


async def test_a_cancelled_request_gives_its_slot_to_the_next() -> None:
    commands = Commands(FairSlots(1, 1))
    async with asyncio.TaskGroup() as group:
        first = group.create_task(commands.run("a", "a 0"))
        await let_tasks_run()
        second = group.create_task(commands.run("b", "b 0"))
        group.create_task(commands.run("c", "c 0"))
        await let_tasks_run()
        # The slot is given to b at the moment in which b is cancelled.
        first.cancel()
        await asyncio.sleep(0)
        second.cancel()
        await let_tasks_run()

        assert commands.began[-1] == "c 0"
        commands.ends["c 0"].set()


@given(
    total=st.integers(1, 5),
    per_user=st.integers(1, 3),
    moves=st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=40),
)
def test_no_order_of_requests_and_ends_passes_a_cap_or_leaves_a_slot_idle(
    total: int, per_user: int, moves: list[tuple[str, bool]]
) -> None:
    async def play() -> None:
        commands = Commands(FairSlots(total, per_user))
        asked: Counter[str] = Counter()
        async with asyncio.TaskGroup() as group:
            tasks: list[asyncio.Task[None]] = []
            for number, (user, ends) in enumerate(moves):
                running = [name for name, end in commands.ends.items() if not end.is_set()]
                if ends and running:
                    commands.ends[running[0]].set()
                else:
                    asked[user] += 1
                    tasks.append(group.create_task(commands.run(user, f"{user} {number}")))
                await let_tasks_run()
                held = Counter(name[0] for name, end in commands.ends.items() if not end.is_set())
                began = Counter(name[0] for name in commands.began)
                could_begin = [
                    each for each in asked if asked[each] > began[each] and held[each] < per_user
                ]
                assert sum(held.values()) <= total
                assert max(held.values(), default=0) <= per_user
                assert not could_begin or sum(held.values()) == total
            for task in tasks:
                task.cancel()

    asyncio.run(play())

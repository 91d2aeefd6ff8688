"""What the adapters around an SDK share."""

import asyncio
import threading

from bot.models.client import Growing, Lazy


def test_a_text_is_handed_on_when_it_grew_and_never_empty() -> None:
    heard: list[str] = []
    growing = Growing(heard.append)

    for text in ("", "One", "One", "One two", ""):
        growing.say(text)

    assert heard == ["One", "One two"]


def test_after_a_text_the_next_one_is_not_due_at_once() -> None:
    growing = Growing(lambda _: None, seconds=3600)

    before = growing.due
    growing.say("One")

    assert before
    assert not growing.due


async def test_something_slow_is_opened_once_and_beside_the_loop() -> None:
    threads: list[int] = []

    def opener() -> str:
        threads.append(threading.get_ident())
        return "open"

    lazy = Lazy(opener)
    before = lazy.opened
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(lazy.get()) for _ in range(5)]

    assert before is None
    assert [task.result() for task in tasks] == ["open"] * 5
    assert lazy.opened == "open"
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_opening_that_failed_is_tried_again() -> None:
    attempts: list[int] = []

    def opener() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("no luck")
        return "open"

    lazy = Lazy(opener)
    async with asyncio.timeout(5):
        failed = await asyncio.wait([asyncio.ensure_future(lazy.get())])
        opened = await lazy.get()

    assert isinstance(next(iter(failed[0])).exception(), OSError)
    assert opened == "open"

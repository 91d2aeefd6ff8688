"""A mark is put on a message before it is taken away, and never afterwards."""

import asyncio

import pytest

from bot.errors import DeliveryError
from bot.platforms.messaging.outlet import Acknowledgements
from bot.values import Place

PLACE = Place("fake", channel="c", message="m")


class Message:
    """What a platform shows below a message.

    Attributes:
        held: Putting the mark there waits for it.
    """

    def __init__(self) -> None:
        self.held = asyncio.Event()
        self.asked = asyncio.Event()
        self.marked = False
        self.calls: list[str] = []

    async def show(self) -> bool:
        self.asked.set()
        await self.held.wait()
        self.calls.append("show")
        self.marked = True
        return True

    async def hide(self) -> None:
        self.calls.append("hide")
        self.marked = False


async def test_a_mark_on_its_way_is_taken_away_when_it_is_there() -> None:
    marks, message = Acknowledgements(), Message()
    async with asyncio.TaskGroup() as group:
        group.create_task(marks.put(PLACE, message.show))
        await message.asked.wait()
        group.create_task(marks.take(PLACE, message.hide))
        message.held.set()

    assert message.calls == ["show", "hide"]


async def test_an_answered_message_is_not_marked_any_more() -> None:
    marks, message = Acknowledgements(), Message()
    message.held.set()

    await marks.take(PLACE, message.hide, unknown=False)
    await marks.put(PLACE, message.show)
    await marks.take(PLACE, message.hide)

    assert message.calls == []


@pytest.mark.parametrize("unknown", [True, False])
async def test_a_mark_of_another_process_is_taken_away_where_there_may_be_one(
    unknown: bool,
) -> None:
    message = Message()

    await Acknowledgements().take(PLACE, message.hide, unknown=unknown)

    assert message.calls == ["hide"] * unknown


async def test_a_mark_that_was_refused_is_not_taken_away() -> None:
    marks, message = Acknowledgements(), Message()

    async def refused() -> bool:
        raise DeliveryError("Missing permissions.")

    await marks.put(PLACE, refused)
    await marks.take(PLACE, message.hide)

    assert message.calls == []


async def test_taking_a_mark_away_never_raises() -> None:
    async def gone() -> None:
        raise DeliveryError("The message is gone.")

    await Acknowledgements().take(PLACE, gone)

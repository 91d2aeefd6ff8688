"""Until a platform is open its texts fail, to be delivered later; then its own outlet sends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import pytest

from bot.errors import DeliveryError, PlatformUnreachableError
from bot.platforms.base import Announcement, Confirmation, Outlet, RunCard, Settlement
from bot.platforms.handler import Intake
from bot.platforms.messaging.pending import PendingOutlet
from bot.serving import Services
from bot.values import Identity, Place, RunStatus
from tests.fakes.outlet import FakeOutlet

ALICE, ROOM = Identity("fake", "", "alice"), Place("fake", "", "room")
NEWS = Announcement(key="k", place=ROOM, owner=ALICE, title="done", text="It is.")
QUESTION = Confirmation(id="q", owner=ALICE, place=ROOM, text="Really?", expires_in_seconds=60)
CARD = RunCard(
    run_id="r", owner=ALICE, place=ROOM, label="x", agent="general", status=RunStatus.RUNNING
)


@dataclass
class Opened:
    """An open platform that only sends."""

    outlet: Outlet

    @property
    def intake(self) -> Intake:
        raise AssertionError("Nothing is received here.")


async def test_before_the_platform_is_open_texts_fail_and_nothing_else_does() -> None:
    outlet = PendingOutlet("fake")
    reply = outlet.open_reply(ROOM, ALICE)
    reply.update("Hel")

    with pytest.raises(DeliveryError) as refused:
        await reply.finish("Hello.")
    with pytest.raises(DeliveryError):
        await outlet.announce(NEWS)
    await reply.abandon()
    outlet.show_card(CARD)
    await outlet.acknowledge(ROOM)
    await outlet.tell(ROOM, ALICE, "x")
    await outlet.show_settlement(QUESTION, Settlement("Yes"))

    assert not refused.value.permanent
    assert not refused.value.fate_unknown


async def test_a_question_waits_until_the_platform_is_open() -> None:
    outlet, real = PendingOutlet("fake"), FakeOutlet("fake")
    asking = asyncio.ensure_future(outlet.ask(QUESTION))
    await asyncio.sleep(0)
    assert not asking.done()

    outlet.connect(real)
    await asking

    assert [each.id for each in real.questions] == ["q"]


async def test_once_a_platform_is_open_its_own_outlet_takes_over() -> None:
    real, ready = FakeOutlet("slow"), asyncio.Event()
    attempts: list[str] = []

    @asynccontextmanager
    async def opening(name: str) -> AsyncIterator[Opened]:
        attempts.append(name)
        if name == "slow":
            if attempts.count(name) == 1:
                raise PlatformUnreachableError("It is out of order.")
            await ready.wait()
        yield Opened(real if name == "slow" else FakeOutlet(name))

    services = Services({name: partial(opening, name.lower()) for name in ("Slow", "Quick")})
    async with services.open():
        outlets, before = services.outlets, services.outlets["slow"]
        asking = asyncio.ensure_future(before.ask(QUESTION))
        ready.set()
        await asking

        assert outlets["slow"] is real
        assert [each.id for each in real.questions] == ["q"]
        assert sorted(outlets) == ["quick", "slow"]

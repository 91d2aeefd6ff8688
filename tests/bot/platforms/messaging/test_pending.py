"""Until a platform is open its texts fail, to be delivered later; then everything passes on."""

import asyncio

import pytest

from bot.errors import DeliveryError
from bot.platforms.base import Announcement, Confirmation, RunCard, Settlement
from bot.platforms.messaging.pending import PendingOutlet
from bot.values import Identity, Place, RunStatus
from tests.fakes.outlet import FakeOutlet

ALICE, ROOM = Identity("fake", "", "alice"), Place("fake", "", "room")
NEWS = Announcement(key="k", place=ROOM, owner=ALICE, title="done", text="It is.")
QUESTION = Confirmation(id="q", owner=ALICE, place=ROOM, text="Really?", expires_in_seconds=60)
CARD = RunCard(
    run_id="r", owner=ALICE, place=ROOM, label="x", agent="general", status=RunStatus.RUNNING
)


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


async def test_once_the_platform_is_open_everything_passes_on() -> None:
    outlet, real = PendingOutlet("fake"), FakeOutlet("fake")
    outlet.connect(real)

    await outlet.open_reply(ROOM, ALICE).finish("Hello.")
    await outlet.announce(NEWS)
    outlet.show_card(CARD)

    assert real.texts() == ["Hello."]
    assert [each.key for each in real.announcements] == ["k"]
    assert real.cards["r"] == [CARD]

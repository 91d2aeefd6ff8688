"""Files are posted to the place of a call, and the user's own files to others only after a yes."""

from dataclasses import replace

import pytest

from bot.errors import ToolError
from bot.platforms.base import OutgoingFile
from bot.values import Identity, Place, Role
from skills.base import ToolContext
from skills.files.sending import MOST_BYTES, READ_BY_OTHERS, FileSender
from tests.fakes.clock import FakeClock
from tests.fakes.outlet import FakeOutlet

CHANNEL = Place("discord", "guild", "general", "thread", "m1")


@pytest.fixture
def context(alice: Identity, clock: FakeClock) -> ToolContext:
    return ToolContext(
        user=alice,
        role=Role.USER,
        place=CHANNEL,
        conversation_id="c1",
        work_id="t1",
        call_id="1.0",
        run_id=None,
        now=clock,
        shared=True,
    )


async def test_files_are_posted_to_the_place_of_the_call(context: ToolContext) -> None:
    outlet = FakeOutlet("discord")
    files = [OutgoingFile("a.md", b"one"), OutgoingFile("b.csv", b"two")]

    sent = await FileSender({"discord": outlet}).send(context, files)

    assert sent.startswith("Sent: a.md, b.csv")
    assert outlet.sent_files == [(CHANNEL, each) for each in files]


async def test_files_that_are_too_large_are_refused(context: ToolContext) -> None:
    outlet = FakeOutlet("discord")
    large = OutgoingFile("a.bin", b"x" * (MOST_BYTES + 1))

    with pytest.raises(ToolError, match="is the most"):
        await FileSender({"discord": outlet}).send(context, [large])
    assert outlet.sent_files == []


async def test_a_platform_that_is_not_served_is_said(context: ToolContext) -> None:
    with pytest.raises(ToolError, match="does not serve"):
        await FileSender({}).send(context, [OutgoingFile("a.md", b"one")])


async def test_where_others_read_the_users_own_files_need_a_yes(context: ToolContext) -> None:
    sender = FileSender({})

    assert await sender.reason_to_ask(context, {}) == ""
    assert await sender.reason_to_ask(replace(context, shared=False), {}) == READ_BY_OTHERS
    alone = replace(context, shared=False, place=Place("discord", channel="dm"))
    assert await sender.reason_to_ask(alone, {}) == ""

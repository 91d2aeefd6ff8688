"""Files are posted to the place of a call, and the user's own files to others only after a yes.

Those of a background run are posted with its result.
"""

from dataclasses import replace

import pytest

from bot.errors import ToolError
from bot.platforms.base import MOST_FILE_BYTES, OutgoingFile
from bot.values import Identity, Place, Role
from db import run_files
from db.database import Database
from skills.base import ToolContext
from skills.files.sending import READ_BY_OTHERS, FileSender
from tests.fakes.clock import FakeClock
from tests.fakes.outlet import FakeOutlet
from tests.fakes.stored import Stored

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


async def test_files_are_posted_to_the_place_of_the_call(
    context: ToolContext, database: Database
) -> None:
    outlet = FakeOutlet("discord")
    files = [OutgoingFile("a.md", b"one"), OutgoingFile("b.csv", b"two")]

    sent = await FileSender({"discord": outlet}, database).send(context, files)

    assert sent.startswith("Sent: a.md, b.csv")
    assert outlet.sent_files == [(CHANNEL, each) for each in files]


async def test_files_that_are_too_large_are_refused(
    context: ToolContext, database: Database
) -> None:
    outlet = FakeOutlet("discord")
    large = OutgoingFile("a.bin", b"x" * (MOST_FILE_BYTES + 1))

    with pytest.raises(ToolError, match="is the most"):
        await FileSender({"discord": outlet}, database).send(context, [large])
    assert outlet.sent_files == []


async def test_a_platform_that_is_not_served_is_said(
    context: ToolContext, database: Database
) -> None:
    with pytest.raises(ToolError, match="does not serve"):
        await FileSender({}, database).send(context, [OutgoingFile("a.md", b"one")])


async def test_where_others_read_the_users_own_files_need_a_yes(
    context: ToolContext, database: Database
) -> None:
    sender = FileSender({}, database)

    assert await sender.reason_to_ask(context, {}) == ""
    assert await sender.reason_to_ask(replace(context, shared=False), {}) == READ_BY_OTHERS
    alone = replace(context, shared=False, place=Place("discord", channel="dm"))
    assert await sender.reason_to_ask(alone, {}) == ""


async def test_files_of_a_background_run_wait_for_its_result(
    context: ToolContext, database: Database, clock: FakeClock, alice: Identity
) -> None:
    outlet = FakeOutlet("discord")
    sender = FileSender({"discord": outlet}, database)
    run = (await Stored(database, clock).run(alice, status="running")).id
    of_run = replace(context, run_id=run, background=True)
    files = [OutgoingFile("a.md", b"one"), OutgoingFile("b.csv", b"two")]

    sent = await sender.send(of_run, files)

    assert sent == "They are sent with your result: a.md, b.csv (6 bytes)."
    assert outlet.sent_files == []
    async with database.snapshot() as tx:
        assert await run_files.of_run(tx, run) == files


async def test_a_delegated_run_posts_at_once(
    context: ToolContext, database: Database, clock: FakeClock, alice: Identity
) -> None:
    outlet = FakeOutlet("discord")
    run = (await Stored(database, clock).run(alice, status="running")).id

    await FileSender({"discord": outlet}, database).send(
        replace(context, run_id=run), [OutgoingFile("a.md", b"one")]
    )

    assert len(outlet.sent_files) == 1


@pytest.mark.parametrize("further", [[b"x"] * 2, [b"x" * 500_001]], ids=["count", "size"])
async def test_all_files_of_a_run_fit_into_one_message(
    context: ToolContext,
    database: Database,
    clock: FakeClock,
    alice: Identity,
    further: list[bytes],
) -> None:
    sender = FileSender({"discord": FakeOutlet("discord")}, database)
    run = (await Stored(database, clock).run(alice, status="running")).id
    of_run = replace(context, run_id=run, background=True)
    await sender.send(of_run, [OutgoingFile("a.bin", b"x" * 1_000_000)] * 9)

    with pytest.raises(ToolError, match="The result has 9 files"):
        await sender.send(of_run, [OutgoingFile("b.md", each) for each in further])

    async with database.snapshot() as tx:
        assert len(await run_files.of_run(tx, run)) == 9


async def test_a_run_that_is_over_and_a_terminal_send_nothing(
    context: ToolContext, database: Database, clock: FakeClock, alice: Identity
) -> None:
    outlet = FakeOutlet("discord")
    sender = FileSender({"discord": outlet}, database)
    ended = (await Stored(database, clock).run(alice, status="completed")).id
    with pytest.raises(ToolError, match="The run is over"):
        await sender.send(
            replace(context, run_id=ended, background=True), [OutgoingFile("a.md", b"one")]
        )

    outlet.takes_files = False
    with pytest.raises(ToolError, match="lie in the workspace"):
        await sender.send(context, [OutgoingFile("a.md", b"one")])

"""Copies of stored data are whole, in archives that platforms take; work ends before it goes."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from random import Random
from zipfile import ZipFile

import pytest
from sqlalchemy import func, select

from bot.conversations.archives import packed
from bot.conversations.personal_copies import PersonalCopies, SavedCopies
from bot.conversations.personal_data import PersonalData
from bot.errors import BadRequestError, DeliveryError, NotFoundError
from bot.platforms.base import Delivered, FileMessage
from bot.subagents.limits import SubagentSettings
from bot.values import ConversationMode, File, Identity, Place
from db import conversations, users
from db import files as stored_files
from db.conversations import Attribution
from db.database import Database, DatabaseSettings, Transaction
from db.tables import messages, subagent_runs, turns
from db.user_data import BATCH
from tests.fakes.clock import FakeClock
from tests.fakes.outlet import FakeOutlet
from tests.fakes.plans import Statements
from tests.fakes.stored import Stored

ROOM = 100_000
SHARED = ConversationMode(shared=True)


@pytest.fixture
def stored(database: Database, clock: FakeClock) -> Stored:
    return Stored(database, clock)


@pytest.fixture
def data(database: Database, clock: FakeClock) -> PersonalData:
    return PersonalData(
        database=database, stores=(), settings=SubagentSettings(), active=(), now=clock
    )


async def entries(**contents: bytes | None) -> AsyncGenerator[tuple[str, bytes | None], None]:
    for name, content in contents.items():
        yield name, content


async def archives_of(clock: FakeClock, **contents: bytes | None) -> list[bytes]:
    made = packed(entries(**contents), room=ROOM, about=", ".join, new=BytesIO, moment=clock())
    async with aclosing(made):
        found = [archive async for archive in made]
    for archive in found:
        archive.seek(0)
    return [archive.read() for archive in found]


async def test_entries_that_do_not_fit_into_one_archive_go_into_several(clock: FakeClock) -> None:
    contents = {f"e{number}": Random(number).randbytes(30_000) for number in range(5)}

    found = await archives_of(clock, **contents)

    assert len(found) == 3
    assert all(len(each) <= ROOM for each in found)
    whole = {
        name: archive.read(name)
        for archive in map(ZipFile, map(BytesIO, found))
        for name in archive.namelist()
    }
    assert whole == contents | {"README.txt": b""}


async def test_an_entry_that_fits_nowhere_is_named(clock: FakeClock) -> None:
    found = await archives_of(clock, small=b"1", large=Random(1).randbytes(ROOM), unreadable=None)

    (archive,) = map(ZipFile, map(BytesIO, found))
    assert archive.namelist() == ["small", "README.txt"]
    assert archive.read("README.txt") == b"large, unreadable"


async def test_nothing_is_deleted_while_a_turn_is_at_work(
    data: PersonalData, stored: Stored, alice: Identity
) -> None:
    data = replace(data, stop_seconds=0)
    conversation = await stored.conversation(alice)
    await stored.turn(alice, conversation)
    await stored.claim_turn(conversation)
    await stored.run(alice, status="running")

    with pytest.raises(BadRequestError, match="Nothing is deleted yet"):
        await data.delete(alice)

    assert await stored.count(turns) == 1
    await replace(data, at_work=lambda: False).delete(alice)
    assert await stored.count(turns) == 0
    # Its tokens count today.
    assert await stored.count(subagent_runs) == 1


class DatabaseWithWorkBetween(Database):
    """A database in which other work is done after each transaction."""

    seen: list[int]

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with super().transaction() as tx:
            yield tx
        async with super().transaction() as tx:
            self.seen.append(await tx.scalar(select(func.count()).select_from(messages)) or 0)


async def test_other_work_is_done_while_much_is_deleted(
    data: PersonalData,
    stored: Stored,
    database_settings: DatabaseSettings,
    clock: FakeClock,
    alice: Identity,
) -> None:
    conversation = await stored.conversation(alice)
    async with stored.database.transaction() as tx:
        for _ in range(3 * BATCH):
            await conversations.say(tx, conversation, role="user", text="zebra", now=clock())

    async with DatabaseWithWorkBetween.open(database_settings) as database:
        database.seen = []
        await replace(data, database=database).delete(alice)

    assert database.seen[-1] == 0
    assert set(database.seen) >= {2 * BATCH, BATCH}


async def test_an_archive_has_every_one_of_many_rows_once_and_in_order(
    data: PersonalData, stored: Stored, database: Database, clock: FakeClock, alice: Identity
) -> None:
    conversation = await stored.conversation(alice)
    said = [f"zebra {number}" for number in range(2 * BATCH + 1)]
    async with database.transaction() as tx:
        for text in said:
            await conversations.say(tx, conversation, role="user", text=text, now=clock())

    archives = data.archives(alice, room=None)
    async with aclosing(archives):
        (archive,) = [ZipFile(each) async for each in archives]

    assert [each["text"] for each in json.loads(archive.read("messages.json"))] == said


async def test_a_file_of_a_place_that_another_user_has_sent_too_is_not_deleted_there(
    data: PersonalData, stored: Stored, database: Database, alice: Identity, bob: Identity
) -> None:
    deleted: list[str] = []

    class Kept:
        def files(self, user: Identity) -> Iterator[tuple[str, bytes | None]]:
            return iter(())

        def delete(self, user: Identity) -> None:
            """Delete nothing."""

        def delete_sent(self, owner: str, name: str, content: bytes) -> None:
            deleted.append(name)

    thread = Place("discord", "guild", "general", "thread")
    sent = {alice: ("both.txt", "mine.txt"), bob: ("both.txt",)}
    async with database.transaction() as tx:
        for user, names in sent.items():
            await users.ensure_user(tx, user, "", data.now())
            there = await conversations.find_or_open(tx, user, thread, data.now(), SHARED)
            by = Attribution(author=user.key, author_number=1)
            message = await conversations.say(
                tx, there, role="user", text="Look.", now=data.now(), by=by
            )
            files = [File(name, "", b"abc") for name in names]
            await stored_files.put_files(tx, message, files, data.now())

    await replace(data, stores=[Kept()]).delete(alice)

    assert deleted == ["mine.txt"]


#: Tables with few rows in comparison with those of messages, steps and runs.
SMALL = {
    "admin_notices",
    "pairings",
    "pauses",
    "holds",
    "approvals",
    "commands",
    "mcp_pins",
    "mcp_tokens",
    "participants",
    "run_questions",
    "standing_grants",
}


async def test_no_large_table_is_read_as_a_whole_to_find_the_data_of_a_user(
    data: PersonalData, stored: Stored, database_url: str, alice: Identity
) -> None:
    statements = Statements()
    conversation = await stored.conversation(alice)
    await stored.turn(alice, conversation)
    await stored.run(alice, status="completed")

    with statements.recorded():
        await data.counts(alice)
        await data.is_known(alice)
        async for _ in data.archives(alice, room=None):
            pass
        await data.delete(alice)

    assert statements.scans(database_url, SMALL) == []


async def test_a_copy_that_cannot_be_sent_says_what_to_do(
    data: PersonalData, alice: Identity, tmp_path: Path
) -> None:
    class Closed(FakeOutlet):
        async def send_files(self, message: FileMessage) -> Delivered:
            raise DeliveryError("Direct messages are closed.")

    copies = PersonalCopies(
        data=data, outlets={"discord": Closed("discord")}, saved=SavedCopies(tmp_path)
    )

    with pytest.raises(NotFoundError, match=r"closed\. Allow direct messages"):
        await copies.send(alice, Place("discord", "guild", "general", "thread"), "key")


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        (Place("discord", "guild", "general", "thread"), Place("discord", "guild")),
        (Place("slack", "T1", "C1", "1.2"), Place("slack", "T1")),
        (Place("slack", "T1", "D1", "1.2"), Place("slack", "T1", "D1", "1.2")),
    ],
)
async def test_a_copy_never_goes_to_a_place_with_other_readers(
    data: PersonalData, alice: Identity, tmp_path: Path, asked: Place, sent: Place
) -> None:
    outlet = FakeOutlet(asked.platform)
    copies = PersonalCopies(
        data=data, outlets={asked.platform: outlet}, saved=SavedCopies(tmp_path)
    )

    await copies.send(alice, asked, "key")

    ((place, file),) = outlet.sent_files
    assert place == sent
    assert file.name.endswith(".zip")

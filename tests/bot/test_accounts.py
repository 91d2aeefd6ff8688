"""`export-user`, `delete-user`, `hold`: what is stored about an account, for operators."""

from datetime import datetime
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from pydantic import SecretStr
from sqlalchemy import select

from bot import accounts
from bot.config.model import Config
from bot.config.reloading import LiveConfig
from bot.conversations.settings import AuditSettings
from bot.errors import BadRequestError, NotFoundError
from bot.values import ConversationMode, File, Identity, Place
from db import audit_chain, conversations, edits, history, holds, user_deletion
from db.audit import AuditEntry, record
from db.audit_chain import AuditKey
from db.conversations import Attribution
from db.database import Database, DatabaseSettings, Transaction
from db.files import put_files
from db.holds import Hold
from db.tables import audit, messages
from db.user_data import STAYS
from db.users import ensure_user
from skills.files.settings import WorkspaceSettings
from skills.settings import OwnSkillsSettings
from tests.fakes.clock import FakeClock

BOB = Identity("discord", "", "22")


@pytest.fixture
def config(database_settings: DatabaseSettings, tmp_path: Path) -> Config:
    return Config(
        database=database_settings,
        workspaces=WorkspaceSettings(folder=str(tmp_path / "files")),
        skills=OwnSkillsSettings(data_folder=str(tmp_path / "data" / "skills")),
    )


async def overhear(database: Database, clock: FakeClock, alice: Identity) -> None:
    """Store a message of an account that never talked to the bot."""
    place = Place("discord", "guild", "general", "thread")
    async with database.transaction() as tx:
        await ensure_user(tx, alice, "Alice", clock())
        found = await conversations.find_or_open(
            tx, alice, place, clock(), ConversationMode(shared=True)
        )
        number, name = await history.join(tx, found, BOB.key, "Bob")
        by = Attribution(author=BOB.key, author_number=number, author_name=name, reference="7")
        await conversations.say(
            tx, found, role="user", text="I am near", now=clock(), by=by, overheard=True
        )


async def test_the_words_of_an_account_that_never_talked_to_the_bot_are_exported(
    config: Config, database: Database, clock: FakeClock, alice: Identity, tmp_path: Path
) -> None:
    await overhear(database, clock, alice)
    file = tmp_path / "bob.zip"

    report = await accounts.export(config, "discord:22", file, name="root")

    assert "discord:22 is in" in report
    assert file.stat().st_mode & 0o777 == 0o600
    with ZipFile(file) as archive:
        assert b"I am near" in archive.read("messages.json")
    with pytest.raises(BadRequestError, match="exists"):
        await accounts.export(config, "discord:22", file, name="root")


async def test_an_account_is_deleted_after_a_yes_and_the_audit_log_says_by_whom(
    config: Config, database: Database, clock: FakeClock, alice: Identity
) -> None:
    await overhear(database, clock, alice)

    shown = await accounts.delete(config, "discord:22", yes=False, name="root")
    async with database.snapshot() as tx:
        before = await tx.scalar(select(messages.c.text))
    done = await accounts.delete(config, "discord:22", yes=True, name="root")

    assert "messages 1" in shown
    assert "--yes" in shown
    assert before == "I am near"
    assert "Deleted" in done
    assert STAYS["audit"] not in done
    assert all(reason in done for reason in accounts.REMAINS)
    async with database.snapshot() as tx:
        (message,) = await tx.execute(select(messages))
        (line,) = await tx.execute(select(audit))
    assert (message.text, message.author_name) == ("", "deleted")
    assert (line.user_id, line.action, line.owner_id) == ("terminal::root", "delete", BOB.key)
    assert line.erased_at is not None
    with pytest.raises(NotFoundError, match="Nothing is stored about discord:22"):
        await accounts.delete(config, "discord:22", yes=True, name="root")


@pytest.mark.parametrize("content", ["", "another key that sealed nothing so far, of a machine"])
async def test_a_key_that_cannot_be_used_or_is_of_another_machine_hides_no_report(
    config: Config, database: Database, clock: FakeClock, alice: Identity, content: str
) -> None:
    await overhear(database, clock, alice)
    entry = AuditEntry(actor=BOB.key, action="spawn", created_at=clock())
    await database.write(record, entry)
    await database.write(audit_chain.seal, AuditKey(b"the key of the bot, on its own machine"))
    file = Path(config.skills.data_folder).parent / "audit.key"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)

    done = await accounts.delete(config, "discord:22", yes=True, name="root")

    assert "Deleted" in done
    assert accounts.UNSEALED in done


@pytest.mark.parametrize("keyed", [True, False])
async def test_texts_of_the_audit_log_are_erased_at_once_if_no_bot_will_seal_them(
    config: Config, database: Database, clock: FakeClock, alice: Identity, keyed: bool
) -> None:
    await overhear(database, clock, alice)
    dug = AuditEntry(actor=BOB.key, action="spawn", owner=BOB.key, effect="Dig", created_at=clock())
    await database.write(record, dug)
    if keyed:
        settings = AuditSettings(key=SecretStr("a key of thirty-two characters, or more"))
        config = config.model_copy(update={"audit": settings})

    done = await accounts.delete(config, "discord:22", yes=True, name="root")

    async with database.snapshot() as tx:
        effects = set(await tx.scalars(select(audit.c.effect)))
    assert ("Dig" in effects) is not keyed
    assert (accounts.UNSEALED in done) is not keyed


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "22",
        "irc:22",
        "discord:",
        "slack:T1:U2:more",
        "discord",
        # An account of no workspace, or of one where there is none, would be nobody.
        "slack:U2",
        "discord:T1:22",
        "terminal:a:b",
    ],
)
def test_an_account_that_is_none_is_refused_with_the_forms(typed: str) -> None:
    with pytest.raises(BadRequestError, match="slack:T012345:U012345"):
        accounts.account_of(typed)


def test_accounts_are_written_as_in_the_configuration() -> None:
    assert accounts.account_of("discord:22") == BOB
    assert accounts.account_of("slack:T1:U2") == Identity("slack", "T1", "U2")
    assert accounts.account_of("terminal:alice") == Identity("terminal", "", "alice")


async def test_a_held_account_is_not_deleted_and_the_operator_reads_by_which_hold(
    config: Config, database: Database, clock: FakeClock, alice: Identity
) -> None:
    await overhear(database, clock, alice)

    placed = await accounts.hold(config, "discord:22", title="Case  7", name="root")
    again = await accounts.hold(config, "discord:22", title="Case 7", name="root")
    for yes in (False, True):
        with pytest.raises(BadRequestError, match=r"discord:22: “Case 7”, since .*terminal:root"):
            await accounts.delete(config, "discord:22", yes=yes, name="root")
    listed = await accounts.list_holds(config)
    released = await accounts.release(config, "discord:22", title="", name="eve")
    done = await accounts.delete(config, "discord:22", yes=True, name="root")

    assert "is under the legal hold “Case 7”" in placed
    assert "already" in again
    assert listed.startswith("discord:22: “Case 7”, since ")
    assert "is released" in released
    assert "Deleted" in done
    async with database.snapshot() as tx:
        columns = (audit.c.user_id, audit.c.action, audit.c.effect)
        lines = [tuple(row) for row in await tx.execute(select(*columns).order_by(audit.c.id))]
    assert lines == [
        ("terminal::root", "hold", "Case 7"),
        ("terminal::eve", "release hold", "Case 7"),
        ("terminal::root", "delete", ""),
    ]
    assert await accounts.list_holds(config) == "There is no legal hold."


async def test_a_hold_that_is_placed_during_a_deletion_ends_it_and_is_named(
    config: Config, database: Database, clock: FakeClock, alice: Identity, monkeypatch: Any
) -> None:
    await overhear(database, clock, alice)
    stop_work = user_deletion.stop_work

    async def meanwhile(tx: Transaction, key: str, now: datetime) -> user_deletion.Work:
        held = {"user_id": key, "shown": "discord:22", "name": "Case 7", "held_by": "x"}
        await holds.place(tx, Hold(**held, created_at=now))
        return await stop_work(tx, key, now)

    monkeypatch.setattr(user_deletion, "stop_work", meanwhile)

    with pytest.raises(BadRequestError, match="“Case 7”"):
        await accounts.delete(config, "discord:22", yes=True, name="root")

    async with database.snapshot() as tx:
        assert await tx.scalar(select(messages.c.text)) == "I am near"


async def test_only_the_export_of_an_operator_has_the_holds_and_what_was_kept_for_them(
    config: Config, database: Database, clock: FakeClock, alice: Identity, tmp_path: Path
) -> None:
    await overhear(database, clock, alice)
    await accounts.hold(config, "discord:22", title="Case 7", name="root")
    async with database.transaction() as tx:
        (copy,) = await edits.copies(tx, Place("discord", "guild", "general", "thread", "7"))
        await put_files(tx, copy.id, [File("a.txt", "", b"words")], clock())
        await edits.delete(tx, copy, clock())

    await accounts.export(config, "discord:22", tmp_path / "bob.zip", name="root")
    data = accounts.personal_copies(LiveConfig(config), database, {}, (), clock).data
    (own,) = [each async for each in data.archives(BOB, room=None)]

    with ZipFile(tmp_path / "bob.zip") as archive:
        assert b"Case 7" in archive.read("holds.json")
        assert b"I am near" in archive.read("held_copies.json")
        assert [archive.read(each) for each in archive.namelist() if "held/" in each] == [b"words"]
    own.seek(0)
    with ZipFile(own) as archive:
        text = b"".join(archive.read(each) for each in archive.namelist())
    assert b"near" not in text
    assert b"Case 7" not in text
    assert b'"hold' not in text


async def test_several_holds_are_released_by_name(config: Config, database: Database) -> None:
    for title in ("Case 7", "Case 8"):
        report = await accounts.hold(config, "discord:22", title=title, name="root")

    assert "Nothing is stored about this account yet" in report
    with pytest.raises(BadRequestError, match="“Case 7”, “Case 8”"):
        await accounts.release(config, "discord:22", title="", name="root")
    assert "Still in force on this account: 1 hold." in await accounts.release(
        config, "discord:22", title="Case 8", name="root"
    )
    with pytest.raises(NotFoundError, match="not under the legal hold “Case 9”"):
        await accounts.release(config, "discord:22", title="Case 9", name="root")


@pytest.mark.parametrize("title", ["", " ", "x" * 101, "a\x1b[31m"])
async def test_a_case_without_a_usable_name_is_refused(config: Config, title: str) -> None:
    with pytest.raises(BadRequestError, match="Name the case"):
        await accounts.hold(config, "discord:22", title=title, name="root")

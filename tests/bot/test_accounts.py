"""`python -m bot user`: an admin exports and deletes what is stored about an account."""

from pathlib import Path
from zipfile import ZipFile

import pytest
from sqlalchemy import select

from bot import accounts
from bot.config.model import Config
from bot.errors import BadRequestError, NotFoundError
from bot.values import ConversationMode, Identity, Place
from db import conversations, participants
from db.conversations import Attribution
from db.database import Database, DatabaseSettings
from db.tables import audit, messages
from db.users import ensure_user
from skills.files.settings import WorkspaceSettings
from tests.fakes.clock import FakeClock

BOB = Identity("discord", "", "22")


@pytest.fixture
def config(database_settings: DatabaseSettings, tmp_path: Path) -> Config:
    return Config(
        database=database_settings, workspaces=WorkspaceSettings(folder=str(tmp_path / "files"))
    )


async def overhear(database: Database, clock: FakeClock, alice: Identity) -> None:
    """Store a message of an account that never talked to the bot."""
    place = Place("discord", "guild", "general", "thread")
    async with database.transaction() as tx:
        await ensure_user(tx, alice, "Alice", clock())
        found = await conversations.find_or_open(
            tx, alice, place, clock(), ConversationMode(shared=True)
        )
        number, name = await participants.join(tx, found, BOB.key, "Bob")
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
    assert "audit 1" not in done
    async with database.snapshot() as tx:
        (message,) = await tx.execute(select(messages))
        (line,) = await tx.execute(select(audit))
    assert (message.text, message.author_name) == ("", "deleted")
    assert (line.user_id, line.action, line.subject) == ("terminal::root", "delete", BOB.key)
    with pytest.raises(NotFoundError, match="Nothing is stored about discord:22"):
        await accounts.delete(config, "discord:22", yes=True, name="root")


@pytest.mark.parametrize("typed", ["", "22", "irc:22", "discord:", "slack:T1:U2:more", "discord"])
def test_an_account_that_is_none_is_refused_with_the_forms(typed: str) -> None:
    with pytest.raises(BadRequestError, match="slack:T012345:U012345"):
        accounts.account_of(typed)


def test_accounts_are_written_as_in_the_configuration() -> None:
    assert accounts.account_of("discord:22") == BOB
    assert accounts.account_of("slack:T1:U2") == Identity("slack", "T1", "U2")
    assert accounts.account_of("terminal:alice") == Identity("terminal", "", "alice")

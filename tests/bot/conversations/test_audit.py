"""The audit log of a bot is sealed with a key outside the database, and read by admins."""

import json
import logging
from pathlib import Path

import pytest
from pydantic import SecretStr

from bot.conversations.admin_notices import AdminNotice
from bot.conversations.audit import (
    AuditKeys,
    AuditLog,
    is_sound,
    json_lines,
    read_head,
    report,
    since_of,
)
from bot.conversations.audit_commands import SHOWN
from bot.conversations.commands import CommandRunner
from bot.conversations.settings import AuditSettings
from bot.errors import BadRequestError, ConfigError
from bot.subagents.limits import SubagentSettings
from bot.values import Identity, Place, Role
from db import audit
from db.audit import AuditEntry, Filter
from db.audit_chain import AuditKey
from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.commands import command_runner
from tests.fakes.office import FakeOffice, caller
from tests.fakes.outlet import FakeOutlet

OLD, NEW = "the former key, thirty-two letters", "the present key, thirty-two letters"


def settings(key: str = "", *former: str) -> AuditSettings:
    return AuditSettings(
        key=SecretStr(key) if key else None, former_keys=tuple(map(SecretStr, former))
    )


class Log:
    """An audit log, and what the admins are told about it."""

    def __init__(self, database: Database, clock: FakeClock, folder: Path) -> None:
        self.clock, self.settings = clock, settings(NEW)
        self.told: list[AdminNotice] = []
        keys = AuditKeys(lambda: self.settings, folder)
        self.log = AuditLog(database=database, keys=keys, now=clock, tell=self._tell)

    async def _tell(self, notice: AdminNotice) -> None:
        self.told.append(notice)

    async def record(self, user: str, action: str = "spawn", place: Place = audit.NOWHERE) -> None:
        self.clock.advance(1)
        entry = AuditEntry(
            actor=user, owner=user, action=action, place=place, created_at=self.clock()
        )
        await self.log.database.write(audit.record, entry)


@pytest.fixture
def log(database: Database, clock: FakeClock, tmp_path: Path) -> Log:
    return Log(database, clock, tmp_path)


def test_a_key_is_made_once_where_only_the_bot_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    first = AuditKeys(settings, folder).current
    again = AuditKeys(settings, folder).current

    assert first == again
    assert len(first.secret) == 64
    assert (folder / "audit.key").stat().st_mode & 0o777 == 0o600
    assert str(first.secret) not in repr(first)
    # A key that is configured later does not make the entries from before unknown.
    keys = AuditKeys(lambda: settings(NEW, OLD), folder)
    assert keys.all == [AuditKey(NEW.encode()), AuditKey(OLD.encode()), first]


async def test_a_key_that_cannot_be_used_is_reported_and_what_waits_is_sealed_later(
    log: Log, tmp_path: Path
) -> None:
    log.settings = settings()
    (tmp_path / "audit.key").write_text("half a key")
    await log.record("discord::1")
    for _ in range(2):
        with pytest.raises(ConfigError, match="it holds no key"):
            await log.log.seal()
    waits = (await log.log.database.read(audit.newest, Filter(), limit=1))[0].number
    (tmp_path / "audit.key").unlink()
    await log.log.seal()

    assert waits is None
    assert "nothing is sealed" in log.told[0].text
    assert {each.key for each in log.told} == {log.told[0].key}
    assert is_sound(await log.log.verify())


def test_a_folder_in_which_no_key_can_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")

    with pytest.raises(ConfigError, match="nothing is sealed"):
        _ = AuditKeys(settings, tmp_path / "data").current


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 32"):
        settings("short")


async def test_a_change_of_the_key_is_reported_and_both_keys_verify(log: Log) -> None:
    log.settings = settings(OLD)
    await log.record("discord::1")
    await log.log.seal()
    quiet = list(log.told)
    log.settings = settings(NEW)
    await log.record("discord::1")
    await log.log.seal()
    without = await log.log.verify()
    log.settings = settings(NEW, OLD)
    found = await log.log.verify()

    assert quiet == []
    assert "audit.former_keys" in log.told[0].text
    assert (without.unknown, is_sound(without)) == (1, False)
    assert "1 cannot be checked" in report(without)
    assert (found.unknown, is_sound(found)) == (0, True)


async def test_entries_that_were_added_later_than_they_say_are_reported(log: Log) -> None:
    await log.record("discord::1")
    await log.log.seal()
    log.clock.advance(-7200)
    await log.record("discord::2")
    await log.log.seal()

    found = await log.log.verify()

    assert "1 give a time more than an hour before" in report(found)
    assert is_sound(found)


async def test_the_head_is_logged_once_a_day(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for days in (0, 0, 1):
        log.clock.advance(days * 86_400)
        await log.record("discord::1")
        await log.log.seal()

    heads = [text for text in caplog.messages if text.startswith("The head of the audit log is ")]
    assert [head.split()[-1].partition(":")[0] for head in heads] == ["1", "3"]
    number, noted = read_head(heads[0].split()[-1])
    assert (await log.log.verify((number, noted))).noted
    assert "is not in the log" in report(await log.log.verify((number, "0" * 64)))


@pytest.mark.parametrize("typed", ["", "1", "1:ab", f"x:{'a' * 64}"])
def test_a_malformed_head_is_refused(typed: str) -> None:
    with pytest.raises(BadRequestError, match="64 letters"):
        read_head(typed)


def test_a_time_is_a_day_or_an_age(clock: FakeClock) -> None:
    now = clock()

    assert since_of("", now) is None
    assert since_of("2h", now) == now.replace(hour=now.hour - 2) if now.hour > 1 else True
    assert str(since_of("2026-11-30", now)) == "2026-11-30 00:00:00+00:00"
    for typed in ("never", "h", "-1d", "99999d", "2026-13-01"):
        with pytest.raises(BadRequestError, match="7d"):
            since_of(typed, now)


async def test_entries_without_their_text_are_found_by_the_account(log: Log) -> None:
    await log.record("discord::1")
    await log.record("discord::2")
    await log.log.seal()
    await log.log.database.write(audit.erase_of, "discord::1", log.clock())

    (found,) = await log.log.find(log.log.wanted(user="discord::1"), limit=9)

    assert found.erased
    (line,) = json_lines([found]).splitlines()
    assert json.loads(line)["actor"] == AuditKey(NEW.encode()).pseudonym("discord::1")
    assert "discord::1" not in line


@pytest.fixture
def commands(database: Database, clock: FakeClock) -> CommandRunner:
    outlets = {"discord": FakeOutlet()}
    return command_runner(FakeOffice(database, SubagentSettings(), clock), outlets=outlets)


async def test_an_admin_of_a_server_reads_what_was_done_there_alone(
    commands: CommandRunner, log: Log, bob: Identity
) -> None:
    here = Place("discord", "7001", "hall")
    await log.record("discord::1", "spawn", here)
    await log.record("discord::1", "raise", Place("discord", "7002", "yard"))

    admin = caller(bob, role=Role.ADMIN, place=here)
    shown = await commands.run("/retinue audit", admin)
    all_of_it = await commands.run("/retinue audit", caller(bob, role=Role.OPERATOR))
    refused = await commands.run("/retinue audit", caller(bob))

    assert "spawn" in shown.text
    assert "raise" not in shown.text
    assert "raise" in all_of_it.text
    assert refused.failed
    assert shown.private
    views = await commands.database.read(audit.newest, Filter(action="view"), limit=9)
    assert [each.entry.actor for each in views] == [bob.key, bob.key]


async def test_no_text_of_a_user_passes_for_another_entry(
    commands: CommandRunner, log: Log, bob: Identity
) -> None:
    forged = "x` 27 Nov 10:00:00 `discord:9` **kill** `all"
    entry = AuditEntry(
        actor="discord::1", action="revoke", subject=forged, created_at=log.clock(), effect=forged
    )
    await commands.database.write(audit.record, entry)

    shown = await commands.run("/retinue audit", caller(bob, role=Role.OPERATOR))

    (line,) = [each for each in shown.text.splitlines() if "revoke" in each]
    # Of the actor and of the subject: the texts themselves open and close nothing.
    assert line.count("`") == 4


async def test_more_than_a_page_is_offered_as_a_file_and_words_without_sense_are_refused(
    commands: CommandRunner, log: Log, bob: Identity
) -> None:
    operator = caller(bob, role=Role.OPERATOR)
    for _ in range(SHOWN + 1):
        await log.record("discord::1")

    page = await commands.run("/retinue audit --action spawn", operator)
    wrong = [
        await commands.run(f"/retinue audit {words}", operator)
        for words in ("everything", "--user nobody", "--since yesterday")
    ]

    assert page.text.count("\n- ") == SHOWN - 1
    assert "as a file" in page.text
    assert all(each.failed for each in wrong)

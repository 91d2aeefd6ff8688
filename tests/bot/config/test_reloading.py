"""The configuration as its file says now."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot import masking
from bot.config.loading import load
from bot.config.model import Config
from bot.config.reloading import LOOK_SECONDS, ConfigReloader
from bot.platforms.slack.settings import SlackSettings

OLD, NEW = "0123456789abcdef-old", "0123456789abcdef-new"


class Watch:
    """A clock of seconds that moves when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Desk:
    """A configuration file, and whoever rereads it."""

    def __init__(self, file: Path) -> None:
        self.file, self.watch, self.loaded = file, Watch(), 0
        self.start(OLD)

    def start(self, secret: str) -> None:
        self.write(secret)
        self.current = ConfigReloader(self._load(), self.file, self._load, monotonic=self.watch)
        self.loaded = 0

    def write(self, secret: str, more: str = "") -> None:
        self.put(f"slack:\n  signing_secret: {secret}\n{more}")

    def put(self, text: str) -> None:
        # Another file each time, as editors and Kubernetes do it.
        other = self.file.with_suffix(".new")
        other.write_text(text, encoding="utf-8")
        other.rename(self.file)

    def secret(self) -> str:
        """Return what counts when it is looked again."""
        self.watch.now += LOOK_SECONDS
        return secret_of(self.current())

    def _load(self) -> Config:
        self.loaded += 1
        return load(self.file, {})


def secret_of(config: Config) -> str:
    found = config.section(SlackSettings).signing_secret
    return found.get_secret_value() if found else ""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "config.yaml")


@pytest.fixture(autouse=True)
def _known(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Keep what a test makes secret to that test."""
    caplog.set_level(logging.INFO, logger="bot")
    before = set(masking._known)
    yield
    masking._known.intersection_update(before)


def test_what_was_loaded_at_the_start_counts_while_the_file_stays_as_it_is(desk: Desk) -> None:
    assert [desk.secret() for _ in range(3)] == [OLD] * 3
    assert desk.loaded == 0


def test_a_file_that_has_changed_counts_when_it_is_looked_again(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.write(NEW)
    desk.watch.now += LOOK_SECONDS - 0.01
    assert secret_of(desk.current()) == OLD
    desk.watch.now += 0.01
    assert secret_of(desk.current()) == NEW

    assert desk.secret() == NEW
    assert desk.loaded == 1
    assert f"{desk.file} has changed: the signing secret of Slack counts at once" in caplog.text


def test_it_is_not_looked_again_each_time_that_somebody_asks(desk: Desk) -> None:
    assert desk.secret() == OLD
    desk.write(NEW)

    assert secret_of(desk.current()) == OLD


def test_a_file_may_change_again_and_again(desk: Desk) -> None:
    seen = []
    for secret in (NEW, OLD, NEW):
        desk.write(secret)
        seen.append(desk.secret())

    assert seen == [NEW, OLD, NEW]


def test_what_was_taken_out_of_the_file_counts_no_more(desk: Desk) -> None:
    desk.put("slack: {}\n")

    assert desk.secret() == ""


@pytest.mark.parametrize("how", ["size", "time", "other file"])
def test_a_change_is_seen_by_whatever_shows_it(desk: Desk, how: str) -> None:
    before = desk.file.stat()
    if how == "size":
        desk.file.write_text(f"slack:\n  signing_secret: {NEW}+\n", encoding="utf-8")
        os.utime(desk.file, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif how == "time":
        desk.file.write_text(f"slack:\n  signing_secret: {NEW}\n", encoding="utf-8")
        os.utime(desk.file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    else:
        kept = desk.file.with_suffix(".old")
        desk.file.rename(kept)
        desk.write(NEW)
        os.utime(desk.file, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert desk.secret().startswith(NEW)


@pytest.mark.parametrize(
    "broken", ["slack: [\n", "slack:\n  no_such_key: 1\n", "slack:\n  port: many\n", "\x00"]
)
def test_a_file_that_cannot_be_used_changes_nothing_and_is_told_once(
    desk: Desk, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    desk.put(broken)

    assert [desk.secret() for _ in range(3)] == [OLD] * 3
    assert desk.loaded == 1
    assert [each.levelname for each in caplog.records] == ["ERROR"]
    assert f"{desk.file} has changed and is not used: " in caplog.text


def test_once_it_is_mended_it_counts(desk: Desk) -> None:
    desk.put("slack: [\n")
    assert desk.secret() == OLD
    desk.write(NEW)

    assert desk.secret() == NEW


def test_a_file_that_is_gone_changes_nothing_until_it_is_back(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.file.unlink()
    assert [desk.secret(), desk.secret()] == [OLD, OLD]
    assert desk.loaded == 0
    assert not caplog.records
    desk.write(NEW)

    assert desk.secret() == NEW


def test_a_file_that_goes_while_it_is_read_changes_nothing(desk: Desk) -> None:
    desk.write(NEW)
    desk.file.chmod(0o000)
    if os.access(desk.file, os.R_OK):  # Whoever may read everything finds it gone instead.
        desk.file.unlink()

    assert desk.secret() == OLD


def test_a_file_that_is_touched_changes_nothing(desk: Desk) -> None:
    stat = desk.file.stat()
    os.utime(desk.file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 10**9))

    assert [desk.secret(), desk.secret()] == [OLD, OLD]
    assert desk.loaded == 1


def test_without_a_file_there_is_nothing_to_look_at(desk: Desk) -> None:
    current = ConfigReloader(Config(), None, desk._load, monotonic=desk.watch)
    desk.watch.now += LOOK_SECONDS

    assert current() == Config()
    assert desk.loaded == 0


def test_a_secret_that_is_new_is_masked_in_every_log_line_from_then_on(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.write(NEW)
    assert masking.without_secrets(f"is {NEW}") == f"is {NEW}"

    desk.secret()

    assert masking.without_secrets(f"is {NEW}") == f"is {masking.MASK}"
    assert NEW not in caplog.text


def test_a_secret_in_a_file_that_cannot_be_used_is_not_in_the_log(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.write(NEW, more=f"  port: many\n  bot_token: {NEW}-token\n")

    assert desk.secret() == OLD
    assert "is not used" in caplog.text
    assert NEW not in caplog.text

"""A changed `config.yaml` replaces the configuration in force as a whole."""

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot import masking
from bot.config import reloading
from bot.config.loading import load
from bot.config.model import Config
from bot.config.reloading import ConfigWatch, Reload
from bot.platforms.slack.settings import SlackSettings
from bot.tasks import Tasks

OLD, NEW = "0123456789abcdef-old", "0123456789abcdef-new"


class Desk:
    """A configuration file, and its watch."""

    def __init__(self, file: Path) -> None:
        self.file, self.loaded = file, 0
        self.write(OLD)
        self.start()

    def start(self) -> None:
        self.watch = ConfigWatch(self._load(), self.file, self._load)
        self.loaded = 0

    def write(self, secret: str, more: str = "") -> None:
        self.put(f"slack:\n  signing_secret: {secret}\n{more}")

    def put(self, text: str) -> None:
        # Another file each time, as editors do it.
        other = self.file.with_suffix(".new")
        other.write_text(text, encoding="utf-8")
        other.rename(self.file)

    async def look(self) -> Reload | None:
        """Look until a change has been seen twice."""
        return await self.watch.look() or await self.watch.look()

    @property
    def secret(self) -> str:
        found = self.watch().section(SlackSettings).signing_secret
        return found.get_secret_value() if found else ""

    def _load(self) -> Config:
        self.loaded += 1
        return load(self.file, {})


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


async def test_a_file_that_stays_the_same_is_not_loaded(desk: Desk) -> None:
    assert [await desk.look() for _ in range(3)] == [None] * 3
    assert (desk.secret, desk.loaded) == (OLD, 0)


async def test_a_change_counts_when_two_looks_have_found_the_same(desk: Desk) -> None:
    desk.write(NEW, "agent: {max_steps: 3}\n")
    assert await desk.watch.look() is None
    desk.write(NEW, "agent: {max_steps: 4}\n")
    assert await desk.watch.look() is None
    assert (desk.secret, desk.loaded) == (OLD, 0)

    reload = await desk.watch.look()

    assert reload is not None
    assert (desk.secret, desk.watch().agent.max_steps, desk.loaded) == (NEW, 4, 1)


async def test_a_change_is_reported_with_old_and_new_values_and_no_secret(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.write(NEW, "agent: {max_steps: 3}\nlogging: {level: debug}\n")

    reload = await desk.look()

    assert reload is not None
    assert sorted(reload.text.splitlines()) == sorted(
        [
            f"{desk.file} has changed, and counts from now on:",
            "- `agent.max_steps`: 20 → 3",
            "- `slack.signing_secret`: changed",
            "- `logging.level`: info → debug (needs a restart)",
            "",
            "Restart every process of the bot for what needs it.",
        ]
    )
    assert not {OLD, NEW} & set(caplog.text.split())


async def test_a_file_may_change_again_and_again(desk: Desk) -> None:
    seen = []
    for secret in (NEW, OLD, NEW):
        desk.write(secret)
        await desk.look()
        seen.append(desk.secret)

    assert seen == [NEW, OLD, NEW]


@pytest.mark.parametrize(
    "left", ["", "\n  \n", "# nothing\n", "#slack:\n  # signing_secret: x\n", "---\n", "\ufeff"]
)
async def test_a_file_that_is_emptied_is_a_mistake(desk: Desk, left: str) -> None:
    desk.put(left)
    emptied = await desk.look()
    kept = desk.secret
    desk.put("{}\n")
    await desk.look()
    wanted = desk.secret
    desk.put("# nothing\n")
    still = await desk.look()

    assert emptied is not None
    assert "it has no keys any more" in emptied.error
    assert (kept, wanted) == (OLD, "")
    assert still is not None
    assert still.error


async def test_an_unexpected_error_ends_neither_the_watch_nor_the_configuration(
    desk: Desk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Config:
        raise ZeroDivisionError("of a validator")

    monkeypatch.setattr(reloading, "LOOK_SECONDS", 0)
    followed, reports = asyncio.Event(), list[Reload]()

    async def report(reload: Reload) -> None:
        reports.append(reload)
        if len(reports) == 3:
            followed.set()
        desk.write(NEW, "#" * len(reports) + "\n")
        if len(reports) == 2:
            raise ZeroDivisionError("of a skill")

    desk.watch = ConfigWatch(desk.watch(), desk.file, fail)
    desk.write(NEW)
    watching = desk.watch.run(report)
    async with asyncio.timeout(10), Tasks() as tasks:
        tasks.start(watching, name="watch")
        await followed.wait()

    assert [bool(each.error) for each in reports] == [True] * 3
    assert "an unexpected error: ZeroDivisionError, at " in reports[0].text
    assert desk.secret == OLD
    assert "could not be followed as a whole" in caplog.text


async def test_what_was_taken_out_of_the_file_counts_no_more(desk: Desk) -> None:
    desk.put("slack: {}\n")
    await desk.look()

    assert desk.secret == ""


@pytest.mark.parametrize("how", ["size", "time", "other file"])
async def test_a_change_is_seen_by_whatever_shows_it(desk: Desk, how: str) -> None:
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
    await desk.look()

    assert desk.secret.startswith(NEW)


async def test_the_links_of_a_mounted_configuration_are_followed(tmp_path: Path) -> None:
    # As Kubernetes mounts a ConfigMap: config.yaml → ..data/config.yaml, ..data → ..1.
    for name, secret in (("..1", OLD), ("..2", NEW)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(f"slack: {{signing_secret: {secret}}}\n")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    watch = ConfigWatch(
        load(tmp_path / "config.yaml", {}),
        tmp_path / "config.yaml",
        lambda: load(tmp_path / "config.yaml", {}),
    )

    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    reload = await watch.look() or await watch.look()

    assert reload is not None
    found = watch().section(SlackSettings).signing_secret
    assert found is not None
    assert found.get_secret_value() == NEW


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("slack: [\n", "line 2"),
        ("agent:\n  max_step: 1\n", "agent.max_step (line 2): there is no such key; did you mean"),
        ("agent:\n  max_steps: 0\n", "agent.max_steps (line 2): must be at least 1"),
        ("\x00", "characters"),
    ],
)
async def test_an_invalid_file_changes_nothing_and_is_reported_once_with_the_line(
    desk: Desk, broken: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    desk.put(broken)

    reload = await desk.look()
    touched = desk.file.stat()
    os.utime(desk.file, ns=(touched.st_atime_ns, touched.st_mtime_ns + 10**9))

    assert reload is not None
    assert told in reload.text
    assert "The configuration from before stays in force" in reload.text
    assert await desk.look() is None
    assert desk.secret == OLD
    assert [each.levelname for each in caplog.records] == ["ERROR"]


async def test_each_mistake_is_a_line_of_a_list(desk: Desk) -> None:
    desk.put("agent: {max_steps: 0}\nsubagents: {max_depth: 9}\n")

    reload = await desk.look()

    assert reload is not None
    mistakes, _, rest = reload.text.partition("\n\n")
    assert [line.partition(" (")[0] for line in mistakes.splitlines()[1:]] == [
        "- agent.max_steps",
        "- subagents.max_depth",
    ]
    assert rest.startswith("The configuration from before stays in force.")


async def test_a_mended_file_counts(desk: Desk) -> None:
    desk.put("slack: [\n")
    await desk.look()
    desk.write(NEW)
    await desk.look()

    assert desk.secret == NEW


async def test_a_file_that_is_as_before_again_is_reported_as_valid(desk: Desk) -> None:
    desk.put("slack: [\n")
    await desk.look()
    desk.write(OLD)
    reload = await desk.look()

    assert reload is not None
    assert "is valid again" in reload.text
    assert desk.secret == OLD


async def test_a_file_that_is_gone_changes_nothing_until_it_is_back(desk: Desk) -> None:
    desk.file.unlink()
    reload = await desk.look()

    assert reload is not None
    assert f"There is no file {desk.file}" in reload.text
    assert desk.secret == OLD
    desk.write(NEW)
    await desk.look()
    assert desk.secret == NEW


async def test_a_touched_file_is_not_loaded_into_force(desk: Desk) -> None:
    before, stat = desk.watch(), desk.file.stat()
    os.utime(desk.file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 10**9))

    assert await desk.look() is None
    assert desk.watch() is before


async def test_without_a_file_nothing_is_loaded(desk: Desk) -> None:
    watch = ConfigWatch(Config(), None, desk._load)

    assert await watch.look() is None
    assert await watch.look() is None
    assert watch() == Config()
    assert desk.loaded == 0


async def test_a_file_that_comes_to_be_counts(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    watch = ConfigWatch(Config(), file, lambda: load(file, {}))
    file.write_text("agent: {name: Rosa}\n")

    assert await watch.look() or await watch.look()
    assert watch().agent.name == "Rosa"


async def test_a_new_secret_is_masked_in_every_log_line_from_then_on(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.write(NEW)
    await desk.look()

    assert masking.without_secrets(f"the secret is {NEW}") == "the secret is [secret]"
    assert NEW not in caplog.text


async def test_a_running_watch_reports_each_change(desk: Desk) -> None:
    reports: asyncio.Queue[Reload] = asyncio.Queue()
    running = asyncio.ensure_future(desk.watch.run(reports.put))
    try:
        async with asyncio.timeout(10):
            for secret in (NEW, OLD):
                desk.write(secret)
                await reports.get()
                assert desk.secret == secret
    finally:
        running.cancel()


async def test_a_key_that_needs_a_restart_keeps_its_value_and_is_reported_once(desk: Desk) -> None:
    desk.write(OLD, "database: {url: 'sqlite:///elsewhere.db'}\nagent: {name: Rosa}\n")
    first = await desk.look()
    desk.write(OLD, "database: {url: 'sqlite:///elsewhere.db'}\nagent: {name: Ada}\n")
    second = await desk.look()

    assert first is not None
    assert second is not None
    assert [each.key for each in first.changes if each.restart] == ["database.url"]
    assert first.text.endswith("\n\nRestart every process of the bot for what needs it.")
    assert [each.key for each in second.changes] == ["agent.name"]
    assert desk.watch().database == Config().database
    assert desk.watch().agent.name == "Ada"

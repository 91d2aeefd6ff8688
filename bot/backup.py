"""Backs a bot up while it runs, and restores a backup into an empty place.

A backup is a tar archive: `manifest.json`, the database, and the folders of files. The database
comes first: a file that is newer than its row does no harm, and the reverse would.
"""

import asyncio
import errno
import gzip
import io
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from sqlalchemy.engine import URL, make_url

from bot.config.model import Config
from bot.errors import BadRequestError, ConfigError
from bot.files.opener import FILE, Opener, best_opener, opened, opened_path
from bot.files.walk import EntryKind, FolderWalk
from bot.values import Json
from bot.versions import release
from migrations.run import version_of_server
from migrations.version import SCHEMA_VERSION, version_of_file, version_problem

FORMAT = 1
MANIFEST, DUMP, FILES = "manifest.json", "database.dump", "files"
SQLITE_FILE = "retinue.db"
#: In backups of versions that had a file for the engine; not needed any more.
OLD_ENGINE_FILE = "engine.db"
#: Keys of the data folder.
KEYS = ("audit.key",)
#: Most folders in each other; commands of users make at most 200.
DEEPEST = 256
MOST_ENTRIES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a backup.

    Attributes:
        files: The number of files beside the database.
        skipped: Entries that were left out: links, sockets and such, and what the account that
            makes the backup may not read.
    """

    files: int
    skipped: int


def folders_of(config: Config) -> dict[str, Path]:
    """Return the folders of files by their name in a backup."""
    found = {
        f"{each.section}-{number}": folder
        for each in config.of_skills
        for number, folder in enumerate(each.folders)
    }
    return {**found, "skills": Path(config.skills.data_folder)}


async def back_up(config: Config, file: Path, now: datetime) -> Contents:
    """Write a backup of a bot, which may run.

    Raises:
        BadRequestError: The file exists already.
        ConfigError: The database cannot be read; the text names the reason and the next step.
    """
    settings = config.database
    version = await _version(config)
    if version is None:
        raise ConfigError(
            f"{settings.shown} has no data to back up: no bot has run with it, or it is out of "
            "reach. `python -m bot doctor` names the reason."
        )
    manifest = {
        "format": FORMAT,
        "release": release(SCHEMA_VERSION),
        "schema": version,
        "database": "sqlite" if settings.is_sqlite else "postgresql",
        "created_at": now.isoformat(),
    }
    return await asyncio.to_thread(_write, config, file, manifest)


async def restore(config: Config, file: Path) -> Contents:
    """Restore a backup into the empty places that a configuration names.

    Raises:
        BadRequestError: The file is no backup of a kind that fits, or a place is not empty.
        ConfigError: The database cannot be written.
    """
    if (found := await _version(config)) is not None:
        raise BadRequestError(
            f"{config.database.shown} has tables already (version {found}): restore into an empty "
            "database, and name it in `database.url`."
        )
    return await asyncio.to_thread(_read, config, file)


async def _version(config: Config) -> str | None:
    if config.database.is_sqlite:
        return await asyncio.to_thread(version_of_file, config.database)
    return await version_of_server(config.database)


# -- writing ---------------------------------------------------------------------------------------


def _write(config: Config, file: Path, manifest: Json) -> Contents:
    if file.exists():
        raise BadRequestError(f"{file} exists already: name another file.")
    with tempfile.TemporaryDirectory(dir=file.absolute().parent, prefix=".backup-") as folder:
        made = Path(folder) / "backup"
        # The archive holds all that users wrote, and keys.
        made.touch(mode=0o600)
        with tarfile.open(made, "w:gz", compresslevel=3) as archive:
            _add_bytes(archive, MANIFEST, json.dumps(manifest, indent=2).encode())
            for each in _dumped(config, Path(folder)):
                archive.add(each, each.name)
            files, skipped, opener = 0, 0, best_opener()
            for name, root in folders_of(config).items():
                if root.is_dir():
                    added = _add_folder(archive, PurePosixPath(FILES, name), root, opener)
                    files, skipped = files + added.files, skipped + added.skipped
            above = config.data_folder
            for key in KEYS:
                if (above / key).exists():
                    _add_bytes(archive, key, (above / key).read_bytes())
            found = Contents(files, skipped)
        made.replace(file)
    return found


def _add_folder(
    archive: tarfile.TarFile, name: PurePosixPath, root: Path, opener: Opener
) -> Contents:
    """Add the files below a folder, in which users may replace a file by a link at any moment."""
    files = skipped = 0
    with opened_path(root) as folder:
        walk = FolderWalk(opener, folder, most=MOST_ENTRIES, deepest=DEEPEST)
        for each in walk:
            target = str(name.joinpath(*each.parts))
            if each.kind is EntryKind.FOLDER:
                entry = tarfile.TarInfo(target)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o700
                archive.addfile(entry)
                continue
            try:
                content = _content(opener, folder, each.parts)
            except FileNotFoundError:
                continue  # deleted meanwhile
            except OSError:
                skipped += 1
                continue
            # A file may change meanwhile: its size is that of the read bytes.
            _add_bytes(archive, target, content)
            files += 1
    return Contents(files, skipped + walk.cut)


def _content(opener: Opener, folder: int, parts: Sequence[str]) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: It cannot be read, or is a link or no file.
    """
    with opened(opener, folder, parts, FILE) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()


def _dumped(config: Config, folder: Path) -> Iterator[Path]:
    """Yield files with a copy of the database."""
    url = make_url(config.database.url)
    if not config.database.is_sqlite:
        file = folder / DUMP
        _run_tool(url, "pg_dump", "--format=custom", "--no-owner", "--no-acl", f"--file={file}")
        yield file
        return
    ours, copy = Path(url.database or ""), folder / SQLITE_FILE
    if ours.exists():
        copy.touch(mode=0o600)
        readable = f"{ours.absolute().as_uri()}?mode=ro"
        with (
            closing(sqlite3.connect(readable, uri=True)) as source,
            closing(sqlite3.connect(copy)) as to,
        ):
            # All pages at once: in parts, each write of the bot would begin the copy anew.
            source.backup(to, pages=-1)
        yield copy


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o600
    archive.addfile(entry, io.BytesIO(content))


# -- reading ---------------------------------------------------------------------------------------


def _read(config: Config, file: Path) -> Contents:
    above = config.data_folder
    places = [*folders_of(config).values(), *(above / key for key in KEYS)]
    if config.database.is_sqlite:
        places.append(Path(make_url(config.database.url).database or ""))
    for each in places:
        if each.is_file() or (each.is_dir() and any(each.iterdir())):
            raise BadRequestError(
                f"{each} is not empty: restore where no bot has run, with RETINUE_HOME set to a "
                "new folder."
            )
    try:
        with tempfile.TemporaryDirectory(prefix="retinue-") as folder:
            found = _extract(config, file, Path(folder))
            # The database comes last: a bot that starts earlier finds an empty one.
            _load(config, Path(folder))
    except BaseException:
        # Nothing was there: all of it is ours, and would be in the way of another attempt.
        for each in places:
            if each.is_file():
                each.unlink()
            else:
                shutil.rmtree(each, ignore_errors=True)
        raise
    return found


def _check(config: Config, file: Path, archive: tarfile.TarFile) -> None:
    """Check the manifest, which comes first."""
    entry = archive.next()
    content = archive.extractfile(entry) if entry is not None and entry.name == MANIFEST else None
    if content is None:
        raise ValueError(f"it does not begin with {MANIFEST}")
    manifest = json.load(content)
    if not isinstance(manifest, dict):
        raise ValueError(f"its {MANIFEST} is no object")  # noqa: TRY004
    kind = "sqlite" if config.database.is_sqlite else "postgresql"
    if manifest.get("format") != FORMAT:
        raise BadRequestError(f"{file} has a format that this version does not know: update it.")
    if manifest.get("database") != kind:
        raise BadRequestError(
            f"{file} holds a database of the kind {manifest.get('database')}, and "
            f"{config.database.shown} is another: set `database.url` to one of that kind."
        )
    if problem := version_problem(str(manifest.get("schema"))):
        raise BadRequestError(f"{file}: {problem}")


def _extract(config: Config, file: Path, folder: Path) -> Contents:
    """Write the files to their places, and the database to `folder`."""
    try:
        with tarfile.open(file, "r:gz") as archive:
            _check(config, file, archive)
            return _write_members(config, archive, folder)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, ValueError) as error:
        raise BadRequestError(f"{file} is damaged, or no backup: {error}.") from None


def _write_members(config: Config, archive: tarfile.TarFile, folder: Path) -> Contents:
    folders, files = folders_of(config), 0
    above = config.data_folder
    for entry in archive.getmembers()[1:]:  # after the manifest
        parts = PurePosixPath(entry.name).parts
        if ".." in parts or entry.name.startswith("/") or not (entry.isreg() or entry.isdir()):
            raise ValueError(f"it contains {entry.name!r}, which no backup has")
        match parts:
            case (name,) if name in {DUMP, SQLITE_FILE}:
                target = folder / name
            case (name,) if name == OLD_ENGINE_FILE:
                continue
            case (name,) if name in KEYS:
                target = above / name
            case (first, name, *rest) if first == FILES and name in folders:
                target = folders[name].joinpath(*rest)
            case _:
                raise ValueError(f"it contains {entry.name!r}, which no backup has")
        if entry.isdir():
            target.mkdir(parents=True, exist_ok=True, mode=0o700)
            continue
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        content = archive.extractfile(entry)
        assert content is not None, "It is a file."
        target.touch(mode=0o600, exist_ok=False)
        with target.open("wb") as file:
            shutil.copyfileobj(content, file)
        files += parts[0] == FILES
    return Contents(files, 0)


def _load(config: Config, folder: Path) -> None:
    url = make_url(config.database.url)
    if not config.database.is_sqlite:
        _run_tool(
            url,
            "pg_restore",
            *("--no-owner", "--no-acl", "--exit-on-error", "--single-transaction"),
            f"--dbname={_address(url)}",
            str(folder / DUMP),
        )
        return
    ours = Path(url.database or "")
    ours.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if (folder / SQLITE_FILE).exists():
        shutil.copyfile(folder / SQLITE_FILE, ours)
        ours.chmod(0o600)


# -- the tools of PostgreSQL -----------------------------------------------------------------------


def _address(url: URL) -> str:
    """Return the address for libpq, without the password, which other users could see."""
    query = {key: value for key, value in url.query.items() if key != "ssl"}
    plain = url.set(drivername="postgresql", password=None, query=query)
    return plain.render_as_string(hide_password=False)


def _run_tool(url: URL, name: str, *arguments: str) -> None:
    """Run a tool of PostgreSQL.

    Raises:
        ConfigError: The tool is not installed, or failed.
    """
    program = shutil.which(name)
    if program is None:
        raise ConfigError(
            f"{name} is not installed: install the client of PostgreSQL, of the server's version "
            "or newer (on Debian: apt install postgresql-client)."
        )
    environ: Mapping[str, str] = os.environ | (
        {"PGPASSWORD": str(url.password)} if url.password else {}
    )
    given = [f"--dbname={_address(url)}"] if name == "pg_dump" else []
    done = subprocess.run(  # noqa: S603 - no part of it comes from users
        [program, *given, *arguments], env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = done.stderr.strip().replace("\n", " ") or f"it ended with {done.returncode}"
        raise ConfigError(
            f"{name} failed: {reason}. It must be of the server's version or newer, and the "
            "account of `database.url` must own the tables."
        )

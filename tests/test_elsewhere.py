"""Where the bot runs besides Linux: macOS is imitated here, and Windows is refused."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

IMITATE = """
import sys
from tests.fakes import elsewhere
elsewhere.imitate({platform!r})
"""
IMPORT_ALL = """
from importlib import import_module
for name in elsewhere.modules():
    import_module(name)
from bot.files.opener import best_opener, by_walking
assert best_opener() is by_walking
"""
RUN = """
from bot.__main__ import main
sys.argv = ["bot", *{arguments!r}]
main()
"""

RUN_EACH = """
from bot.__main__ import main
for command in {commands!r}:
    sys.argv = ["bot", command]
    try:
        main()
    except SystemExit as end:
        # Python ends with code 1 and prints what is no number.
        print(repr(end.code), file=sys.stderr)
    else:
        raise AssertionError(command)
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs Python in an empty folder as if on another system."""

    def start(platform: str, code: str, said: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", IMITATE.format(platform=platform) + code],
            cwd=tmp_path,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(ROOT),
                "PYTHONUTF8": "1",
                "RETINUE_HOME": str(tmp_path),
            },
            input=said,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

    return start


def test_every_module_is_imported_without_the_names_that_only_linux_has(run: Run) -> None:
    done = run("darwin", IMPORT_ALL)

    assert (done.returncode, done.stderr) == (0, "")


def test_on_macos_a_chat_answers_without_a_warning(run: Run) -> None:
    done = run("darwin", RUN.format(arguments=["chat"]), "note: the cake is in the oven\n")

    assert (done.returncode, done.stderr) == (0, "")
    assert "I made a note of it" in done.stdout


def test_on_macos_doctor_says_that_there_is_no_shell_tool(run: Run) -> None:
    done = run("darwin", RUN.format(arguments=["doctor"]))

    assert (done.returncode, done.stderr) == (0, "")
    assert "– Sandbox    the shell tool is off. It needs a sandbox, and that needs Linux." in (
        done.stdout
    )


def test_windows_is_refused_in_one_sentence_that_names_wsl(run: Run) -> None:
    commands = ["chat", "serve", "check", "--help"]

    done = run("win32", RUN_EACH.format(commands=commands))

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == len(commands) * (
        "'Retinue does not run on Windows itself: install it in WSL (`wsl --install`), where it "
        "runs as on Linux.'\n"
    )

"""The soak, made short; and what it takes for a finding."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.soak.__main__ import Progress, report
from tests.soak.talk import Tally

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not below pytest's own folder, which is closed for the user of the PostgreSQL server.
    path = Path(tempfile.mkdtemp(prefix="retinue-soak-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.mark.timeout(900)
def test_nothing_is_lost_or_stuck_while_everything_fails_for_two_minutes(folder: Path) -> None:
    # As `make soak` names it; the bots run in folders of their own.
    relative = os.path.relpath(folder, ROOT)
    soak = subprocess.Popen(
        [sys.executable, "-m", "tests.soak", "--minutes", "2", "--folder", relative],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        told, _ = soak.communicate(timeout=840)
    finally:
        # It puts its processes and its disk away.
        soak.send_signal(signal.SIGTERM)
        soak.wait(60)

    assert soak.returncode == 0, told
    assert told.endswith("Nothing lost, nothing stuck.\n")


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({}, "Nothing lost, nothing stuck."),
        (
            {"stuck": ["SQLite: {'runs': 1}"]},
            "✗ stuck at the end of a chapter: SQLite: {'runs': 1}",
        ),
        ({"ended_by_itself": ["serve: 2"]}, "✗ ended by itself, with exit code serve: 2"),
        ({"tallies": {"SQLite": [asdict(Tally(lost=["m1"]))]}}, "✗ SQLite: lost: m1"),
        ({"tallies": {"SQLite": [asdict(Tally(repeated=["m1"]))]}}, "✗ SQLite: repeated: m1"),
        ({"memory": {"serve": [(0.3, 1000), (0.8, 1060)]}}, "✗ serve: memory grew"),
        ({"memory": {"serve": [(0.3, 1000), (0.8, 1040)]}}, "Nothing lost, nothing stuck."),
        ({"exits": [1.0, 7.9]}, "Nothing lost, nothing stuck."),
        ({"exits": [8.1]}, "✗ a process ended only 8.1 s after SIGTERM"),
        ({"minutes": 2.0, "memory": {"serve": [(0.3, 1), (0.8, 2)]}}, "Nothing lost"),
    ],
)
def test_what_is_found_is_told(
    capsys: pytest.CaptureFixture[str], found: dict[str, object], told: str
) -> None:
    well = report(Progress(**{"minutes": 60.0, "seed": 1} | found))  # type: ignore[arg-type]

    assert told in capsys.readouterr().out
    assert well == told.startswith("Nothing")

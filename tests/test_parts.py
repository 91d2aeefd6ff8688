"""The three parts of the tests: each test is in exactly one, and all run, whatever fails."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from tests.conftest import LONG, PROCESSES

ROOT = Path(__file__).parents[1]

PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*" >>{told}
case "$*" in *{failing}*) exit 2;; esac
"""


def planned(*targets: str, **variables: str) -> list[str]:
    """Return the commands with which `make` would run tests."""
    given = [f"{name}={value}" for name, value in variables.items()]
    done = subprocess.run(
        # As if all was installed, since its recipes hold Python too.
        ["make", "--dry-run", "--old-file=.venv/.installed-dev", *targets, *given],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if " -m pytest " in line]


def takes(command: str, marks: set[str]) -> bool:
    found = re.search(r'-m "([^"]+)"', command)
    assert found is not None, command

    def has(name: str, /, **_: object) -> bool:
        return name in marks

    return Expression.compile(found[1]).evaluate(has)


def test_every_test_is_in_exactly_one_part() -> None:
    parts = planned("test")

    assert len(parts) == 3
    for marks in ({"long"}, {"processes"}, {"long", "processes"}, set[str]()):
        taken = [part for part in parts if takes(part, marks)]
        assert len(taken) == 1, f"tests with the marks {marks} are in {len(taken)} parts"
    for part in parts:
        options = re.sub(r'-m "[^"]+"', "-m PART", part.partition(" -m pytest ")[2])
        assert options.strip() == "-n 4 -m PART", f"nothing else may choose tests: {part}"


def test_what_is_long_is_told_by_where_it_is(request: pytest.FixtureRequest) -> None:
    assert [each for each in LONG if not (ROOT / each).exists()] == []
    # Of those that were asked for: in the fast part none of them is left.
    for item in request.session.items:
        if item.nodeid.startswith(LONG):
            assert item.get_closest_marker("long"), item.nodeid


@pytest.mark.parametrize("named", PROCESSES)
def test_what_starts_processes_is_named_by_what_is_there(named: str) -> None:
    assert (ROOT / named).exists()


def test_the_parts_are_targets_of_their_own() -> None:
    parts = ("test-fast", "test-processes", "test-long")
    assert [command for part in parts for command in planned(part)] == planned("test")


def test_a_part_of_a_part_may_be_empty() -> None:
    assert all(part.endswith("|| [ $? -eq 5 ]") for part in planned("test", ARGS="-k outbox"))
    assert not any("||" in part for part in planned("test"))


@pytest.mark.parametrize("failing", ["test-processes", "lint", "test-long", "pythons", "nothing"])
def test_ci_runs_both_parts_and_the_checks_whatever_fails(tmp_path: Path, failing: str) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    told = tmp_path / "told"
    for program in (tmp_path / "make", tmp_path / ".venv/bin/python"):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(PROGRAM.format(told=told, failing=failing))
        program.chmod(0o755)

    done = subprocess.run(
        [tmp_path / ".ci/run"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )

    said = told.read_text().splitlines()
    fast = "make --keep-going test-fast test-processes"
    assert {"make lint", fast, "make test-long", "make pythons"} <= set(said)
    assert said.index(fast) < said.index("make test-long")
    assert done.returncode == (0 if failing == "nothing" else 2)
    assert ("python -m bot doctor" in said) == (failing not in {"test-processes", "lint"})


def test_ci_knows_no_other_part() -> None:
    done = subprocess.run([ROOT / ".ci/run", "quick"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (
        2,
        "There is no part 'quick': it is fast or long, or nothing for both.\n",
    )

"""The three parts of the tests: each test is in exactly one, and all run, whatever fails."""

import os
import re
import shutil
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from tests.conftest import PATHS

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
    parts = planned("test", "test-long")

    assert len(parts) == 3
    marked = ("long", "processes", "slow")
    for marks in (set(some) for count in range(4) for some in combinations(marked, count)):
        taken = [part for part in parts if takes(part, marks)]
        assert len(taken) == 1, f"tests with the marks {marks} are in {len(taken)} parts"
    for part in parts:
        options = re.sub(r'-m "[^"]+"', "-m PART", part.partition(" -m pytest ")[2])
        assert re.fullmatch(r"-n [24] --dist loadgroup -m PART", options.strip()), (
            f"nothing else may choose tests: {part}"
        )


def collected(marks: str, *paths: str) -> list[str]:
    """Return the files of which pytest would run tests."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-m", marks, *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return [line.partition(":")[0] for line in done.stdout.splitlines() if ": " in line]


def test_files_whose_tests_all_have_a_mark_are_run_with_it_alone() -> None:
    long, processes, plain = PATHS["long"][-1], "tests/test_packaging.py", "tests/bot/test_tasks.py"
    paths = (long, processes, plain)

    assert collected("long", *paths) == [long]
    assert collected("processes", *paths) == [processes]
    assert collected("not long and not processes", *paths) == [plain]
    assert collected("", *paths) == sorted(paths)


@pytest.mark.parametrize("named", [start for starts in PATHS.values() for start in starts])
def test_each_path_with_a_mark_exists(named: str) -> None:
    path, _, test = named.partition("::")
    assert (ROOT / path).exists()
    assert test in ((ROOT / path).read_text("utf-8") if test else "")


def test_the_parts_are_targets_of_their_own() -> None:
    parts = ("test-fast", "test-slow")
    assert [command for part in parts for command in planned(part)] == planned("test")


def test_a_part_of_a_part_may_be_empty() -> None:
    some = planned("test", "test-long", ARGS="-k outbox")
    assert all(part.endswith("|| [ $? -eq 5 ]") for part in some)
    assert not any("||" in part for part in planned("test", "test-long"))


@pytest.mark.parametrize("failing", ["test", "lint", "test-long", "pythons", "nothing"])
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
    fast = "make test"
    assert {"make lint", fast, "make test-long", "make pythons"} <= set(said)
    assert said.index(fast) < said.index("make test-long")
    assert done.returncode == (0 if failing == "nothing" else 2)
    assert ("python -m bot doctor" in said) == (failing not in {"test", "lint"})


def test_ci_knows_no_other_part() -> None:
    done = subprocess.run([ROOT / ".ci/run", "quick"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (
        2,
        "There is no part 'quick': it is fast or long, or nothing for both.\n",
    )

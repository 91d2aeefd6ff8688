"""What the package says of itself, and whether all that it needs is in it."""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Stands for Python in `.ci/pythons`: pip downloads two wheels, or fails.
PROGRAM = """#!/bin/sh
echo "$*" >>{told}
case "$*" in
    -c*) echo 3.11;;
    *" download --dest "*)
        {fails} && exit 1
        touch "$8/one.whl" "$8/two.whl";;
esac
"""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_license_is_apache_2_with_its_whole_text() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")

    assert PROJECT["license"] == "Apache-2.0"
    assert PROJECT["license-files"] == ["LICENSE"]
    assert "Apache License\n                           Version 2.0" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert "Copyright 2026 The Retinue authors" in text


def test_the_metadata_says_who_made_it_for_what_and_on_what_it_runs() -> None:
    assert PROJECT["authors"] == [{"name": "The Retinue authors"}]
    assert PROJECT["keywords"]
    classifiers = PROJECT["classifiers"]
    assert "Discord and Slack" in PROJECT["description"]
    assert PROJECT["readme"] == "README.md"
    assert PROJECT["requires-python"] == ">=3.11"
    assert {"Operating System :: MacOS", "Operating System :: POSIX :: Linux"} == {
        each for each in classifiers if each.startswith("Operating System ::")
    }
    assert not [each for each in classifiers if each.startswith("License ::")], "PEP 639"
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)} <= set(
        classifiers
    )


def test_each_python_of_the_metadata_is_tried_or_resolved_and_the_readme_says_what_ran() -> None:
    script = (ROOT / ".ci/pythons").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = [
        each.rpartition(" ")[2]
        for each in PROJECT["classifiers"]
        if each.startswith("Programming Language :: Python :: 3.")
    ]

    assert f"${{PYTHONS:-{' '.join(named)}}}" in script
    assert all(version in readme for version in named)
    assert "it was not run" in readme
    assert readme.count("not tried on real") == 2


@pytest.mark.parametrize("fails", [False, True])
def test_for_a_python_that_is_not_here_all_pinned_wheels_are_downloaded(
    tmp_path: Path, *, fails: bool
) -> None:
    program, told = tmp_path / ".venv/bin/python", tmp_path / "told"
    for file in (tmp_path / ".ci/pythons", program):
        file.parent.mkdir(parents=True)
    shutil.copy(ROOT / ".ci/pythons", tmp_path / ".ci/pythons")
    program.write_text(PROGRAM.format(told=told, fails=str(fails).lower()))
    program.chmod(0o755)

    done = subprocess.run(
        [tmp_path / ".ci/pythons"],
        env={"PATH": os.environ["PATH"], "PYTHONS": "3.99"},
        capture_output=True,
        text=True,
        check=False,
    )

    [download] = [line for line in told.read_text().splitlines() if " download " in line]
    assert "--require-hashes --only-binary=:all: --python-version 3.99 -r requirements.txt" in (
        download
    )
    assert done.returncode == int(fails)
    assert ("3.99: not here, and not run; all 2 wheels exist for it" in done.stdout) != fails


def test_a_vulnerability_can_be_reported_in_private() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")

    assert "Report a vulnerability" in text
    assert "docs/security.md" in text

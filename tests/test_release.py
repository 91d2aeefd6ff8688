"""The check-list of a release: its decisions; `python -m tests.release` carries it out."""

import pytest
from typer.testing import CliRunner

from bot.__main__ import build
from tests.release import commands_in, problem_of

RELEASED = (
    "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-11-27\n\n- New.\n\n## 0.1.0 - 2026-11-25\n"
)


def test_a_version_with_its_date_and_no_tag_may_be_released() -> None:
    assert problem_of(RELEASED, "0.2.0", ["v0.1.0"]) == ""
    assert problem_of(RELEASED.replace("## Unreleased\n\n", ""), "0.2.0", []) == ""


@pytest.mark.parametrize(
    ("changes", "version", "tags", "said"),
    [
        (RELEASED, "0.2.0", ["v0.2.0"], "released already"),
        (RELEASED, "0.3.0", [], "must be “## 0.3.0 - YYYY-MM-DD”"),
        (RELEASED.replace("ed\n\n## 0.2", "ed\n\n- More.\n\n## 0.2"), "0.2.0", [], "rename"),
        (RELEASED.replace("0.2.0 - 2026-11-27", "0.2.0"), "0.2.0", [], "YYYY-MM-DD"),
        ("# Changelog\n", "0.2.0", [], "newest section"),
    ],
)
def test_a_release_that_says_too_little_is_refused(
    changes: str, version: str, tags: list[str], said: str
) -> None:
    assert said in problem_of(changes, version, tags)


def test_every_command_of_the_program_is_tried() -> None:
    program = build()
    shown = CliRunner().invoke(program, ["--help"]).output

    found = commands_in(shown)

    assert {"chat", "serve", "backup", "export-user"} <= set(found)
    shown_ones = [each for each in program.registered_commands if not each.hidden]
    assert len(found) == len(shown_ones) + len(program.registered_groups)

"""What the watchdog allows: a decision of its own, from what was seen."""

import pytest

from bot.sandbox.folders import NOTHING, Contents
from bot.sandbox.settings import MEGABYTE, Room, ShellSettings
from bot.sandbox.watchdog import Allowance, Usage

SETTINGS = ShellSettings(memory_mb=100, output_mb=2, temporary_files=100, free_memory_mb=256)
ROOM = Room(5_000_000, 200)


def allowance(before: Contents = NOTHING, disk_left: int = 10**12) -> Allowance:
    return Allowance(SETTINGS, ROOM, 10, before, disk_left)


def test_what_keeps_within_everything_goes_on() -> None:
    usage = Usage(
        seconds=10,
        output=2 * MEGABYTE,
        memory=100 * MEGABYTE,
        available=256 * MEGABYTE,
        temporary=100,
        workspaces=Contents(5_000_000, 200),
        disk_left=10**12 - 10**10,
    )

    assert allowance().passed(usage) == ""


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (Usage(seconds=10.1), "longer than 10 s"),
        (Usage(output=2 * MEGABYTE + 1), "printed more than 2 MB"),
        (Usage(memory=100 * MEGABYTE + 1), "more than 100 MB of memory"),
        (
            Usage(memory=65 * MEGABYTE, available=255 * MEGABYTE),
            "this machine is short of memory",
        ),
        (Usage(temporary=101), "more than 100 files in /tmp"),
        (Usage(workspaces=Contents(5_000_001, 1)), "take more than 5 MB"),
        (Usage(workspaces=Contents(1, 201)), "has more than 200 files and folders"),
        (Usage(workspaces=Contents(1, 1, too_deep=True)), "nested folders too deep"),
        (Usage(disk_left=4_000_000), "disk of this machine is nearly full"),
    ],
)
def test_what_passes_a_limit_is_told_which(usage: Usage, told: str) -> None:
    assert told in allowance().passed(usage)


def test_a_small_command_is_not_ended_because_the_machine_is_full() -> None:
    assert allowance().passed(Usage(memory=MEGABYTE, available=MEGABYTE)) == ""
    already_full = allowance(disk_left=3_000_000)
    assert already_full.passed(Usage(disk_left=2_000_000)) == ""


def test_a_workspace_that_is_too_full_may_be_worked_on_as_long_as_it_does_not_grow() -> None:
    full = allowance(before=Contents(9_000_000, 400, too_deep=True))

    assert full.passed(Usage(workspaces=Contents(9_000_000, 400, too_deep=True))) == ""
    assert "take more than 5 MB" in full.passed(Usage(workspaces=Contents(9_000_001, 1)))
    assert "has more than 200" in full.passed(Usage(workspaces=Contents(1, 401)))

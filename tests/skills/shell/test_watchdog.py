"""What the watchdog allows: a decision of its own, from what was seen."""

import pytest

from skills.shell.settings import MEGABYTE, ShellSettings
from skills.shell.watchdog import Allowance, ResourceUsage

SETTINGS = ShellSettings(memory_mb=100, output_mb=2, temporary_files=100, free_memory_mb=256)


def allowance() -> Allowance:
    return Allowance(SETTINGS, 10)


def test_what_keeps_within_everything_goes_on() -> None:
    usage = ResourceUsage(
        seconds=10,
        output=2 * MEGABYTE,
        memory=100 * MEGABYTE,
        available=256 * MEGABYTE,
        temporary=100,
    )

    assert allowance().exceeded(usage) == ""


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (ResourceUsage(seconds=10.1), "longer than 10 s"),
        (ResourceUsage(output=2 * MEGABYTE + 1), "printed more than 2 MB"),
        (ResourceUsage(memory=100 * MEGABYTE + 1), "more than 100 MB of memory"),
        (
            ResourceUsage(memory=65 * MEGABYTE, available=255 * MEGABYTE),
            "this machine is short of memory",
        ),
        (ResourceUsage(temporary=101), "more than 100 files in /tmp"),
    ],
)
def test_what_passes_a_limit_is_told_which(usage: ResourceUsage, told: str) -> None:
    assert told in allowance().exceeded(usage)


def test_a_small_command_is_not_ended_because_the_machine_is_full() -> None:
    assert allowance().exceeded(ResourceUsage(memory=MEGABYTE, available=MEGABYTE)) == ""

"""The tool calls of a run, as they hang below its card on every platform."""

import pytest

from bot.platforms.messaging.texts import call_lines
from bot.values import StepState

RUNNING, DONE, FAILED = StepState.RUNNING, StepState.DONE, StepState.FAILED


def test_each_call_is_a_line_with_its_state() -> None:
    steps = [("glob", DONE), ("grep", FAILED), ("file_read", RUNNING)]

    assert call_lines(steps, calls=3) == ["├ ✓ glob", "├ ✗ grep", "└ ● file_read"]


def test_those_before_are_counted() -> None:
    assert call_lines([("grep", DONE), ("grep", DONE)], calls=1_006) == [
        "├ … 1,004 earlier",
        "├ ✓ grep",
        "└ ✓ grep",
    ]


@pytest.mark.parametrize("calls", [0, 7])
def test_a_card_without_steps_has_no_lines_and_counts_no_earlier_ones(calls: int) -> None:
    assert call_lines([], calls=calls) == []


@pytest.mark.parametrize("most", range(9))
@pytest.mark.parametrize("earlier", [0, 4])
def test_where_there_is_little_room_the_newest_are_kept_and_the_rest_counted(
    most: int, earlier: int
) -> None:
    steps = [(f"t{number}", DONE) for number in range(6)]

    lines = call_lines(steps, calls=earlier + 6, most=most)

    shown = [line for line in lines if "earlier" not in line]
    counted = [int(line.split()[2]) for line in lines if "earlier" in line]
    assert len(lines) <= most
    assert [line.split()[-1] for line in shown] == [f"t{n}" for n in range(6 - len(shown), 6)]
    assert counted in ([], [earlier + 6 - len(shown)])
    if most > 1:
        assert sum(counted) + len(shown) == 6 + earlier

"""An outage is two lines of the log, however much fails between them."""

import logging
import sqlite3

import pytest

from bot.errors import DatabaseUnreachableError
from db.trouble import BUSY, DISK_FULL, NO_CONNECTION, QUIET_SECONDS, OutageLog


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outages(clock: Clock, caplog: pytest.LogCaptureFixture) -> OutageLog:
    caplog.set_level(logging.DEBUG)
    return OutageLog("memory", monotonic=clock)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_an_outage_of_minutes_is_one_line_when_it_begins_and_one_when_it_is_over(
    outages: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    outages.stored()
    for _ in range(300):
        outages.failed(ConnectionRefusedError("refused"), NO_CONNECTION)
        clock.now += 1
    outages.stored()
    gone = lines(caplog)
    clock.now += QUIET_SECONDS
    for _ in range(3):
        outages.stored()

    assert gone == [
        "The database memory is out of reach; it is tried again until it is back (refused)"
    ]
    assert lines(caplog)[1:] == ["The database memory is back after 299 s"]


def test_short_transactions_that_succeed_on_a_full_disk_do_not_end_the_outage(
    outages: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        outages.failed(sqlite3.OperationalError("database or disk is full"))
        clock.now += QUIET_SECONDS / 2
        outages.stored()

    (line,) = lines(caplog)
    assert "no room on its disk: make some" in line


def test_each_further_reason_is_named_once(
    outages: OutageLog, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(10):
        outages.failed(TimeoutError(), BUSY)
        outages.failed(DatabaseUnreachableError(DISK_FULL))

    busy, full = lines(caplog)
    assert "is busy" in busy
    assert "TimeoutError" in busy
    assert "no room" in full


def test_the_next_outage_is_logged_again(
    outages: OutageLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        outages.failed(OSError("refused"), NO_CONNECTION)
        clock.now += QUIET_SECONDS
        outages.stored()

    assert len(lines(caplog)) == 4

"""What happens to a run reaches everyone who listens (features M1–M8)."""

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bot import logs
from bot.events import (
    EventBus,
    RunCancelled,
    RunCompleted,
    RunEnded,
    RunEvent,
    RunFailed,
    RunProgress,
    RunSpawned,
    RunStarted,
    RunStatusChanged,
    RunTimedOut,
    Severity,
    SubAgentEnd,
    SubAgentEvent,
    SubAgentProgress,
    SubAgentStart,
    ended,
    log_event,
)
from bot.values import Place, RunStatus

STARTED = RunStarted(run_id="r1", user_id="u1")
SPAWNED = RunSpawned(
    run_id="r1",
    user_id="u1",
    agent="general",
    label="sheep",
    place=Place("discord", channel="c"),
    status=RunStatus.QUEUED,
    conversation_id="c1",
    mode="async",
    token_budget=50_000,
)


@pytest.mark.parametrize(
    ("event", "name", "severity"),
    [
        (RunSpawned, "subagent.spawned", Severity.LOW),
        (RunStarted, "subagent.running", Severity.LOW),
        (RunCompleted, "subagent.completed", Severity.LOW),
        (RunFailed, "subagent.failed", Severity.MEDIUM),
        (RunTimedOut, "subagent.timeout", Severity.MEDIUM),
        (RunCancelled, "subagent.cancelled", Severity.LOW),
        (RunStatusChanged, "subagent.status", Severity.LOW),
        (RunProgress, "subagent.progress", Severity.LOW),
        (SubAgentEvent, "sub_agent_event", Severity.LOW),
        (SubAgentStart, "sub_agent_start", Severity.LOW),
        (SubAgentProgress, "sub_agent_progress", Severity.LOW),
        (SubAgentEnd, "sub_agent_end", Severity.LOW),
    ],
)
def test_each_event_has_its_name_and_severity(
    event: type[RunEvent], name: str, severity: Severity
) -> None:
    assert (event.name, event.severity) == (name, severity)
    assert {"run_id", "user_id"} <= {field.name for field in fields(event)}


@pytest.mark.parametrize("status", [status for status in RunStatus if status.final])
def test_every_final_status_has_its_event(status: RunStatus) -> None:
    kinds: dict[RunStatus, type[RunEnded]] = {
        RunStatus.COMPLETED: RunCompleted,
        RunStatus.TIMEOUT: RunTimedOut,
        RunStatus.CANCELLED: RunCancelled,
    }

    event = ended(status, run_id="r1", user_id="u1", tokens=7, duration_seconds=1.5, error="Why.")

    assert type(event) is kinds.get(status, RunFailed)
    assert event.payload == {
        "run_id": "r1",
        "user_id": "u1",
        "status": status,
        "tokens": 7,
        "tool_calls": 0,
        "duration_seconds": 1.5,
        "error": "Why.",
        "stopped_by": "",
        "degraded": False,
    }


def test_a_spawned_run_tells_whose_it_is_and_where() -> None:
    assert SPAWNED.payload["place"]["channel"] == "c"
    assert (SPAWNED.payload["status"], SPAWNED.payload["agent"]) == ("queued", "general")


def test_everyone_hears_every_event_in_order() -> None:
    bus = EventBus()
    heard: list[tuple[str, str]] = []
    bus.subscribe(RunEvent, lambda event: heard.append(("first", event.name)))
    bus.subscribe(RunEvent, lambda event: heard.append(("second", event.name)))

    bus.publish(STARTED)
    bus.publish(ended(RunStatus.COMPLETED, run_id="r1", user_id="u1"))

    assert heard == [
        ("first", "subagent.running"),
        ("second", "subagent.running"),
        ("first", "subagent.completed"),
        ("second", "subagent.completed"),
    ]


def test_one_who_fails_does_not_keep_the_others_from_hearing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus = EventBus()
    heard: list[RunEvent] = []

    def fail(_: RunEvent) -> None:
        raise RuntimeError("broken card")

    bus.subscribe(RunEvent, fail)
    bus.subscribe(RunEvent, heard.append)
    bus.publish(STARTED)

    assert heard == [STARTED]
    assert "A handler failed on subagent.running" in caplog.text
    assert "broken card" in caplog.text


def test_with_nobody_listening_nothing_happens() -> None:
    EventBus().publish(STARTED)


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Return the lines of a log in JSON."""
    file = tmp_path / "bot.log"
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    logs.set_up(form="json", file=str(file))
    handler = root.handlers[-1]
    yield lambda: [json.loads(line) for line in file.read_text().splitlines()]
    handler.close()
    root.handlers[:] = before
    root.setLevel(level)


def test_an_event_is_logged_as_fields_with_its_severity(
    logged: Callable[[], list[dict[str, Any]]],
) -> None:
    """It was logged as a Python dictionary within the text."""
    log_event(SPAWNED)
    log_event(ended(RunStatus.TIMEOUT, run_id="r1", user_id="u1", duration_seconds=2.5))

    spawned, over = logged()
    assert (spawned["event"], spawned["severity"]) == ("subagent.spawned", "low")
    assert (spawned["place_channel"], spawned["status"]) == ("c", "queued")
    assert "place_message" not in spawned
    assert over["event"] == "subagent.timeout"
    assert (over["level"], over["severity"], over["duration_seconds"]) == ("warning", "medium", 2.5)


def test_a_begin_and_an_end_are_one_line_each(logged: Callable[[], list[dict[str, Any]]]) -> None:
    known = {"run_id": "r1", "user_id": "u1"}
    changes = pairwise((RunStatus.QUEUED, RunStatus.ACCEPTED, RunStatus.RUNNING, RunStatus.TIMEOUT))
    for old, new in changes:
        log_event(RunStatusChanged(old=old, new=new, **known))
    log_event(RunStarted(resumed=False, **known))
    log_event(ended(RunStatus.TIMEOUT, duration_seconds=2.5, **known))

    names = [line["event"] for line in logged()]
    assert names == ["subagent.status", "subagent.running", "subagent.timeout"]

"""Metrics count events, with labels that stay few."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from bot.counted_events import DeliveryTried, ModelCalled, ToolCalled, TurnEnded
from bot.events import EventBus, ended
from bot.monitoring.metrics import Metrics
from bot.values import Identity, RunStatus
from db import health
from db.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored

ROOT = Path(__file__).parents[3]
MADE_BY_PROMETHEUS = {"up"}


def line_of(metrics: Metrics, start: str) -> float:
    """Return the value of the series that begins so."""
    [found] = [line for line in metrics.text().decode().splitlines() if line.startswith(start)]
    return float(found.rpartition(" ")[2])


@pytest.fixture
def events() -> EventBus:
    return EventBus()


@pytest.fixture
def metrics(events: EventBus) -> Metrics:
    made = Metrics(release="retinue 1, tables 2", whole=True)
    made.subscribe(events, {"web_fetch"}.__contains__)
    return made


def test_events_of_turns_runs_tools_and_deliveries_are_counted(
    metrics: Metrics, events: EventBus
) -> None:
    events.publish(TurnEnded(platform="slack", outcome="done", seconds=3))
    events.publish(ended(RunStatus.STALLED, run_id="r", user_id="u"))
    events.publish(ToolCalled(tool="web_fetch", failed=True))
    events.publish(DeliveryTried(platform="slack", outcome="retried", repeated=False))
    events.publish(DeliveryTried(platform="slack", outcome="delivered", repeated=True))

    assert line_of(metrics, 'retinue_turns_total{outcome="done",platform="slack"}') == 1
    assert line_of(metrics, 'retinue_turn_seconds_sum{platform="slack"}') == 3
    assert line_of(metrics, 'retinue_runs_ended_total{outcome="stalled"}') == 1
    assert line_of(metrics, 'retinue_tool_calls_total{outcome="failed",tool="web_fetch"}') == 1
    assert line_of(metrics, 'retinue_deliveries_total{outcome="delivered",platform="slack"}') == 1
    assert line_of(metrics, 'retinue_retries_total{kind="delivery"}') == 1


def test_a_tool_that_a_model_made_up_gets_no_label_of_its_own(
    metrics: Metrics, events: EventBus
) -> None:
    for name in ("rm_rf", "web_fetch2"):
        events.publish(ToolCalled(tool=name, failed=True))

    assert line_of(metrics, 'retinue_tool_calls_total{outcome="failed",tool="unknown"}') == 2
    assert b"rm_rf" not in metrics.text()


def test_attempts_of_model_calls_are_counted_with_tokens_and_money(
    metrics: Metrics, events: EventBus
) -> None:
    failed = ModelCalled(provider="anthropic", seconds=2.0, outcome="unavailable", repeated=False)
    again = replace(failed, outcome="answered", repeated=True, input=10, cache_read=7, cost=2500)
    for event in (failed, again, replace(again, repeated=False, input=1, cost=None, cache_read=0)):
        events.publish(event)

    assert (
        line_of(metrics, 'retinue_model_calls_total{outcome="answered",provider="anthropic"}') == 2
    )
    assert line_of(metrics, 'retinue_model_tokens_total{kind="input",provider="anthropic"}') == 11
    assert (
        line_of(metrics, 'retinue_model_tokens_total{kind="cache_read",provider="anthropic"}') == 7
    )
    assert line_of(metrics, 'retinue_model_cost_dollars_total{provider="anthropic"}') == 0.0025
    assert line_of(metrics, 'retinue_model_calls_without_price_total{provider="anthropic"}') == 1
    assert line_of(metrics, 'retinue_retries_total{kind="model"}') == 1


@pytest.fixture
def stored(database: Database, clock: FakeClock) -> Stored:
    return Stored(database, clock)


async def test_the_backlog_has_the_age_of_work_that_could_begin(
    metrics: Metrics, database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    await stored.run(alice, status=RunStatus.QUEUED)
    await stored.run(alice, status=RunStatus.RUNNING)
    answered = await stored.conversation(alice)
    await stored.turn(alice, answered)
    await stored.claim_turn(answered)
    clock.advance(30)
    await stored.turn(alice, answered)
    clock.advance(10)
    somebody = await stored.somebody()
    await stored.turn(somebody, await stored.conversation(somebody))
    clock.advance(50)

    metrics.show(await database.read(health.backlog, clock()))

    assert line_of(metrics, 'retinue_runs{state="queued"}') == 1
    assert line_of(metrics, 'retinue_runs{state="running"}') == 1
    assert line_of(metrics, 'retinue_turns_now{state="queued"}') == 2
    assert line_of(metrics, 'retinue_queue_age_seconds{kind="turn"}') == 50
    assert line_of(metrics, 'retinue_queue_age_seconds{kind="run"}') == 90
    assert line_of(metrics, 'retinue_queue_age_seconds{kind="delivery"}') == 0


async def test_database_time_is_measured_also_when_it_fails(
    metrics: Metrics, database: Database
) -> None:
    database.observed = metrics.on_database

    await database.read(health.server_version)

    assert line_of(metrics, 'retinue_database_seconds_count{kind="read"}') == 1
    assert line_of(metrics, 'retinue_database_errors_total{kind="read"}') == 0
    metrics.on_database("write", 0.1, failed=True)
    assert line_of(metrics, 'retinue_database_errors_total{kind="write"}') == 1


def test_each_metric_of_an_alert_is_exported_and_each_alert_says_what_to_do() -> None:
    metrics = Metrics(release="retinue 1, tables 2", whole=True)
    exported = {
        f"{family.name}{ending}"
        for family in metrics.registry.collect()
        for ending in {
            "counter": ("_total",),
            "histogram": ("_bucket", "_sum", "_count"),
        }.get(family.type, ("",))
    }

    groups = yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text("utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    named = {name for rule in rules for name in re.findall(r"\b(?:up|retinue_\w+)", rule["expr"])}

    assert len({rule["alert"] for rule in rules}) == len(rules)
    assert named - MADE_BY_PROMETHEUS <= exported
    assert all(rule["annotations"]["action"] for rule in rules)
    page = (ROOT / "docs/operations.md").read_text("utf-8")
    shown = {name.removesuffix("_bucket").removesuffix("_sum") for name in exported}
    assert {name for name in shown if not name.endswith("_count")} <= set(
        re.findall(r"`(retinue_\w+)", page)
    )

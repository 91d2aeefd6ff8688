"""What is said about a run: the limit, what was used, and the key to change."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot.agent.messages import Usage
from bot.run_texts import status_text
from bot.subagents.requests import BUDGET_SOURCE
from bot.subagents.wording import Outcome, footer, reason, report, title
from bot.values import Place, RunStatus
from db.runs import Run

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)

RUN = Run(
    id="1a2b3c4d-0000-4000-8000-000000000001",
    user_id="discord::1001",
    place=Place("discord"),
    conversation_id="c1",
    parent_message_id="m1",
    parent_run_id=None,
    batch_id="t1",
    number=7,
    label="sheep",
    agent="general",
    task="Count the sheep.",
    context="",
    instructions="",
    status=RunStatus.COMPLETED,
    mode="async",
    depth=1,
    announce="result",
    model="some-model",
    provider="offline",
    result="Twelve.",
    error=None,
    degraded=False,
    input_tokens=12_000,
    output_tokens=345,
    discounted_tokens=0,
    cached_tokens=0,
    cost=12_300,
    token_budget=50_000,
    reserved_tokens=0,
    tool_call_count=5,
    max_steps=20,
    timeout_ms=300_000,
    seconds_used=42.4,
    metadata={},
    allowed_tools=None,
    blocked_tools=(),
    attempt=1,
    crashes=0,
    card_message_id="",
    worker_id="",
    cancel_requested_at=None,
    created_at=NOW,
    started_at=NOW,
    updated_at=NOW,
    completed_at=NOW,
)

FINAL = [status for status in RunStatus if status.final]


@pytest.mark.parametrize("status", FINAL)
def test_a_title_says_in_words_how_it_ended(status: RunStatus) -> None:
    said = title(replace(RUN, status=status, result="I am completed!"))

    assert said.startswith(f"{status_text(status).icon} Sub-agent ")
    assert said.endswith(": “sheep” (1a2b3c4d)")
    assert "_" not in said
    assert ("completed" in said) == (status is RunStatus.COMPLETED)
    assert ("🟢" in said) == (status is RunStatus.COMPLETED)


@pytest.mark.parametrize("status", FINAL)
def test_a_report_at_a_limit_is_titled_partial(status: RunStatus) -> None:
    at_a_limit = status in {
        RunStatus.TIMEOUT,
        RunStatus.BUDGET_EXCEEDED,
        RunStatus.MAX_TOOL_CALLS,
        RunStatus.MAX_STEPS,
        RunStatus.STALLED,
    }

    assert ("partial report" in title(replace(RUN, status=status))) == at_a_limit
    assert "partial" not in title(replace(RUN, status=status, result=None))


def test_the_footer_counts_weighted_tokens() -> None:
    assert footer(replace(RUN, discounted_tokens=9_000)).startswith("3,345 of 50,000 tokens")


def test_the_footer_tells_tokens_time_tools_and_model() -> None:
    assert footer(RUN) == (
        "12,345 of 50,000 tokens (12,000 new, 0 cached, 345 output) · $0.0123 · 42 s · "
        "5 tool calls · some-model"
    )
    assert "no price" in footer(replace(RUN, cost=None))
    assert "(3,000 new, 9,000 cached," in footer(replace(RUN, cached_tokens=9_000))
    assert "1 tool call ·" in footer(replace(RUN, tool_call_count=1))
    assert footer(replace(RUN, model=None)).endswith("5 tool calls")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("request", "(`token_budget` of the request, at most `subagents.max_token_budget`)."),
        ("agent", "(`token_budget` in the agent's file, at most `subagents.max_token_budget`)."),
        ("cap", "(`subagents.max_token_budget`)."),
        ("parent", "(what the run that asked for it had left)."),
    ],
)
def test_the_key_of_a_budget_is_the_one_that_set_it(source: str, said: str) -> None:
    run = replace(RUN, metadata={BUDGET_SOURCE: source})
    spent = Outcome(status=RunStatus.BUDGET_EXCEEDED, usage=Usage(50_000, 100))

    told = reason(run, spent)

    assert told == f"It used 50,100 of its 50,000 tokens {said}"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (RunStatus.TIMEOUT, "It was stopped at its limit of 5 min (`timeout_minutes`)."),
        (
            RunStatus.BUDGET_EXCEEDED,
            "It used 49,000 of its 50,000 tokens; the other 1,000 were reserved for its report and "
            "did not suffice for another step (`subagents.default_token_budget`).",
        ),
        (
            RunStatus.MAX_TOOL_CALLS,
            "It made all 25 tool calls that a run may make (`subagents.max_tool_calls_per_run`).",
        ),
        (RunStatus.MAX_STEPS, "It took all its 20 steps (`max_turns`)."),
        (RunStatus.CANCELLED, "It was stopped on request."),
        (RunStatus.COMPLETED, ""),
    ],
)
def test_the_reason_names_the_limit_what_was_used_and_the_key(status: RunStatus, said: str) -> None:
    outcome = Outcome(status=status, usage=Usage(48_000, 1_000), tool_calls=25)

    assert reason(RUN, outcome) == said


def test_a_delegated_task_that_ran_out_of_time_names_its_own_key() -> None:
    run = replace(RUN, mode="sync", timeout_ms=120_000)

    said = reason(run, Outcome(status=RunStatus.TIMEOUT))

    assert said == "It was stopped at its limit of 2 min (`subagents.sync_timeout_seconds`)."


def test_a_failure_says_why() -> None:
    outcome = Outcome(status=RunStatus.FAILED, error="The model is down.")

    assert reason(RUN, outcome) == "The model is down."


@pytest.mark.parametrize("status", [status for status in FINAL if status is not RunStatus.STALLED])
def test_everything_but_success_has_a_reason(status: RunStatus) -> None:
    outcome = Outcome(status=status, error="Why." if status is RunStatus.FAILED else "")

    assert bool(reason(RUN, outcome)) == (status is not RunStatus.COMPLETED)


def test_a_report_is_the_result() -> None:
    assert report(RUN) == "Twelve."


def test_a_part_of_a_result_never_looks_like_the_whole() -> None:
    run = replace(RUN, status=RunStatus.TIMEOUT, error="Too late.", result="Seven.")

    assert report(run) == "Too late.\n\nWhat it had so far:\n\nSeven."


def test_one_that_ended_with_nothing_says_so() -> None:
    run = replace(RUN, status=RunStatus.CANCELLED, error="It was stopped.", result=None)

    assert report(run) == "It was stopped.\n\nIt had nothing to show yet."


def test_messages_that_came_too_late_are_told() -> None:
    assert report(RUN, unread=1).endswith("_A message you sent came too late to be read._")
    assert report(RUN, unread=2).endswith("_2 messages you sent came too late to be read._")

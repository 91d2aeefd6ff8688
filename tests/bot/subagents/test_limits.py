"""Whether one more run may start: never past a cap, and a refusal says which, how much and when."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bot.errors import LimitReachedError
from bot.run_texts import counted
from bot.subagents.limits import (
    Admission,
    DelegationRateLimit,
    SpawnRateLimit,
    SubagentSettings,
    clamp,
    decide,
    spoken,
)
from bot.values import RunUsage, SlotCaps

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)

caps = st.integers(1, 12)
numbers = st.integers(0, 15)
settings = st.builds(
    SubagentSettings,
    max_concurrent_per_user=caps,
    max_concurrent_global=caps,
    max_queued_per_user=numbers,
    spawn_rate_limit=st.builds(
        SpawnRateLimit, max_requests=caps, window_seconds=st.integers(1, 7200)
    ),
    delegation_rate_limit=st.builds(
        DelegationRateLimit, max_requests=caps, window_seconds=st.integers(1, 7200)
    ),
)
usages = st.builds(
    RunUsage,
    started_in_window=numbers,
    oldest_in_window=st.none() | st.integers(0, 7200).map(lambda ago: NOW - timedelta(seconds=ago)),
    running=numbers,
    queued=numbers,
    running_global=numbers,
)


def refused(
    caps: SubagentSettings, usage: RunUsage, *, may_queue: bool
) -> LimitReachedError | None:
    try:
        decide(caps, usage, NOW, may_queue=may_queue)
    except LimitReachedError as error:
        return error
    return None


@given(settings, usages, st.booleans())
def test_a_run_is_never_let_in_past_a_cap(
    caps: SubagentSettings, usage: RunUsage, may_queue: bool
) -> None:
    try:
        admission = decide(caps, usage, NOW, may_queue=may_queue)
    except LimitReachedError:
        return

    rate = caps.spawn_rate_limit if may_queue else caps.delegation_rate_limit
    assert usage.started_in_window < rate.max_requests
    if admission is Admission.ADMITTED:
        assert usage.running < caps.max_concurrent_per_user
        assert usage.running_global < caps.max_concurrent_global
        assert not (may_queue and usage.queued), "those that wait already come first"
    else:
        assert may_queue, "a delegated task never waits"
        assert usage.queued < caps.max_queued_per_user


@given(caps, caps, numbers, numbers)
def test_a_slot_is_free_below_both_caps_only(
    per_user: int, everyone: int, running: int, running_global: int
) -> None:
    free = SlotCaps(per_user=per_user, everyone=everyone).admit(running, running_global)

    assert free == (running < per_user and running_global < everyone)


@given(settings, usages, st.booleans())
def test_a_run_is_refused_only_at_a_cap_that_is_named_with_what_is_used(
    caps: SubagentSettings, usage: RunUsage, may_queue: bool
) -> None:
    refusal = refused(caps, usage, may_queue=may_queue)
    if refusal is None:
        return

    text = str(refusal)
    rate = caps.spawn_rate_limit
    match refusal.limit:
        case "subagents.spawn_rate_limit.max_requests":
            assert usage.started_in_window >= rate.max_requests
            assert f"{usage.started_in_window} of {counted(rate.max_requests, 'run')}" in text
            assert spoken(rate.window_seconds) in text
            assert may_queue
        case "subagents.delegation_rate_limit.max_requests":
            delegated = caps.delegation_rate_limit
            assert usage.started_in_window >= delegated.max_requests
            assert f"{usage.started_in_window} of {counted(delegated.max_requests, 'task')}" in text
            assert spoken(delegated.window_seconds) in text
            assert not may_queue
        case "subagents.max_concurrent_per_user":
            assert usage.running >= caps.max_concurrent_per_user
            most = counted(caps.max_concurrent_per_user, "run")
            assert f"{usage.running} of your {most}" in text
        case "subagents.max_concurrent_global":
            assert usage.running_global >= caps.max_concurrent_global
            assert counted(caps.max_concurrent_global, "slot") in text
        case "subagents.max_queued_per_user":
            assert may_queue
            assert usage.queued >= caps.max_queued_per_user
            assert f"{usage.queued} of" in text
        case other:
            raise AssertionError(f"{other} is no cap")
    assert text.endswith(".")
    assert text[0].isupper() or text[0].isdigit()


def test_a_full_queue_with_a_free_slot_is_not_called_a_lack_of_slots() -> None:
    refusal = refused(SubagentSettings(), RunUsage(running=1, queued=5), may_queue=True)

    assert refusal is not None
    assert refusal.limit == "subagents.max_queued_per_user"
    assert str(refusal).startswith("5 of your runs are waiting, and 5 may.")


@given(settings, usages)
def test_a_refusal_says_nothing_that_is_not_so(caps: SubagentSettings, usage: RunUsage) -> None:
    with_room = usage.running_global < caps.max_concurrent_global

    refusal = refused(caps, usage, may_queue=True)

    assert not (refusal and with_room and "slots of this bot are taken" in str(refusal))


@given(settings, usages, st.booleans())
def test_below_every_cap_a_run_is_let_in(
    caps: SubagentSettings, usage: RunUsage, may_queue: bool
) -> None:
    rate = caps.spawn_rate_limit if may_queue else caps.delegation_rate_limit
    free = (
        usage.started_in_window < rate.max_requests
        and usage.running < caps.max_concurrent_per_user
        and usage.running_global < caps.max_concurrent_global
        and usage.queued == 0
    )
    if free:
        assert decide(caps, usage, NOW, may_queue=may_queue) is Admission.ADMITTED


def test_at_the_rate_one_is_told_when_the_next_is_possible() -> None:
    usage = RunUsage(started_in_window=10, oldest_in_window=NOW - timedelta(minutes=50))

    with pytest.raises(LimitReachedError) as raised:
        decide(SubagentSettings(), usage, NOW, may_queue=True)

    assert raised.value.retry_after_seconds == 600
    assert str(raised.value) == (
        "You have started 10 of 10 runs in the last 1 h; the next one is possible in 10 min."
    )


def test_sixty_tasks_an_hour_may_be_delegated() -> None:
    ago = NOW - timedelta(minutes=59)
    almost = RunUsage(started_in_window=59, oldest_in_window=ago)
    assert decide(SubagentSettings(), almost, NOW, may_queue=False) is Admission.ADMITTED

    full = RunUsage(started_in_window=60, oldest_in_window=ago)
    with pytest.raises(LimitReachedError) as raised:
        decide(SubagentSettings(), full, NOW, may_queue=False)

    assert str(raised.value) == (
        "I have delegated 60 of 60 tasks in the last 1 h; the next one is possible in 1 min."
    )


def test_at_ones_own_cap_a_run_waits_and_a_delegated_task_is_told_what_to_do() -> None:
    usage = RunUsage(running=3, running_global=3)
    assert decide(SubagentSettings(), usage, NOW, may_queue=True) is Admission.QUEUED

    with pytest.raises(LimitReachedError, match=r"3 of your 3 runs .* use sessions_spawn"):
        decide(SubagentSettings(), usage, NOW, may_queue=False)


def test_when_everyone_fills_all_slots_a_run_waits() -> None:
    usage = RunUsage(running=1, running_global=10)
    assert decide(SubagentSettings(), usage, NOW, may_queue=True) is Admission.QUEUED

    with pytest.raises(LimitReachedError, match="All 10 slots of this bot are taken"):
        decide(SubagentSettings(), usage, NOW, may_queue=False)


def test_a_full_queue_refuses() -> None:
    usage = RunUsage(running=3, queued=5, running_global=3)

    with pytest.raises(LimitReachedError) as raised:
        decide(SubagentSettings(), usage, NOW, may_queue=True)

    assert raised.value.limit == "subagents.max_queued_per_user"
    assert "3 of your 3 runs are still going and 5 of 5 are waiting" in str(raised.value)
    assert "/subagents stop" in str(raised.value)


def test_without_a_queue_the_cap_itself_refuses() -> None:
    with pytest.raises(LimitReachedError) as raised:
        decide(SubagentSettings(max_queued_per_user=0), RunUsage(running=3), NOW, may_queue=True)

    assert raised.value.limit == "subagents.max_concurrent_per_user"
    assert "waiting" not in str(raised.value)


def test_one_who_waits_is_not_overtaken_though_a_slot_is_free() -> None:
    usage = RunUsage(running=1, queued=1, running_global=1)

    assert decide(SubagentSettings(), usage, NOW, may_queue=True) is Admission.QUEUED


@given(st.none() | st.floats(0.1, 500), st.floats(0.1, 100), st.floats(0.1, 100))
def test_what_is_asked_for_is_clamped_and_said_so(
    asked: float | None, default: float, cap: float
) -> None:
    value, clamped = clamp(asked, default, cap)

    if asked is None:
        assert (value, clamped) == (default, False)
    else:
        assert value == min(asked, cap)
        assert clamped == (value < asked)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (45.4, "45 s"),
        (59.6, "1 min"),
        (90, "1 min 30 s"),
        (600, "10 min"),
        (725, "12 min"),
        (3600, "1 h"),
        (3900, "1 h 5 min"),
    ],
)
def test_lengths_of_time_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert spoken(seconds) == said


@pytest.mark.parametrize(
    "wrong",
    [
        {"default_timeout_minutes": 11},
        {"default_token_budget": 300_000},
        {"max_concurrent_per_user": 0},
        {"max_depth": 4},
        {"unknown": 1},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        SubagentSettings.model_validate(wrong)

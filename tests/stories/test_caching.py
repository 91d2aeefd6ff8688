"""Tokens that recorded requests of the whole bot cost, compared with the best possible."""

import copy
import re
from datetime import UTC, datetime, timedelta

from bot.values import Json, RunStatus
from tests.fakes.model_server import Reply
from tests.fakes.prompt_cache import best_possible, paid
from tests.stories.stage import ALICE, Play, call, calls, is_run, said, stage

TURNS = 30
READ_WEIGHT = 0.05
TIME_OF_DAY = re.compile(r"\b\d\d:\d\d\b")
WORDS = "The flock on the northern hill was counted again this morning. " * 12


def only_automatic(body: Json) -> Json:
    """Return a request with the breakpoints of its system prompt and its end alone."""
    before = copy.deepcopy(body)
    for message in before["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            block.pop("cache_control", None)
    return before


def with_the_minute_in_the_system_prompt(body: Json, minute: datetime) -> Json:
    """Return a request whose system prompt says when the run began."""
    before = copy.deepcopy(body)
    prompt = before["system"][0]["text"]
    head, _, rest = prompt.partition("Your tools:")
    before["system"][0]["text"] = f"{head}The run began at {minute:%H:%M}. Your tools:{rest}"
    return before


def asks(body: Json, task: str) -> bool:
    """Whether the request belongs to the run with this task."""
    return task in said(body["messages"][0])


async def test_a_talk_of_thirty_turns_reads_its_history_from_the_cache(sqlite_url: str) -> None:
    play = Play(main=[Reply(text=f"Sheep number {n}. {WORDS}") for n in range(TURNS)])
    async with stage(sqlite_url, play) as it:
        for number in range(TURNS):
            await it.say(ALICE, f"How many now, at round {number}? {WORDS}")
            await it.outlet.replied(number + 1)

    best = best_possible(play.asked, read_weight=READ_WEIGHT)
    before = paid(map(only_automatic, play.asked), read_weight=READ_WEIGHT) / best
    now = paid(play.asked, read_weight=READ_WEIGHT) / best
    assert len(play.asked) == TURNS
    assert before > 4
    assert now < 1.05, f"{now:.2f} times the best possible ({before:.2f} before)"


async def test_runs_of_one_agent_share_their_prompt_whenever_they_begin(sqlite_url: str) -> None:
    tasks = ("Count the white sheep.", "Count the black sheep.")
    lines = [call("current_time"), Reply(text="Seven.")]
    play = Play(
        main=[calls(*(("sessions_spawn", {"task": task}) for task in tasks)), Reply(text="Ok.")],
        runs={task: list(lines) for task in tasks},
    )
    async with stage(sqlite_url, play) as it:
        await it.say(ALICE, "Count them.")
        for task in tasks:
            await it.ended(task, RunStatus.COMPLETED)

    bodies = [body for task in tasks for body in play.asked if is_run(body) and asks(body, task)]
    nine = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
    old = [
        with_the_minute_in_the_system_prompt(body, nine + timedelta(minutes=asks(body, tasks[1])))
        for body in bodies
    ]
    best = best_possible(bodies, read_weight=READ_WEIGHT)
    assert len(bodies) == 4
    assert not any(TIME_OF_DAY.search(body["system"][0]["text"]) for body in play.asked)
    assert all(TIME_OF_DAY.search(said(body["messages"][0])) for body in bodies)
    assert paid(old, read_weight=READ_WEIGHT) > 1.3 * best
    assert paid(bodies, read_weight=READ_WEIGHT) < 1.1 * best


async def test_many_calls_in_one_step_do_not_hide_the_prompt_before_it(sqlite_url: str) -> None:
    zones = [f"Etc/GMT+{hours}" for hours in range(1, 13)]
    many = calls(*(("current_time", {"zone": zone}) for zone in zones))
    play = Play(main=[many, call("current_time", zone="Asia/Tokyo"), Reply(text="Done.")])
    async with stage(sqlite_url, play) as it:
        await it.say(ALICE, f"What time is it everywhere? {WORDS * 10}")
        await it.outlet.replied()

    best = best_possible(play.asked, read_weight=READ_WEIGHT)
    assert len(play.asked) == 3
    assert paid(play.asked, read_weight=READ_WEIGHT) < 1.05 * best

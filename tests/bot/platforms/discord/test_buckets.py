"""Rate limits: what may be sent is sent at once and in order, what must wait long is refused."""

import asyncio
from collections.abc import AsyncIterator

import discord
import pytest

from bot.errors import DeliveryError
from bot.platforms.discord.limits import Bucket, use_buckets
from bot.platforms.discord.sending import Draft
from tests.bot.platforms.discord.speaking import MESSAGES, THREADS, Stand, stand
from tests.fakes.patience import eventually

MINUTES = 300.0


@pytest.fixture
async def room() -> AsyncIterator[Stand]:
    async with stand() as opened:
        yield opened


async def begin_thread(room: Stand) -> None:
    said = await room.fake.say(room.alice, room.channel, "another", mention=True)
    await room.sender.begin_thread(str(room.channel.id), str(said.id), "a name")


async def test_all_tokens_of_a_window_of_minutes_are_used(room: Stand) -> None:
    window = room.fake.limit("POST", THREADS, limit=50, seconds=MINUTES)

    for _ in range(50):
        await begin_thread(room)

    assert window.used == 50


async def test_beyond_the_last_token_it_is_refused_without_a_request(room: Stand) -> None:
    room.fake.limit("POST", THREADS, limit=2, seconds=MINUTES)
    for _ in range(2):
        await begin_thread(room)

    with pytest.raises(DeliveryError) as caught:
        await begin_thread(room)

    assert MINUTES - 30 < caught.value.retry_after_seconds <= MINUTES
    assert not caught.value.fate_unknown
    assert len(room.fake.requests("POST", THREADS)) == 2


async def test_a_route_that_waits_for_minutes_holds_up_no_other(room: Stand) -> None:
    other = room.fake.add_channel(room.guild, "other")
    room.fake.limit("POST", f"/channels/{room.channel.id}/messages", limit=1, seconds=MINUTES)
    await room.sender.post(str(room.channel.id), Draft(text="one"), key="1")

    with pytest.raises(DeliveryError):
        await room.sender.post(str(room.channel.id), Draft(text="two"), key="2")
    await room.sender.post(str(other.id), Draft(text="three"), key="3")

    assert [each.text() for each in room.fake.answers(other)] == ["three"]


async def test_a_window_that_another_process_used_up_is_refused_by_its_answer(
    room: Stand,
) -> None:
    room.fake.limit("POST", THREADS, limit=0, seconds=MINUTES)

    with pytest.raises(DeliveryError) as caught:
        await begin_thread(room)

    assert caught.value.retry_after_seconds == MINUTES


async def test_a_cancelled_request_does_not_keep_the_global_limit_for_ever(room: Stand) -> None:
    use_buckets(room.client.http, 0.05)
    limited = room.fake.fail("POST", MESSAGES, retry_after=20, everywhere=True)

    async def gate_is_closed() -> bool:
        return not room.client.http._global_over.is_set()

    posting = asyncio.ensure_future(
        room.sender.post(str(room.channel.id), Draft(text="one"), key="1")
    )
    await room.fake.until(lambda: limited.hits, "the limit")
    # Until the library has closed its gate: all other requests wait then.
    await eventually(gate_is_closed, "the gate closed")
    posting.cancel()
    await asyncio.wait({posting})

    async with asyncio.timeout(10):
        await room.sender.post(str(room.channel.id), Draft(text="two"), key="2")


# --- the bucket alone -----------------------------------------------------------------------------


class Answer:
    """The headers of an answer."""

    def __init__(self, *, limit: int, remaining: int, seconds: float) -> None:
        self.headers = {
            "X-Ratelimit-Limit": str(limit),
            "X-Ratelimit-Remaining": str(remaining),
            "X-Ratelimit-Reset-After": str(seconds),
        }


async def exhausted(clock: "Ticks", *, seconds: float) -> Bucket:
    """Return a bucket whose one token was used, in a window of so many seconds."""
    bucket = Bucket(30.0, now=clock)
    async with bucket:
        bucket.update(Answer(limit=1, remaining=0, seconds=seconds))  # type: ignore[arg-type]
    return bucket


class Ticks:
    """A clock in seconds that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_bucket_is_full_again_when_its_window_ends() -> None:
    clock = Ticks()
    bucket = await exhausted(clock, seconds=MINUTES)
    with pytest.raises(discord.RateLimited):
        await bucket.__aenter__()

    clock.now += MINUTES

    async with bucket:
        assert bucket.remaining == 0


async def test_requests_wait_for_a_short_window_in_the_order_in_which_they_came() -> None:
    clock, passed = Ticks(), list[int]()
    bucket = await exhausted(clock, seconds=0.01)

    async def request(number: int) -> None:
        async with bucket:
            passed.append(number)
            bucket.update(Answer(limit=1, remaining=0, seconds=0.01))  # type: ignore[arg-type]
        clock.now += 0.01

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(request(number))
        await asyncio.sleep(0)
        assert passed == []
        clock.now += 0.01

    assert passed == [0, 1, 2, 3, 4]


async def test_requests_before_the_first_answer_go_one_at_a_time_and_then_together() -> None:
    bucket, under_way, most = Bucket(30.0, now=Ticks()), 0, list[int]()
    go = asyncio.Event()

    async def request() -> None:
        nonlocal under_way
        async with bucket:
            under_way += 1
            most.append(under_way)
            await go.wait()
            bucket.update(Answer(limit=5, remaining=4, seconds=MINUTES))  # type: ignore[arg-type]
            under_way -= 1

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(request())
        for _ in range(5):
            await asyncio.sleep(0)
        assert most == [1]
        go.set()

    assert len(most) == 4


async def test_a_request_without_limits_in_its_answer_gives_its_token_back() -> None:
    bucket = Bucket(30.0, now=Ticks())

    for _ in range(3):
        async with bucket:
            pass

    assert bucket.remaining == 1


async def test_who_is_cancelled_in_the_queue_keeps_nobody_waiting() -> None:
    bucket = Bucket(30.0, now=Ticks())
    async with bucket:
        first, second = (asyncio.ensure_future(bucket.__aenter__()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait({first})

    async with asyncio.timeout(10):
        await second

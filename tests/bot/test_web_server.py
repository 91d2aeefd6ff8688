"""The web server starts where it is told, ends in time, and strangers cannot fill it up."""

import asyncio
import logging
import signal
import socket
from contextlib import AsyncExitStack, suppress

import aiohttp
import pytest

from bot.errors import ConfigError
from bot.platforms.slack.web import listening
from bot.tasks import Tasks
from bot.web_server import WebLimits, listen
from tests.bot.platforms.slack.posting import (
    PATIENCE,
    Line,
    Pages,
    Recorder,
    event,
    head,
    line,
    served,
    settings,
)

SHORT = WebLimits(body_seconds=0.2, idle_seconds=1.0, stop_seconds=0.3)


# --- where --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "at"), [("127.0.0.1", "http://127.0.0.1:"), ("::1", "http://[::1]:")]
)
async def test_the_address_is_given(host: str, at: str) -> None:
    async with (
        listening(Recorder().app, settings(host), secret=lambda: "s") as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/health") as answer,
    ):
        assert answer.status == 200

    assert url.startswith(at)


async def test_a_taken_port_is_told_with_the_key_to_change() -> None:
    with listen("127.0.0.1", 0, section="slack") as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as caught:
            async with listening(Recorder().app, settings(port=port), secret=lambda: "s"):
                pass

    assert f"port {port} of 127.0.0.1 is taken" in str(caught.value)
    assert "`slack.port`" in str(caught.value)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "a..b"])
def test_a_foreign_address_is_told_with_the_key_to_change(host: str) -> None:
    with pytest.raises(ConfigError) as caught:
        listen(host, 0, section="slack")

    assert f"no address {host}: set `slack.host`" in str(caught.value)


# --- the process --------------------------------------------------------------------------------


async def test_the_signals_of_the_process_are_left_alone() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    async with served() as bot:
        await bot.get("/health")
        during = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    assert during == before


async def test_the_port_is_free_again_at_the_end() -> None:
    async with served() as bot:
        port = int(bot.url.rsplit(":", 1)[1])

    with listen("127.0.0.1", port, section="slack") as again:
        assert again.getsockname()[1] == port


async def test_a_request_under_way_ends_before_the_server_does() -> None:
    tasks = Tasks()
    async with served() as bot:
        bot.recorder.gate.clear()
        posted = tasks.start(bot.hook.post(event("slow")), name="a post")
        await bot.recorder.next()
        asyncio.get_running_loop().call_later(0.3, bot.recorder.gate.set)

    assert (await posted).status == 200


async def test_a_request_that_does_not_end_is_cut_off_in_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop, body = asyncio.get_running_loop(), event("endless")
    async with AsyncExitStack() as kept:
        async with served(SHORT) as bot:
            idle = await kept.enter_async_context(line(bot.url))
            posted = await kept.enter_async_context(line(bot.url))
            bot.recorder.gate.clear()
            await posted.say(head(length=len(body), body=body) + body)
            await bot.recorder.next()
            began = loop.time()
        took = loop.time() - began
        answer, nothing = await posted.ended(), await idle.ended()

    # Slack sends it again to whoever comes after.
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert nothing == b""
    assert took < WebLimits().stop_seconds
    assert not [record for record in caplog.records if record.exc_info]


async def test_nothing_new_is_taken_while_the_server_ends() -> None:
    tasks = Tasks()
    async with served() as bot:
        bot.recorder.gate.clear()
        posted = tasks.start(bot.hook.post(event("slow")), name="a post")
        await bot.recorder.next()
        ending = tasks.start(_until_refused(bot.url), name="a knocker")
        ending.add_done_callback(lambda _: bot.recorder.gate.set())

    await ending
    assert (await posted).status == 200


async def _until_refused(url: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except ConnectionError:
                return
            writer.transport.abort()
            await asyncio.sleep(0.02)


# --- slow clients -------------------------------------------------------------------------------


async def test_a_body_that_stops_half_way_is_cut() -> None:
    async with served(SHORT) as bot, line(bot.url) as slow:
        await slow.say(head(length=100) + b"x" * 50)
        answer = (await slow.ended()).decode()

    assert answer.startswith("HTTP/1.1 408 ")
    assert "connection: close" in answer.lower()


async def test_a_body_that_trickles_is_cut_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    tasks = Tasks()
    async with served(SHORT) as bot, line(bot.url) as slow:
        await slow.say(head("Transfer-Encoding: chunked"))
        trickling = tasks.start(_trickle(slow, b"1\r\nx\r\n"), name="a trickle")
        answer = await slow.ended()
        trickling.cancel()

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert "took over 0.2 s" in caplog.text


async def test_a_length_that_is_a_lie_gets_nobody_in() -> None:
    body = event("short")
    async with served(SHORT) as bot:
        async with line(bot.url) as less:
            await less.say(head(length=len(body) + 10, body=body) + body)
            less_came = (await less.ended()).decode()
        async with line(bot.url) as more:
            await more.say(head(length=len(body) - 5, body=body) + body)
            more_came = await more.answer()

    assert less_came.startswith("HTTP/1.1 408 ")
    assert more_came.startswith("HTTP/1.1 401 ")
    assert bot.recorder.requests == 0


@pytest.mark.parametrize("begun", [b"", b"POST /slack/events HTTP/1.1\r\nHost:"])
async def test_a_connection_without_a_request_is_ended(begun: bytes) -> None:
    async with served(SHORT) as bot, line(bot.url) as silent:
        await silent.say(begun)

        assert await silent.ended() == b""


@pytest.mark.parametrize("before", [b"", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"])
async def test_a_head_that_trickles_is_ended(before: bytes) -> None:
    tasks = Tasks()
    async with served(SHORT) as bot, line(bot.url) as slow:
        await slow.say(before + b"GET /health HTTP/1.1\r\n")
        trickling = tasks.start(_trickle(slow, b"a: b\r\n"), name="a trickle")
        answer = await slow.ended()
        trickling.cancel()

    assert answer.count(b"HTTP/1.1 ") == bool(before)


async def test_work_may_take_longer_than_silence_and_silence_after_it_is_ended() -> None:
    body, tasks = event("slow"), Tasks()
    async with served(SHORT) as bot, line(bot.url) as working, line(bot.url) as silent:
        bot.recorder.gate.clear()
        await working.say(head(length=len(body), body=body) + body)
        await bot.recorder.next()
        await silent.ended()
        bot.recorder.gate.set()
        answer = await working.answer()
        trickling = tasks.start(_trickle(working, b"G"), name="a trickle")
        await working.ended()
        trickling.cancel()

    assert answer.startswith("HTTP/1.1 200 ")


async def test_a_refused_body_that_goes_on_and_on_is_ended() -> None:
    tasks = Tasks()
    async with served(SHORT) as bot, line(bot.url) as slow:
        await slow.say(head(length=10**9))
        trickling = tasks.start(_trickle(slow, b"x"), name="a trickle")
        answer = await slow.ended()
        trickling.cancel()

    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_an_answer_that_is_not_taken_holds_no_connection() -> None:
    asking = b"GET /slack/install HTTP/1.1\r\nHost: x\r\n\r\n" * 50
    async with served(SHORT, oauth=Pages("x" * 1_000_000)) as bot, line(bot.url) as deaf:
        async with asyncio.timeout(PATIENCE):
            await _flood(deaf, asking)


async def test_headers_have_a_limit() -> None:
    async with served() as bot, line(bot.url) as long:
        await long.say(b"GET /health HTTP/1.1\r\nHost: x\r\nCookie: " + b"x" * 40_000)
        answer = await long.ended()

    assert not answer or answer.startswith(b"HTTP/1.1 400 ")


async def _trickle(slow: Line, piece: bytes) -> None:
    with suppress(ConnectionError):
        while True:
            await slow.say(piece)
            await asyncio.sleep(0.02)


async def _flood(deaf: Line, asking: bytes) -> None:
    with suppress(ConnectionError):
        while True:
            await deaf.say(asking)


# --- many clients -------------------------------------------------------------------------------


async def test_one_too_many_is_told_to_come_back() -> None:
    async with served(WebLimits(connections=3)) as bot, line(bot.url), line(bot.url):
        crowded = await bot.get("/health")

    assert crowded[0] == 503


async def test_far_too_many_are_not_even_answered() -> None:
    limits = WebLimits(connections=1)
    async with (
        served(limits) as bot,
        line(bot.url),
        line(bot.url),
        line(bot.url) as third,
    ):
        assert await third.ended() == b""


async def test_those_who_wait_make_room_again() -> None:
    limits = WebLimits(connections=2, idle_seconds=0.3)
    async with served(limits) as bot, line(bot.url) as one, line(bot.url) as two:
        await one.ended()
        await two.ended()

        assert await bot.get("/health") == (200, "ok")


async def test_noise_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with served() as bot:
        for _ in range(5):
            async with line(bot.url) as noise:
                await noise.say(b"\x16\x03\x01 what\r\n\r\n")
                assert (await noise.ended()).startswith(b"HTTP/1.1 400 ")

    assert caplog.text.count("Invalid HTTP request") == 1


def test_a_socket_is_released_when_it_is_closed() -> None:
    listener = listen("127.0.0.1", 0, section="slack")
    port = listener.getsockname()[1]
    listener.close()

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)

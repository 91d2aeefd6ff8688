"""The breaker: it opens long before Discord bans, and closes by itself."""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp import web

from bot.errors import DeliveryError
from bot.platforms.discord.limits import CLOSES_AT, OPENS_AT, WINDOW_SECONDS, Breaker


@dataclass
class Watch:
    """A clock of seconds that moves when a test says so."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def breaker(watch: Watch) -> Breaker:
    return Breaker(monotonic=watch)


def refuse(breaker: Breaker, times: int, status: int = 403) -> None:
    for _ in range(times):
        breaker.count(status)


def test_it_opens_at_a_tenth_of_what_discord_bans_for_and_says_why_once(
    breaker: Breaker, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(breaker, OPENS_AT - 1)
    assert not breaker.open

    refuse(breaker, 3)

    assert breaker.open
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "1000 requests in 10 minutes (the last with status 403)" in caplog.text


@pytest.mark.parametrize("status", [401, 403, 429])
def test_what_discord_counts_is_counted(breaker: Breaker, status: int) -> None:
    refuse(breaker, OPENS_AT, status)

    assert breaker.open


@pytest.mark.parametrize(("status", "scope"), [(200, ""), (404, ""), (500, ""), (429, "shared")])
def test_other_answers_are_not(breaker: Breaker, status: int, scope: str) -> None:
    for _ in range(OPENS_AT):
        breaker.count(status, scope)

    assert not breaker.open


def test_refusals_that_come_slowly_never_open_it(breaker: Breaker, watch: Watch) -> None:
    for _ in range(10 * OPENS_AT):
        watch.now += WINDOW_SECONDS / (OPENS_AT - 1) + 0.001
        breaker.count(403)
        assert not breaker.open


def test_it_closes_when_half_of_them_are_long_ago(breaker: Breaker, watch: Watch) -> None:
    refuse(breaker, OPENS_AT - CLOSES_AT)
    watch.now += 100
    refuse(breaker, CLOSES_AT)

    watch.now += WINDOW_SECONDS - 100 - 1
    assert breaker.open
    watch.now += 2
    assert not breaker.open
    refuse(breaker, OPENS_AT - CLOSES_AT)
    assert breaker.open


@dataclass
class Site:
    """A server that refuses, and counts what reaches it."""

    address: str = ""
    asked: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        if request.path == "/gateway":
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            await socket.close()
            return socket
        return web.Response(status=403)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", site.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    site.address = f"{host}:{port}"
    yield site
    await runner.cleanup()


async def test_in_a_session_it_counts_and_stops_requests_before_they_are_sent(
    breaker: Breaker, site: Site
) -> None:
    refuse(breaker, OPENS_AT - 1)

    async with aiohttp.ClientSession(trace_configs=[breaker.trace()]) as session:
        async with session.get(f"http://{site.address}/one") as answer:
            assert answer.status == 403
        with pytest.raises(DeliveryError, match="refused so many") as caught:
            await session.get(f"http://{site.address}/two")
        async with session.ws_connect(f"ws://{site.address}/gateway"):
            pass

    assert site.asked == ["/one", "/gateway"]
    assert (caught.value.permanent, caught.value.fate_unknown) == (False, False)

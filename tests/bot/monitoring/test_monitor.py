"""`/healthz`, `/readyz` and `/metrics` as a supervisor and Prometheus see them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from bot import processes
from bot.config.model import Config
from bot.config.reloading import ConfigWatch
from bot.errors import ConfigError
from bot.events import EventBus
from bot.loop_watch import LoopWatch, WatchedLoop
from bot.models.catalog import ModelSettings
from bot.models.offline import OfflineSettings
from bot.monitoring.monitor import Monitor, Watched, open_monitor
from bot.monitoring.settings import MonitoringSettings
from bot.platforms.base import CommandReply, Incoming
from bot.platforms.handler import InboundHandler
from bot.values import Identity, Json, Place, new_run_id, utc_now
from db.database import Database
from db.settings import DatabaseSettings
from tests.fakes.outlet import FakeOutlet
from tests.fakes.ports import free_port


async def get(port: int, path: str) -> tuple[int, str]:
    """Return the status and the body of an answer."""

    def ask() -> tuple[int, str]:
        try:
            with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(ask)


async def readiness(port: int) -> tuple[int, Json]:
    status, body = await get(port, "/readyz")
    return status, json.loads(body)


@dataclass
class Platform:
    """A platform in this process that opens when it may."""

    platform: str = "fake"
    may_open: asyncio.Event = field(default_factory=asyncio.Event)
    tried: asyncio.Event = field(default_factory=asyncio.Event)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    inbound: InboundHandler | None = None

    def __post_init__(self) -> None:
        self.outlet = FakeOutlet(self.platform)
        self.intake = self

    async def run(self, inbound: InboundHandler) -> None:
        self.inbound = inbound
        self.heard.set()
        await asyncio.Event().wait()

    @asynccontextmanager
    async def open(self, database: Database, *, receives: bool) -> AsyncIterator["Platform"]:
        self.tried.set()
        await self.may_open.wait()
        yield self

    async def say(self, text: str) -> CommandReply | None:
        assert self.inbound is not None
        return await self.inbound.receive(
            Incoming(
                event_id=new_run_id(),
                user=Identity(self.platform, "", "alice"),
                user_name="Alice",
                place=Place(self.platform, "", "room"),
                text=text,
            )
        )


@asynccontextmanager
async def served(url: str, platform: Platform, *, receives: bool = True) -> AsyncIterator[int]:
    """Serve with monitoring on a free port, until the end of the block."""
    port = free_port()
    config = Config(
        database=DatabaseSettings(url=url),
        models=ModelSettings(provider="offline", offline=OfflineSettings(pace_seconds=0)),
        monitoring=MonitoringSettings(port=port),
    )
    watch = ConfigWatch(config, None, lambda: config)
    work = processes.serve(watch, {"Fake": platform.open}, receives=receives)
    serving = asyncio.ensure_future(work)
    try:
        async with asyncio.timeout(30):
            # It listens before platforms open.
            await platform.tried.wait()
            yield port
    finally:
        serving.cancel()
        await asyncio.wait({serving})


async def until(port: int, condition: Callable[[str], bool], path: str = "/metrics") -> str:
    """Return the answer once it is as wanted."""
    # It is another program's interface: there is no event to wait for.
    while not condition(body := (await get(port, path))[1]):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    return body


async def test_it_lives_before_it_is_ready_and_then_counts_an_answer(sqlite_url: str) -> None:
    platform = Platform()

    async with served(sqlite_url, platform) as port:
        await platform.tried.wait()
        assert await get(port, "/healthz") == (200, "ok\n")
        status, found = await readiness(port)
        assert (status, found["ready"]) == (503, False)
        assert "starting" in found["parts"]["start"]

        platform.may_open.set()
        await platform.heard.wait()
        await until(port, lambda body: '"ready":true' in body, "/readyz")
        status, found = await readiness(port)
        assert status == 200
        assert set(found["parts"]) == {"start", "database", "fake", "queue"}

        await platform.say("hello")
        text = await until(port, lambda body: "retinue_turns_total{" in body)

    assert 'retinue_turns_total{outcome="done",platform="fake"} 1.0' in text
    assert 'retinue_model_calls_total{outcome="answered",provider="offline"} 1.0' in text
    assert 'retinue_ready{part="fake"} 1.0' in text
    assert "retinue_event_loop_lag_seconds_count" in text
    assert "retinue_event_loop_longest_block_seconds 0.0" in text
    assert 'retinue_queue_age_seconds{kind="turn"}' in text
    assert "alice" not in text.lower()


async def test_a_worker_is_ready_and_leaves_the_state_of_the_system_to_serve(
    postgres_url: str,
) -> None:
    platform = Platform()
    platform.may_open.set()

    async with served(postgres_url, platform, receives=False) as port:
        await until(port, lambda body: '"ready":true' in body, "/readyz")
        _, text = await get(port, "/metrics")

    assert "retinue_queue_age_seconds" not in text
    assert "retinue_runs{" not in text
    assert "retinue_database_seconds_count" in text


@asynccontextmanager
async def monitored(
    database: Database, problems: Mapping[str, str]
) -> AsyncIterator[tuple[int, Monitor]]:
    port = free_port()
    settings = MonitoringSettings(port=port)
    async with open_monitor(settings, release="retinue", whole=True) as monitor:
        watched = Watched(
            database=database,
            events=EventBus(),
            is_tool=lambda _: True,
            problems=lambda: problems,
            now=utc_now,
        )
        monitor.attach(watched)
        yield port, monitor


async def test_each_part_that_is_not_ready_is_named_with_its_reason(database: Database) -> None:
    async with monitored(database, {"slack": "it has ended", "queue": ""}) as (port, _):
        status, found = await readiness(port)
        _, text = await get(port, "/metrics")

    assert status == 503
    assert found["parts"] == {
        "start": "ok",
        "database": "ok",
        "slack": "it has ended",
        "queue": "ok",
    }
    assert 'retinue_ready{part="slack"} 0.0' in text
    assert 'retinue_ready{part="database"} 1.0' in text


async def test_without_its_database_it_is_not_ready_and_tells_no_address(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    url = f"postgresql://nobody:secret@127.0.0.1:{free_port()}/none"
    async with (
        Database.open(DatabaseSettings(url=url)) as database,
        monitored(database, {}) as (port, _),
    ):
        status, found = await readiness(port)
        health, _ = await get(port, "/healthz")

    assert (status, health) == (503, 200)
    assert "unavailable" in found["parts"]["database"]
    assert "secret" not in json.dumps(found)


async def test_a_port_that_is_taken_names_the_setting() -> None:
    async with open_monitor(
        MonitoringSettings(port=(port := free_port())), release="retinue", whole=False
    ):
        with pytest.raises(ConfigError, match=r"`monitoring\.port`"):
            async with open_monitor(MonitoringSettings(port=port), release="retinue", whole=False):
                pass


def test_the_longest_block_of_the_loop_is_shown(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]

    async def work() -> tuple[Json, str]:
        platform = Platform()
        platform.may_open.set()
        async with served(sqlite_url, platform) as port:
            await platform.heard.wait()
            now[0] += 0.7
            await asyncio.sleep(0)
            return (await readiness(port))[1], (await get(port, "/metrics"))[1]

    watch = LoopWatch(lambda: now[0])
    with asyncio.Runner(loop_factory=lambda: WatchedLoop(watch)) as runner:
        found, text = runner.run(work())

    assert found["longest_block_ms"] == 700
    assert "retinue_event_loop_longest_block_seconds 0.7" in text
    assert "blocked for 700 ms" in caplog.text


def test_only_this_computer_is_served_by_default_and_only_if_a_port_is_set() -> None:
    assert MonitoringSettings() == MonitoringSettings(host="127.0.0.1", port=None)

"""The processes that serve: what they open, wait for, hear, finish and leave at their end."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
from pydantic import SecretStr

from bot import processes
from bot.config.model import Config
from bot.config.reloading import ConfigWatch
from bot.conversations.access import AccessSettings
from bot.doctor import examine
from bot.errors import ConfigError, PlatformUnreachableError
from bot.models.catalog import ModelSettings
from bot.models.offline import OfflineSettings
from bot.platforms.base import Announcement, CommandReply, Delivered, Incoming, OnBegun, not_kept
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.handler import InboundHandler
from bot.processes import PlatformOpener
from bot.subagents.cards import PAUSED
from bot.values import Identity, Place, RunStatus, new_run_id
from db.database import Database
from db.settings import DatabaseSettings
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.outlet import FakeOutlet, FakeReply

BACKGROUND = "research tea in the background"


async def serve(
    config: Config, *platforms: dict[str, PlatformOpener], receives: bool = True
) -> None:
    """Serve with a configuration that has no file."""
    await processes.serve(ConfigWatch(config, None, lambda: config), *platforms, receives=receives)


worker = partial(serve, receives=False)


@dataclass
class Stub:
    """A platform in this process: somebody speaks there once it is open and heard."""

    name: str = "fake"
    failures: list[Exception] = field(default_factory=list)
    opened: list[bool] = field(default_factory=list)
    crashes: list[Exception] = field(default_factory=list)
    closed: int = 0
    inbound: InboundHandler | None = None

    def __post_init__(self) -> None:
        self.platform = self.name
        self.outlet = FakeOutlet(self.name)
        self.intake = self
        self.asked = asyncio.Event()
        self.heard = asyncio.Event()
        self.fatal: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, inbound: InboundHandler) -> None:
        """Hear until cancelled, or until the platform will not have us."""
        if self.crashes:
            raise self.crashes.pop(0)
        self.inbound = inbound
        self.heard.set()
        try:
            await self.fatal
        finally:
            self.inbound = None

    @asynccontextmanager
    async def open(self, database: Database, *, receives: bool) -> AsyncIterator["Stub"]:
        """Open this platform, or fail as wanted."""
        self.opened.append(receives)
        self.asked.set()
        if self.failures:
            raise self.failures.pop(0)
        try:
            yield self
        finally:
            self.closed += 1

    async def say(self, text: str) -> CommandReply | None:
        """Let somebody say something."""
        async with asyncio.timeout(20):
            await self.heard.wait()
        assert self.inbound is not None
        return await self.inbound.receive(
            Incoming(
                event_id=new_run_id(),
                user=Identity(self.name, "", "alice"),
                user_name="Alice",
                place=Place(self.name, "", "room"),
                text=text,
            )
        )


def configured(url: str, *, pace: float = 0.01) -> Config:
    return Config(
        database=DatabaseSettings(url=url),
        models=ModelSettings(provider="offline", offline=OfflineSettings(pace_seconds=pace)),
    )


@asynccontextmanager
async def serving(
    config: Config, *stubs: Stub, opens: bool = True
) -> AsyncIterator[asyncio.Task[None]]:
    """Serve, and end it in good order unless the test did; `opens` waits for the platforms."""
    task = asyncio.ensure_future(serve(config, {stub.name: stub.open for stub in stubs}))
    try:
        async with asyncio.timeout(20):
            if opens:
                await stubs[0].asked.wait()
        yield task
    finally:
        if not task.done():
            end()
        async with asyncio.timeout(40):
            await asyncio.wait({task})


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds that tells nobody."""
    async with asyncio.timeout(20):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


def end() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="bot")
    return caplog


# --- what it takes to serve -----------------------------------------------------------------------


@pytest.mark.parametrize("command", [serve, worker])
async def test_with_no_platform_set_up_it_says_what_to_set(
    command: object, postgres_url: str
) -> None:
    assert callable(command)
    with pytest.raises(ConfigError, match="set `discord"):
        await command(configured(postgres_url))


async def test_a_worker_on_a_file_is_refused_with_the_reason(sqlite_url: str) -> None:
    stub = Stub()

    with pytest.raises(ConfigError, match="held by one process alone"):
        await worker(configured(sqlite_url), {stub.name: stub.open})

    assert stub.opened == []


async def test_two_platforms_are_heard_and_answered_by_one_bot(sqlite_url: str) -> None:
    here, there = Stub("here"), Stub("there")

    async with serving(configured(sqlite_url), here, there) as task:
        await here.say("hello")
        await there.say("hello")
        await here.outlet.replied()
        await there.outlet.replied()

    assert task.exception() is None
    assert (here.opened, there.opened) == ([True], [True])
    assert (here.closed, there.closed) == (1, 1)


async def test_a_database_that_will_not_have_us_is_said_in_a_sentence(postgres_url: str) -> None:
    missing = postgres_url.replace("/test_", "/nowhere_to_be_found_")

    with pytest.raises(
        ConfigError, match=r'database "nowhere_to_be_found.*Create it on the server'
    ):
        await serve(configured(missing), {"fake": Stub().open})


# --- what is out of reach -------------------------------------------------------------------------


async def test_a_platform_out_of_reach_is_waited_for_and_told_once_per_change(
    sqlite_url: str, told: pytest.LogCaptureFixture
) -> None:
    stub = Stub(failures=[PlatformUnreachableError("No way there.") for _ in range(2)])

    async with serving(configured(sqlite_url), stub):
        await stub.say("hello")
        await stub.outlet.replied()

    assert len(stub.opened) == 3
    assert told.messages.count("fake is unavailable; retrying: No way there.") == 1
    assert told.messages.count("fake is available again") == 1


async def test_a_database_out_of_reach_is_waited_for_and_a_signal_ends_the_wait(
    told: pytest.LogCaptureFixture,
) -> None:
    stub = Stub()
    config = configured("postgresql://bot:hunter22@127.0.0.1:1/retinue")

    async with serving(config, stub, opens=False) as task:
        await until(lambda: "is unavailable" in told.text)
        end()
        async with asyncio.timeout(20):
            await task

    lines = [line for line in told.messages if "is unavailable" in line]
    assert len(lines) == 1
    assert lines[0].startswith("postgresql://bot:[secret]@127.0.0.1:1/retinue is unavailable")
    assert "hunter22" not in told.text
    assert stub.opened == []


async def test_what_cannot_be_waited_for_ends_it_at_once(sqlite_url: str) -> None:
    stub = Stub(failures=[ConfigError("Not with this token.")])

    with pytest.raises(ConfigError, match="Not with this token"):
        await serve(configured(sqlite_url), {stub.name: stub.open})

    assert len(stub.opened) == 1


# --- the end --------------------------------------------------------------------------------------


async def test_asked_to_end_it_hears_nothing_more_and_finishes_what_is_under_way(
    sqlite_url: str,
) -> None:
    stub = Stub()

    async with serving(configured(sqlite_url, pace=0.5), stub) as task:
        await stub.say("hello")
        await stub.outlet.until(lambda: bool(stub.outlet.replies))
        end()
        await stub.outlet.replied()
        assert stub.inbound is None
        await task

    assert len(stub.outlet.finished) == 1


async def test_what_waits_while_it_drains_begins_with_the_next_start(sqlite_url: str) -> None:
    stub, again = Stub(), Stub()

    async with serving(configured(sqlite_url, pace=0.5), stub):
        await stub.say("hello")
        await stub.outlet.until(lambda: any(each.updates for each in stub.outlet.replies))
        await stub.say("and what time is it")
    async with serving(configured(sqlite_url), again):
        await again.outlet.replied()

    assert len(stub.outlet.finished) == len(stub.outlet.replies) == 1
    assert "UTC" in again.outlet.texts()[0]


async def test_a_run_that_is_started_while_it_drains_begins_with_the_next_start(
    sqlite_url: str,
) -> None:
    stub, again = Stub(), Stub()

    async with serving(configured(sqlite_url, pace=0.5), stub):
        await stub.say(BACKGROUND)
        await stub.outlet.until(lambda: bool(stub.outlet.replies))
    states = [card.status for cards in stub.outlet.cards.values() for card in cards]
    async with serving(configured(sqlite_url), again):
        await again.outlet.until(lambda: bool(again.outlet.announcements))

    assert len(stub.outlet.finished) == 1
    assert set(states) <= {RunStatus.ACCEPTED}
    assert "completed" in again.outlet.announcements[0].title


async def test_a_run_at_work_is_handed_over_at_once_and_its_card_says_so(sqlite_url: str) -> None:
    stub, again = Stub(), Stub()

    async with serving(configured(sqlite_url, pace=0.5), stub) as task:
        await stub.say(BACKGROUND)
        await stub.outlet.until(lambda: bool(stub.outlet.cards))
        (run_id,) = stub.outlet.cards
        await stub.outlet.card_shows(run_id, RunStatus.RUNNING)
        await stub.outlet.replied()
        end()
        await task
    assert stub.outlet.cards[run_id][-1].line == PAUSED
    async with serving(configured(sqlite_url), again):
        await again.outlet.until(lambda: bool(again.outlet.announcements))

    assert stub.outlet.announcements == []
    assert [said.key for said in again.outlet.announcements] == [run_id]
    assert again.outlet.cards[run_id][-1].line != PAUSED


class SlowOutlet(FakeOutlet):
    """An outlet that is asked to end, with its process, while it takes an announcement."""

    async def announce(self, announcement: Announcement) -> Delivered:
        end()
        await asyncio.sleep(0.5)
        return await super().announce(announcement)


async def test_what_is_being_announced_when_it_drains_is_announced(sqlite_url: str) -> None:
    stub = Stub()
    stub.outlet = SlowOutlet(stub.name)

    async with serving(configured(sqlite_url), stub) as task:
        await stub.say(BACKGROUND)
        await task

    assert [said.key for said in stub.outlet.announcements] == [*stub.outlet.cards]


class LateOutlet(FakeOutlet):
    """An outlet that is asked to end, with its process, while it takes the last of a reply."""

    def open_reply(
        self, place: Place, owner: Identity, message_id: str = "", *, begun: OnBegun = not_kept
    ) -> FakeReply:
        reply = LateReply(self, place, owner, message_id or new_run_id())
        self.replies.append(reply)
        return reply


class LateReply(FakeReply):
    """A reply of that outlet."""

    async def finish(self, text: str, *, failed: bool = False) -> Delivered:
        end()
        await asyncio.sleep(2)
        return await super().finish(text, failed=failed)


async def test_a_reply_whose_last_words_are_being_said_is_said_to_its_end_and_once(
    sqlite_url: str,
) -> None:
    stub, again = Stub(), Stub()
    stub.outlet = LateOutlet(stub.name)

    async with serving(configured(sqlite_url), stub) as task:
        await stub.say("hello")
        await task
    async with serving(configured(sqlite_url), again):
        await again.say("hello again")
        await again.outlet.replied()

    assert len(stub.outlet.finished) == 1
    assert len(again.outlet.replies) == 1


# --- platforms that fail ------------------------------------------------------------------------


async def test_a_platform_that_will_not_have_us_ends_alone_and_doctor_knows(
    sqlite_url: str, told: pytest.LogCaptureFixture
) -> None:
    broken, fine = Stub("broken"), Stub("fine")

    async with serving(configured(sqlite_url), broken, fine) as task:
        await fine.say("hello")
        await fine.outlet.replied()
        await broken.heard.wait()
        broken.fatal.set_exception(ConfigError("We do not want you here."))
        await until(lambda: broken.inbound is None)
        await fine.say("hello again")
        await fine.outlet.replied(2)
        assert not task.done()

    assert task.exception() is None
    assert "broken has ended: We do not want you here." in told.messages
    findings = [str(each) for each in await examine(configured(sqlite_url))]
    assert any("✗ Broken" in line and "We do not want you here." in line for line in findings)


async def test_the_process_ends_when_no_platform_is_left(sqlite_url: str) -> None:
    first, second = Stub("first"), Stub("second")

    async with serving(configured(sqlite_url, pace=0.5), first, second) as task:
        await first.say("hello")
        await first.outlet.until(lambda: bool(first.outlet.replies))
        await second.heard.wait()
        first.fatal.set_exception(ConfigError("Not you."))
        second.fatal.set_exception(ConfigError("Not you either."))
        with pytest.raises(ConfigError, match=r"Not you\."):
            await task

    assert len(first.outlet.finished) == 1
    assert (first.closed, second.closed) == (1, 1)


async def test_a_platform_that_is_refused_at_the_start_leaves_the_others_alone(
    sqlite_url: str, told: pytest.LogCaptureFixture
) -> None:
    broken = Stub("broken", failures=[ConfigError("Not with this token.")])
    fine = Stub("fine")

    async with serving(configured(sqlite_url), broken, fine):
        await fine.say("hello")
        await fine.outlet.replied()
        assert "broken has ended: Not with this token." in told.messages
        findings = [str(each) for each in await examine(configured(sqlite_url))]

    assert any("✗ Broken" in line and "Not with this token." in line for line in findings)


async def test_admins_are_notified_of_a_platform_that_is_refused(sqlite_url: str) -> None:
    broken = Stub("broken", failures=[ConfigError("Not with this token.")])
    fine = Stub("fine")
    config = configured(sqlite_url)
    admins = AccessSettings(admins=("fine:root",))

    async with serving(config.model_copy(update={"access": admins}), broken, fine):
        await fine.outlet.until(lambda: bool(fine.outlet.announcements), "a notice")

    [notice] = fine.outlet.announcements
    assert notice.owner == Identity("fine", "", "root")
    assert "broken is not served any more: Not with this token." in notice.text


async def test_a_platform_out_of_reach_at_the_start_keeps_nobody_waiting_and_comes_later(
    sqlite_url: str,
) -> None:
    away = Stub("away", failures=[PlatformUnreachableError("No way there.") for _ in range(100)])
    fine = Stub("fine")

    async with serving(configured(sqlite_url), fine, away):
        await fine.say("hello")
        await fine.outlet.replied()
        assert not away.heard.is_set()
        away.failures.clear()
        await away.say("hello")
        await away.outlet.replied()


async def test_what_goes_wrong_while_it_hears_is_logged_once_and_it_hears_again(
    sqlite_url: str, told: pytest.LogCaptureFixture
) -> None:
    crashes: list[Exception] = [KeyError("author"), KeyError("author")]
    shaky, fine = Stub("shaky", crashes=crashes), Stub("fine")

    async with serving(configured(sqlite_url), shaky, fine) as task:
        await shaky.say("hello")
        await shaky.outlet.replied()
        assert not task.done()

    assert told.messages.count("shaky cannot be received from any more; trying again") == 1


# --- several processes ----------------------------------------------------------------------------


async def test_a_worker_hears_nothing_and_goes_on_with_what_others_left(postgres_url: str) -> None:
    stub, other = Stub(), Stub()

    async with serving(configured(postgres_url, pace=0.5), stub):
        await stub.say(BACKGROUND)
        await stub.outlet.until(lambda: bool(stub.outlet.replies))
    task = asyncio.ensure_future(worker(configured(postgres_url), {other.name: other.open}))
    await other.outlet.until(lambda: bool(other.outlet.announcements))
    end()
    async with asyncio.timeout(20):
        await task

    assert stub.outlet.announcements == []
    assert other.opened == [False]
    assert not other.heard.is_set()
    assert other.closed == 1


@asynccontextmanager
async def on_discord(
    work: Callable[[Config], Coroutine[None, None, None]], fake: FakeDiscord, config: Config
) -> AsyncIterator[None]:
    """Serve Discord, and end it in good order."""
    settings = DiscordSettings(
        token=SecretStr(fake.token), api_url=fake.api_url, gateway_url=fake.gateway_url
    )
    task = asyncio.ensure_future(work(config.model_copy(update={"discord": settings})))
    try:
        await fake.until(lambda: fake.sent, "a login", seconds=20)
        yield
    finally:
        end()
        async with asyncio.timeout(40):
            await task


async def test_a_worker_speaks_on_discord_without_listening_there(postgres_url: str) -> None:
    async with FakeDiscord.open() as fake:
        guild, alice = fake.add_guild("Farm"), fake.add_user("alice")
        fake.join(guild, alice)
        channel = fake.add_channel(guild, "general")

        async with on_discord(serve, fake, configured(postgres_url, pace=0.5)):
            await fake.until(lambda: fake.gateway.connected, "a connection", seconds=20)
            message = await fake.say(alice, channel, f"<@{fake.bot.id}> {BACKGROUND}")
            await fake.until(lambda: message.reactions, "👀")
        assert message.thread is not None
        heard, there = fake.gateway.identifies, message.thread

        def ended() -> bool:
            return any("Sub-agent completed" in each.text() for each in fake.messages(there))

        assert not ended()
        async with on_discord(worker, fake, configured(postgres_url)):
            await fake.until(ended, "the result", seconds=30)

    assert fake.gateway.identifies == heard == 1
    assert fake.syncs == 1

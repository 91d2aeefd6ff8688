"""Runs one process of the bot: a chat, one message, `serve`, or a `worker`."""

import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

from bot import loop_watch
from bot.app import open_bot
from bot.catalog.agents import AgentCatalog
from bot.config.model import Config
from bot.config.reloading import ConfigWatch, LiveConfig
from bot.conversations.announcements import Announcements
from bot.errors import BadRequestError, ConfigError
from bot.logs import quiet
from bot.platforms.catalog import PLATFORMS, module_of
from bot.platforms.terminal.once import OneMessage
from bot.platforms.terminal.terminal import Terminal
from bot.running import Bot, settle_memory
from bot.serving import OpenPlatform, Services, enter
from bot.signals import StopSignals
from bot.supervisor import READY, STOPPING, Supervisor
from bot.tasks import Tasks
from bot.values import Identity, Live
from bot.versions import release
from db.database import Database, is_connection_trouble
from db.diagnosis import diagnosis, file_trouble
from migrations.run import open_database
from migrations.version import SCHEMA_VERSION

if TYPE_CHECKING:
    from bot.monitoring.monitor import Monitor, Watched

log = logging.getLogger(__name__)


class PlatformOpener(Protocol):
    """Opens a platform, and closes it when the block ends; without `receives` it only sends."""

    def __call__(
        self, database: Database, *, receives: bool
    ) -> AbstractAsyncContextManager[OpenPlatform]:
        """Open the platform."""


def platforms_of(config: Live[Config]) -> dict[str, PlatformOpener]:
    """Return the platforms that are set up, by the name that users know.

    Args:
        config: Returns the configuration in force, which has been checked.

    Raises:
        ConfigError: No platform is set up; the text names the remedy.
    """
    start, current = config(), LiveConfig(config)
    kinds = [kind for kind in PLATFORMS if start.section(kind).configured]
    if not kinds:
        needs = ", or ".join(f"{each.needs} for {each.title} ({each.guide})" for each in PLATFORMS)
        raise ConfigError(
            f"No platform is set up that could be served: set {needs}. `python -m bot chat` talks "
            "in the terminal and needs nothing."
        )
    return {
        kind.title: partial(
            module_of(kind, "platform").open_platform,
            current.live(kind),
        )
        for kind in kinds
    }


async def chat(watch: ConfigWatch, *, name: str, plain: bool | None) -> int:
    """Chat in the terminal until the user leaves; return the exit code."""
    here: list[Identity] = []
    announcements: list[Announcements] = []

    async def on_present(user: Identity) -> None:
        here[:] = [user]
        for each in announcements:
            await each.deliver_waiting(user)

    main = watch().models.main
    terminal = Terminal(
        model_name="the offline demo" if main.provider == "offline" else main.model,
        on_present=on_present,
        name=name,
        interactive=None if plain is None else not plain,
    )
    opening = open_bot(
        watch, {terminal.platform: terminal.outlet}, present=lambda: here[0] if here else None
    )
    async with opening as bot, _watched(watch, bot):
        announcements.append(bot.announcements)
        # Without a file the log is on the screen, where the user reads answers.
        loop_watch.started(logging.WARNING if watch().logging.file else logging.INFO)
        # Ctrl-C is input here: it stops an answer.
        with StopSignals(signal.SIGTERM) as signals:
            work = terminal.run(bot.orchestrator, ended=bot.finished)
            await signals.until_stopped(work)
    return 0


async def ask(config: Config, text: str, *, name: str, agent: str = "", as_json: bool) -> int:
    """Send one message, write its answer to standard output, and return the exit code.

    Args:
        config: The configuration, which has been checked.
        text: The message.
        name: The user's name.
        agent: The agent that does the work as a run; empty for the main agent.
        as_json: Whether to write one JSON object instead of the answer.

    Raises:
        BadRequestError: The agent does not exist.
    """
    if agent and agent not in (known := AgentCatalog.of_settings(config.agents).by_name):
        raise BadRequestError(
            f"There is no agent {agent!r}. There are: {', '.join(sorted(known))}."
        )
    here: list[Identity] = []

    async def on_present(user: Identity) -> None:
        here[:] = [user]

    message = OneMessage(
        text,
        name=name,
        agent=agent,
        as_json=as_json,
        on_present=on_present,
        answers=sys.stdout,
        notes=sys.stderr,
    )
    async with open_bot(
        config,
        {message.platform: message.outlet},
        present=lambda: here[0] if here else None,
    ) as bot:
        with StopSignals(signal.SIGTERM) as signals:
            await signals.until_stopped(message.run(bot.orchestrator))
    if signals.requested.is_set():
        return 128 + signal.SIGTERM
    return int(message.failed)


async def serve(
    watch: ConfigWatch,
    platforms: Mapping[str, PlatformOpener] | None = None,
    *,
    receives: bool = True,
    on_stop: Callable[[], None] = lambda: None,
) -> None:
    """Work on every platform that is set up, until the process is asked to end.

    Args:
        watch: Holds the configuration in force, which has been checked.
        platforms: The platforms by name; `None` for those that are set up.
        receives: Whether to receive as well; a worker only sends, beside other processes.
        on_stop: Called when the process is asked to end.

    Raises:
        ConfigError: No platform is set up, all of them refuse the bot, or a worker has no database
            to share; the text names the remedy.
    """
    config = watch()
    if not receives and config.database.is_sqlite:
        raise ConfigError(
            "A worker shares the work of other processes, and the file of SQLite is held by one "
            f"process alone ({config.database.shown}). Set `database.url` to a PostgreSQL server, "
            "or run `python -m bot serve` alone: it works everything off itself."
        )
    platforms = platforms or platforms_of(watch)
    supervisor = Supervisor.of_process()
    with StopSignals(on_stop=on_stop) as signals:
        async with supervisor.watching(), AsyncExitStack() as stack:
            monitor = await _monitored(stack, config, receives=receives)
            opened = await signals.until_stopped(_open(stack, watch, platforms, receives=receives))
            if opened is None:
                return
            bot, services = opened
            if monitor is not None:
                monitor.attach(_watched_by_monitor(bot, services))
            settle_memory()
            loop_watch.started()
            supervisor.notify(READY)
            serving = asyncio.ensure_future(services.serve(bot, receives=receives))
            ends = (signals.requested, bot.finished)
            over = {asyncio.ensure_future(each.wait()) for each in ends}
            try:
                await asyncio.wait({serving, *over}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                supervisor.notify(STOPPING)
                for each in (*over, serving):
                    each.cancel()
                async with asyncio.TaskGroup() as group:
                    group.create_task(asyncio.wait({serving}), name="stop receiving")
                    group.create_task(bot.drain(), name="drain")
            if not serving.cancelled():
                serving.result()


@asynccontextmanager
async def _watched(watch: ConfigWatch, bot: Bot) -> AsyncIterator[None]:
    """Watch the configuration of a bot during the block."""
    duties = Tasks()
    work = watch.run(bot.on_reload)
    duties.start(work, name="watch the configuration", fresh_context=True)
    try:
        yield
    finally:
        await duties.close()


async def _monitored(stack: AsyncExitStack, config: Config, *, receives: bool) -> "Monitor | None":
    """Serve health checks and metrics, if the configuration has a port for them."""
    if config.monitoring.port is None:
        return None
    from bot.monitoring.monitor import open_monitor  # noqa: PLC0415 - it imports a web server

    # Each process counts what it does; the state of all belongs to the one that receives.
    opening = open_monitor(config.monitoring, release=release(SCHEMA_VERSION), whole=receives)
    return await stack.enter_async_context(opening)


def _watched_by_monitor(bot: Bot, services: Services) -> "Watched":
    from bot.monitoring.monitor import Watched  # noqa: PLC0415 - see above

    def problems() -> dict[str, str]:
        alive, draining = bot.upkeep.heartbeat.recent, bot.draining.is_set()
        queue = "" if alive else "its heartbeat is not stored; other processes take its work over"
        return {
            **services.problems(),
            "queue": "it is drained and begins nothing more" if draining else queue,
        }

    return Watched(
        database=bot.database,
        events=bot.events,
        is_tool=bot.registry.has,
        problems=problems,
        now=bot.upkeep.now,
    )


async def _open(
    stack: AsyncExitStack,
    watch: ConfigWatch,
    platforms: Mapping[str, PlatformOpener],
    *,
    receives: bool,
) -> tuple[Bot, Services]:
    """Open the database, the platforms and the bot, and retry while any of them is unreachable."""
    settings = watch().database

    def trouble_of(error: Exception) -> str | None:
        """Return the problem of a database, if more is known than the error tells."""
        if settings.is_sqlite and is_connection_trouble(error):
            return file_trouble(settings)
        return diagnosis(error, settings)

    with quiet("db.trouble"):
        database = await enter(
            stack,
            partial(open_database, settings),
            settings.shown,
            trouble_of=trouble_of,
        )
        services = Services(
            {
                name: partial(opener, database, receives=receives)
                for name, opener in platforms.items()
            }
        )
        await stack.enter_async_context(services.open())
        opening = partial(open_bot, watch, services.outlets, database=database)
        bot = await enter(stack, opening, settings.shown)
        await stack.enter_async_context(_watched(watch, bot))
    return bot, services

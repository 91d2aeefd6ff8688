"""The composition root: builds the parts, opens them in order, closes them in reverse."""

import asyncio
import logging
import os
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from sqlalchemy.exc import DBAPIError

from bot import logs
from bot.agent.shelf import AGENTS, Shelf
from bot.config import Config
from bot.conversations.announcements import Announcements
from bot.errors import BotError, ConfigError, PlatformUnreachableError
from bot.models.catalog import Models
from bot.parts import Bot, Parts
from bot.platforms.base import Intake, Outlet
from bot.platforms.terminal.terminal import Terminal
from bot.signals import Signals
from bot.tasks import Tasks
from bot.values import Clock, Identity, utc_now
from db.database import Database, is_connection_trouble
from migrations.run import ensure_current
from skills.base import Skill

log = logging.getLogger(__name__)

Opened = TypeVar("Opened")

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 30.0


class OpenPlatform(Protocol):
    """A platform that is open: what hears there, and what speaks."""

    @property
    def outlet(self) -> Outlet: ...  # noqa: D102

    @property
    def intake(self) -> Intake: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Ground:
    """What a platform stands on.

    Attributes:
        config: The configuration of this start.
        current: What it says now, for what may change while the bot runs.
    """

    config: Config
    database: Database
    current: Callable[[], Config]


class Opens(Protocol):
    """Opens a platform, and closes it when the block ends."""

    def __call__(
        self, ground: Ground, /, *, hears: bool
    ) -> AbstractAsyncContextManager[OpenPlatform]:
        """Open it; where nobody hears, only what is needed to speak."""
        ...


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform that can be served.

    Attributes:
        name: As people know it.
        needs: What must be set, for a sentence.
        guide: The page that leads through it.
        configured: Whether it is.
        open: Opens it.
    """

    name: str
    needs: str
    guide: str
    configured: Callable[[Config], bool]
    open: Opens


def _open_discord(ground: Ground, *, hears: bool) -> AbstractAsyncContextManager[OpenPlatform]:
    from bot.platforms.discord.platform import open_discord  # noqa: PLC0415

    return open_discord(ground.config.discord, hears=hears)


def _open_slack(ground: Ground, *, hears: bool) -> AbstractAsyncContextManager[OpenPlatform]:
    from bot.platforms.slack.platform import open_slack  # noqa: PLC0415

    return open_slack(
        ground.config.slack, ground.database, hears=hears, current=lambda: ground.current().slack
    )


PLATFORMS = (
    Platform(
        "Discord",
        "`discord.token` (or the variable DISCORD_TOKEN)",
        "docs/discord.md",
        lambda config: config.discord.configured,
        _open_discord,
    ),
    Platform(
        "Slack",
        "`slack.bot_token` (or the variable SLACK_BOT_TOKEN)",
        "docs/slack.md",
        lambda config: config.slack.configured,
        _open_slack,
    ),
)


@asynccontextmanager
async def open_database(config: Config) -> AsyncIterator[Database]:
    """Open the database with all its tables, for this process alone if it is a file.

    Raises:
        DatabaseBusyError: Another bot holds the SQLite file.
    """
    async with Database.open(config.database, exclusive=True) as database:
        await ensure_current(database, config.database)
        yield database


@asynccontextmanager
async def open_bot(
    config: Config,
    outlets: Mapping[str, Outlet],
    *,
    database: Database | None = None,
    now: Clock = utc_now,
    present: Callable[[], Identity | None] = lambda: None,
    further_skills: Sequence[Skill] = (),
) -> AsyncIterator[Bot]:
    """Open a bot that serves the platforms of these outlets, and close it when the block ends.

    Args:
        config: The configuration, which has been checked.
        outlets: By the name of their platform.
        database: What `open_database` has opened; otherwise it is opened here.
        now: The bot's clock.
        present: Who sits at the terminal; `None` when nobody does.
        further_skills: Beside those that come with it.

    Raises:
        DatabaseBusyError: Another bot holds the SQLite file.
        ConfigError: An agent or a skill is broken.
    """
    worker_id = f"{socket.gethostname()[:20]}-{os.getpid()}-{secrets.token_hex(4)}"
    agents = Shelf([AGENTS, *(Path(folder) for folder in config.agents.folders)])
    for problem in agents.problems:
        log.warning("%s", problem)
    async with AsyncExitStack() as stack:
        if database is None:
            database = await stack.enter_async_context(open_database(config))
        models = await stack.enter_async_context(Models.open(config.models))
        tasks = Tasks()
        stack.push_async_callback(tasks.close)
        parts = Parts(config, database, models, tasks, outlets, agents, worker_id, now)
        bot = await parts.build(stack, present, further_skills)
        yield bot


# -- the commands ----------------------------------------------------------------------------------


async def chat(config: Config, *, name: str, plain: bool | None) -> int:
    """Talk in the terminal until the person leaves; return the exit code."""
    here: list[Identity] = []
    announcements: list[Announcements] = []

    async def on_present(user: Identity) -> None:
        here[:] = [user]
        for each in announcements:
            await each.deliver_waiting(user)

    terminal = Terminal(
        model_name=_model_name(config),
        on_present=on_present,
        name=name,
        interactive=None if plain is None else not plain,
    )
    async with open_bot(
        config,
        {terminal.platform: terminal.outlet},
        present=lambda: here[0] if here else None,
    ) as bot:
        announcements.append(bot.announcements)
        # Ctrl-C is something that is typed: it stops an answer.
        with Signals(signal.SIGTERM) as signals:
            await signals.unless_asked(terminal.intake.run(bot.orchestrator))
    return 0


def _model_name(config: Config) -> str:
    main = config.models.main
    return "the offline demo" if main.provider == "offline" else main.model


async def serve(
    config: Config,
    platforms: Sequence[Platform] = PLATFORMS,
    *,
    current: Callable[[], Config] | None = None,
) -> None:
    """Hear and say on every platform that is set up, until the process is asked to end.

    Args:
        config: The configuration, which has been checked.
        platforms: Those that there are.
        current: What the configuration says now; the same as at the start if `None`.

    Raises:
        ConfigError: None is set up, or one will not have us; the text says what to do.
    """
    await _run(config, _wanted(config, platforms), current or (lambda: config), hears=True)


async def worker(config: Config, platforms: Sequence[Platform] = PLATFORMS) -> None:
    """Work beside other processes on the platforms that are set up, until asked to end.

    Raises:
        ConfigError: There is nothing that could be shared; the text says what to do.
    """
    if config.database.is_sqlite:
        raise ConfigError(
            "A worker shares the work of other processes, and the file of SQLite is held by one "
            f"process alone ({config.database.shown}). Set `database.url` to a PostgreSQL server, "
            "or run `python -m bot serve` alone: it works everything off itself."
        )
    await _run(config, _wanted(config, platforms), lambda: config, hears=False)


def _wanted(config: Config, platforms: Sequence[Platform]) -> list[Platform]:
    found = [platform for platform in platforms if platform.configured(config)]
    if not found:
        needs = ", or ".join(f"{each.needs} for {each.name} ({each.guide})" for each in platforms)
        raise ConfigError(
            f"No platform is set up that could be served: set {needs}. `python -m bot chat` talks "
            "in the terminal and needs nothing."
        )
    return found


async def _run(
    config: Config, platforms: Sequence[Platform], current: Callable[[], Config], *, hears: bool
) -> None:
    with Signals() as signals:
        async with AsyncExitStack() as stack:
            opened = await signals.unless_asked(
                _open(stack, config, platforms, current, hears=hears)
            )
            if opened is None:
                return
            bot, intakes = opened
            log.info("Ready for %s", " and ".join(each.name for each in platforms))
            try:
                await signals.unless_asked(_listen(bot, intakes))
            finally:
                await bot.drain()


async def _open(
    stack: AsyncExitStack,
    config: Config,
    platforms: Sequence[Platform],
    current: Callable[[], Config],
    *,
    hears: bool,
) -> tuple[Bot, list[Intake]]:
    """Open everything, however long what it needs is out of reach."""
    with _quiet("db.database"):
        database = await _enter(stack, partial(open_database, config), config.database.shown)
        ground = Ground(config, database, current)
        opened = [
            await _enter(stack, partial(each.open, ground, hears=hears), each.name)
            for each in platforms
        ]
        outlets = {each.outlet.platform: each.outlet for each in opened}
        opening = partial(open_bot, config, outlets, database=database)
        bot = await _enter(stack, opening, config.database.shown)
    return bot, [each.intake for each in opened] if hears else []


async def _enter(
    stack: AsyncExitStack,
    opening: Callable[[], AbstractAsyncContextManager[Opened]],
    name: str,
) -> Opened:
    """Open something; while it is out of reach, again, and say so when that changes."""
    wait, said = FIRST_WAIT_SECONDS, ""
    while True:
        try:
            opened = await stack.enter_async_context(opening())
        except (BotError, DBAPIError, OSError) as error:
            if not isinstance(error, PlatformUnreachableError) and not is_connection_trouble(error):
                if isinstance(error, DBAPIError):
                    raise _unusable(name, error) from error
                raise
            reason = logs.without_secrets(str(error.__cause__ or error))
            if reason != said:
                log.warning("%s is out of reach; waiting for it: %s", name, reason)
                said = reason
        else:
            if said:
                log.info("%s is there now", name)
            return opened
        await asyncio.sleep(wait)
        wait = min(LONGEST_WAIT_SECONDS, wait * 2)


def _unusable(name: str, error: DBAPIError) -> ConfigError:
    """Return what to say when the database answers, and will not have us."""
    said = str(error.orig).partition("\n")[0].rpartition(">: ")[2].rstrip(".")
    return ConfigError(
        f"{name} cannot be used: {logs.without_secrets(said)}. Check `database.url`; "
        "`python -m bot doctor` says more."
    )


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Keep a logger from telling of every try: what changes is told here, once."""
    logger = logging.getLogger(name)
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False


async def _listen(bot: Bot, intakes: Sequence[Intake]) -> None:
    """Hear on all platforms, until one of them will not have us; a worker hears nothing."""
    if not intakes:
        await asyncio.Event().wait()
    try:
        async with asyncio.TaskGroup() as group:
            for intake in intakes:
                group.create_task(intake.run(bot.orchestrator), name=f"hear {intake.platform}")
    except BaseExceptionGroup as failed:
        first, *others = failed.exceptions
        for other in others:
            log.error("%s", other)
        raise first from None

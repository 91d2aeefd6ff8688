"""The composition root: builds the parts, opens them in order, closes them in reverse."""

import asyncio
import logging
import os
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from bot.agent.definition import read_folder
from bot.config import Config
from bot.conversations.announcements import Announcements
from bot.models.catalog import Models
from bot.parts import Bot, Parts
from bot.platforms.base import Outlet
from bot.platforms.terminal.terminal import Terminal
from bot.tasks import Tasks
from bot.values import Clock, Identity, utc_now
from db.database import Database
from migrations.run import ensure_current
from skills.base import Skill

log = logging.getLogger(__name__)

AGENTS = Path(__file__).parent.parent / "agents"
NOTHING_TO_SERVE = (
    "No platform is set up that could be served: this version speaks in the terminal only. "
    "Use `python -m bot chat`; Discord and Slack come with the next versions."
)


@asynccontextmanager
async def open_bot(
    config: Config,
    outlets: Mapping[str, Outlet],
    *,
    now: Clock = utc_now,
    present: Callable[[], Identity | None] = lambda: None,
    further_skills: Sequence[Skill] = (),
) -> AsyncIterator[Bot]:
    """Open a bot that serves the platforms of these outlets, and close it when the block ends.

    Raises:
        DatabaseBusyError: Another bot holds the SQLite file.
        ConfigError: An agent or a skill is broken.
    """
    worker_id = f"{socket.gethostname()[:20]}-{os.getpid()}-{secrets.token_hex(4)}"
    agents = read_folder(AGENTS)
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database.open(config.database, exclusive=True))
        await ensure_current(database, config.database)
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
        await _until_signal(terminal.intake.run(bot.orchestrator))
    return 0


def _model_name(config: Config) -> str:
    main = config.models.main
    return "the offline demo" if main.provider == "offline" else main.model


async def serve(config: Config) -> int:
    """Hear and say on every platform that is set up; return the exit code."""
    log.error(NOTHING_TO_SERVE)
    return 2


async def worker(config: Config) -> int:
    """Work beside other processes on the platforms that are set up; return the exit code."""
    log.error(NOTHING_TO_SERVE)
    return 2


async def _until_signal(work: Coroutine[None, None, None]) -> None:
    """Do `work` until it ends or the process is asked to end."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await task
    finally:
        loop.remove_signal_handler(signal.SIGTERM)

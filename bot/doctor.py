"""Look at everything that the bot needs, and say of each whether it is there."""

import asyncio
import fcntl
import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sqlalchemy.engine import make_url

from bot.agent.messages import UserMessage
from bot.calendars import checkup as calendar_checkup
from bot.calendars.settings import CalendarsSettings
from bot.config import Config
from bot.conversations.upkeep import DEAD_AFTER
from bot.errors import BotError
from bot.logs import without_secrets
from bot.mcp import checkup as mcp
from bot.mcp.pins import Pins
from bot.models.base import Question
from bot.models.catalog import PROVIDERS, Choice, Models, ModelSettings
from bot.net.addresses import AnyAddress
from bot.net.guard import open_guarded
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.remarks import Remark
from bot.platforms.slack.settings import SlackSettings
from bot.rest import checkup as rest
from bot.sandbox.host import SandboxUnavailableError
from bot.sandbox.selftest import enforced, open_sandbox
from bot.sandbox.settings import Room
from bot.values import utc_now
from db import workers
from db.database import Database, DatabaseSettings
from db.tables import SCHEMA_VERSION
from migrations.run import current_version

PATIENCE_SECONDS = 10
ANSWER_SECONDS = 60


class Mark(StrEnum):
    """What came of a look."""

    GOOD = "✓"
    BAD = "✗"
    #: Neither: it is off, or comes later.
    OFF = "–"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line about one thing."""

    mark: Mark
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.mark} {self.subject:<10} {self.text}"

    @property
    def bad(self) -> bool:
        """Whether this keeps the bot from working."""
        return self.mark is Mark.BAD


async def examine(config: Config, *, online: bool = False) -> list[Finding]:
    """Return what was found, the most basic first.

    Args:
        config: The configuration, which has been checked.
        online: Also ask the model a question.
    """
    found = [await _database(config.database)]
    if config.database.is_sqlite:
        found.append(_holder(_file(config.database)))
    found.append(_search(config.database))
    found += _keys(config.models)
    if online:
        found += [await _answer(config.models, choice) for choice in _asked(config.models)]
    return [
        *found,
        Finding(Mark.GOOD, "Terminal", "always works: `python -m bot chat`."),
        *await _discord(config.discord),
        *await _slack(config.slack),
        *await _ended(config.database),
        *await _calendars(config.calendar),
        await _sandbox(config),
        *_findings("MCP", await mcp.look(config.mcp, os.environ)),
        *await _waiting(config),
        *_findings("REST", await rest.look(config.rest, lambda: open_guarded(AnyAddress()))),
    ]


async def _discord(settings: DiscordSettings) -> list[Finding]:
    if not settings.configured:
        text = "off: set DISCORD_TOKEN, or `discord.token`; docs/discord.md leads through it."
        return [Finding(Mark.OFF, "Discord", text)]
    from bot.platforms.discord import checkup  # noqa: PLC0415

    return _findings("Discord", await checkup.look(settings))


async def _slack(settings: SlackSettings) -> list[Finding]:
    if not settings.configured:
        text = "off: set SLACK_BOT_TOKEN, or `slack.bot_token`; docs/slack.md leads through it."
        return [Finding(Mark.OFF, "Slack", text)]
    from bot.platforms.slack import checkup  # noqa: PLC0415

    return _findings("Slack", await checkup.look(settings))


async def _calendars(settings: CalendarsSettings) -> list[Finding]:
    remarks = await calendar_checkup.look(
        settings, lambda: open_guarded(AnyAddress()), seconds=PATIENCE_SECONDS
    )
    return _findings("Calendar", remarks)


async def _sandbox(config: Config) -> Finding:
    subject = "Sandbox"
    if not config.workspaces.enabled:
        return Finding(Mark.OFF, subject, "off: `workspaces.enabled` is false.")
    room = Room(config.workspaces.user_bytes, config.workspaces.user_files)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS), open_sandbox(config.shell, room) as sandbox:
            text = (
                f"{sandbox.host.bwrap} passes its self-test: the shell tool is on. "
                f"{enforced(sandbox)}."
            )
            return Finding(Mark.GOOD, subject, text)
    except SandboxUnavailableError as error:
        return Finding(Mark.OFF, subject, f"the shell tool is off. {error}")
    except TimeoutError:
        text = f"the self-test took more than {PATIENCE_SECONDS} s: look at the machine's load."
        return Finding(Mark.BAD, subject, text)


async def _ended(settings: DatabaseSettings) -> list[Finding]:
    """Tell which platforms a running process serves no more, as far as the database can say."""
    if settings.is_sqlite and not _file(settings).exists():
        return []
    try:
        async with asyncio.timeout(PATIENCE_SECONDS), Database.open(settings) as database:
            if await current_version(database) != SCHEMA_VERSION:
                return []
            async with database.snapshot() as tx:
                ended = await workers.ended_platforms(tx, DEAD_AFTER)
    except Exception:  # noqa: BLE001 - what is wrong with the database has been said
        return []
    return [
        Finding(Mark.BAD, name.capitalize(), f"ended in the bot that runs, or ran last: {reason}")
        for name, reason in ended.items()
    ]


async def _waiting(config: Config) -> list[Finding]:
    """Tell which MCP servers have tools that wait for an admin, as far as the database can say."""
    settings, servers = config.database, config.mcp.servers
    if not servers or (settings.is_sqlite and not _file(settings).exists()):
        return []
    try:
        async with asyncio.timeout(PATIENCE_SECONDS), Database.open(settings) as database:
            if await current_version(database) != SCHEMA_VERSION:
                return []
            pins = Pins(database, utc_now)
            waiting = {name: len(await pins.waiting(name)) for name in servers}
    except Exception:  # noqa: BLE001 - what is wrong with the database has been said
        return []
    return [
        Finding(Mark.OFF, "MCP", f"{name}: {count} waiting for a yes: `python -m bot mcp list`.")
        for name, count in waiting.items()
        if count
    ]


def _findings(subject: str, remarks: Sequence[Remark]) -> list[Finding]:
    marks = {True: Mark.GOOD, False: Mark.BAD, None: Mark.OFF}
    return [Finding(marks[remark.good], subject, remark.text) for remark in remarks]


async def _database(settings: DatabaseSettings) -> Finding:
    subject = "Database"
    if settings.is_sqlite and not _file(settings).exists():
        return _new_file(_file(settings))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS), Database.open(settings) as database:
            version = await current_version(database)
    except Exception as error:  # noqa: BLE001 - whatever keeps it from working is the finding
        return Finding(Mark.BAD, subject, f"{settings.shown} cannot be used: {_reason(error)}")
    if version == SCHEMA_VERSION:
        return Finding(Mark.GOOD, subject, f"{settings.shown} answers, its tables are current.")
    if version is not None and version > SCHEMA_VERSION:
        return Finding(
            Mark.BAD,
            subject,
            f"{settings.shown} is of version {version}, newer than this bot, which knows "
            f"{SCHEMA_VERSION}: install a newer bot, or name another database in `database.url`.",
        )
    state = f"is of version {version}" if version else "has no tables yet"
    return Finding(
        Mark.OFF,
        subject,
        f"{settings.shown} {state}: `python -m bot migrate` brings it to {SCHEMA_VERSION}.",
    )


def _file(settings: DatabaseSettings) -> Path:
    return Path(make_url(settings.url).database or "")


def _new_file(path: Path) -> Finding:
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if os.access(folder, os.W_OK | os.X_OK):
        return Finding(
            Mark.OFF, "Database", f"{path} does not exist yet: the first start makes it."
        )
    return Finding(
        Mark.BAD,
        "Database",
        f"{path} does not exist, and {folder} cannot be written: give this account the right to "
        "write there, or name another file in `database.url`.",
    )


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {PATIENCE_SECONDS} s; check host and port in `database.url`."
    # SQLAlchemy wraps what the driver says in lines about itself.
    cause = getattr(error, "orig", None) or error
    said = str(cause).partition("\n")[0].rstrip(".") or type(cause).__name__
    return without_secrets(f"{said}. Check `database.url`, and that the database is up.")


def _holder(path: Path) -> Finding:
    """Tell which process works on a SQLite file, without making or keeping its lock."""
    try:
        descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return Finding(Mark.OFF, "Bot", f"none is running on {path}.")
    except OSError as error:
        return Finding(Mark.BAD, "Bot", f"who holds {path} cannot be told: {error.strerror}.")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        process = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        return Finding(Mark.GOOD, "Bot", f"process {process} is running and holds {path}.")
    else:
        return Finding(Mark.OFF, "Bot", f"none is running on {path}.")
    finally:
        os.close(descriptor)


def _keys(settings: ModelSettings) -> list[Finding]:
    """Tell which providers have what they need, the one that answers first."""
    chosen = settings.chosen
    if chosen == "offline":
        found = [Finding(Mark.OFF, "Model", "the offline demo answers: no key is set.")]
    else:
        found = [Finding(Mark.GOOD, "Model", f"{settings.main} answers: its provider is set up.")]
    for provider in PROVIDERS:
        if provider not in (chosen, "offline") and settings.set_up(provider):
            found.append(Finding(Mark.GOOD, "Model", f"{provider} is set up as well."))
    return found


def _asked(settings: ModelSettings) -> tuple[Choice, ...]:
    return tuple(dict.fromkeys((settings.main, settings.subagent)))


async def _answer(settings: ModelSettings, choice: Choice) -> Finding:
    question = Question(
        model=choice.model,
        prompt="You are being tested. Answer with one word.",
        messages=(UserMessage("Are you there?"),),
        max_tokens=256,
    )
    began = time.monotonic()
    try:
        async with asyncio.timeout(ANSWER_SECONDS), Models.open(settings) as models:
            answer = await models.of(choice).ask(question)
    except BotError as error:
        return Finding(Mark.BAD, "Answer", f"{choice}: {error}")
    except TimeoutError:
        return Finding(Mark.BAD, "Answer", f"{choice} said nothing within {ANSWER_SECONDS} s.")
    seconds = time.monotonic() - began
    return Finding(Mark.GOOD, "Answer", f"{answer.model or choice} answered in {seconds:.1f} s.")


def _search(settings: DatabaseSettings) -> Finding:
    subject = "Search"
    if not settings.is_sqlite:
        return Finding(Mark.GOOD, subject, "full-text search is part of PostgreSQL.")
    try:
        with closing(sqlite3.connect(":memory:")) as memory:
            memory.execute("CREATE VIRTUAL TABLE words USING fts5(word)")
    except sqlite3.OperationalError:
        return Finding(
            Mark.BAD,
            subject,
            f"SQLite {sqlite3.sqlite_version} of this Python has no FTS5: install another Python, "
            "or set `database.url` to a PostgreSQL server.",
        )
    return Finding(Mark.GOOD, subject, f"SQLite {sqlite3.sqlite_version} with FTS5.")

"""Examines everything that the bot needs, and reports a finding on each."""

import asyncio
import fcntl
import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from sqlalchemy.engine import make_url

from bot.agent.messages import UserMessage
from bot.agent.sanitizer import one_line
from bot.checks import Check, fails, is_off, reason_of, works
from bot.config.model import Config
from bot.conversations.upkeep import DEAD_AFTER
from bot.errors import BotError, ConfigError
from bot.home import Home
from bot.inventory import take
from bot.logs import quiet
from bot.masking import without_secrets
from bot.models import checkup as models
from bot.models.base import Question
from bot.models.catalog import ModelChoice, Models, ModelSettings
from bot.platforms.catalog import PLATFORMS, module_of
from bot.values import PlatformSettings
from db import workers
from db.database import Database, DatabaseSettings
from db.diagnosis import diagnosis, file_trouble, missing_right
from db.search import search_notes
from migrations.run import current_version
from migrations.version import SCHEMA_VERSION, version_problem
from skills import discovery

PATIENCE_SECONDS = 10
ANSWER_SECONDS = 60


def home_of(home: Home) -> Check:
    """Return the finding on the folder of the configuration and the data."""
    return works(f"{home.path}: {home.reason}.", "Home")


def told(config: Config, unwise: Sequence[str]) -> list[Check]:
    """Return the findings on the configuration, the agents and the skills."""
    found = [is_off(each, "Config") for each in unwise]
    try:
        return [*found, *(is_off(each, "Agents") for each in take(config).problems)]
    except ConfigError as error:
        return [*found, fails(str(error), "Agents")]


async def examine(config: Config, *, online: bool = False) -> list[Check]:
    """Return all findings, the most basic first.

    Args:
        config: The configuration, which has been checked.
        online: Also send the model a question.
    """
    # Problems are reported once, in the findings, and not in the log.
    with quiet("bot", "db", "skills"):
        return [
            *await _stored(config.database),
            *await _models(config.models, online=online),
            is_off("needs no setup: `python -m bot chat`.", "Terminal"),
            *[check for kind in PLATFORMS for check in await _platform(config, kind)],
            *await _ended(config.database),
            *[
                check
                for each in discovery.imported("checkup")
                for check in _findings(each.SUBJECT, await each.checks(config))
            ],
        ]


async def _models(settings: ModelSettings, *, online: bool) -> list[Check]:
    found = _findings("Model", await models.look(settings))
    if online:
        found += [await _answer(settings, choice) for choice in _asked(settings)]
    return found


async def _stored(settings: DatabaseSettings) -> list[Check]:
    """Examine the database, its lock, and its full-text search."""
    database = await _database(settings)
    if settings.is_sqlite:
        return [database, _holder(_file(settings)), _search()]
    return [database, await _search_on_server(settings, usable=database.good is True)]


async def _platform(config: Config, kind: type[PlatformSettings]) -> list[Check]:
    settings = config.section(kind)
    if not settings.configured:
        text = f"off: set {kind.needs}; {kind.guide} leads through it."
        return [is_off(text, kind.title)]
    return _findings(kind.title, await module_of(kind, "checkup").look(settings))


async def _ended(settings: DatabaseSettings) -> list[Check]:
    """Report platforms that a running process no longer serves, as stored in the database."""
    if _file_is_missing(settings):
        return []
    try:
        async with asyncio.timeout(PATIENCE_SECONDS), Database.open(settings) as database:
            if await current_version(database) != SCHEMA_VERSION:
                return []
            async with database.snapshot() as tx:
                ended = await workers.ended_platforms(tx, DEAD_AFTER)
    except Exception:  # noqa: BLE001 - reported by `_database`
        return []
    return [
        fails(f"ended in the bot that runs, or ran last: {reason}", name.capitalize())
        for name, reason in ended.items()
    ]


def _findings(subject: str, checks: Sequence[Check]) -> list[Check]:
    return [replace(each, subject=subject) for each in checks]


async def _database(settings: DatabaseSettings) -> Check:
    subject = "Database"
    if trouble := file_trouble(settings):
        return fails(f"{settings.shown} cannot be used: {trouble}", subject)
    if _file_is_missing(settings):
        text = f"{_file(settings)} does not exist yet: the first start makes it."
        return is_off(text, subject)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS), Database.open(settings) as database:
            version = await current_version(database)
            async with database.snapshot() as tx:
                lacking = await missing_right(tx)
    except Exception as error:  # noqa: BLE001 - any error is the finding
        reason = diagnosis(error, settings) or without_secrets(f"{error}.")
        return fails(f"{settings.shown} cannot be used: {reason}", subject)
    if lacking is not None:
        return fails(f"{settings.shown} cannot be used: {lacking}", subject)
    return _of_version(settings, version)


def _of_version(settings: DatabaseSettings, version: str | None) -> Check:
    subject = "Database"
    if version == SCHEMA_VERSION:
        return works(f"{settings.shown} answers, its tables are current.", subject)
    if problem := version_problem(version):
        return fails(f"{settings.shown} cannot be used: {problem}", subject)
    state = f"is of version {version}" if version else "has no tables yet"
    return is_off(
        f"{settings.shown} {state}: `python -m bot migrate` brings it to {SCHEMA_VERSION}.",
        subject,
    )


def _file_is_missing(settings: DatabaseSettings) -> bool:
    """Return True if the database is a file that is missing or cannot be accessed."""
    return settings.is_sqlite and not os.access(_file(settings), os.F_OK)


def _file(settings: DatabaseSettings) -> Path:
    return Path(make_url(settings.url).database or "")


def _holder(path: Path) -> Check:
    """Report the process that uses a SQLite file, without creating or holding its lock."""
    try:
        descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return is_off(f"none is running on {path}.", "Bot")
    except OSError as error:
        return fails(f"who holds {path} cannot be told: {error.strerror}.", "Bot")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        process = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        return works(f"process {process} is running and holds {path}.", "Bot")
    else:
        return is_off(f"none is running on {path}.", "Bot")
    finally:
        os.close(descriptor)


def _asked(settings: ModelSettings) -> tuple[ModelChoice, ...]:
    return tuple(dict.fromkeys((settings.main, settings.subagent, *settings.fallback_choices)))


async def _answer(settings: ModelSettings, choice: ModelChoice) -> Check:
    question = Question(
        model=choice.model,
        prompt="You are being tested. Answer with one word.",
        messages=(UserMessage("Are you there?"),),
        max_tokens=256,
        seconds=ANSWER_SECONDS / 2,
    )
    # Ask each model by itself: a fallback's answer would hide a failure.
    settings = settings.model_copy(update={"fallbacks": ()})
    began = time.monotonic()
    try:
        async with asyncio.timeout(ANSWER_SECONDS), Models.open(settings) as opened:
            answer = await opened.of(choice).ask(question)
    except BotError as error:
        return fails(f"{choice}: {one_line(reason_of(error), 600)}.", "Answer")
    except TimeoutError:
        return fails(f"{choice} said nothing within {ANSWER_SECONDS} s.", "Answer")
    seconds = time.monotonic() - began
    return works(f"{answer.model or choice} answered in {seconds:.1f} s.", "Answer")


def _search() -> Check:
    subject = "Search"
    try:
        with closing(sqlite3.connect(":memory:")) as memory:
            memory.execute("CREATE VIRTUAL TABLE words USING fts5(word)")
    except sqlite3.OperationalError:
        return fails(
            f"SQLite {sqlite3.sqlite_version} of this Python has no FTS5: install another Python, "
            "or set `database.url` to a PostgreSQL server.",
            subject,
        )
    return works(f"SQLite {sqlite3.sqlite_version} with FTS5.", subject)


async def _search_on_server(settings: DatabaseSettings, *, usable: bool) -> Check:
    """Search the notes of a nonexistent user."""
    subject = "Search"
    if not usable:
        return is_off("not tried: the database cannot be used yet.", subject)
    try:
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            Database.open(settings) as database,
            database.snapshot() as tx,
        ):
            await search_notes(tx, "", "word", limit=1)
    except Exception as error:  # noqa: BLE001 - any error is the finding
        reason = diagnosis(error, settings) or without_secrets(f"{error}.")
        return fails(f"full-text search fails: {reason}", subject)
    return works("full-text search of PostgreSQL answers.", subject)

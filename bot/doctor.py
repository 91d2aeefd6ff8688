"""Examines everything that the bot needs, and reports a finding on each."""

import asyncio
import fcntl
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from sqlalchemy.engine import make_url

from bot.agent.messages import UserMessage
from bot.agent.sanitizer import one_line
from bot.checks import Check, about, fails, is_off, reason_of, works
from bot.config.model import Config
from bot.conversations.upkeep import DEAD_AFTER
from bot.errors import BotError, ConfigError
from bot.inventory import take
from bot.logs import quiet
from bot.masking import without_secrets
from bot.models import checkup as models
from bot.models.base import ModelRequest
from bot.models.catalog import ModelChoice, ModelSettings
from bot.models.providers import Models
from bot.platforms.catalog import PLATFORMS, module_of
from db import workers
from db.database import Database, DatabaseSettings, Transaction
from db.diagnosis import diagnosis, file_trouble, missing_right
from db.user_texts import search_notes
from migrations.run import current_version
from migrations.version import SCHEMA_VERSION, version_problem
from skills import discovery

PATIENCE_SECONDS = 10
ANSWER_SECONDS = 60


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
        online: Also send a request to the model.
    """
    # Problems are reported once, in the findings, and not in the log.
    with quiet("bot", "db", "skills"):
        found = await database_checks(config.database)
        found += about("Model", await models.look(config.models))
        if online:
            choices = (config.models.main, config.models.subagent, *config.models.fallback_choices)
            found += [await _answer(config.models, each) for each in dict.fromkeys(choices)]
        found.append(is_off("needs no setup: `python -m bot chat`.", "Terminal"))
        for kind in PLATFORMS:
            section = config.section(kind)
            if section.configured:
                places = config.access.admin_places
                channels = [each for each in places if each.platform == kind.section]
                look = module_of(kind, "checkup").look
                found += about(kind.title, await look(section, admin_channels=channels))
            else:
                text = f"off: set {kind.needs}; {kind.guide} leads through it."
                found.append(is_off(text, kind.title))
        for each in discovery.imported("checkup"):
            found += about(each.SUBJECT, await each.checks(config))
        return found


async def database_checks(settings: DatabaseSettings) -> list[Check]:
    """Examine the database: its tables, its full-text search, and what its bot has stored."""
    # The address of a server may be malformed, which is a finding of its own.
    file = Path(make_url(settings.url).database or "" if settings.is_sqlite else "")
    problem, version = file_trouble(settings), None
    # `access` does not raise for a file in an inaccessible folder.
    missing = settings.is_sqlite and not os.access(file, os.F_OK)
    ended: Mapping[str, str] = {}
    search = (
        _full_text_search()
        if settings.is_sqlite
        else is_off("not tried: the database cannot be used yet.", "Search")
    )
    if not problem and not missing:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS), Database.open(settings) as database:
                version = await current_version(database)
                async with database.snapshot() as tx:
                    problem = await missing_right(tx) or version_problem(version)
                    if not problem and version == SCHEMA_VERSION:
                        ended = await workers.ended_platforms(tx, DEAD_AFTER)
                        search = search if settings.is_sqlite else await _search(tx, settings)
        except Exception as error:  # noqa: BLE001 - any error is the finding
            problem = _reason(error, settings)
    if problem:
        found = fails(f"{settings.shown} cannot be used: {problem}")
    elif missing:
        found = is_off(f"{file} does not exist yet: the first start makes it.")
    elif version == SCHEMA_VERSION:
        found = works(f"{settings.shown} answers, its tables are current.")
    else:
        state = f"is of version {version}" if version else "has no tables yet"
        advice = f"`python -m bot migrate` brings it to {SCHEMA_VERSION}."
        found = is_off(f"{settings.shown} {state}: {advice}")
    return [
        replace(found, subject="Database"),
        *([_holder(file)] if settings.is_sqlite else []),
        search,
        *(
            fails(f"ended in the bot that runs, or ran last: {reason}", name.capitalize())
            for name, reason in ended.items()
        ),
    ]


async def _search(tx: Transaction, settings: DatabaseSettings) -> Check:
    """Search the notes of a nonexistent user."""
    try:
        await search_notes(tx, "", "word", limit=1)
    except Exception as error:  # noqa: BLE001 - any error is the finding
        return fails(f"full-text search fails: {_reason(error, settings)}", "Search")
    return works("full-text search of PostgreSQL answers.", "Search")


def _reason(error: Exception, settings: DatabaseSettings) -> str:
    return diagnosis(error, settings) or without_secrets(f"{error}.")


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


async def _answer(settings: ModelSettings, choice: ModelChoice) -> Check:
    request = ModelRequest(
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
            answer = await opened.of(choice).ask(request)
    except BotError as error:
        return fails(f"{choice}: {one_line(reason_of(error), 600)}.", "Answer")
    except TimeoutError:
        return fails(f"{choice} said nothing within {ANSWER_SECONDS} s.", "Answer")
    seconds = time.monotonic() - began
    return works(f"{answer.model or choice} answered in {seconds:.1f} s.", "Answer")


def _full_text_search() -> Check:
    try:
        with closing(sqlite3.connect(":memory:")) as memory:
            memory.execute("CREATE VIRTUAL TABLE words USING fts5(word)")
    except sqlite3.OperationalError:
        return fails(
            f"SQLite {sqlite3.sqlite_version} of this Python has no FTS5: install another Python, "
            "or set `database.url` to a PostgreSQL server.",
            "Search",
        )
    return works(f"SQLite {sqlite3.sqlite_version} with FTS5.", "Search")

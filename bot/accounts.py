"""Exports and deletes what is stored about an account, in a bot or on the console."""

import os
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from bot.config.live import LiveConfig
from bot.config.model import Config
from bot.conversations.access import spelled
from bot.conversations.personal_copies import PersonalCopies, SavedCopies
from bot.conversations.personal_data import PersonalData
from bot.conversations.upkeep import DEAD_AFTER
from bot.disk import spoken
from bot.errors import BadRequestError, NotFoundError
from bot.platforms.base import Outlet
from bot.platforms.catalog import PLATFORMS
from bot.run_texts import counted
from bot.subagents.active import ActiveRuns
from bot.subagents.limits import SubagentSettings
from bot.values import Clock, Identity, utc_now
from db import workers
from db.database import Database
from migrations.run import opened_beside
from skills import discovery

FILES = "the files of the workspace, and the copies in the folder of exports"
FORMS = "discord:1234, slack:T012345:U012345, or terminal:alice"


def personal_copies(
    config: LiveConfig,
    database: Database,
    outlets: Mapping[str, Outlet],
    active: Sequence[ActiveRuns],
    now: Clock,
) -> PersonalCopies:
    """Return the sender of copies of a bot, which deletes as well.

    Args:
        config: The configuration in force.
        database: The database.
        outlets: The outlets by the name of their platform.
        active: The runs and turns at work in this process.
        now: The clock.
    """
    saved = SavedCopies(Path(config().skills.data_folder).parent / "exports")
    stores = [*(module.personal(config) for module in discovery.imported("personal")), saved]
    data = PersonalData(
        database=database,
        stores=stores,
        settings=config.live(SubagentSettings),
        active=active,
        now=now,
    )
    return PersonalCopies(data=data, outlets=outlets, saved=saved)


def account_of(typed: str) -> Identity:
    """Return the account in the form of `access.admins`.

    Raises:
        BadRequestError: It is no account.
    """
    platform, *parts = typed.split(":")
    known = {"terminal", *(each.section for each in PLATFORMS)}
    if platform not in known or not 1 <= len(parts) <= 2 or not all(parts):
        raise BadRequestError(f"{typed!r:.80} is no account: write {FORMS}.")
    return Identity(platform, parts[0] if len(parts) == 2 else "", parts[-1])


async def export(config: Config, account: str, file: Path, *, name: str) -> str:
    """Write all that is stored about an account into a new ZIP file, and return a report.

    Args:
        config: The configuration, which has been checked.
        account: The account.
        file: The file.
        name: The name of the admin, for the audit log.

    Raises:
        BadRequestError: There is no such account, or the file exists.
        NotFoundError: Nothing is stored about the account.
        ConfigError: The database is unusable.
    """
    user = account_of(account)
    async with opened_beside(config.database) as database:
        data = await _found(config, database, user)
        await _audit(data, "export", user, name)
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise BadRequestError(f"{file} exists: name a new file.") from None
        with os.fdopen(descriptor, "wb") as target:
            archives = data.archives(user, room=None, new=lambda: target)
            async with aclosing(archives):
                async for _ in archives:
                    pass
            target.flush()
            size = os.fstat(target.fileno()).st_size
    return f"All that is stored about {spelled(user)} is in {file} ({spoken(size)})."


async def delete(config: Config, account: str, *, yes: bool, name: str) -> str:
    """Delete all that is stored about an account, and return a report.

    Args:
        config: The configuration, which has been checked.
        account: The account.
        yes: Whether to delete; otherwise the report says what would be deleted.
        name: The name of the admin, for the audit log.

    Raises:
        BadRequestError: There is no such account, or some of its work does not end.
        NotFoundError: Nothing is stored about the account.
        ConfigError: The database is unusable.
    """
    user = account_of(account)
    async with opened_beside(config.database) as database:
        data = await _found(config, database, user)
        counts = ", ".join(
            f"{table} {number:,}" for table, number in (await data.counts(user)).items()
        )
        if not yes:
            return (
                f"Stored about {spelled(user)}: {counts}; and {FILES}.\n"
                f"To delete it for good: python -m bot user delete {account} --yes"
            )
        await _audit(data, "delete", user, name)
        kept = await data.delete(user)
    runs = f" The token counts of {counted(kept, 'run')} stay: limits count them." if kept else ""
    return (
        f"Deleted what was stored about {spelled(user)}: {counts}; and {FILES}."
        f"{runs} The audit log stays."
    )


async def _found(config: Config, database: Database | None, user: Identity) -> PersonalData:
    """Return the data of an account that is known.

    Raises:
        NotFoundError: Nothing is stored about it.
    """
    nothing = NotFoundError(f"Nothing is stored about {spelled(user)}. Accounts look like {FORMS}.")
    if database is None:
        raise nothing
    data = personal_copies(LiveConfig(config), database, {}, (), utc_now).data
    alive = await database.read(workers.alive, DEAD_AFTER)
    data = replace(data, at_work=lambda: bool(alive))
    if not await data.is_known(user):
        raise nothing
    return data


async def _audit(data: PersonalData, action: str, user: Identity, name: str) -> None:
    await data.database.write(
        workers.note,
        user_id=Identity("terminal", "", name).key,
        action=action,
        subject=user.key,
        detail="on the console",
        now=data.now(),
    )

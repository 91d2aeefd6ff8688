"""Exports and deletes what is stored about an account, in a bot or on the console."""

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from bot.config.model import Config
from bot.config.reloading import LiveConfig
from bot.conversations.access import account_in, spelled
from bot.conversations.audit import AuditKeys, AuditLog
from bot.conversations.personal_copies import PersonalCopies, SavedCopies
from bot.conversations.personal_data import PersonalData
from bot.conversations.settings import AuditSettings
from bot.conversations.upkeep import DEAD_AFTER
from bot.disk import spoken
from bot.errors import BadRequestError, ConfigError, NotFoundError, OnHoldError
from bot.platforms.base import Outlet
from bot.platforms.catalog import TERMINAL, is_known
from bot.run_texts import counted
from bot.subagents.active import ActiveRuns
from bot.subagents.limits import SubagentSettings
from bot.values import Clock, Identity, utc_now
from db import audit, audit_chain, holds, user_data, workers
from db.audit import CONSOLE, AuditEntry
from db.database import Database, Transaction
from db.holds import Hold
from migrations.run import opened_beside
from skills import discovery

log = logging.getLogger(__name__)

FILES = "the files of the workspace, and the copies in the folder of exports"
#: What no deletion reaches, with the reason; the tables of the database are in `user_data`.
REMAINS = (
    "what the bot answered in shared threads, and what others quoted there: it is theirs as well",
    "messages on the platforms, with results announced in places: delete them there",
    "copies in the workspaces, notes and memories of other users: it is theirs",
    "amounts of spending limits, under a pseudonym: until each limit resets",
    "the audit log: times, actions, hashes and pseudonyms of what concerned the account",
    "backups of the database and of the data folder, and the log: until you delete them",
    "what model providers, search and MCP servers received: as long as their terms say",
)
UNSEALED = "the texts of the newest entries of the audit log: until a bot runs and seals them"
#: Most characters of the name of a hold.
MOST_NAME = 100

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
    saved = SavedCopies(config().data_folder / "exports")
    stores = [*(module.personal(config) for module in discovery.imported("personal")), saved]
    data = PersonalData(
        database=database,
        stores=stores,
        settings=config.live(SubagentSettings),
        active=active,
        now=now,
        leave=[each.leaving(config, database, now) for each in discovery.imported("leaving")],
    )
    return PersonalCopies(data=data, outlets=outlets, saved=saved)


def account_of(typed: str) -> Identity:
    """Return the account in the form of `access.admins`.

    Raises:
        BadRequestError: It is no account.
    """
    found = account_in(typed)
    if found is None or not is_known(found.platform):
        raise BadRequestError(f"{typed!r:.80} is no account: write {FORMS}.")
    return found


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
        async with data.database.transaction() as tx:
            await _note(tx, "export", user, name, "", data.now())
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise BadRequestError(f"{file} exists: name a new file.") from None
        with os.fdopen(descriptor, "wb") as target:
            archives = data.archives(user, room=None, new=lambda: target, withheld=True)
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
        BadRequestError: There is no such account, it is under a legal hold, or some of its work
            does not end.
        NotFoundError: Nothing is stored about the account.
        ConfigError: The database is unusable.
    """
    user = account_of(account)
    async with opened_beside(config.database) as database:
        data = await _found(config, database, user)
        await _refuse_held(data, user)
        counts = ", ".join(
            f"{table} {number:,}" for table, number in (await data.counts(user)).items()
        )
        if not yes:
            return (
                f"Stored about {spelled(user)}: {counts}; and {FILES}.\n"
                f"To delete it for good: python -m bot delete-user {account} --yes"
            )
        try:
            kept = await data.delete(user, by=_operator(name).key)
        except OnHoldError:
            # It was placed meanwhile.
            await _refuse_held(data, user)
            raise
        await _seal(config, data)
        found: dict[str, int] = dict.fromkeys(user_data.STAYS, 0)
        async with data.database.snapshot() as tx:
            owner = await user_data.owner_of(tx, user.key)
            async for table, number in user_data.counts(tx, owner, user_data.STAYS):
                found[table] += number
        left = [
            f"{table}, {counted(number, 'row')}: {user_data.STAYS[table]}"
            for table, number in found.items()
            if number
        ]
        if await data.database.read(audit_chain.has_unsealed):
            left.append(UNSEALED)
    runs = f" The token counts of {counted(kept, 'run')} stay: limits count them." if kept else ""
    return (
        f"Deleted what was stored about {spelled(user)}: {counts}; and {FILES}.{runs}\n"
        "What remains, and why:\n" + "\n".join(f"- {line}" for line in (*left, *REMAINS))
    )


async def hold(config: Config, account: str, *, title: str, name: str) -> str:
    """Place a legal hold on what is stored about an account, and return a report.

    Args:
        config: The configuration, which has been checked.
        account: The account, which need not be known yet.
        title: The name of the case.
        name: The name of the operator.

    Raises:
        BadRequestError: There is no such account, or the name of the case is unusable.
        NotFoundError: There is no database yet.
        ConfigError: The database is unusable.
    """
    user, title = account_of(account), " ".join(title.split())
    if not 1 <= len(title) <= MOST_NAME or not title.isprintable():
        raise BadRequestError(
            f'Name the case in 1 to {MOST_NAME} characters: python -m bot hold {account} --name "…"'
        )
    placed = Hold(
        user_id=user.key,
        shown=spelled(user),
        name=title,
        held_by=_operator(name).key,
        created_at=utc_now(),
    )
    async with opened_beside(config.database) as database:
        data = _data(config, _existing(database))
        async with data.database.transaction() as tx:
            if not await holds.place(tx, placed):
                return f"{placed.shown} is under the legal hold “{title}” already."
            await _note(tx, "hold", user, name, title, data.now())
        unknown = "" if await data.is_known(user) else " Nothing is stored about this account yet."
    return (
        f"{placed.shown} is under the legal hold “{title}”: what is stored about this account is "
        f"not deleted until it is released.{unknown}"
    )


async def release(config: Config, account: str, *, title: str, name: str) -> str:
    """Release a legal hold, and return a report.

    Args:
        config: The configuration, which has been checked.
        account: The account.
        title: The name of the case; empty for the only one.
        name: The name of the operator.

    Raises:
        BadRequestError: There is no such account, or several holds and no name.
        NotFoundError: There is no such hold.
        ConfigError: The database is unusable.
    """
    user, title = account_of(account), " ".join(title.split())
    async with opened_beside(config.database) as database:
        data = _data(config, _existing(database))
        names = [each.name for each in await data.database.read(holds.listed, user.key)]
        if not title and len(names) > 1:
            shown = ", ".join(f"“{each}”" for each in names)
            raise BadRequestError(f"Name the one to release with --name: {shown}.")
        title = title or "".join(names)
        async with data.database.transaction() as tx:
            if not await holds.release(tx, user.key, title):
                what = f"the legal hold “{title}”" if title else "a legal hold"
                raise NotFoundError(
                    f"{spelled(user)} is not under {what}: python -m bot hold lists all."
                )
            await _note(tx, "release hold", user, name, title, data.now())
        left = len(await data.database.read(holds.listed, user.key))
    after = (
        f"Still in force on this account: {counted(left, 'hold')}."
        if left
        else "Retention counts again, and what was kept for holds alone is deleted."
    )
    return f"The legal hold “{title}” on {spelled(user)} is released. {after}"


async def list_holds(config: Config, account: str = "") -> str:
    """Return the legal holds on an account, or all, as lines.

    Raises:
        BadRequestError: There is no such account.
        ConfigError: The database is unusable.
    """
    key = account_of(account).key if account else ""
    async with opened_beside(config.database) as database:
        found = [] if database is None else await database.read(holds.listed, key)
    return "\n".join(map(_shown, found)) or "There is no legal hold."


def _shown(found: Hold) -> str:
    since = f"{found.created_at:%d %B %Y, %H:%M} UTC"
    by = found.held_by.replace("::", ":")
    return f"{found.shown}: “{found.name}”, since {since}, by {by}"


async def _refuse_held(data: PersonalData, user: Identity) -> None:
    """Raise an error that names the legal holds on an account, if there are any.

    Raises:
        BadRequestError: There are.
    """
    if found := await data.database.read(holds.listed, user.key):
        lines = "\n".join(map(_shown, found))
        raise BadRequestError(
            f"Nothing is deleted, since {spelled(user)} is under a legal hold:\n{lines}\n"
            f'To release one: python -m bot hold {spelled(user)} --name "{found[0].name}" --release'
        )


async def _found(config: Config, database: Database | None, user: Identity) -> PersonalData:
    """Return the data of an account that is known.

    Raises:
        NotFoundError: Nothing is stored about it.
    """
    nothing = NotFoundError(f"Nothing is stored about {spelled(user)}. Accounts look like {FORMS}.")
    if database is None:
        raise nothing
    data = _data(config, database)
    alive = await database.read(workers.alive, DEAD_AFTER)
    data = replace(data, at_work=lambda: bool(alive))
    if not await data.is_known(user):
        raise nothing
    return data


def _data(config: Config, database: Database) -> PersonalData:
    return personal_copies(LiveConfig(config), database, {}, (), utc_now).data


async def _seal(config: Config, data: PersonalData) -> None:
    """Seal the audit log unless a bot does: the text of an entry is erased when it is sealed.

    A key that did not seal the log before may be one of this machine alone: a bot has another.
    """
    if data.at_work():
        return
    keys = AuditKeys(config.live(AuditSettings), config.data_folder)
    try:
        end = await data.database.read(audit_chain.head)
        if keys.exists and (not end.key_id or end.key_id == keys.current.id):
            await AuditLog(database=data.database, keys=keys, now=data.now).seal()
    except (ConfigError, OSError) as error:
        # The deletion is done, and its report names what is left.
        log.warning("The audit log could not be sealed: %s", error)


def _existing(database: Database | None) -> Database:
    """Return a database that exists.

    Raises:
        NotFoundError: It does not.
    """
    if database is None:
        raise NotFoundError("There is no database yet: python -m bot migrate makes it.")
    return database


def _operator(name: str) -> Identity:
    """Return the account of an operator on the console."""
    return Identity(TERMINAL, "", name)


async def _note(
    tx: Transaction, action: str, user: Identity, name: str, what: str, now: datetime
) -> None:
    """Record an action of an operator on an account in the audit log."""
    entry = AuditEntry(
        actor=_operator(name).key,
        action=action,
        owner=user.key,
        place=CONSOLE,
        effect=what,
        created_at=now,
    )
    await audit.record(tx, entry)

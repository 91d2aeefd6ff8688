"""Reads and verifies the audit log on the console, beside a running bot."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bot.accounts import account_of
from bot.config.model import Config
from bot.conversations.audit import (
    AuditKeys,
    AuditLog,
    is_sound,
    json_lines,
    read_head,
    report,
    since_of,
)
from bot.conversations.settings import AuditSettings
from bot.errors import NotFoundError
from bot.values import utc_now
from migrations.run import opened_beside


async def entries(config: Config, *, account: str, action: str, since: str, most: int) -> str:
    """Return entries as JSON Lines, oldest first.

    Args:
        config: The configuration, which has been checked.
        account: The account that acted or was acted upon; empty for all.
        action: The action; empty for all.
        since: The time of the oldest, as admins type it; empty for all.
        most: Most entries; the newest are returned.

    Raises:
        BadRequestError: The account or the time is malformed.
        NotFoundError: There is no database yet.
        ConfigError: The database is unusable.
    """
    async with _opened(config) as audit:
        wanted = audit.wanted(
            user=account_of(account).key if account else "",
            action=action,
            since=since_of(since, audit.now()),
        )
        return json_lines((await audit.find(wanted, limit=most))[::-1])


async def verify(config: Config, *, head: str) -> tuple[str, bool]:
    """Verify the whole log, and return a report and whether all is as it was sealed.

    Args:
        config: The configuration, which has been checked.
        head: A head that was noted, as an earlier report shows it; empty for none.

    Raises:
        BadRequestError: The head is malformed.
        NotFoundError: There is no database yet.
        ConfigError: The database is unusable.
    """
    noted = read_head(head) if head else None
    async with _opened(config) as audit:
        found = await audit.verify(noted)
    return report(found), is_sound(found)


@asynccontextmanager
async def _opened(config: Config) -> AsyncIterator[AuditLog]:
    async with opened_beside(config.database) as database:
        if database is None:
            raise NotFoundError("There is no database yet: python -m bot migrate makes it.")
        keys = AuditKeys(config.live(AuditSettings), config.data_folder)
        yield AuditLog(database=database, keys=keys, now=utc_now)

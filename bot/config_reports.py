"""Reports changes of the configuration file to the admins, once for all processes."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError

from bot.cautions import unwise
from bot.config.differences import fingerprint
from bot.config.reloading import LiveConfig, Reload
from bot.conversations.admin_notices import AdminNotice, AdminNotices
from bot.conversations.upkeep import DEAD_AFTER
from bot.errors import BotError
from bot.values import Clock
from db import audit, workers
from db.audit import CONSOLE, SYSTEM, AuditEntry
from db.database import Database

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigReports:
    """Stores the configuration of this process, and reports a change that no other has reported.

    Attributes:
        unknown: Returns a sentence for each name that denotes nothing, beginning with its key.
    """

    database: Database
    worker_id: str
    current: LiveConfig
    notices: AdminNotices
    now: Clock
    unknown: Callable[[], Iterable[str]] = tuple

    async def report(self, reload: Reload, problems: Sequence[str] = ()) -> None:
        """Report a change; it is in force already, and in the log.

        Args:
            reload: The change.
            problems: The parts that do not follow it, a sentence each.
        """
        for problem in problems:
            log.error("%s", problem)
        now, keys = self.now(), list[str]()
        about = tuple(each.key for each in reload.changes)
        # A role that was removed may be named anywhere.
        of_roles = any(each.startswith("roles.named") for each in about)
        cautions = (*unwise(self.current()), *self.unknown()) if about else ()
        notice = AdminNotice(
            key=f"configuration {reload.content} {now.isoformat()}",
            text="\n\n".join(
                [
                    reload.text,
                    *problems,
                    *[
                        f"⚠ {each}"
                        for each in cautions
                        if each.startswith(about) or (of_roles and "`roles.named`" in each)
                    ],
                ]
            ),
        )
        try:
            async with self.database.transaction() as tx:
                first = await workers.read_configuration(
                    tx,
                    self.worker_id,
                    configuration=fingerprint(self.current()),
                    file=reload.content,
                    within=DEAD_AFTER,
                )
                if first:
                    # The values are in the notice alone.
                    changed = ", ".join(each.key for each in reload.changes) or "nothing"
                    entry = AuditEntry(
                        actor=SYSTEM,
                        action="configuration",
                        place=CONSOLE,
                        subject=str(reload.file),
                        effect="invalid: the former one stays in force"
                        if reload.error
                        else f"changed: {changed}",
                        created_at=now,
                    )
                    await audit.record(tx, entry)
                if first or problems:
                    keys = await self.notices.tell(tx, notice)
        except (BotError, DBAPIError, OSError) as error:
            log.warning("The change of the configuration is not reported: %s", error)
        self.notices.deliver(keys)

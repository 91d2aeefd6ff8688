"""Reports changes of the configuration file to the admins, once for all processes."""

import logging
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError

from bot.config.differences import fingerprint
from bot.config.live import LiveConfig
from bot.config.reloading import Reload
from bot.conversations.upkeep import DEAD_AFTER
from bot.errors import BotError
from db import workers
from db.database import Database

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigReports:
    """Stores the configuration of this process, and reports a change that no other has reported."""

    database: Database
    worker_id: str
    current: LiveConfig

    def fingerprint(self) -> str:
        """Return the fingerprint of the configuration in force."""
        return fingerprint(self.current())

    async def report(self, reload: Reload) -> None:
        """Report a change; it is in force already, and in the log."""
        try:
            async with self.database.transaction() as tx:
                await workers.read_configuration(
                    tx,
                    self.worker_id,
                    configuration=self.fingerprint(),
                    file=reload.content,
                    within=DEAD_AFTER,
                )
        except (BotError, DBAPIError, OSError) as error:
            log.warning("The change of the configuration is not reported: %s", error)

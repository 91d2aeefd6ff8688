"""Describes the state of the bot that uses a database, from another process."""

from bot.config.model import Config
from bot.conversations.health import Health
from bot.values import utc_now
from migrations.run import opened_beside
from migrations.version import SCHEMA_VERSION


async def of_database(config: Config) -> str:
    """Return the state of the bot that uses the database of a configuration.

    Raises:
        ConfigError: The database is unusable.
    """
    async with opened_beside(config.database) as database:
        if database is None:
            return f"{config.database.shown} does not exist yet: no bot has run here."
        state = Health(
            database=database,
            schema=SCHEMA_VERSION,
            shown=config.database.shown,
            folders=config.folders,
            providers=list,
            now=utc_now,
        )
        return (await state.text()).replace("**", "")

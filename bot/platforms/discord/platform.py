"""Opens and closes Discord as a platform."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bot.platforms.discord.buttons import RunButton
from bot.platforms.discord.client import open_client
from bot.platforms.discord.commands import on_interaction
from bot.platforms.discord.intake import DiscordIntake
from bot.platforms.discord.outlet import DiscordOutlet
from bot.platforms.discord.questions import AnswerButton
from bot.platforms.discord.settings import DiscordSettings
from bot.tasks import Tasks
from bot.values import Live
from db.database import Database

#: Grace period for the last edits at shutdown.
LAST_WORDS_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Discord:
    """The outlet and the intake of Discord."""

    outlet: DiscordOutlet
    intake: DiscordIntake


@asynccontextmanager
async def open_platform(
    current: Live[DiscordSettings],
    database: Database | None = None,
    *,
    receives: bool,
) -> AsyncIterator[Discord]:
    """Log in to Discord; close the connection when the block ends.

    Args:
        current: The settings under `discord:`, as they are now.
        database: Not needed: Discord has one token.
        receives: Whether the intake will run. Sending needs no connection to the gateway.

    Raises:
        ConfigError: Discord refuses the token.
        PlatformUnreachableError: Discord is unreachable or out of order.
    """
    async with open_client(current) as client:
        tasks = Tasks()
        outlet = DiscordOutlet(client, current, tasks)
        intake = DiscordIntake(client, tasks, outlet)
        if receives:
            client.event(on_interaction)
            client.add_dynamic_items(RunButton, AnswerButton)
        try:
            yield Discord(outlet, intake)
        finally:
            await tasks.wait_idle(LAST_WORDS_SECONDS)
            await tasks.close()

"""Opens and closes the Slack platform with its outlet and intake."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp

from bot.errors import BotError
from bot.platforms.handler import InboundHandler
from bot.platforms.messaging.catch_up import CatchUp
from bot.platforms.slack import sockets, web
from bot.platforms.slack.bolt import bolt_app
from bot.platforms.slack.clients import Clients, OneClient, open_session
from bot.platforms.slack.installations import EncryptedInstallationStore
from bot.platforms.slack.intake import SlackMessageReceiver
from bot.platforms.slack.interactions import SlackReceiver
from bot.platforms.slack.live import Tempo
from bot.platforms.slack.oauth import InstallFlow
from bot.platforms.slack.outlet import SlackOutlet
from bot.platforms.slack.people import PLATFORM, SlackAccessPolicy
from bot.platforms.slack.settings import SlackSettings
from bot.tasks import Tasks
from bot.values import Live
from db.database import Database

log = logging.getLogger(__name__)

#: Grace period for the last edits at shutdown, in seconds: longer than `edit_seconds`.
LAST_WORDS_SECONDS = 3.5
#: Grace period for received messages in flight when the intake stops, in seconds.
GRACE_SECONDS = 3.0
#: The least time between two places of a catch-up, in seconds: Slack accepts 50 such requests a
#: minute.
PAUSE_SECONDS = 1.3


@dataclass(frozen=True, slots=True)
class Slack:
    """The outlet and the intake of Slack."""

    outlet: SlackOutlet
    intake: "SlackIntake"


@dataclass(slots=True, kw_only=True)
class SlackIntake:
    """Receives events from Slack over the configured transport.

    Attributes:
        clients: The access to the workspaces.
        outlet: Sends the answers.
        settings: Everything under `slack:`, as it was at the start.
        session: The HTTP session for requests to Slack.
        tasks: Owns the background tasks.
        current: Everything under `slack:`, as it is now.
        ping_seconds: Interval of the connection checks.
        pause_seconds: The least time between two places that are read after a gap.
    """

    clients: Clients
    outlet: SlackOutlet
    settings: SlackSettings
    session: aiohttp.ClientSession
    tasks: Tasks
    current: Live[SlackSettings]
    ping_seconds: float
    pause_seconds: float
    platform: str = PLATFORM

    async def run(self, inbound: InboundHandler) -> None:
        """Receive events until cancelled.

        Raises:
            ConfigError: Slack opens no connection any more; the text gives the reason and remedy.
        """
        receiver = SlackReceiver(
            inbound=inbound,
            clients=self.clients,
            outlet=self.outlet,
            reception=SlackAccessPolicy(self.current),
            tasks=self.tasks,
        )
        messages = SlackMessageReceiver(receiver)
        app = bolt_app(receiver, messages, self.settings, self.session)
        catch_up = CatchUp(messages, self.outlet, inbound, pause_seconds=self.pause_seconds)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(receiver.reception.wait_idle, GRACE_SECONDS)
            if self.settings.mode == "socket":
                messages.socket = await stack.enter_async_context(
                    sockets.connected(
                        app, self.settings, self.session, ping_seconds=self.ping_seconds
                    )
                )
            else:
                pages = None
                if isinstance(self.clients, EncryptedInstallationStore):
                    pages = InstallFlow(self.clients, self.current, self.session)
                await stack.enter_async_context(
                    web.listening(app, self.settings, secret=self._signing_secret, oauth=pages)
                )
            self.tasks.start(self._clear_open(inbound), name="clear what was left in threads")
            catching = self.tasks.start(catch_up.run(), name="catch up")
            stack.callback(catching.cancel)
            if messages.socket is not None:
                seconds = 3 * self.ping_seconds
                await sockets.watch(messages.socket, self.settings, self.session, seconds=seconds)
            await asyncio.Event().wait()

    def _signing_secret(self) -> str:
        secret = self.current().signing_secret
        return secret.get_secret_value() if secret else ""

    async def _clear_open(self, inbound: InboundHandler) -> None:
        """Clear the status that a crashed process left in threads, if the database is reachable."""
        try:
            await self.outlet.status.clear_open(await inbound.idle_places(PLATFORM))
        except BotError as error:
            log.warning("Threads in Slack may say wrongly that I am at work: %s", error)


@asynccontextmanager
async def open_platform(
    current: Live[SlackSettings],
    database: Database,
    *,
    receives: bool,
    tempo: Tempo | None = None,
    ping_seconds: float = sockets.PING_SECONDS,
    pause_seconds: float = PAUSE_SECONDS,
) -> AsyncIterator[Slack]:
    """Open Slack and close it at the end of the block.

    Args:
        current: Everything under `slack:`, as it is now.
        database: Stores the tokens if many workspaces install the bot.
        receives: Whether the intake will run. The outlet needs only tokens.
        tempo: Intervals and backoffs; as configured if `None`.
        ping_seconds: Interval of the connection checks.
        pause_seconds: The least time between two places that are read after a gap.

    Raises:
        ConfigError: Slack refuses a token.
        PlatformUnreachableError: Slack is unreachable or out of order.
    """
    settings = current()
    async with open_session() as session:
        clients: Clients
        if settings.many_workspaces:
            clients = EncryptedInstallationStore(database, settings, session)
        else:
            clients = await OneClient.log_in(settings, session)
        if receives and settings.mode == "socket":
            await sockets.ask_for_connection(settings, session)
        tasks = Tasks()
        outlet = SlackOutlet(clients, current, tasks, tempo=tempo, session=session)
        intake = SlackIntake(
            clients=clients,
            outlet=outlet,
            settings=settings,
            session=session,
            tasks=tasks,
            current=current,
            ping_seconds=ping_seconds,
            pause_seconds=pause_seconds,
        )
        try:
            yield Slack(outlet, intake)
        finally:
            await tasks.wait_idle(LAST_WORDS_SECONDS)
            outlet.status.close()
            await tasks.close()

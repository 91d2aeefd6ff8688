"""Opens and closes the Slack platform with its outlet and intake."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import aiohttp
from slack_bolt.async_app import AsyncApp
from slack_sdk.socket_mode.aiohttp import SocketModeClient

from bot.errors import BotError
from bot.platforms.base import InboundHandler
from bot.platforms.messaging.catch_up import CatchUp
from bot.platforms.slack import sockets, web
from bot.platforms.slack.bolt import bolt_app
from bot.platforms.slack.clients import Clients, OneClient, open_session
from bot.platforms.slack.installations import EncryptedInstallationStore
from bot.platforms.slack.intake import SlackMessageReceiver
from bot.platforms.slack.interactions import SlackReceiver
from bot.platforms.slack.messages import Attachments
from bot.platforms.slack.oauth import InstallFlow
from bot.platforms.slack.outlet import SlackOutlet, Tempo
from bot.platforms.slack.people import PLATFORM, Names, SlackAccessPolicy
from bot.platforms.slack.settings import SlackSettings
from bot.tasks import Tasks
from db.database import Database

log = logging.getLogger(__name__)

#: Grace period for the last edits at shutdown, in seconds: longer than `edit_seconds`.
LAST_WORDS_SECONDS = 3.5
#: Grace period for received messages in flight when the intake stops, in seconds.
SETTLE_SECONDS = 3.0
#: The least time between two places of a catch-up, in seconds: Slack accepts 50 such requests a
#: minute.
PAUSE_SECONDS = 1.3


@dataclass(frozen=True, slots=True)
class Slack:
    """The outlet and the intake of Slack."""

    outlet: SlackOutlet
    intake: "SlackIntake"


class SlackIntake:
    """Receives events from Slack over the configured transport.

    Args:
        clients: The access to the workspaces.
        outlet: Sends the answers.
        settings: Everything under `slack:`.
        session: The HTTP session for requests to Slack.
        tasks: Owns the background tasks.
        current: Returns the current settings.
        ping_seconds: Interval of the connection checks.
        pause_seconds: The least time between two places that are read after a gap.
    """

    platform = PLATFORM

    def __init__(
        self,
        clients: Clients,
        outlet: SlackOutlet,
        settings: SlackSettings,
        session: aiohttp.ClientSession,
        tasks: Tasks,
        *,
        current: Callable[[], SlackSettings],
        ping_seconds: float,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._clients = clients
        self._current = current
        self._outlet = outlet
        self._settings = settings
        self._session = session
        self._tasks = tasks
        self._ping_seconds = ping_seconds
        self._pause_seconds = pause_seconds

    async def run(self, inbound: InboundHandler) -> None:
        """Receive events until cancelled.

        Raises:
            ConfigError: Slack opens no connection any more; the text gives the reason and remedy.
        """
        receiver = SlackReceiver(
            inbound=inbound,
            clients=self._clients,
            outlet=self._outlet,
            reception=SlackAccessPolicy(self._settings),
            names=Names(self._outlet.sender),
            tasks=self._tasks,
        )
        attachments = Attachments(self._clients, self._outlet.sender, self._settings.api_url)
        listener = SlackMessageReceiver(receiver, attachments)
        app = bolt_app(receiver, listener, self._settings, self._session)
        catching: asyncio.Task[None] | None = None
        try:
            async with self._transport(app) as transport:
                self._tasks.start(self._clear_open(inbound), name="clear what was left in threads")
                socket = transport if isinstance(transport, SocketModeClient) else None
                if socket is not None:
                    listener.is_connected = socket.is_connected
                catch_up = CatchUp(
                    listener, self._outlet, inbound, pause_seconds=self._pause_seconds
                )
                catching = self._tasks.start(catch_up.run(), name="catch up")
                if socket is not None:
                    seconds = 3 * self._ping_seconds
                    await sockets.watch(socket, self._settings, self._session, seconds=seconds)
                await asyncio.Event().wait()
        finally:
            if catching is not None:
                catching.cancel()
            await receiver.reception.settle(SETTLE_SECONDS)

    async def _clear_open(self, inbound: InboundHandler) -> None:
        """Clear the status that a crashed process left in threads, if the database is reachable."""
        try:
            places = await inbound.idle_places(PLATFORM)
        except BotError as error:
            log.warning("Threads in Slack may say wrongly that I am at work: %s", error)
        else:
            await self._outlet.clear_open(places)

    def _transport(self, app: AsyncApp) -> AbstractAsyncContextManager[object]:
        if self._settings.mode == "socket":
            return sockets.connected(
                app, self._settings, self._session, ping_seconds=self._ping_seconds
            )

        def secret() -> str:
            value = self._current().signing_secret
            return value.get_secret_value() if value else ""

        pages = None
        if isinstance(self._clients, EncryptedInstallationStore):
            pages = InstallFlow(self._clients, self._settings, self._session)
        return web.listening(app, self._settings, secret=secret, oauth=pages)


@asynccontextmanager
async def open_slack(
    settings: SlackSettings,
    database: Database,
    *,
    receives: bool,
    current: Callable[[], SlackSettings] | None = None,
    tempo: Tempo | None = None,
    ping_seconds: float = sockets.PING_SECONDS,
    pause_seconds: float = PAUSE_SECONDS,
) -> AsyncIterator[Slack]:
    """Open Slack and close it at the end of the block.

    Args:
        settings: Everything under `slack:`.
        database: Stores the tokens if many workspaces install the bot.
        receives: Whether the intake will run. The outlet needs only tokens.
        current: Returns the current settings; the initial ones if `None`.
        tempo: Intervals and backoffs; as configured if `None`.
        ping_seconds: Interval of the connection checks.
        pause_seconds: The least time between two places that are read after a gap.

    Raises:
        ConfigError: Slack refuses a token.
        PlatformUnreachableError: Slack is unreachable or out of order.
    """
    async with open_session() as session:
        clients: Clients
        if settings.many_workspaces:
            clients = EncryptedInstallationStore(database, settings, session)
        else:
            clients = await OneClient.log_in(settings, session)
        if receives and settings.mode == "socket":
            await sockets.ask_for_connection(settings, session)
        tasks = Tasks()
        outlet = SlackOutlet(clients, settings, tasks, tempo=tempo, session=session)
        intake = SlackIntake(
            clients,
            outlet,
            settings,
            session,
            tasks,
            current=current or (lambda: settings),
            ping_seconds=ping_seconds,
            pause_seconds=pause_seconds,
        )
        try:
            yield Slack(outlet, intake)
        finally:
            await tasks.settle(LAST_WORDS_SECONDS)
            outlet.close()
            await tasks.close()


def open_platform(
    settings: SlackSettings,
    database: Database,
    current: Callable[[], SlackSettings],
    *,
    receives: bool,
) -> AbstractAsyncContextManager[Slack]:
    """Open Slack as a process of the bot does: see `open_slack`."""
    return open_slack(settings, database, receives=receives, current=current)

"""Where the bot is installed when many workspaces install it: its tokens, in our database."""

import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from cryptography.fernet import Fernet, InvalidToken
from slack_sdk.errors import SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from sqlalchemy.exc import DBAPIError

from bot.errors import DatabaseUnreachableError, DeliveryError
from bot.platforms.slack.clients import Installed, new_client
from bot.platforms.slack.problems import NOT_INSTALLED, RefusedError, problem_of
from bot.platforms.slack.settings import SlackSettings
from bot.values import Clock, utc_now
from db import slack_installs
from db.database import Database, is_connection_trouble
from db.slack_installs import Install

log = logging.getLogger(__name__)

#: How long an answer of the database is believed: until then a process goes on speaking where
#: another one has heard that the bot was removed.
KEPT_SECONDS = 60.0
#: The same where the bot is not: whoever installs it is heard soon, by every process.
NOWHERE_SECONDS = 5.0
KEPT_WORKSPACES = 1_000

OUT_OF_REACH = (
    "The database is unavailable, and with it the keys to Slack. Please try again in a minute."
)
UNREADABLE = (
    "The token of the Slack workspace %s cannot be decrypted, so that the bot is not there: "
    "`slack.encryption_key` was changed. Put the old key back, or have the bot installed there "
    "again on the page %s/slack/install"
)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the database said, and until when that is believed."""

    installed: Installed | None
    client: AsyncWebClient | None
    until: float


class Installs:
    """The clients of a bot that workspaces and organisations install by themselves.

    Args:
        database: Has the installations.
        settings: Say which app it is, and what its tokens are encrypted with.
        session: The connections that all clients share.
        monotonic: A clock in seconds that never goes back.
        now: The time.
    """

    def __init__(
        self,
        database: Database,
        settings: SlackSettings,
        session: aiohttp.ClientSession,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        now: Clock = utc_now,
    ) -> None:
        assert settings.client_id, "It is opened for many workspaces."
        assert settings.encryption_key, "The settings have seen to that."
        self._client_id = settings.client_id
        self._fernet = Fernet(settings.encryption_key.get_secret_value().strip())
        self._database = database
        self._settings = settings
        self._session = session
        self._monotonic = monotonic
        self._now = now
        self._cache: OrderedDict[str, _Known] = OrderedDict()
        self._changes = 0

    async def client_for(self, workspace: str) -> AsyncWebClient:
        """Return the client for the workspace of a place.

        Raises:
            RefusedError: The bot is not installed there any more.
            DeliveryError: The database is out of reach.
        """
        client = (await self._known(workspace)).client
        if client is None:
            raise RefusedError(NOT_INSTALLED)
        return client

    async def installed(self, workspace: str) -> Installed | None:
        """Return who the bot is in a workspace; `None` when it is not installed there.

        Raises:
            DeliveryError: The database is out of reach.
        """
        return (await self._known(workspace)).installed

    async def fresh(self, workspace: str, refused: AsyncWebClient) -> AsyncWebClient | None:
        """Return a client with another token than one that Slack refuses; `None` if there is none.

        Raises:
            DeliveryError: The database is out of reach.
        """
        self._forget(_key_of(workspace))
        client = (await self._known(workspace)).client
        return None if client is None or client.token == refused.token else client

    async def find(self, workspaces: Iterable[str]) -> tuple[str, Installed] | None:
        """Return the first of these workspaces where the bot is; `None` when it is in none.

        Raises:
            DeliveryError: The database is out of reach.
        """
        for workspace in workspaces:
            if installed := await self.installed(workspace):
                return workspace, installed
        return None

    async def add(self, workspace: str, installed: Installed) -> None:
        """Remember that the bot was installed, in place of an older installation.

        Args:
            workspace: A workspace (T…), or an organisation (E…) with all of its workspaces.
            installed: Who the bot is there.

        Raises:
            DeliveryError: The database is out of reach.
        """
        install = Install(
            client_id=self._client_id,
            workspace=workspace,
            enterprise=installed.enterprise,
            bot_user=installed.user,
            bot=installed.bot,
            token=self._fernet.encrypt(installed.token.encode()).decode(),
        )
        async with _in_words(), self._database.transaction() as tx:
            await slack_installs.put(tx, install, self._now())
        self._forget(workspace)
        log.info("The bot was installed in the Slack workspace %s", workspace)

    async def remove(self, workspace: str) -> None:
        """Forget a workspace, or an organisation, that has removed the bot or revoked its token.

        Slack may say so hours later. Where the bot was installed again meanwhile it stays: its
        token is good.

        Raises:
            DeliveryError: Not now: the database or Slack is out of reach.
        """
        key = _key_of(workspace)
        self._forget(key)
        install = await self._find(key)
        if install is None:
            return
        token = self._decrypted(install)
        if token is not None and await self._is_good(token):
            log.info("The bot is still in the Slack workspace %s: its token is good", key)
            return
        async with _in_words(), self._database.transaction() as tx:
            await slack_installs.remove(tx, install)
        self._forget(key)
        log.info("The bot was removed from the Slack workspace %s", key)

    async def _known(self, workspace: str) -> _Known:
        key = _key_of(workspace)
        known = self._cache.get(key)
        if known is not None and self._monotonic() < known.until:
            return known
        changes = self._changes
        known = await self._look_up(key)
        # What was read before a change must not be kept after it.
        if changes == self._changes:
            self._cache[key] = known
            self._cache.move_to_end(key)
            if len(self._cache) > KEPT_WORKSPACES:
                self._cache.popitem(last=False)
        return known

    async def _look_up(self, key: str) -> _Known:
        install = await self._find(key)
        if install is None:
            return _Known(None, None, self._monotonic() + NOWHERE_SECONDS)
        until = self._monotonic() + KEPT_SECONDS
        token = self._decrypted(install)
        if token is None:
            log.error(UNREADABLE, key, self._settings.public_url)
            return _Known(None, None, until)
        installed = Installed(
            token=token,
            user=install.bot_user,
            bot=install.bot,
            enterprise=install.enterprise,
        )
        return _Known(installed, self._client(token), until)

    async def _find(self, key: str) -> Install | None:
        async with _in_words(), self._database.snapshot() as tx:
            return await slack_installs.find(tx, self._client_id, key)

    def _decrypted(self, install: Install) -> str | None:
        try:
            return self._fernet.decrypt(install.token).decode()
        except InvalidToken:
            return None

    def _client(self, token: str) -> AsyncWebClient:
        return new_client(token, api_url=self._settings.api_url, session=self._session)

    async def _is_good(self, token: str) -> bool:
        try:
            await self._client(token).auth_test()
        except (SlackClientError, aiohttp.ClientError, OSError) as error:
            problem = problem_of(error)
            if problem.permanent:
                return False
            raise problem from error
        return True

    def _forget(self, key: str) -> None:
        self._changes += 1
        self._cache.pop(key, None)


def _key_of(workspace: str) -> str:
    """Return what was installed where a place is: the organisation, or else the workspace.

    A team has its id for itself, so that its organisation need not be known.
    """
    enterprise, _, team = workspace.rpartition(".")
    return enterprise or team


@asynccontextmanager
async def _in_words() -> AsyncIterator[None]:
    """Say in words of platforms that the database is out of reach."""
    try:
        yield
    except (DatabaseUnreachableError, DBAPIError, OSError) as error:
        if not is_connection_trouble(error):
            raise
        raise DeliveryError(OUT_OF_REACH) from error

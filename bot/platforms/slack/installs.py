"""Stores the installations of a bot in many workspaces, with their tokens, in our database."""

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

#: Time to live of a cached installation, in seconds. Until then a process may still write to a
#: workspace whose removal of the bot another process has received.
KEPT_SECONDS = 60.0
#: Time to live of a cached absence, in seconds: every process soon serves a new installation.
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
    """A cached lookup in the database, and its time of expiry."""

    installed: Installed | None
    client: AsyncWebClient | None
    until: float


class Installs:
    """The clients of a bot that workspaces and organisations install by themselves.

    Args:
        database: Stores the installations.
        settings: Contain the app's id and the encryption key of its tokens.
        session: The HTTP session that all clients share.
        monotonic: A monotonic clock in seconds.
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
            RefusedError: The bot is no longer installed there.
            DeliveryError: The database is unreachable.
        """
        client = (await self._known(workspace)).client
        if client is None:
            raise RefusedError(NOT_INSTALLED)
        return client

    async def installed(self, workspace: str) -> Installed | None:
        """Return the bot's identity in a workspace; `None` if the bot is not installed there.

        Raises:
            DeliveryError: The database is unreachable.
        """
        return (await self._known(workspace)).installed

    async def fresh(self, workspace: str, refused: AsyncWebClient) -> AsyncWebClient | None:
        """Return a client with a token other than the refused one; `None` if there is none.

        Raises:
            DeliveryError: The database is unreachable.
        """
        self._forget(_key_of(workspace))
        client = (await self._known(workspace)).client
        return None if client is None or client.token == refused.token else client

    async def find(self, workspaces: Iterable[str]) -> tuple[str, Installed] | None:
        """Return the first of these workspaces with the bot; `None` if the bot is in none of them.

        Raises:
            DeliveryError: The database is unreachable.
        """
        for workspace in workspaces:
            if installed := await self.installed(workspace):
                return workspace, installed
        return None

    async def add(self, workspace: str, installed: Installed) -> None:
        """Store an installation, in place of an older installation.

        Args:
            workspace: A workspace (T…), or an organisation (E…) with all of its workspaces.
            installed: The bot's identity and token there.

        Raises:
            DeliveryError: The database is unreachable.
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
        """Delete a workspace, or an organisation, that removed the bot or revoked its token.

        Slack may report the removal hours later. An installation with a valid token stays: the bot
        was installed again meanwhile.

        Raises:
            DeliveryError: The database or Slack is unreachable.
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
        # Do not cache a value that was read before a change.
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
    """Return the id of an installation: the organisation's, or else the workspace's.

    The id of a team is unique, so that an installation for a team needs no organisation.
    """
    enterprise, _, team = workspace.rpartition(".")
    return enterprise or team


@asynccontextmanager
async def _in_words() -> AsyncIterator[None]:
    """Convert connection errors of the database into `DeliveryError`."""
    try:
        yield
    except (DatabaseUnreachableError, DBAPIError, OSError) as error:
        if not is_connection_trouble(error):
            raise
        raise DeliveryError(OUT_OF_REACH) from error

"""Stores the installations of a bot in many workspaces, with their tokens, in our database."""

import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import aiohttp
from cryptography.fernet import Fernet, InvalidToken
from slack_bolt.error import BoltError
from slack_sdk.oauth.installation_store import Installation
from slack_sdk.oauth.installation_store.async_installation_store import AsyncInstallationStore
from slack_sdk.oauth.state_store.async_state_store import AsyncOAuthStateStore
from sqlalchemy.exc import DBAPIError

from bot.errors import DatabaseUnreachableError, DeliveryError
from bot.platforms.slack.clients import Installed, new_client
from bot.platforms.slack.problems import NOT_INSTALLED, RefusedError, made
from bot.platforms.slack.settings import SlackSettings
from bot.recent import Recent
from bot.setting_types import plain_secret
from bot.values import Clock, utc_now
from db import slack_installs
from db.database import Database, is_connection_trouble
from db.slack_installs import Install

log = logging.getLogger(__name__)

#: Time to live of a cached installation, in seconds. Until then a process may still write to a
#: workspace whose removal of the bot another process has received.
CACHE_SECONDS = 60.0
#: Time to live of a cached absence, in seconds: every process soon serves a new installation.
ABSENCE_SECONDS = 5.0
MAX_CACHED_WORKSPACES = 1_000

UNAVAILABLE = (
    "The database is unavailable, and with it the keys to Slack. Please try again in a minute."
)
UNREADABLE = (
    "The token of the Slack workspace %s cannot be decrypted, so that the bot is not there: "
    "`slack.encryption_key` was changed. Put the old key back, or have the bot installed there "
    "again on the page %s/slack/install"
)


class EncryptedInstallationStore(AsyncInstallationStore):
    """Stores bot tokens encrypted, and provides the client of each workspace (see `Clients`).

    Of the SDK's interface the OAuth flow calls `async_save` only.

    The SDK's store for SQLAlchemy is unsuitable as a base. It begins and commits transactions
    itself, which only our database does. Its columns are too short for encrypted tokens. Each
    installation adds a row. It finds a workspace of an organisation only together with the
    organisation, which places do not contain.

    Args:
        database: Stores the installations.
        settings: Contain the app's id and the encryption key of its tokens.
        session: The HTTP session that all clients share.
        monotonic: A monotonic clock in seconds.
        now: The time.

    Attributes:
        database: The database.
    """

    #: The logger that the SDK uses.
    logger = log

    def __init__(
        self,
        database: Database,
        settings: SlackSettings,
        session: aiohttp.ClientSession,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        now: Clock = utc_now,
    ) -> None:
        assert settings.client_id, "The store serves many workspaces."
        self._client_id = settings.client_id
        self._fernet = Fernet(plain_secret(settings.encryption_key))
        self.database = database
        self._settings = settings
        self._session = session
        self._monotonic = monotonic
        self._now = now
        #: The lookups in the database, each with its time of expiry.
        self._cache: Recent[str, tuple[Installed | None, float]] = Recent(MAX_CACHED_WORKSPACES)
        self._changes = 0

    # -- clients ---------------------------------------------------------------------------------

    async def find(self, *workspaces: str) -> tuple[str, Installed]:
        """Return the first of these workspaces with the bot, and the bot's identity there.

        Raises:
            RefusedError: The bot is installed in none of them.
            DeliveryError: The database is unreachable.
        """
        for workspace in workspaces:
            if installed := await self._installed(_key_of(workspace)):
                return workspace, installed
        raise RefusedError(NOT_INSTALLED)

    async def fresh(self, workspace: str, refused: Installed) -> Installed | None:
        """Return an identity with a token other than the refused one; `None` if there is none.

        Raises:
            DeliveryError: The database is unreachable.
        """
        self._forget(_key_of(workspace))
        installed = await self._installed(_key_of(workspace))
        return None if installed and installed.token == refused.token else installed

    # -- changes ---------------------------------------------------------------------------------

    async def async_save(self, installation: Installation) -> None:
        """Store an installation in place of an older one; only its bot token, no user token.

        Raises:
            BoltError: The installation contains no bot token.
            DeliveryError: The database is unreachable.
        """
        workspace = workspace_of(installation)
        if not workspace or not installation.bot_token or not installation.bot_user_id:
            log.error("Slack gave no token for a bot: has the app a bot user?")
            raise BoltError("Slack gave no token for a bot.")
        install = Install(
            client_id=self._client_id,
            workspace=workspace,
            enterprise=installation.enterprise_id or "",
            bot_user=installation.bot_user_id,
            bot=installation.bot_id or "",
            token=self._fernet.encrypt(installation.bot_token.encode()).decode(),
        )
        async with _reachable(), self.database.transaction() as tx:
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
        install, installed = await self._read(key)
        if install is None:
            return
        try:
            if installed is not None:
                await made(installed.client.auth_test())
                log.info("The bot is still in the Slack workspace %s: its token is good", key)
                return
        except DeliveryError as error:
            if not error.permanent:
                raise
        async with _reachable(), self.database.transaction() as tx:
            await slack_installs.remove(tx, install)
        self._forget(key)
        log.info("The bot was removed from the Slack workspace %s", key)

    # -- cache and database ----------------------------------------------------------------------

    async def _installed(self, key: str) -> Installed | None:
        installed, until = self._cache.get(key, (None, float("-inf")))
        if self._monotonic() < until:
            return installed
        changes = self._changes
        install, installed = await self._read(key)
        if install is not None and installed is None:
            log.error(UNREADABLE, key, self._settings.public_url)
        seconds = ABSENCE_SECONDS if install is None else CACHE_SECONDS
        # Do not cache a value that was read before a change.
        if changes == self._changes:
            self._cache[key] = (installed, self._monotonic() + seconds)
        return installed

    async def _read(self, key: str) -> tuple[Install | None, Installed | None]:
        """Return a stored installation, as a row and with its token if that is readable."""
        async with _reachable(), self.database.snapshot() as tx:
            install = await slack_installs.find(tx, self._client_id, key)
        if install is None:
            return None, None
        try:
            token = self._fernet.decrypt(install.token).decode()
        except InvalidToken:
            return install, None
        return install, Installed(
            client=new_client(token, api_url=self._settings.api_url, session=self._session),
            token=token,
            user=install.bot_user,
            bot=install.bot,
            enterprise=install.enterprise,
        )

    def _forget(self, key: str) -> None:
        self._changes += 1
        self._cache.pop(key, None)


class DatabaseStateStore(AsyncOAuthStateStore):
    """Stores the OAuth states of pending installations, each valid once and for a limited time.

    The SDK's store for SQLAlchemy is unsuitable as a base: it commits by itself, it reads a state
    before it deletes it, so that two requests may both use it, and it hides database errors.

    Args:
        database: Stores the states, so that any process can finish an installation.
        seconds: The lifetime of a state.
        now: The time.
    """

    #: The logger that the SDK uses.
    logger = log

    def __init__(self, database: Database, seconds: int, now: Clock) -> None:
        self._database = database
        self._lifetime = timedelta(seconds=seconds)
        self._now = now

    async def async_issue(self, *_: object, **__: object) -> str:
        """Begin an installation and return its state, which Slack returns with the code."""
        state, now = str(uuid.uuid4()), self._now()
        async with self._database.transaction() as tx:
            await slack_installs.forget_states(tx, now - self._lifetime)
            await slack_installs.issue_state(tx, state, now)
        return state

    async def async_consume(self, state: str) -> bool:
        """Consume a state; return True if it was issued, is unused and has not expired."""
        return await self._database.write(
            slack_installs.consume_state, state, self._now() - self._lifetime
        )


def workspace_of(installation: Installation) -> str:
    """Return the id of an installation: a workspace (T…) or an organisation (E…)."""
    if installation.is_enterprise_install:
        return installation.enterprise_id or ""
    return installation.team_id or ""


def _key_of(workspace: str) -> str:
    """Return the id of an installation: the organisation's, or else the workspace's.

    The id of a team is unique, so that an installation for a team needs no organisation.
    """
    enterprise, _, team = workspace.rpartition(".")
    return enterprise or team


@asynccontextmanager
async def _reachable() -> AsyncIterator[None]:
    """Convert connection errors of the database into `DeliveryError`."""
    try:
        yield
    except (DatabaseUnreachableError, DBAPIError, OSError) as error:
        if not is_connection_trouble(error):
            raise
        raise DeliveryError(UNAVAILABLE) from error

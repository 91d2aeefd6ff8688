"""Implements Bolt's stores for installations and OAuth states on our database."""

import logging
import uuid
from datetime import timedelta

from slack_bolt.error import BoltError
from slack_sdk.oauth.installation_store import Bot, Installation
from slack_sdk.oauth.installation_store.async_installation_store import AsyncInstallationStore
from slack_sdk.oauth.state_store.async_state_store import AsyncOAuthStateStore

from bot.platforms.slack.clients import Installed
from bot.platforms.slack.installs import Installs
from bot.values import Clock
from db import slack_installs
from db.database import Database

log = logging.getLogger(__name__)


class InstallsForBolt(AsyncInstallationStore):
    """Adapts our installations to Bolt's interface; stores bot tokens only, no user tokens.

    The SDK's own store for SQLAlchemy is unsuitable. It begins and commits transactions itself,
    which only our database does. Its columns are too short for encrypted tokens. Each installation
    adds a row. It finds a workspace of an organisation only together with the organisation, which
    places do not contain.

    Args:
        installs: Our installations.
    """

    def __init__(self, installs: Installs) -> None:
        self._installs = installs

    @property
    def logger(self) -> logging.Logger:
        """The logger that the SDK uses."""
        return log

    async def async_save(self, installation: Installation) -> None:
        """Store an installation in place of an older one.

        Raises:
            BoltError: The installation contains no bot token.
        """
        workspace = workspace_of(installation)
        if not workspace or not installation.bot_token or not installation.bot_user_id:
            log.error("Slack gave no token for a bot: has the app a bot user?")
            raise BoltError("Slack gave no token for a bot.")
        installed = Installed(
            token=installation.bot_token,
            user=installation.bot_user_id,
            bot=installation.bot_id or "",
            enterprise=installation.enterprise_id or "",
        )
        await self._installs.add(workspace, installed)

    async def async_find_bot(
        self,
        *,
        enterprise_id: str | None,
        team_id: str | None,
        is_enterprise_install: bool | None = False,
    ) -> Bot | None:
        """Return the bot of a workspace or an organisation; `None` without an installation."""
        workspace = (None if is_enterprise_install else team_id) or enterprise_id or ""
        installed = await self._installs.installed(workspace)
        if installed is None:
            return None
        return Bot(
            enterprise_id=enterprise_id,
            team_id=team_id,
            bot_token=installed.token,
            bot_id=installed.bot,
            bot_user_id=installed.user,
            is_enterprise_install=is_enterprise_install,
            installed_at=0.0,
        )

    async def async_delete_bot(self, *, enterprise_id: str | None, team_id: str | None) -> None:
        """Delete a workspace, or an organisation, whose token is no longer valid."""
        await self._installs.remove(team_id or enterprise_id or "")

    async def async_delete_all(self, *, enterprise_id: str | None, team_id: str | None) -> None:
        """Delete the bot's installation, since nothing else is stored."""
        await self.async_delete_bot(enterprise_id=enterprise_id, team_id=team_id)


class States(AsyncOAuthStateStore):
    """Stores the OAuth states of pending installations, each valid once and for a limited time.

    Args:
        database: Stores the states, so that any process can finish an installation.
        seconds: The lifetime of a state.
        now: The time.
    """

    def __init__(self, database: Database, seconds: int, now: Clock) -> None:
        self._database = database
        self._lasts = timedelta(seconds=seconds)
        self._now = now

    @property
    def logger(self) -> logging.Logger:
        """The logger that the SDK uses."""
        return log

    async def async_issue(self, *_: object, **__: object) -> str:
        """Begin an installation and return its state, which Slack returns with the code."""
        state, now = str(uuid.uuid4()), self._now()
        async with self._database.transaction() as tx:
            await slack_installs.forget_states(tx, now - self._lasts)
            await slack_installs.issue_state(tx, state, now)
        return state

    async def async_consume(self, state: str) -> bool:
        """Consume a state; return True if it was issued, is unused and has not expired."""
        async with self._database.transaction() as tx:
            return await slack_installs.consume_state(tx, state, self._now() - self._lasts)


def workspace_of(installation: Installation) -> str:
    """Return the id of an installation: a workspace (T…) or an organisation (E…)."""
    if installation.is_enterprise_install:
        return installation.enterprise_id or ""
    return installation.team_id or ""

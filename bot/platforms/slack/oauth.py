"""Installs the bot from a web page, with Slack's OAuth flow."""

import logging
from collections.abc import Awaitable

import aiohttp
from slack_bolt.error import BoltError
from slack_bolt.oauth.async_callback_options import (
    AsyncCallbackOptions,
    AsyncFailureArgs,
    AsyncSuccessArgs,
)
from slack_bolt.oauth.async_oauth_flow import AsyncOAuthFlow
from slack_bolt.oauth.async_oauth_settings import AsyncOAuthSettings
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackClientError
from slack_sdk.oauth.installation_store import Installation

from bot.platforms.slack import pages
from bot.platforms.slack.clients import new_client
from bot.platforms.slack.installations import (
    DatabaseStateStore,
    EncryptedInstallationStore,
    workspace_of,
)
from bot.platforms.slack.pages import Page
from bot.platforms.slack.scopes import BOT_SCOPES
from bot.platforms.slack.settings import SlackSettings
from bot.values import Clock, utc_now

log = logging.getLogger(__name__)

INSTALL_PATH, REDIRECT_PATH = "/slack/install", "/slack/oauth_redirect"


class InstallRefusedError(BoltError):
    """Raised for an installation that the settings exclude; its page gives the reason."""

    def __init__(self, page: Page) -> None:
        super().__init__(page.text)
        self.page = page


class InstallFlow(AsyncOAuthFlow):
    """Bolt's flow with our own pages, which never show internal errors.

    Args:
        installations: Store completed installations; the states go to the same database.
        settings: Contain the app's credentials and the workspaces that may install the bot.
        session: The HTTP session for requests to Slack.
        now: The time.
    """

    def __init__(
        self,
        installations: EncryptedInstallationStore,
        settings: SlackSettings,
        session: aiohttp.ClientSession,
        *,
        now: Clock = utc_now,
    ) -> None:
        assert settings.client_id, "The flow serves many workspaces."
        assert settings.client_secret, "The settings require it."
        self._slack = settings
        self._session = session
        self._install_url = f"{settings.public_url}{INSTALL_PATH}"
        client = new_client("", api_url=settings.api_url, session=session)
        super().__init__(
            client=client,
            settings=AsyncOAuthSettings(
                client_id=settings.client_id,
                client_secret=settings.client_secret.get_secret_value().strip(),
                scopes=BOT_SCOPES,
                user_scopes=(),
                redirect_uri=f"{settings.public_url}{REDIRECT_PATH}",
                install_path=INSTALL_PATH,
                redirect_uri_path=REDIRECT_PATH,
                callback_options=AsyncCallbackOptions(self._succeeded, self._failed),
                authorization_url=settings.authorize_url,
                installation_store=installations,
                installation_store_bot_only=True,
                state_store=DatabaseStateStore(installations.database, settings.state_seconds, now),
                state_expiration_seconds=settings.state_seconds,
            ),
        )

    async def handle_installation(self, request: AsyncBoltRequest) -> BoltResponse:
        """Return the page that leads to Slack."""
        return await self._page_or_error(super().handle_installation(request))

    async def handle_callback(self, request: AsyncBoltRequest) -> BoltResponse:
        """Complete an installation that the user approved, and return its last page."""
        return await self._page_or_error(super().handle_callback(request))

    async def build_authorize_url(self, state: str, request: AsyncBoltRequest) -> str:
        """Return the address at Slack, which contains nothing from the request."""
        return self.settings.authorize_url_generator.generate(state)

    async def build_install_page_html(self, url: str, request: AsyncBoltRequest) -> str:
        """Return the page that leads to Slack."""
        return pages.OFFER.html(url)

    async def append_set_cookie_headers(
        self, headers: dict[str, str], set_cookie_value: str | None
    ) -> dict[str, str | list[str]]:
        """Return the headers of the page that leads to Slack."""
        cookies = [set_cookie_value] if set_cookie_value else []
        return {**pages.HEADERS, "Set-Cookie": cookies}

    async def store_installation(
        self, request: AsyncBoltRequest, installation: Installation
    ) -> None:
        """Store an admitted installation; revoke the token of any other.

        Raises:
            InstallRefusedError: The installation is not admitted.
        """
        workspace = workspace_of(installation)
        allowed = set(self._slack.workspaces)
        if allowed and not allowed & {installation.enterprise_id, installation.team_id}:
            refusal = pages.NOT_ALLOWED
        elif installation.bot_token_expires_at is not None:
            refusal = pages.ROTATES
        else:
            await super().store_installation(request, installation)
            return
        log.warning("An installation in Slack was refused (%s): %s", workspace, refusal.title)
        token = installation.bot_token or ""
        client = new_client(token, api_url=self._slack.api_url, session=self._session)
        try:
            await client.auth_revoke()
        except (SlackClientError, aiohttp.ClientError, OSError) as error:
            log.warning("A token that is not wanted could not be revoked: %s", type(error).__name__)
        raise InstallRefusedError(refusal.filled(workspace=workspace))

    async def _succeeded(self, args: AsyncSuccessArgs) -> BoltResponse:
        found = args.installation
        if found.is_enterprise_install:
            name, page = found.enterprise_name, pages.INSTALLED_FOR_ORGANISATION
        else:
            name, page = found.team_name, pages.INSTALLED
        page = page.filled(name=name or workspace_of(found))
        link = f"https://app.slack.com/client/{workspace_of(found)}"
        over = self.settings.state_utils.build_set_cookie_for_deletion()
        return BoltResponse(
            status=200, body=page.html(link), headers={**pages.HEADERS, "Set-Cookie": [over]}
        )

    async def _failed(self, args: AsyncFailureArgs) -> BoltResponse:
        if isinstance(args.error, InstallRefusedError):
            return self._page(args.error.page, 403)
        page = pages.FAILURES.get(args.reason, pages.NOT_CONFIRMED)
        return self._page(page, args.suggested_status_code)

    async def _page_or_error(self, answer: Awaitable[BoltResponse]) -> BoltResponse:
        try:
            return await answer
        except Exception:
            log.exception("A page for installing the bot in Slack failed")
            return self._page(pages.NOT_NOW, 503)

    def _page(self, page: Page, status: int) -> BoltResponse:
        return BoltResponse(
            status=status, body=page.html(self._install_url), headers={**pages.HEADERS}
        )

"""Installs the bot from web pages, with Slack's OAuth flow."""

import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

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
from slack_sdk.oauth.installation_store import Installation

from bot.errors import DeliveryError
from bot.platforms.slack.clients import new_client
from bot.platforms.slack.installations import (
    DatabaseStateStore,
    EncryptedInstallationStore,
    workspace_of,
)
from bot.platforms.slack.problems import made
from bot.platforms.slack.settings import SlackSettings
from bot.setting_types import plain_secret
from bot.values import Clock, Live, utc_now

log = logging.getLogger(__name__)

INSTALL_PATH, REDIRECT_PATH = "/slack/install", "/slack/oauth_redirect"


#: The scopes that the bot needs, each with its purpose.
SCOPES = {
    "app_mentions:read": "to receive mentions",
    "assistant:write": "to be an agent, and to show “is thinking…”",
    "channels:history": "to receive and to read the messages of threads in public channels",
    "channels:read": "to know who reads a public channel before it reads a linked message",
    "chat:write": "to answer, to edit its messages, and to show Slack's own Stop",
    "commands": "to have slash commands",
    "files:read": "to read attached files",
    "files:write": "to send files, and texts that are too long for messages",
    "groups:history": "to receive and to read the messages of threads in private channels",
    "groups:read": "to know who reads a private channel before it reads a linked message",
    "im:history": "to receive direct messages",
    "im:write": "to send a direct message when no other place accepts it",
    "mpim:history": "to receive and to read the messages of group conversations",
    "mpim:read": "to know who reads a group conversation before it reads a linked message",
    "reactions:write": "to acknowledge messages with 👀, and to show with ✅ what it has read",
    "search:read.public": "to search public channels for the user who asks",
    "usergroups:read": "to know the roles of users, where they depend on user groups",
    "users:read": "to know the names of users, and who is a guest",
}
#: The exact scopes of `deploy/slack-manifest.yaml` and of installations.
BOT_SCOPES: tuple[str, ...] = tuple(SCOPES)


# --- pages --------------------------------------------------------------------------------------

#: The pages load no resources and cannot be framed. Their addresses, which contain a code, are sent
#: to no other site.
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_PAGE = Template(Path(__file__).with_name("install_page.html").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Page:
    """A page with a headline, a text, and one link to the next step."""

    title: str
    text: str
    label: str = "Start again"

    def html(self, link: str, **values: str) -> str:
        """Return the page as an HTML document.

        Args:
            link: The address of its only link.
            values: The values in its text.
        """
        return _PAGE.substitute(
            title=escape(self.title),
            text=escape(self.text.format(**values)),
            label=escape(self.label),
            link=escape(link),
        )


OFFER = Page(
    "Install the bot in Slack",
    "Slack will show you what the bot asks for, and lets you choose the workspace.",
    "Continue to Slack",
)
NOT_NOW = Page(
    "That did not work",
    "Something went wrong on our side, and the bot was not installed. Start again in a minute. If "
    "it happens again, tell the people who run the bot: its log says what is wrong.",
)
CANCELLED = Page(
    "Nothing was installed",
    "The installation was cancelled in Slack. If you did not mean to, start again.",
)
OTHER_BROWSER = Page(
    "This installation was not begun here",
    "It was begun in another browser, or without cookies, or it is over already and the page was "
    "loaded once more. Nothing was installed just now. Start again, and stay in this browser.",
)
TOO_LATE = Page(
    "This installation is over",
    "It was finished already, or it took too long. Nothing was installed just now. If the bot is "
    "not in Slack yet, start again.",
)
NOT_CONFIRMED = Page(
    "Slack did not confirm the installation",
    "Nothing was installed. Start again. If it happens again, tell the people who run the bot: "
    "its log says what Slack answers.",
)

#: The pages by the reason of the failure: Bolt's, or the `error` that Slack adds to the redirect.
FAILURES = {
    "access_denied": CANCELLED,
    "invalid_browser": OTHER_BROWSER,
    "invalid_state": TOO_LATE,
    "storage_error": NOT_NOW,
}


INSTALLED = Page(
    "The bot is installed",
    "It is in the workspace {name}. Find it in Slack under Apps and write to it, or invite it to a "
    "channel and mention it there.",
    "Open Slack",
)
INSTALLED_FOR_ORGANISATION = Page(
    "The bot is installed",
    "It is installed for the organisation {name}. An administrator of the organisation now adds it "
    "to workspaces, in Slack's settings of the organisation. People find it there under Apps.",
    "Open Slack",
)
NOT_ALLOWED = Page(
    "The bot is not for this workspace",
    "The people who run this bot have named the workspaces that may use it, and yours is not among "
    "them. Nothing was stored. Ask them to add {workspace} to `slack.workspaces`, or start again "
    "and choose another workspace.",
)
#: For an app whose tokens expire (token rotation).
ROTATES = Page(
    "The bot cannot keep this token",
    "Slack gave a token for {workspace} that expires, and nothing was stored. Tell the people who "
    "run the bot: their app at api.slack.com/apps has token rotation switched on, which this bot "
    "does not know. It needs an app without.",
)


# --- the flow -----------------------------------------------------------------------------------


class InstallRefusedError(BoltError):
    """Raised for an installation that the settings exclude; its page gives the reason."""

    def __init__(self, page: Page, workspace: str) -> None:
        super().__init__(page.title)
        self.page, self.workspace = page, workspace


class InstallFlow(AsyncOAuthFlow):
    """Bolt's flow with our own pages, which never show internal errors.

    Args:
        installations: Store completed installations; the states go to the same database.
        current: Contain the app's credentials and the workspaces that may install the bot.
        session: The HTTP session for requests to Slack.
        now: The time.
    """

    def __init__(
        self,
        installations: EncryptedInstallationStore,
        current: Live[SlackSettings],
        session: aiohttp.ClientSession,
        *,
        now: Clock = utc_now,
    ) -> None:
        settings = current()
        assert settings.client_id, "The flow serves many workspaces."
        self._slack, self._current = settings, current
        self._session = session
        self._install_url = f"{settings.public_url}{INSTALL_PATH}"
        client = new_client("", api_url=settings.api_url, session=session)
        super().__init__(
            client=client,
            settings=AsyncOAuthSettings(
                client_id=settings.client_id,
                client_secret=plain_secret(settings.client_secret),
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
        return OFFER.html(url)

    async def append_set_cookie_headers(
        self, headers: dict[str, str], set_cookie_value: str | None
    ) -> dict[str, str | list[str]]:
        """Return the headers of the page that leads to Slack."""
        cookies = [set_cookie_value] if set_cookie_value else []
        return {**HEADERS, "Set-Cookie": cookies}

    async def store_installation(
        self, request: AsyncBoltRequest, installation: Installation
    ) -> None:
        """Store an admitted installation; revoke the token of any other.

        Raises:
            InstallRefusedError: The installation is not admitted.
        """
        workspace = workspace_of(installation)
        allowed = self._current().workspaces
        here = {installation.enterprise_id, installation.team_id}
        if allowed is not None and not here & set(allowed):
            refusal = NOT_ALLOWED
        elif installation.bot_token_expires_at is not None:
            refusal = ROTATES
        else:
            await super().store_installation(request, installation)
            return
        log.warning("An installation in Slack was refused (%s): %s", workspace, refusal.title)
        token = installation.bot_token or ""
        client = new_client(token, api_url=self._slack.api_url, session=self._session)
        try:
            await made(client.auth_revoke())
        except DeliveryError as error:
            log.warning("A token that is not wanted could not be revoked: %s", error)
        raise InstallRefusedError(refusal, workspace)

    async def _succeeded(self, args: AsyncSuccessArgs) -> BoltResponse:
        found = args.installation
        if found.is_enterprise_install:
            name, page = found.enterprise_name, INSTALLED_FOR_ORGANISATION
        else:
            name, page = found.team_name, INSTALLED
        link = f"https://app.slack.com/client/{workspace_of(found)}"
        shown = page.html(link, name=name or workspace_of(found))
        over = self.settings.state_utils.build_set_cookie_for_deletion()
        return BoltResponse(status=200, body=shown, headers={**HEADERS, "Set-Cookie": [over]})

    async def _failed(self, args: AsyncFailureArgs) -> BoltResponse:
        if isinstance(args.error, InstallRefusedError):
            return self._page(args.error.page, 403, workspace=args.error.workspace)
        page = FAILURES.get(args.reason, NOT_CONFIRMED)
        return self._page(page, args.suggested_status_code)

    async def _page_or_error(self, answer: Awaitable[BoltResponse]) -> BoltResponse:
        try:
            return await answer
        except Exception:
            log.exception("A page for installing the bot in Slack failed")
            return self._page(NOT_NOW, 503)

    def _page(self, page: Page, status: int, **values: str) -> BoltResponse:
        body = page.html(self._install_url, **values)
        return BoltResponse(status=status, body=body, headers={**HEADERS})

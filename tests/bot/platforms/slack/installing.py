"""What tests of installations share: settings, a database to reach, and a browser."""

import asyncio
import base64
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from slack_sdk.oauth.installation_store import Installation
from slack_sdk.web.async_client import AsyncWebClient
from yarl import URL

from bot.platforms.slack.clients import Clients, Installed
from bot.platforms.slack.problems import RefusedError
from bot.platforms.slack.settings import SlackSettings
from db.database import Database, DatabaseSettings, Transaction
from tests.fakes.slack.oauth import Consent
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.shapes import Grant, Team


def new_key() -> str:
    """Return another key to encrypt with."""
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


def settings_for(
    slack: FakeSlack, *, public_url: str = "https://bot.example", **more: Any
) -> SlackSettings:
    """Return the settings of a bot that many workspaces install."""
    given = {"encryption_key": "a" * 43 + "="} | more
    return SlackSettings.model_validate(
        {
            "mode": "http",
            "signing_secret": slack.signing_secret,
            "client_id": slack.client_id,
            "client_secret": slack.client_secret,
            "public_url": public_url,
            "api_url": slack.api_url,
            **given,
        }
    )


def installed_as(grant: Grant) -> Installed:
    """Return what a new installation makes of the bot."""
    return Installed(
        client=AsyncWebClient(grant.token),
        token=grant.token,
        user=grant.bot.id,
        bot=grant.bot.bot_id,
        enterprise=grant.enterprise,
    )


async def found(clients: Clients, workspace: str) -> Installed | None:
    """Return who the bot is in a workspace, if it is there."""
    try:
        return (await clients.find(workspace))[1]
    except RefusedError:
        return None


def installation_of(grant: Grant) -> Installation:
    """Return the response of Slack to an installation."""
    return Installation(
        user_id="U0INSTALLER",
        enterprise_id=grant.enterprise or None,
        team_id=grant.team.id if grant.team else None,
        bot_token=grant.token,
        bot_user_id=grant.bot.id,
        bot_id=grant.bot.bot_id,
        is_enterprise_install=grant.team is None,
    )


@asynccontextmanager
async def nowhere() -> AsyncIterator[Database]:
    """A database that cannot be reached."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"postgresql://user:password@127.0.0.1:{taken.getsockname()[1]}/retinue"
        async with Database.open(DatabaseSettings(url=url)) as database:
            yield database


class SlowDatabase(Database):
    """What was read arrives late, when a test asks for that.

    Attributes:
        was_read: Set as soon as something was read.
        on: Set to let it arrive.
    """

    was_read: asyncio.Event | None = None
    on: asyncio.Event

    def delay(self) -> None:
        """Let the next reading arrive late."""
        self.was_read, self.on = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Transaction]:
        async with super().snapshot() as tx:
            yield tx
        if self.was_read is not None and not self.was_read.is_set():
            self.was_read.set()
            await self.on.wait()


@dataclass(frozen=True, slots=True)
class ShownQuestion:
    """A page as a browser shows it."""

    status: int
    text: str
    headers: dict[str, str]


@dataclass(slots=True)
class Browser:
    """Goes the way of a user step by step, with cookies.

    Attributes:
        slack: Where somebody agrees.
        session: Its connections.
        page: Where the bot offers to be installed.
        cookie: What it was given there.
        link: Where the offer leads.
    """

    slack: FakeSlack
    session: aiohttp.ClientSession
    page: str
    cookie: str = ""
    link: str = ""

    async def offered(self, query: str = "") -> str:
        """Look at the offer; return where its only link leads."""
        async with self.session.get(self.page + query, allow_redirects=False) as page:
            text = await page.text()
            self.cookie = page.headers.get("Set-Cookie", "").partition(";")[0]
        self.link = text.partition('href="')[2].partition('"')[0].replace("&amp;", "&")
        return self.link

    async def agreed(self, team: Team, *, org_wide: bool = False) -> str:
        """Agree at Slack; return where Slack sends the browser back to."""
        person = self.slack.add_user("installer", team=team)
        self.slack.oauth.consent = Consent(team, person, org_wide, (), "")
        async with self.session.get(URL(self.link, encoded=True), allow_redirects=False) as page:
            return page.headers["Location"]

    async def back(self, url: str, *, cookie: str | None = None) -> ShownQuestion:
        """Come back to the bot; return the page."""
        headers = {"Cookie": self.cookie if cookie is None else cookie}
        async with self.session.get(URL(url, encoded=True), headers=headers) as page:
            return ShownQuestion(page.status, await page.text(), dict(page.headers))

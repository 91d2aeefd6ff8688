"""People install the bot from a web page; what goes wrong there is said plainly, and harmless."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from aiohttp import web
from slack_bolt.adapter.starlette.async_handler import (
    to_async_bolt_request,
    to_starlette_response,
)
from slack_bolt.oauth.async_oauth_flow import AsyncOAuthFlow
from sqlalchemy import func, select
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bot.platforms.slack.installations import EncryptedInstallationStore
from bot.platforms.slack.oauth import BOT_SCOPES, INSTALL_PATH, REDIRECT_PATH, InstallFlow
from bot.values import Json
from db.database import Database
from db.tables import slack_installs, slack_states
from tests.bot.platforms.slack.installing import (
    Browser,
    ShownQuestion,
    found,
    installed_as,
    nowhere,
    settings_for,
)
from tests.fakes.clock import FakeClock
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.serving import serve
from tests.fakes.slack.shapes import Team

CONTENT_POLICY = "default-src 'none'"


class Site:
    """The two pages, which are told of their own address once they have one."""

    flow: AsyncOAuthFlow

    def app(self) -> Starlette:
        return Starlette(
            routes=[Route(INSTALL_PATH, self.install), Route(REDIRECT_PATH, self.callback)]
        )

    async def install(self, request: Request) -> Response:
        answer = await self.flow.handle_installation(to_async_bolt_request(request, b""))
        return to_starlette_response(answer)

    async def callback(self, request: Request) -> Response:
        answer = await self.flow.handle_callback(to_async_bolt_request(request, b""))
        return to_starlette_response(answer)


@dataclass
class Bot:
    """A bot with its pages, and somebody's browser."""

    slack: FakeSlack
    database: Database
    session: aiohttp.ClientSession
    clock: FakeClock
    site: Site
    url: str

    def __post_init__(self) -> None:
        self.configure()

    def configure(self, **settings: Any) -> None:
        """Start anew with other settings."""
        found = settings_for(self.slack, public_url=self.url, **settings)
        self.installs = EncryptedInstallationStore(self.database, found, self.session)
        self.site.flow = InstallFlow(self.installs, found, self.session, now=self.clock)

    @property
    def page(self) -> str:
        return self.url + INSTALL_PATH

    def browser(self) -> Browser:
        return Browser(self.slack, self.session, self.page)

    async def install(self, team: Team, *, org_wide: bool = False) -> ShownQuestion:
        """Go all the way at once."""
        browser = self.browser()
        await browser.offered()
        return await browser.back(await browser.agreed(team, org_wide=org_wide))

    async def count(self, table: Any) -> int:
        async with self.database.snapshot() as tx:
            return (await tx.execute(select(func.count()).select_from(table))).scalar_one()

    async def nothing_is_stored(self) -> bool:
        return await self.count(slack_installs) == 0


@asynccontextmanager
async def opened(slack: FakeSlack, database: Database, clock: FakeClock) -> AsyncIterator[Bot]:
    site = Site()
    async with (
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
        serve(site.app()) as url,
    ):
        yield Bot(slack, database, session, clock, site, url)


@pytest.fixture
async def bot(slack: FakeSlack, database: Database, clock: FakeClock) -> AsyncIterator[Bot]:
    async with opened(slack, database, clock) as bot:
        yield bot


def text_of(page: ShownQuestion) -> str:
    """Return what a page says, after it was seen to be harmless and to lead somewhere."""
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.headers["Content-Security-Policy"].startswith(CONTENT_POLICY)
    assert page.headers["Cache-Control"] == "no-store"
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.text.count("<a href=") == 1
    assert "Traceback" not in page.text
    assert "Error" not in page.text
    return page.text


def offers_to_start_again(bot: Bot, page: ShownQuestion) -> bool:
    return f'href="{bot.page}"' in page.text and "Start again" in page.text


# --- it works -----------------------------------------------------------------------------------


async def test_a_workspace_installs_the_bot_and_it_speaks_there(bot: Bot) -> None:
    team = bot.slack.add_team("Other")

    page = await bot.slack.install(bot.page, team)

    assert team.grant is not None
    _, here = await bot.installs.find(team.id)
    assert "The bot is installed" in page
    assert "workspace Other" in page
    assert await found(bot.installs, team.id) == installed_as(team.grant)
    assert (await here.client.auth_test())["team_id"] == team.id
    assert team.grant.scopes == list(BOT_SCOPES)
    assert await found(bot.installs, bot.slack.team.id) is None


async def test_an_organisation_installs_the_bot_in_all_of_its_workspaces(bot: Bot) -> None:
    team = bot.slack.add_team("Inside", enterprise="E0ORG")

    page = await bot.install(team, org_wide=True)

    assert team.grant is not None
    assert "organisation The organisation" in text_of(page)
    assert await found(bot.installs, f"E0ORG.{team.id}") == installed_as(team.grant)
    assert await found(bot.installs, team.id) is None


async def test_a_workspace_of_an_organisation_may_install_the_bot_for_itself(bot: Bot) -> None:
    team = bot.slack.add_team("Inside", enterprise="E0ORG")

    await bot.install(team)

    installed = await found(bot.installs, team.id)
    assert installed is not None
    assert installed.enterprise == "E0ORG"
    assert await found(bot.installs, f"E0ORG.{team.id}") is None


async def test_the_last_page_says_what_to_do_next_and_ends_the_visit(bot: Bot) -> None:
    page = await bot.install(bot.slack.team)

    text = text_of(page)
    assert page.status == 200
    assert "under Apps" in text
    assert f'href="https://app.slack.com/client/{bot.slack.team.id}"' in text
    assert page.headers["Set-Cookie"].startswith(
        "slack-app-oauth-state=deleted; expires=Thu, 01 Jan"
    )


async def test_the_offer_leads_to_slack_and_nowhere_else_whatever_the_request_says(
    bot: Bot,
) -> None:
    browser = bot.browser()

    link = await browser.offered("?team=T1%26redirect_uri%3Dhttps://evil.example&state=mine")

    query = parse_qs(urlsplit(link).query)
    assert link.startswith(bot.slack.authorize_url + "?")
    assert "evil" not in link
    assert "team" not in query
    assert query["redirect_uri"] == [f"{bot.url}/slack/oauth_redirect"]
    assert query["client_id"] == [bot.slack.client_id]
    assert query["scope"] == [",".join(BOT_SCOPES)]
    assert browser.cookie == f"slack-app-oauth-state={query['state'][0]}"


async def test_installing_again_replaces_what_was_there(bot: Bot) -> None:
    await bot.install(bot.slack.team)
    before = await found(bot.installs, bot.slack.team.id)

    await bot.install(bot.slack.team)

    assert bot.slack.team.grant is not None
    after = await found(bot.installs, bot.slack.team.id)
    assert after == installed_as(bot.slack.team.grant)
    assert before != after
    assert await bot.count(slack_installs) == 1


async def test_what_one_process_has_begun_another_one_finishes(bot: Bot) -> None:
    browser = bot.browser()
    await browser.offered()
    bot.configure()

    page = await browser.back(await browser.agreed(bot.slack.team))

    assert page.status == 200
    assert await found(bot.installs, bot.slack.team.id) is not None


# --- what is not right --------------------------------------------------------------------------


@pytest.mark.parametrize("cookie", ["", "slack-app-oauth-state=of-somebody-else"])
async def test_an_installation_that_another_browser_has_begun_is_refused(
    bot: Bot, cookie: str
) -> None:
    browser = bot.browser()
    await browser.offered()
    url = await browser.agreed(bot.slack.team)

    page = await browser.back(url, cookie=cookie)

    assert page.status == 400
    assert "begun in another browser" in text_of(page)
    assert offers_to_start_again(bot, page)
    assert await bot.nothing_is_stored()
    assert bot.slack.called("oauth.v2.access") == []


async def test_an_installation_that_nobody_has_begun_is_refused(bot: Bot) -> None:
    url = f"{bot.url}{REDIRECT_PATH}?code=good&state=made-up"

    page = await bot.browser().back(url, cookie="slack-app-oauth-state=made-up")

    assert page.status == 401
    assert "This installation is over" in text_of(page)
    assert offers_to_start_again(bot, page)
    assert await bot.nothing_is_stored()
    assert bot.slack.called("oauth.v2.access") == []


@pytest.mark.parametrize(("seconds", "in_time"), [(599, True), (600, False)])
async def test_an_installation_takes_so_long_and_no_longer(
    bot: Bot, seconds: int, in_time: bool
) -> None:
    browser = bot.browser()
    await browser.offered()
    url = await browser.agreed(bot.slack.team)
    bot.clock.advance(seconds)

    page = await browser.back(url)

    assert ("The bot is installed" in text_of(page)) is in_time
    assert ("it took too long" in page.text) is not in_time
    assert await bot.nothing_is_stored() is not in_time


async def test_an_installation_is_finished_once(bot: Bot) -> None:
    browser = bot.browser()
    await browser.offered()
    url = await browser.agreed(bot.slack.team)
    await browser.back(url)
    once = await found(bot.installs, bot.slack.team.id)

    page = await browser.back(url)

    assert page.status == 401
    assert "This installation is over" in text_of(page)
    assert len(bot.slack.called("oauth.v2.access")) == 1
    assert await found(bot.installs, bot.slack.team.id) == once


async def test_installations_that_are_never_finished_are_forgotten(bot: Bot) -> None:
    await bot.browser().offered()
    await bot.browser().offered()
    before = await bot.count(slack_states)
    bot.clock.advance(600)

    await bot.browser().offered()

    assert before == 2
    assert await bot.count(slack_states) == 1


async def test_whoever_says_no_in_slack_is_told_that_nothing_was_installed(bot: Bot) -> None:
    browser = bot.browser()
    await browser.offered()
    state = browser.cookie.partition("=")[2]

    page = await browser.back(f"{bot.url}{REDIRECT_PATH}?error=access_denied&state={state}")

    assert page.status == 200
    assert "cancelled in Slack" in text_of(page)
    assert offers_to_start_again(bot, page)
    assert await bot.nothing_is_stored()


@pytest.mark.parametrize("query", ["error=<b>You+won</b>", "code=<b>You+won</b>", ""])
async def test_a_page_shows_nothing_of_what_its_address_says(bot: Bot, query: str) -> None:
    browser = bot.browser()
    await browser.offered()
    state = browser.cookie.partition("=")[2]

    page = await browser.back(f"{bot.url}{REDIRECT_PATH}?{query}&state={state}")

    assert "Slack did not confirm" in text_of(page)
    assert "won" not in page.text
    assert offers_to_start_again(bot, page)
    assert await bot.nothing_is_stored()


async def test_a_name_is_text_whatever_is_in_it(bot: Bot) -> None:
    team = bot.slack.add_team("<script>alert('{x}')</script>")

    page = await bot.install(team)

    assert "&lt;script&gt;alert(&#x27;{x}&#x27;)&lt;/script&gt;" in text_of(page)
    assert "<script" not in page.text


@pytest.mark.parametrize("method", ["oauth.v2.access", "auth.test"])
@pytest.mark.parametrize(
    "trouble",
    [{"error": "internal_error"}, {"body": "<html>Oh</html>"}, {"refuse": True}],
    ids=["an error", "a page", "silence"],
)
async def test_when_slack_is_out_of_order_nothing_is_installed(
    bot: Bot, method: str, trouble: Json
) -> None:
    bot.slack.fail(method, times=None, **trouble)

    page = await bot.install(bot.slack.team)

    assert page.status in {401, 503}
    assert "ot install" in text_of(page) or "Nothing was installed" in page.text
    assert offers_to_start_again(bot, page)
    assert await bot.nothing_is_stored()


async def test_a_token_without_a_bot_is_not_stored(
    bot: Bot, caplog: pytest.LogCaptureFixture
) -> None:
    answer_with(bot.slack, bot_user_id=None)

    page = await bot.install(bot.slack.team)

    assert page.status == 500
    assert "went wrong on our side" in text_of(page)
    assert "has the app a bot user?" in caplog.text
    assert await bot.nothing_is_stored()


async def test_while_the_database_is_out_of_reach_a_page_says_to_come_back(
    slack: FakeSlack, clock: FakeClock
) -> None:
    async with nowhere() as database, opened(slack, database, clock) as bot:
        browser = bot.browser()
        async with bot.session.get(bot.page) as offer:
            shown = ShownQuestion(offer.status, await offer.text(), dict(offer.headers))
        url = f"{bot.url}{REDIRECT_PATH}?code=good&state=mine"
        back = await browser.back(url, cookie="slack-app-oauth-state=mine")

        for page in (shown, back):
            assert page.status == 503
            assert "Start again in a minute" in text_of(page)
            assert offers_to_start_again(bot, page)


# --- who may ------------------------------------------------------------------------------------


def answer_with(slack: FakeSlack, **more: object) -> None:
    """Let Slack give tokens with something else in the answer."""
    access = slack.api.open_methods["oauth.v2.access"]

    def changed(request: web.Request, args: Json) -> Json:
        return access(request, args) | more

    slack.api.open_methods["oauth.v2.access"] = changed


def revoked(slack: FakeSlack) -> set[str]:
    return {token for token, grant in slack.world.grants.items() if grant.revoked}


async def test_a_workspace_that_may_not_have_the_bot_is_told_and_its_token_is_given_back(
    bot: Bot, caplog: pytest.LogCaptureFixture
) -> None:
    bot.configure(workspaces=["T0ALLOWED"])
    team = bot.slack.add_team("Other")

    page = await bot.install(team)

    assert team.grant is not None
    assert page.status == 403
    assert "named the workspaces that may use it" in text_of(page)
    assert team.id in page.text
    assert offers_to_start_again(bot, page)
    assert await bot.nothing_is_stored()
    assert revoked(bot.slack) == {team.grant.token}
    assert team.grant.token not in caplog.text + page.text


@pytest.mark.parametrize("allowed", ["team", "organisation"])
async def test_a_workspace_that_may_have_the_bot_is_named_or_its_organisation(
    bot: Bot, allowed: str
) -> None:
    team = bot.slack.add_team("Inside", enterprise="E0ORG")
    bot.configure(workspaces=[team.id if allowed == "team" else "E0ORG"])

    page = await bot.install(team)

    assert page.status == 200
    assert await found(bot.installs, team.id) is not None
    assert revoked(bot.slack) == set()


async def test_an_organisation_needs_more_than_one_workspace_that_may(bot: Bot) -> None:
    team = bot.slack.add_team("Inside", enterprise="E0ORG")
    bot.configure(workspaces=[team.id])

    page = await bot.install(team, org_wide=True)

    assert page.status == 403
    assert "E0ORG" in text_of(page)
    assert await bot.nothing_is_stored()


async def test_a_token_that_cannot_be_given_back_is_not_stored_either(
    bot: Bot, caplog: pytest.LogCaptureFixture
) -> None:
    bot.configure(workspaces=["T0ALLOWED"])
    bot.slack.fail("auth.revoke", error="fatal_error", times=None)

    page = await bot.install(bot.slack.team)

    assert page.status == 403
    assert "could not be revoked" in caplog.text
    assert await bot.nothing_is_stored()


async def test_a_token_that_expires_is_not_kept(bot: Bot) -> None:
    answer_with(bot.slack, expires_in=43_200, refresh_token="xoxe-1-secret")

    page = await bot.install(bot.slack.team)

    assert page.status == 403
    assert "token rotation" in text_of(page)
    assert await bot.nothing_is_stored()

"""Installing the app into workspaces and organisations, by the browser of a user."""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit

import aiohttp
from aiohttp import web
from yarl import URL

from bot.values import Json
from tests.fakes.slack.shapes import APP_ID, Grant, SlackError, Team, User
from tests.fakes.slack.world import World

CLIENT_ID, CLIENT_SECRET = "111.222", "the-secret-of-the-client"


@dataclass(frozen=True, slots=True)
class Consent:
    """What a user has agreed to."""

    team: Team
    user: User
    org_wide: bool
    scopes: tuple[str, ...]
    redirect_uri: str


@dataclass(slots=True)
class OAuth:
    """The page where a user agrees, and the exchange of the code for a token.

    Attributes:
        redirect_url: Where to go when the app does not say.
        consent: Who is at the browser, and for what.
        codes: What each code stands for; each is good once.
        installed: Told of every new installation.
    """

    world: World
    redirect_url: str = ""
    consent: Consent | None = None
    codes: dict[str, Consent] = field(default_factory=dict)
    installed: Callable[[Grant], None] = lambda _: None

    async def authorize(self, request: web.Request) -> web.Response:
        """Agree at once, and go back to the app."""
        query = request.query
        back = query.get("redirect_uri") or self.redirect_url
        if query.get("client_id") != CLIENT_ID or self.consent is None or not back:
            return web.Response(status=400, text="Invalid client_id parameter")
        scopes = tuple(scope for scope in query.get("scope", "").split(",") if scope)
        given = self.consent
        code = self.world.new_id("code")
        self.codes[code] = Consent(
            given.team, given.user, given.org_wide, scopes, query.get("redirect_uri", "")
        )
        goal = urlencode({"code": code, "state": query.get("state", "")})
        raise web.HTTPFound(f"{back}?{goal}")

    def access(self, request: web.Request, args: Json) -> Json:
        """Exchange a code for a token."""
        self._check_client(request, args)
        consent = self.codes.pop(str(args.get("code")), None)
        if consent is None:
            raise SlackError("invalid_code")
        if consent.redirect_uri != str(args.get("redirect_uri") or ""):
            raise SlackError("bad_redirect_uri")
        if not consent.scopes:
            raise SlackError("no_scopes")
        grant = self.world.grant(consent.team, org_wide=consent.org_wide, scopes=consent.scopes)
        self.installed(grant)
        team, org_wide = consent.team, consent.org_wide
        enterprise = {"id": team.enterprise, "name": "The organisation"}
        return {
            "app_id": APP_ID,
            "authed_user": {"id": consent.user.id},
            "scope": ",".join(consent.scopes),
            "token_type": "bot",
            "access_token": grant.token,
            "bot_user_id": grant.bot.id,
            "team": None if org_wide else {"id": team.id, "name": team.name},
            "enterprise": enterprise if team.enterprise else None,
            "is_enterprise_install": org_wide,
        }

    def _check_client(self, request: web.Request, args: Json) -> None:
        header = request.headers.get("Authorization", "")
        if header.startswith("Basic "):
            decoded = base64.b64decode(header.removeprefix("Basic ")).decode()
            client, _, secret = decoded.partition(":")
        else:
            client, secret = str(args.get("client_id")), str(args.get("client_secret"))
        if client != CLIENT_ID:
            raise SlackError("invalid_client_id")
        if secret != CLIENT_SECRET:
            raise SlackError("bad_client_secret")

    async def install(self, session: aiohttp.ClientSession, page: str, consent: Consent) -> str:
        """Go the way of a user: the app's page, Slack's page, and back; return the last page.

        Args:
            session: The browser; it keeps no cookies by itself.
            page: The address where the app offers to be installed.
            consent: Who installs it, and where.
        """
        self.consent = consent
        async with session.get(page, allow_redirects=False) as offered:
            text = await offered.text()
            cookie = offered.headers.get("Set-Cookie", "").partition(";")[0]
            link = offered.headers.get("Location") or _link_in(text)
        async with session.get(URL(link, encoded=True), allow_redirects=False) as agreed:
            back = agreed.headers.get("Location")
            assert back is not None, f"Slack did not send the browser back: {await agreed.text()}"
        headers = {"Cookie": cookie} if cookie else {}
        async with session.get(URL(back, encoded=True), headers=headers) as done:
            return await done.text()


def _link_in(page: str) -> str:
    found = re.search(r'href="([^"]*/oauth/v2/authorize[^"]*)"', page)
    assert found, f"There is no link to Slack on the page: {page}"
    link = found[1].replace("&amp;", "&")
    parts = urlsplit(link)
    return parts._replace(query=urlencode(parse_qsl(parts.query, keep_blank_values=True))).geturl()

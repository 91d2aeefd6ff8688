"""A Slack on a port of this machine: people on one side, the real Bolt and SDK on the other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

import aiohttp
from aiohttp import web

from bot.tasks import Tasks
from bot.values import Json
from tests.fakes.patience import PATIENCE_SECONDS, Pulse
from tests.fakes.slack import oauth, sockets, webhook
from tests.fakes.slack.agents import Agents, Status
from tests.fakes.slack.answers import Answers
from tests.fakes.slack.calls import Call
from tests.fakes.slack.chat import Chat
from tests.fakes.slack.delivery import Deliveries, Delivery
from tests.fakes.slack.events import Events
from tests.fakes.slack.hands import Hands
from tests.fakes.slack.knobs import Knobs
from tests.fakes.slack.messages import Channel, Message
from tests.fakes.slack.people import People
from tests.fakes.slack.places import Places
from tests.fakes.slack.rooms import Rooms
from tests.fakes.slack.shapes import APP_ID, Team, User
from tests.fakes.slack.streams import Streams
from tests.fakes.slack.surfaces import Surfaces, View
from tests.fakes.slack.uploads import Uploads
from tests.fakes.slack.web import WebApi

#: 10 MB bodies are for tests of the app's own limits; nothing that Slack takes is larger.
_MAX_BODY = 64 * 1024 * 1024


class FakeSlack(Places, Knobs):
    """All of Slack that one app sees. Its parts are public: their attributes are its knobs.

    Attributes:
        say, edit, delete, redeliver: What people do with messages (`People`).
        slash, click, submit, options: What people do with the app (`Hands`).
        api: The Web API; `chat`, `streams`, `uploads`, `surfaces`, `agents` are parts of it.
        sockets, webhook: The two ways to the app.
        deliveries: What was sent to it, and how it went.
    """

    app_token = sockets.APP_TOKEN
    signing_secret = webhook.SIGNING_SECRET
    client_id = oauth.CLIENT_ID
    client_secret = oauth.CLIENT_SECRET
    app_id = APP_ID

    def __init__(self, session: aiohttp.ClientSession, tasks: Tasks, pulse: Pulse) -> None:
        super().__init__()
        self.url = ""
        self.pulse, self.until = pulse, pulse.until
        self._session = session
        self.sockets = sockets.Sockets(pulse)
        self.webhook = webhook.Webhook(session)
        self.deliveries = Deliveries(self.sockets, tasks, pulse)
        self.events = Events(self.world.new_ts)
        self.api = WebApi(self.world, pulse)
        self.agents = Agents(self.world, self._hears_stop)
        self.chat = Chat(self.world, self.agents, self._tell)
        self.streams = Streams(self.world, self.agents, self._tell)
        self.uploads = Uploads(self.world, self.agents, self._tell, self.api.faults)
        self.surfaces = Surfaces(self.world)
        self.oauth = oauth.OAuth(self.world)
        self.answers = Answers(self.world, self.chat, self.api.faults, pulse)
        self.people = People(
            self.world,
            self.events,
            self.deliveries,
            self.uploads,
            self.agents,
            self.streams,
            self.surfaces,
        )
        self.hands = Hands(self.world, self.deliveries, self.answers, self.surfaces)
        self.say, self.edit = self.people.say, self.people.edit
        self.delete, self.redeliver = self.people.delete, self.people.redeliver
        self.uninstall, self.revoke_tokens = self.people.uninstall, self.people.revoke_tokens
        self.slash, self.click = self.hands.slash, self.hands.click
        self.submit, self.options = self.hands.submit, self.hands.options
        rooms = Rooms(self.world)
        for part in (self.chat, self.streams, self.uploads, self.surfaces, self.agents, rooms):
            self.api.methods |= part.methods
        self.api.methods["api.test"] = lambda ask: {"args": ask.args}
        self.api.open_methods = {
            "apps.connections.open": self.sockets.ticket,
            "oauth.v2.access": self.oauth.access,
        }

    @classmethod
    @asynccontextmanager
    async def open(cls, *, patience: float = PATIENCE_SECONDS) -> AsyncIterator[Self]:
        """Serve a new Slack for as long as the block lasts.

        Args:
            patience: How long `until` waits, in seconds, before it fails the test.
        """
        tasks = Tasks()
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            slack = cls(session, tasks, Pulse(patience))
            runner = web.AppRunner(slack._application(), access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                slack._at(f"http://127.0.0.1:{runner.addresses[0][1]}")
                yield slack
            finally:
                await tasks.close()
                await slack.sockets.close()
                await runner.cleanup()

    def _application(self) -> web.Application:
        app = web.Application(client_max_size=_MAX_BODY)
        app.router.add_route("*", "/api/{method}", self.api.handle)
        app.router.add_get("/link/", self.sockets.handle)
        app.router.add_post("/upload/v1/{ticket}", self.uploads.take)
        app.router.add_get("/files-pri/{file}", self.uploads.give)
        app.router.add_get("/files-pri/{file}/download", self.uploads.give)
        app.router.add_get("/signin", self.uploads.sign_in)
        app.router.add_post("/respond/{ticket}", self.answers.respond)
        app.router.add_get("/oauth/v2/authorize", self.oauth.authorize)
        return app

    def _at(self, url: str) -> None:
        self.url = self.sockets.base = self.uploads.base = self.answers.base = url

    # --- what an app needs ----------------------------------------------------------------------

    @property
    def api_url(self) -> str:
        """The `base_url` of a Web API client."""
        return f"{self.url}/api/"

    @property
    def authorize_url(self) -> str:
        """Where a browser is sent to install the app."""
        return f"{self.url}/oauth/v2/authorize"

    @property
    def bot_token(self) -> str:
        """The token of the first workspace."""
        assert self.team.grant is not None, "The app is not installed."
        return self.team.grant.token

    # --- the way to the app ---------------------------------------------------------------------

    def connect_http(self, url: str) -> None:
        """Send everything by HTTP to this address from now on."""
        self.webhook.url = url
        self.deliveries.transport = self.webhook

    def connect_sockets(self) -> None:
        """Send everything over Socket Mode from now on, as at the start."""
        self.deliveries.transport = self.sockets

    async def connected(self) -> None:
        """Wait until there is an app."""
        await self.until(lambda: self.deliveries.transport.ready, "an app that connects")

    @property
    def sockets_open(self) -> int:
        """How many sockets of the app are open."""
        return len(self.sockets.open)

    async def refresh_socket(self, reason: str = "refresh_requested") -> None:
        """Have the app connect anew, as Slack does every few hours."""
        await self.sockets.refresh(reason)

    def drop_socket(self) -> None:
        """Break the app's sockets without a word."""
        self.sockets.drop()

    async def retry_lost(self) -> None:
        """Send again what the app did not acknowledge, as Slack does after minutes."""
        await self.deliveries.retry_lost()

    # --- what people do -------------------------------------------------------------------------

    async def open_home(self, user: User, tab: str = "home") -> Delivery | None:
        """Open the app's Home tab (or its messages, with `tab`)."""
        return await self.people.open_app(user, tab)

    def home(self, user: User) -> View | None:
        """Return the Home tab that was published for a user."""
        return self.surfaces.homes.get(user.id)

    async def stop_clicked(
        self, user: User, channel: Channel, thread_ts: str, *, force: bool = False
    ) -> Delivery | None:
        """Click Slack's own Stop, which is there while the session is processing."""
        return await self.people.stop(user, channel, thread_ts, force=force)

    async def send(
        self, event: Json, *, channel: Channel | None = None, team: Team | None = None
    ) -> Delivery | None:
        """Tell the app of anything else that happens."""
        return await self.people.tell(event, team or self.team, channel)

    async def install(
        self, page: str, team: Team, *, user: User | None = None, org_wide: bool = False
    ) -> str:
        """Install the app from its page, and return what the browser shows in the end."""
        installer = user or self.add_user("installer", team=team)
        consent = oauth.Consent(team, installer, org_wide, (), "")
        return await self.oauth.install(self._session, page, consent)

    # --- what the app did -----------------------------------------------------------------------

    @property
    def calls(self) -> list[Call]:
        """Every call of the Web API, in order."""
        return self.api.calls

    def called(self, method: str) -> list[Call]:
        """Return the calls of one method."""
        return [call for call in self.api.calls if call.method == method]

    @property
    def statuses(self) -> list[Status]:
        """Every status that was set, in order."""
        return self.agents.statuses

    def status(self, channel: Channel, thread_ts: str) -> str:
        """Return the line that a thread shows now ("is thinking…"); empty for none."""
        return self.agents.text(channel.id, thread_ts)

    def session(self, channel: Channel, thread_ts: str) -> str:
        """Return the state of a thread's session; empty when there is none."""
        return self.agents.sessions.get((channel.id, thread_ts), "")

    def _tell(self, message: Message, before: Json | None) -> list[Delivery]:
        return self.people.own_message(message, before)

    def _hears_stop(self) -> bool:
        wanted = self.events.subscriptions
        return wanted is None or "agent_session_stopped" in wanted

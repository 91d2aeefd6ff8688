"""The Web API: who asks, what goes wrong, and which method answers."""

import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NoReturn

from aiohttp import web

from bot.values import Json
from tests.fakes.patience import Pulse
from tests.fakes.slack.calls import Call, Fault, Faults, Rates
from tests.fakes.slack.shapes import Grant, SlackError, Team
from tests.fakes.slack.world import World

#: Arguments that are documents; a form carries them as text.
_DOCUMENTS = {"blocks", "attachments", "view", "files", "metadata", "chunks", "prompts"} | {
    "loading_messages"
}
_SCOPES = {
    "assistant.threads": ("assistant:write", "chat:write"),
    "agents": ("chat:write",),
    "bots": ("users:read",),
    "chat": ("chat:write",),
    "conversations.history": ("channels:history", "groups:history", "im:history"),
    "assistant.search": ("search:read.public",),
    "conversations.info": ("channels:read", "groups:read", "im:read", "mpim:read"),
    "users.conversations": ("channels:read", "groups:read", "im:read", "mpim:read"),
    "conversations.members": ("channels:read", "groups:read", "im:read", "mpim:read"),
    "conversations.open": ("im:write",),
    "conversations.replies": ("channels:history", "groups:history", "im:history"),
    "files": ("files:write",),
    "files.info": ("files:read",),
    "reactions": ("reactions:write",),
    "team.info": ("team:read",),
    "usergroups": ("usergroups:read",),
    "users": ("users:read",),
}


@dataclass(frozen=True, slots=True)
class Ask:
    """One call, with the installation whose token it came with."""

    method: str
    args: Json
    grant: Grant
    request: web.Request

    @property
    def team(self) -> Team:
        """The team it is about: of a token for the organisation, the one that is named."""
        team = self.grant.team
        if team is None:
            team = self.grant.bot.team
        return team

    def flag(self, name: str) -> bool:
        return flag(self.args.get(name)) or False


def flag(value: object) -> bool | None:
    """Return a boolean argument, which a form carries as text."""
    return None if value is None else str(value).lower() in {"1", "true"}


Method = Callable[[Ask], Json | Awaitable[Json]]


class WebApi:
    """Answers calls.

    Attributes:
        methods: By name.
        open_methods: Those that need no bot token: they read the request themselves.
        calls: Everything that was asked, in order.
    """

    def __init__(self, world: World, pulse: Pulse) -> None:
        self.methods: dict[str, Method] = {}
        self.open_methods: dict[str, Callable[[web.Request, Json], Json]] = {}
        self.calls: list[Call] = []
        self.faults = Faults()
        self.rates = Rates()
        self._world = world
        self._pulse = pulse

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one call."""
        method = request.match_info["method"]
        args = await arguments(request)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        grant = self._world.grants.get(token)
        team = (grant.team.id if grant.team else grant.enterprise) if grant else ""
        call = Call(method, args, time.monotonic(), token, team)
        self.calls.append(call)
        self._pulse.beat()
        fault = self.faults.take(method, args)
        try:
            if fault is not None and (early := await self._before(request, fault)) is not None:
                call.error = fault.error or str(fault.status)
                return early
            response = await self._answer(request, call, grant)
            if fault is not None and fault.late is not None:
                await fault.late.wait()
        finally:
            self._pulse.beat()
        return cut_off(request) if fault is not None and fault.cut else response

    async def _before(self, request: web.Request, fault: Fault) -> web.Response | None:
        if fault.hold is not None:
            await fault.hold.wait()
        if fault.refuse:
            return cut_off(request)
        if not fault.answers:
            return None
        headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
        if fault.body is not None or (fault.status >= 500 and not fault.error):
            page = fault.body or "<html>upstream connect error</html>"
            return web.Response(
                status=fault.status, text=page, content_type="text/html", headers=headers
            )
        error = fault.error or ("ratelimited" if fault.status == 429 else "internal_error")
        answer = {"ok": False, "error": error}
        return web.json_response(answer, status=fault.status, headers=headers)

    async def _answer(
        self, request: web.Request, call: Call, grant: Grant | None
    ) -> web.StreamResponse:
        seconds = self.rates.wait_for(call.method, call.team, call.args)
        if seconds:
            call.error = "ratelimited"
            return web.json_response(
                {"ok": False, "error": "ratelimited"},
                status=429,
                headers={"Retry-After": str(seconds)},
            )
        try:
            answer = await self._call(request, call, grant)
        except SlackError as error:
            call.error = error.name
            answer = error.answer
        headers = {"x-oauth-scopes": ",".join(grant.scopes)} if grant else {}
        return web.json_response(answer, headers=headers)

    async def _call(self, request: web.Request, call: Call, grant: Grant | None) -> Json:
        if call.method in self.open_methods:
            return {"ok": True} | self.open_methods[call.method](request, call.args)
        if call.method not in self.methods:
            raise SlackError("unknown_method", req_method=call.method)
        self._check_access(call, grant)
        assert grant is not None
        answer = self.methods[call.method](Ask(call.method, call.args, grant, request))
        return {"ok": True} | (answer if isinstance(answer, dict) else await answer)

    def _check_access(self, call: Call, grant: Grant | None) -> None:
        if not call.token:
            raise SlackError("not_authed")
        if grant is None:
            raise SlackError(
                "not_allowed_token_type" if call.token[:5] == "xapp-" else "invalid_auth"
            )
        if grant.revoked:
            raise SlackError(grant.revoked)
        needed = scopes_for(call.method)
        if needed and not set(needed) & set(grant.scopes):
            provided = ",".join(grant.scopes)
            raise SlackError("missing_scope", needed=needed[0], provided=provided)


def scopes_for(method: str) -> tuple[str, ...]:
    """Return the scopes of which a method needs one."""
    while method:
        if method in _SCOPES:
            return _SCOPES[method]
        method = method.rpartition(".")[0]
    return ()


async def arguments(request: web.Request) -> Json:
    """Read the arguments of a call from wherever they can stand.

    Raises:
        web.HTTPOk: They cannot be read; Slack says so with this status.
    """
    args: Json = dict(request.query)
    if request.content_type == "application/json":
        try:
            args |= json.loads(await request.read() or b"{}")
        except ValueError:
            _refuse("invalid_json")
    else:
        form = await request.post()
        args |= {name: value for name, value in form.items() if isinstance(value, str)}
    for name in _DOCUMENTS & set(args):
        if isinstance(args[name], str):
            with contextlib.suppress(ValueError):
                args[name] = json.loads(args[name])
    args.pop("token", None)
    return {name: value for name, value in args.items() if value is not None}


def _refuse(error: str) -> NoReturn:
    body = json.dumps({"ok": False, "error": error})
    raise web.HTTPOk(text=body, content_type="application/json")


def cut_off(request: web.Request) -> web.Response:
    """Break the connection; what is returned goes nowhere."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()

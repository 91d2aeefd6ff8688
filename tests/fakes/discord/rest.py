"""The REST API: reads requests, lets them go wrong as ordered, and answers."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from bot.values import Json
from tests.fakes.discord.faults import API, Fault, Sent
from tests.fakes.discord.refusals import Refusal
from tests.fakes.discord.things import File
from tests.fakes.discord.world import World


@dataclass(frozen=True, slots=True)
class Call:
    """A request to be answered.

    Attributes:
        ids: What stands in its path, by name.
    """

    world: World
    sent: Sent
    ids: dict[str, str]

    @property
    def json(self) -> Json:
        """The body."""
        return self.sent.json

    def id(self, name: str) -> int:
        """Return an id in the path."""
        value = self.ids[name]
        return int(value) if value.isdigit() else 0


#: Gives the document of an answer; `None` for an answer without any.
Handler = Callable[[Call], Json | list[Json] | None]


@dataclass(frozen=True, slots=True)
class Route:
    """A method and path of the API.

    Attributes:
        open: Its path holds a secret, so it needs no token.
    """

    method: str
    path: str
    handler: Handler
    open: bool = False


class Rest:
    """Answers requests about a world."""

    def __init__(self, world: World, routes: list[Route]) -> None:
        self._world = world
        self._routes = routes

    def add_to(self, app: web.Application) -> None:
        """Put everything into an application."""
        for route in self._routes:
            app.router.add_route(route.method, API + route.path, self._serve(route))
        app.router.add_route("*", "/api/{rest:.*}", self._serve(Route("*", "", _unknown)))
        app.router.add_get("/attachments/{channel}/{file}/{name}", self._file)

    def _serve(self, route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def serve(request: web.Request) -> web.StreamResponse:
            sent = await read(request)
            self._world.sent.append(sent)
            self._world.touch()
            window = self._world.faults.window(sent.method, sent.path)
            fault = self._world.faults.take(sent.method, sent.path) or (window and window.take())
            if fault and (response := await _go_wrong(fault, request)):
                sent.status, sent.code = response.status, fault.code
                return response
            response = self._answer(route, request, sent)
            response.headers.update(window.headers() if window else {})
            if fault and fault.cut:
                sent.status = 0
                return _tear(request)
            self._world.touch()
            return response

        return serve

    def _answer(self, route: Route, request: web.Request, sent: Sent) -> web.Response:
        try:
            if not route.open and request.headers.get("Authorization") != (
                f"Bot {self._world.token}"
            ):
                sent.status = 401
                return document({"message": "401: Unauthorized", "code": 0}, 401)
            found = route.handler(Call(self._world, sent, dict(request.match_info)))
        except Refusal as refusal:
            sent.status, sent.code = refusal.status, refusal.code
            headers = {"Retry-After": str(refusal.retry_after)} if refusal.retry_after else {}
            return document(refusal.body(), refusal.status, headers)
        except (KeyError, TypeError, ValueError, AssertionError) as error:
            # Loud at the end of the test; an error 500 would be tried again and again.
            self._world.broken.append(f"{sent} {sent.json}: {error!r}")
            sent.status = 400
            return document({"message": repr(error), "code": 50035}, 400)
        except _NotThereError:
            sent.status = 404
            return document({"message": "404: Not Found", "code": 0}, 404)
        if found is None:
            sent.status = 204
            return web.Response(status=204, headers=_USUAL_HEADERS)
        sent.status = 200
        return document(found)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        fault = self._world.faults.take("GET", request.path)
        if fault and (response := await _go_wrong(fault, request)):
            return response
        file = self._world.files.get(int(request.match_info["file"]))
        if file is None:
            return web.Response(status=404)
        return web.Response(
            body=file.content, content_type=file.media_type or "application/octet-stream"
        )


class _NotThereError(Exception):
    pass


def _unknown(_: Call) -> None:
    raise _NotThereError


#: Generous limits: a client that heeds them is never slowed down.
_USUAL_HEADERS = {
    "Via": "1.1 google",
    "X-RateLimit-Limit": "100",
    "X-RateLimit-Remaining": "99",
    "X-RateLimit-Reset-After": "1",
}


def document(
    found: Json | list[Json], status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    """Return an answer: the content type has no parameter, or discord.py reads it as text."""
    return web.Response(
        body=json.dumps(found).encode(),
        status=status,
        content_type="application/json",
        headers=_USUAL_HEADERS | (headers or {}),
    )


async def read(request: web.Request) -> Sent:
    """Read a request: JSON, or a form with files."""
    body: Json = {}
    files: dict[int, File] = {}
    if request.content_type == "multipart/form-data":
        for name, value in (await request.post()).items():
            if isinstance(value, web.FileField):
                index = int(name.removeprefix("files[").removesuffix("]"))
                files[index] = File(0, value.filename, value.file.read())
            else:
                body = json.loads(value)
    elif request.can_read_body:
        found = json.loads(await request.read())
        body = found if isinstance(found, dict) else {"list": found}
    path = request.path.removeprefix(API)
    query = request.query
    return Sent(request.method, path, body, files, query, dict(request.headers))


async def _go_wrong(fault: Fault, request: web.Request) -> web.Response | None:
    if fault.hold:
        await fault.hold.wait()
    if fault.refuse:
        return _tear(request)
    if fault.cloudflare:
        return web.Response(status=fault.status, text="error code: 1015", content_type="text/html")
    if fault.status:
        return document(fault.body(), fault.status, fault.headers())
    return None


def _tear(request: web.Request) -> web.Response:
    if request.transport:
        request.transport.abort()
    return web.Response()

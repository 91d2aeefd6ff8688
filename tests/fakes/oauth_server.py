"""An MCP server at which users sign in, with its authorization server, at one address."""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urlsplit

from aiohttp import web

from bot.values import Json

WHOAMI = {
    "name": "whoami",
    "description": "Return the account.",
    "inputSchema": {"type": "object", "properties": {}},
}


@dataclass
class FakeOAuth:
    """The servers.

    Attributes:
        base: Their address.
        tools: The tools that the MCP server lists.
        issuer: The issuer that the metadata names; empty for the address.
        extra: Further keys of the metadata, or other values of its keys.
        registers: Whether clients can register themselves.
        described_at: The path of the description of the sign-in, which the challenge names.
        expires_in: The life of access tokens in seconds.
        access: The account of each access token that is valid.
        refreshes: The account of each refresh token that is valid.
        revoked: The tokens that were revoked.
        clients: The registered clients.
        registered: Further keys of the answer to a registration.
        codes: The sign-ins whose tokens have not been fetched, by code.
        calls: The accounts that have called the tool.
        mood: `hangs` for a server that never answers a token, `refuses` for one that takes none.
        renewed: Set when a token was renewed, before the answer.
        answers: Cleared for a server that gives no answer to a renewal yet.
        closing: Set when the server is closed.
    """

    base: str = ""
    tools: list[Json] = field(default_factory=lambda: [WHOAMI])
    issuer: str = ""
    extra: Json = field(default_factory=dict)
    registers: bool = True
    expires_in: int = 3600
    described_at: str = "/about/this/server"
    access: dict[str, str] = field(default_factory=dict)
    refreshes: dict[str, str] = field(default_factory=dict)
    revoked: list[str] = field(default_factory=list)
    clients: list[Json] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    mood: str = ""
    renewed: asyncio.Event = field(default_factory=asyncio.Event)
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    registered: Json = field(default_factory=dict)
    codes: dict[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.answers.set()

    @property
    def url(self) -> str:
        """The address of the MCP server."""
        return f"{self.base}/mcp"

    def sign_in(self, link: str, account: str) -> str:
        """Sign in at a link as a user does, and return the address that the browser returns to."""
        parts = urlsplit(link)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{self.base}/authorize"
        asked = {key: values[0] for key, values in parse_qs(parts.query).items()}
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        assert asked["resource"] == self.url
        code = secrets.token_urlsafe(8)
        self.codes[code] = {**asked, "account": account}
        query = {"code": code, "state": asked["state"], "iss": self.issuer or self.base}
        return f"{asked['redirect_uri']}?{urlencode(query)}"

    def app(self) -> web.Application:
        """Return the web application."""
        app = web.Application()
        app.router.add_get(self.described_at, self._resource)
        app.router.add_get("/.well-known/oauth-authorization-server", self._metadata)
        app.router.add_post("/register", self._register)
        app.router.add_post("/token", self._token)
        app.router.add_post("/revoke", self._revoke)
        app.router.add_route("*", "/mcp", self._mcp)
        return app

    async def _resource(self, _: web.Request) -> web.Response:
        return web.json_response({"resource": self.url, "authorization_servers": [self.base]})

    async def _metadata(self, _: web.Request) -> web.Response:
        found: Json = {
            "issuer": self.issuer or self.base,
            "authorization_endpoint": f"{self.base}/authorize",
            "token_endpoint": f"{self.base}/token",
            "revocation_endpoint": f"{self.base}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        if self.registers:
            found["registration_endpoint"] = f"{self.base}/register"
        return web.json_response(found | self.extra)

    async def _register(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.clients.append(asked)
        made = {**asked, "client_id": f"client-{len(self.clients)}", **self.registered}
        return web.json_response(made, status=201)

    async def _token(self, request: web.Request) -> web.Response:
        form = {key: str(value) for key, value in (await request.post()).items()}
        assert form["resource"] == self.url
        if form["grant_type"] == "refresh_token":
            account = self.refreshes.pop(form["refresh_token"], None)
        else:
            known = self.codes.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            fits = known is not None and all(
                (
                    known["code_challenge"] == challenge,
                    known["client_id"] == form["client_id"],
                    known["redirect_uri"] == form["redirect_uri"],
                )
            )
            account = known["account"] if known and fits else None
        if account is None:
            return web.json_response({"error": "invalid_grant"}, status=400)
        access, refresh = f"access-{secrets.token_hex(8)}", f"refresh-{secrets.token_hex(8)}"
        self.access[access], self.refreshes[refresh] = account, account
        if form["grant_type"] == "refresh_token":
            self.renewed.set()
            await self.answers.wait()
        return web.json_response(
            {
                "access_token": access,
                "token_type": "bearer",
                "expires_in": self.expires_in,
                "refresh_token": refresh,
            }
        )

    async def _revoke(self, request: web.Request) -> web.Response:
        token = str((await request.post())["token"])
        self.revoked.append(token)
        self.access.pop(token, None)
        self.refreshes.pop(token, None)
        return web.Response()

    async def _mcp(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and self.mood == "hangs":
            await self.closing.wait()
        if token not in self.access or self.mood == "refuses":
            named = f'Bearer resource_metadata="{self.base}{self.described_at}"'
            return web.Response(status=401, headers={"WWW-Authenticate": named})
        if request.method != "POST":
            return web.Response(status=405)
        asked = await request.json()
        result: Json
        match asked.get("method"):
            case "initialize":
                result = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "fake", "version": "1"},
                }
            case "tools/list":
                result = {"tools": self.tools}
            case "tools/call":
                self.calls.append(self.access[token])
                result = {"content": [{"type": "text", "text": f"You are {self.access[token]}."}]}
            case str(method) if method.startswith("notifications/"):
                return web.Response(status=202)
            case _:
                error = {"code": -32601, "message": "unknown"}
                return web.json_response({"jsonrpc": "2.0", "id": asked.get("id"), "error": error})
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "result": result})


@asynccontextmanager
async def oauth_server() -> AsyncIterator[FakeOAuth]:
    """Serve until the end of the block."""
    fake = FakeOAuth()
    runner = web.AppRunner(fake.app())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    fake.base = f"http://{host}:{port}"
    try:
        yield fake
    finally:
        fake.closing.set()
        await runner.cleanup()

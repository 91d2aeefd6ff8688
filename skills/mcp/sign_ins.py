"""Keeps the access of each user to MCP servers: encrypted, and only for that user."""

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from html import unescape
from http import HTTPStatus
from types import ModuleType
from urllib.parse import parse_qs

from cryptography.fernet import Fernet, InvalidToken

from bot.agent.sanitizer import one_line
from bot.errors import BadRequestError, BotError
from bot.net.addresses import Network
from bot.net.guard import NetworkOptions
from bot.net.settings import FetchSettings
from bot.setting_types import plain_secret
from bot.tasks import Tasks
from bot.values import Clock, Identity, Json, Live, Place
from db import audit, mcp_tokens
from db.audit import AuditEntry
from db.database import Database, Transaction
from db.mcp_tokens import StoredTokens
from skills.base import ToolContext
from skills.mcp.oauth_http import OAuthHttp, SignInError
from skills.mcp.settings import McpServerSettings, McpSettings

log = logging.getLogger(__name__)

#: Time to sign in with a link.
STATE_TIME = timedelta(minutes=10)
#: A token that ends this soon is renewed before a call.
EARLY = timedelta(seconds=60)
#: Longest wait for a server that is to revoke an access.
REVOKE_SECONDS = 15.0
#: `used_at` is written at most this often per user and server.
USED_EVERY = timedelta(hours=1)
CALLBACK_PATH = "/mcp/callback"
#: The address of an empty page of the user's own computer, for a bot without a public address.
LOOPBACK = f"http://127.0.0.1:8976{CALLBACK_PATH}"
MOST_PASTED = 8_000

_OVER = (
    "That sign-in is over: it was used already, is older than 10 minutes, or was begun by another "
    "account. Begin a new one."
)


#: Asks a user privately to sign in: (context of the call, server).
AskToSignIn = Callable[[ToolContext, str], Awaitable[None]]


async def _ask_nobody(_: ToolContext, __: str) -> None:
    """Ask nobody: there is no chat."""


class SignInNeededError(Exception):
    """A user has to sign in before a call."""


def load_oauth() -> ModuleType:
    """Return `skills.mcp.oauth`; importing it takes a second."""
    from skills.mcp import oauth  # noqa: PLC0415

    return oauth


@dataclass(slots=True)
class SignIns:
    """Signs users in to the servers of the configuration, and returns their tokens.

    Attributes:
        ask: Asks a user privately to sign in.
        refused: Returns the networks that are never connected to.
        network: Network options that differ from the defaults.
        tasks: Owns the renewals of tokens.
    """

    settings: McpSettings
    database: Database
    now: Clock
    _: KW_ONLY
    ask: AskToSignIn = _ask_nobody
    refused: Live[FetchSettings] | None = None
    network: NetworkOptions | None = None
    tasks: Tasks = field(default_factory=Tasks)
    _locks: dict[tuple[str, str], asyncio.Lock] = field(default_factory=dict)
    _noted: dict[tuple[str, str], datetime] = field(default_factory=dict)

    @property
    def servers(self) -> Mapping[str, McpServerSettings]:
        """The servers at which users sign in."""
        found = self.settings.servers.items()
        return {name: each for name, each in found if each.oauth and each.enabled}

    @property
    def redirect(self) -> str:
        """The address to which a browser returns after a sign-in."""
        base = self.settings.public_url
        return LOOPBACK if base is None else base.rstrip("/") + CALLBACK_PATH

    async def begin(self, user: Identity, server: str) -> str:
        """Begin a sign-in, and return the link, which is for this user alone.

        Raises:
            SignInError: It is not possible.
        """
        settings = self._of(server)
        oauth = await asyncio.to_thread(load_oauth)
        now = self.now()
        # The registration of a completed sign-in is used again. After a sign-in of the user that
        # did not succeed there is none: the server may not know the registration any more.
        found = await self.database.read(mcp_tokens.earlier, user.key, server)
        known = self._decrypted(found) if found else None
        begun = await oauth.begin(
            self._http(settings),
            settings.oauth,
            self.redirect,
            name=server,
            earlier=known if known and known.get("server_url") == settings.url else None,
            now=now.timestamp(),
        )
        await self.database.write(
            mcp_tokens.begin,
            user.key,
            server,
            state_hash=_hashed(begun.state),
            pending=self._encrypted({**begun.pending, "server_url": settings.url}),
            until=now + STATE_TIME,
            now=now,
        )
        link: str = begun.link
        return link

    async def finish(self, user: Identity, place: Place, server: str, pasted: str) -> None:
        """End a sign-in with the address that the user's browser returned to.

        Args:
            user: The account that pastes it, which must have begun the sign-in.
            place: The place, for the audit log.
            server: The server.
            pasted: The address, or the part after its `?`.

        Raises:
            BadRequestError: It is no such address, or of another sign-in.
            SignInError: The server refuses it.
        """
        settings, given = self._of(server), _parameters(pasted)
        if problem := given.get("error"):
            raise BadRequestError(
                f"{server} did not let you in: {one_line(problem, 100)}. Begin the sign-in again."
            )
        code, state = given.get("code"), given.get("state")
        if not code or not state:
            raise BadRequestError(
                "That is not the address of a sign-in: it has `code=` and `state=` in it. Copy the "
                "whole address of the last page."
            )
        pending = await self.database.write(
            mcp_tokens.claim, user.key, server, _hashed(state), self.now()
        )
        known = self._decrypted(pending) if pending else None
        if known is None or known.get("server_url") != settings.url:
            raise BadRequestError(_OVER)
        oauth = await asyncio.to_thread(load_oauth)
        found = await oauth.finish(self._http(settings), known, code, given.get("iss"))
        secret = self._encrypted(self._dated({**found, "server_url": settings.url}))

        async def store(tx: Transaction) -> None:
            await mcp_tokens.store(tx, user.key, server, secret, version=None, now=self.now())
            await audit.record(tx, self._entry(user, place, server, "connect"))

        await self.database.write(store)

    async def access(self, user: Identity, server: str) -> str:
        """Return the access token of a user, renewed if it ends soon.

        Raises:
            SignInNeededError: The user has none that can be used.
            SignInError: It cannot be renewed now.
        """
        key = (user.key, server)
        async with self._locks.setdefault(key, asyncio.Lock()):
            stored, known = await self._read(user, server)
            if stored is None or known is None:
                raise SignInNeededError
            end = known.get("expires_at")
            if end is not None and float(end) <= (self.now() + EARLY).timestamp():
                known = await self._renewed(user, server, stored, known)
            now = self.now()
            if key not in self._noted or now - self._noted[key] >= USED_EVERY:
                await self.database.write(mcp_tokens.used, *key, now)
                self._noted[key] = now
            token: str = known["access_token"]
            return token

    async def forget_refused(self, user: Identity, server: str, token: str) -> bool:
        """Forget an access token if the server does not accept it; return True for that."""
        settings = self._of(server)
        try:
            headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
            answer = await self._http(settings).send("GET", str(settings.url), headers=headers)
        except SignInError:
            return False
        if answer.status != HTTPStatus.UNAUTHORIZED:
            return False
        stored, known = await self._read(user, server)
        if stored is not None and known is not None and known["access_token"] == token:
            await self.database.write(mcp_tokens.delete, user.key, server, stored.version)
        return True

    async def disconnect(self, user: Identity, place: Place, server: str) -> bool | None:
        """Delete the access of a user, and revoke it at the server.

        Returns:
            True if the server revoked it, False if not; `None` if there was no access.
        """
        stored, known = await self._read(user, server)

        async def delete(tx: Transaction) -> bool:
            if not await mcp_tokens.delete(tx, user.key, server):
                return False
            await audit.record(tx, self._entry(user, place, server, "disconnect"))
            return True

        if not await self.database.write(delete) or stored is None:
            return None
        return known is not None and await self._revoke(server, known)

    async def revoke_all(self, user: Identity) -> None:
        """Revoke the access of a user at all servers that offer it, before it is deleted here."""
        for server in await self.connected(user):
            if server in self.servers:
                _, known = await self._read(user, server)
                if known is not None:
                    await self._revoke(server, known)

    async def connected(self, user: Identity) -> list[str]:
        """Return the servers to which a user has signed in."""
        return await self.database.read(mcp_tokens.servers_of, user.key)

    async def _revoke(self, server: str, known: Json) -> bool:
        """Revoke tokens at their server, and return True if it did."""
        settings = self.servers.get(server)
        if settings is None:
            return False
        oauth = await asyncio.to_thread(load_oauth)
        try:
            async with asyncio.timeout(REVOKE_SECONDS):
                revoked: bool = await oauth.revoke(self._http(settings), known)
        except (SignInError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            log.info("A token for the MCP server %s was not revoked: %s", server, reason)
            return False
        return revoked

    async def _renewed(
        self, user: Identity, server: str, stored: StoredTokens, known: Json
    ) -> Json:
        """Return renewed tokens; a caller that is cancelled waits until they are stored.

        Many refresh tokens count once: without their successor the user has to sign in again.
        """

        async def renew() -> Json | Exception:
            try:
                return await self._renew(user, server, stored, known)
            except (BotError, SignInNeededError) as error:
                return error

        renewal = self.tasks.start(renew(), name=f"renew a token for {server}", brief=True)
        try:
            renewed = await asyncio.shield(renewal)
        except asyncio.CancelledError:
            await asyncio.wait({renewal})
            raise
        if isinstance(renewed, Exception):
            raise renewed
        return renewed

    async def _renew(self, user: Identity, server: str, stored: StoredTokens, known: Json) -> Json:
        oauth = await asyncio.to_thread(load_oauth)
        try:
            new = await oauth.refresh(self._http(self._of(server)), known)
        except oauth.RefusedTokenError:
            # Another process may have renewed it meanwhile, with a refresh token that counts once.
            again, newer = await self._read(user, server)
            if again is not None and newer is not None and again.version != stored.version:
                return newer
            await self.database.write(mcp_tokens.delete, user.key, server, stored.version)
            raise SignInNeededError from None
        new = self._dated(new)
        done = await self.database.write(
            mcp_tokens.store,
            user.key,
            server,
            self._encrypted(new),
            version=stored.version,
            now=self.now(),
        )
        if not done:
            # Renewed by another process, or disconnected: what is stored counts.
            _, newer = await self._read(user, server)
            if newer is None:
                raise SignInNeededError
            return newer
        return new

    async def _read(self, user: Identity, server: str) -> tuple[StoredTokens | None, Json | None]:
        stored = await self.database.read(mcp_tokens.find, user.key, server)
        known = self._decrypted(stored.secret) if stored else None
        settings = self.servers.get(server)
        if known and settings and known.get("server_url") != settings.url:
            # The name denotes another server by now, which must not get the tokens of the first.
            known = None
        return stored, known

    def _dated(self, found: Json) -> Json:
        seconds = found.pop("expires_in", None)
        end = None if seconds is None else self.now().timestamp() + seconds
        return {**found, "expires_at": end}

    def _of(self, server: str) -> McpServerSettings:
        if server not in self.servers:
            raise SignInError(f"Nobody signs in at {one_line(server, 40)}.")
        return self.servers[server]

    def _http(self, settings: McpServerSettings) -> OAuthHttp:
        assert settings.url, "The settings require it."
        assert settings.oauth, "Users sign in there."
        networks: tuple[Network, ...] = self.refused().refused_networks if self.refused else ()
        return OAuthHttp(
            server_url=settings.url,
            private=settings.oauth.private_addresses,
            refused=networks,
            network=self.network,
        )

    def _entry(self, user: Identity, place: Place, server: str, effect: str) -> AuditEntry:
        return AuditEntry(
            actor=user.key,
            action="credential",
            owner=user.key,
            place=place,
            subject=f"mcp {server}",
            effect=effect,
            created_at=self.now(),
        )

    @property
    def _fernet(self) -> Fernet:
        return Fernet(plain_secret(self.settings.encryption_key))

    def _encrypted(self, document: Json) -> str:
        return self._fernet.encrypt(json.dumps(document).encode()).decode()

    def _decrypted(self, text: str) -> Json | None:
        """Return an encrypted document; `None` if the key was changed."""
        try:
            found: Json = json.loads(self._fernet.decrypt(text))
        except InvalidToken:
            log.warning("Tokens of MCP servers are of another `mcp.encryption_key`, and are unused")
            return None
        return found


def _hashed(state: str) -> str:
    return hashlib.sha256(state.encode()).hexdigest()


def _parameters(pasted: str) -> dict[str, str]:
    """Return the parameters in a pasted address, as a chat platform may have changed it."""
    text = unescape(pasted.strip().strip("<>`")[:MOST_PASTED])
    query = text.partition("#")[0].rpartition("?")[2]
    return {key: values[0] for key, values in parse_qs(query).items()}

"""The connection to Discord: login, intents, gateway, reconnects and fatal errors."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any

import aiohttp
import discord
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route

from bot import logs
from bot.errors import ConfigError, PlatformUnreachableError
from bot.platforms.discord import portal
from bot.platforms.discord.limits import Breaker, use_buckets
from bot.platforms.discord.people import DiscordAccessPolicy
from bot.platforms.discord.settings import DiscordSettings
from bot.platforms.handler import InboundHandler
from bot.setting_types import plain_secret
from bot.values import Live

log = logging.getLogger(__name__)

#: The library's loggers that report on its connection.
_LIBRARIES = ("discord.client", "discord.shard")

LOGIN_SECONDS = 30.0
HANG_UP_SECONDS = 2.0
#: Longest wait of a request for a rate limit. Beyond it the request fails, and its caller retries.
LONGEST_RATE_LIMIT_SECONDS = 30.0
REMEMBERED_MESSAGES = 100
#: Backoff before a new session after an error of the library, doubled each time up to the longest
#: wait: Discord allows 1,000 new sessions a day.
RECONNECT_SECONDS, LONGEST_RECONNECT_SECONDS = 1.0, 120.0
#: A session that lasted longer than this resets the backoff.
STABLE_SECONDS = 300.0

#: Temporary refusals (timeout, too early, too many requests), unrelated to the token.
_LATER = frozenset({408, 425, 429})


class RetinueClient(discord.Client):
    """A bot account on Discord: sends after the login, receives events while it listens.

    Intake, commands and buttons register their handlers here (`client.event`,
    `client.add_dynamic_items`) before the client listens. `open_client` opens and closes the
    client.

    Attributes:
        inbound: Receives the events; `None` while not listening, when events are ignored.
        current: The settings under `discord:`, as they are now.
        settings: These settings, as they were at the start.
        breaker: Blocks requests while Discord refuses too many.
        access: The access policy for messages, commands and clicks.
        new_session: Called when Discord starts a new session instead of resuming one.
        reconnect_seconds: The first wait before a new session after an error of the library.
    """

    reconnect_seconds = RECONNECT_SECONDS

    def __init__(self, settings: Live[DiscordSettings], **options: Any) -> None:
        discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False
        for library in map(logging.getLogger, _LIBRARIES):
            if not any(isinstance(each, _Brief) for each in library.filters):
                library.addFilter(_Brief("connect"))
        self.inbound: InboundHandler | None = None
        self.current, self.settings = settings, settings()
        self.breaker = Breaker()
        self.access = DiscordAccessPolicy(settings)
        self._wanted = discord.Intents(guilds=True, guild_messages=True, dm_messages=True)
        self.new_session: Callable[[], None] = lambda: None
        self._listening = False
        self._connected = self._broken = False
        super().__init__(
            intents=self._wanted,
            allowed_mentions=discord.AllowedMentions.none(),
            max_messages=REMEMBERED_MESSAGES,
            chunk_guilds_at_startup=False,
            member_cache_flags=discord.MemberCacheFlags.none(),
            max_ratelimit_timeout=LONGEST_RATE_LIMIT_SECONDS,
            http_trace=self.breaker.trace(),
            **options,
        )
        # In discord.py, an error of a parser ends the whole gateway loop.
        parsers: MutableMapping[str, Parser] = self._connection.parsers
        logged: set[tuple[str, type[Exception]]] = set()
        for name, parse in parsers.items():
            if name not in ESSENTIAL:
                parsers[name] = partial(_parse, name, parse, logged)

    @property
    def receives(self) -> bool:
        """True while events arrive, once Discord has sent the initial list of servers."""
        return self._listening and self._connected and self.is_ready()

    async def log_in(self) -> None:
        """Log in with the token; afterwards messages can be sent.

        Raises:
            ConfigError: Discord refuses the token.
            PlatformUnreachableError: Discord is unreachable or out of order.
        """
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                await self.login(plain_secret(self.settings.token))
        except discord.LoginFailure as error:
            raise ConfigError(portal.TOKEN_REFUSED) from error
        except discord.HTTPException as error:
            if error.status >= 500 or error.status in _LATER:
                raise PlatformUnreachableError(
                    f"Discord is out of order (it answers with status {error.status})."
                ) from error
            raise ConfigError(
                f"Discord refuses the login with status {error.status} ({error.text}). Check "
                "`discord.token` and `discord.api_url`."
            ) from error
        except (OSError, aiohttp.ClientError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            raise PlatformUnreachableError(
                f"Discord cannot be reached at {self.settings.api_url} ({reason})."
            ) from error
        use_buckets(self.http, LONGEST_RATE_LIMIT_SECONDS)
        flags = self.application.flags if self.application else discord.ApplicationFlags()
        self._wanted.message_content = (
            flags.gateway_message_content or flags.gateway_message_content_limited
        )

    # -- listening -------------------------------------------------------------------------------

    async def listen(self, inbound: InboundHandler) -> None:
        """Stay connected to the gateway until cancelled; messages can still be sent afterwards.

        Raises:
            ConfigError: Discord refuses the connection; the text gives the reason and the fix.
        """
        self.inbound = inbound
        self._listening = True
        if not self._wanted.message_content:
            log.warning(portal.without_content(self._application_id))
        wait = self.reconnect_seconds
        try:
            while not self.is_closed():
                began = self.loop.time()
                try:
                    await self.connect()
                except discord.PrivilegedIntentsRequired as error:
                    if not self._wanted.message_content:
                        text = portal.closed_for_good(4014, self._application_id)
                        raise ConfigError(text) from error
                    self._wanted.message_content = False
                    log.warning(portal.without_content(self._application_id))
                except Exception as error:
                    if isinstance(error, discord.ConnectionClosed) and error.code in portal.FATAL:
                        text = portal.closed_for_good(error.code, self._application_id)
                        raise ConfigError(text) from error
                    self._report_broken(error)
                    await self._hang_up()
                    if self.loop.time() - began > STABLE_SECONDS:
                        wait = self.reconnect_seconds
                    await asyncio.sleep(wait)
                    wait = min(LONGEST_RECONNECT_SECONDS, wait * 2)
                # Reset queues and events: those of the lost connection still have content.
                await self.__aenter__()
        finally:
            self.inbound = None
            self._listening = False
            await self._hang_up()

    def _report_broken(self, error: Exception) -> None:
        """Log an error that ended the library's gateway loop, once until the next connection."""
        if isinstance(error, AttributeError) and (error.obj, error.name) == (None, "sequence"):
            # The library tries to resume its last connection even before the first one. It has
            # already logged why the first one failed.
            return
        if self._connected or not self._broken:
            self._connected, self._broken = False, True
            log.warning("The connection to Discord broke; trying again.", exc_info=error)

    async def close(self) -> None:
        """Close the client; while listening, close only the gateway connection.

        The library calls this when the gateway refuses the bot. Messages in progress must still be
        sent.
        """
        if self._listening:
            await self._hang_up()
        else:
            await super().close()

    async def _hang_up(self) -> None:
        """Close the connection to the gateway, if open."""
        with suppress(TimeoutError):
            async with asyncio.timeout(HANG_UP_SECONDS):
                await self._close_gateway()

    async def _close_gateway(self) -> None:
        if self.ws is not None and self.ws.open:
            await self.ws.close(code=1000)

    @property
    def _application_id(self) -> int | str:
        return self.application_id or "your-application"

    # -- connection events -----------------------------------------------------------------------

    async def on_connect(self) -> None:
        """Log the new session and call `new_session`."""
        self.new_session()
        self._said_connected(f"Connected to Discord as {self.user}.")

    async def on_resumed(self) -> None:
        """Log that the session was resumed without missed events."""
        self._said_connected("Connected to Discord again; nothing was missed.")

    def _said_connected(self, text: str) -> None:
        if not self._connected:
            self._connected, self._broken = True, False
            log.info(text)
            logs.connected_again(*_LIBRARIES)

    async def on_disconnect(self) -> None:
        """Log a lost connection once."""
        if self._connected and self._listening:
            self._connected = False
            log.warning("The connection to Discord is lost; trying again.")

    async def on_error(self, event_method: str, /, *_: Any, **__: Any) -> None:
        """Log the error of one event handler; later events are still handled."""
        log.exception("Discord's event %s could not be handled", event_method)


class ShardedClient(RetinueClient, discord.AutoShardedClient):
    """A `RetinueClient` divided into shards, of which this process may serve a subset."""

    def __init__(self, settings: Live[DiscordSettings], **options: Any) -> None:
        start = settings()
        super().__init__(
            settings,
            shard_count=start.shard_count,
            shard_ids=list(start.shard_ids) or None,
            **options,
        )

    async def _close_gateway(self) -> None:
        async with asyncio.TaskGroup() as group:
            for shard in self.shards.values():
                group.create_task(shard.disconnect())


@asynccontextmanager
async def open_client(settings: Live[DiscordSettings]) -> AsyncIterator[RetinueClient]:
    """Log in; close the client when the block ends.

    Raises:
        ConfigError: Discord refuses the token.
        PlatformUnreachableError: Discord is unreachable or out of order.
    """
    with addresses(settings()):
        async with (
            ShardedClient(settings) if settings().shard_count else RetinueClient(settings) as client
        ):
            await client.log_in()
            yield client


# -- process-wide state of the library -------------------------------------------------------------

#: The addresses in use other than Discord's own, the newest last.
_in_use: list[tuple[str, yarl.URL]] = []
_usual = (Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY)


@contextmanager
def addresses(settings: DiscordSettings) -> Iterator[None]:
    """Set the library's addresses to those of the settings while the block runs."""
    gateway = yarl.URL(settings.gateway_url) if settings.gateway_url else _usual[1]
    wanted = (settings.api_url, gateway)
    if wanted == _usual:
        yield
        return
    _in_use.append(wanted)
    _use(wanted)
    try:
        yield
    finally:
        _in_use.remove(wanted)
        _use(_in_use[-1] if _in_use else _usual)


def _use(wanted: tuple[str, yarl.URL]) -> None:
    Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = wanted


class _Brief(logs.OncePerChange):
    """Drops repeated connection errors, and a warning that `doctor` gives itself."""

    def filter(self, record: logging.LogRecord) -> bool:
        if "interaction endpoint URL" in str(record.msg):
            return False
        return not record.exc_info or super().filter(record)


# -- malformed events ------------------------------------------------------------------------------

Parser = Callable[[Any], None]

#: Events that a session needs: if one is malformed, a new session starts.
ESSENTIAL = frozenset({"READY"})


def _parse(name: str, parse: Parser, logged: set[tuple[str, type[Exception]]], data: Any) -> None:
    """Parse an event with discord.py's parser; skip and log a malformed event."""
    try:
        parse(data)
    except Exception as error:  # noqa: BLE001 - any error means a malformed event
        kind = (name, type(error))
        level = logging.DEBUG if kind in logged else logging.WARNING
        logged.add(kind)
        # The error's text may quote users' messages.
        log.log(level, "Skipped a malformed Discord event %s (%s)", name, type(error).__name__)

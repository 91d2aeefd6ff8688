"""Serves platforms side by side: each one opens, receives, reconnects and ends separately."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from sqlalchemy.exc import DBAPIError

from bot.conversations.admin_notices import AdminNotice
from bot.errors import BotError, ConfigError, PlatformUnreachableError
from bot.masking import without_secrets
from bot.platforms.base import Outlet
from bot.platforms.handler import Intake
from bot.platforms.messaging.pending import PendingOutlet
from bot.running import Bot
from bot.tasks import Tasks
from db import trouble, workers
from db.database import is_connection_trouble

log = logging.getLogger(__name__)

Opened = TypeVar("Opened")

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 15.0
#: An intake that worked for longer than this failed for a new reason: the backoff starts anew.
STABLE_SECONDS = 60.0
#: Time that an open platform waits for the first attempts of the others before work begins.
FIRST_ATTEMPTS_SECONDS = 5.0


_DISK_ADVICE = {
    trouble.DISK_FULL: "Make room on its disk; it is tried again until there is some.",
    trouble.DISK_ERROR: "Its disk may be full, or may not be written; it is tried again.",
}


class OpenPlatform(Protocol):
    """An open platform: its outlet, which sends, and its intake, which receives."""

    @property
    def outlet(self) -> Outlet: ...  # noqa: D102

    @property
    def intake(self) -> Intake: ...  # noqa: D102


@dataclass(eq=False, slots=True)
class Service:
    """One platform of this process.

    Attributes:
        name: The name that users know.
        key: The name in places.
        opening: Opens the platform; called for every attempt.
        changed: Called when `opened`, `ended` or `tried` changes.
        opened: The open platform; `None` while it is unreachable.
        ended: The reason why the platform is no longer served, or never was.
        reconnecting: Whether receiving failed, until it is tried again.
        tried: Whether the first attempt to open the platform is over.
    """

    name: str
    key: str
    opening: Callable[[], AbstractAsyncContextManager[OpenPlatform]]
    changed: Callable[[], None]
    opened: OpenPlatform | None = None
    ended: ConfigError | None = None
    reconnecting: bool = False
    tried: bool = False
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def open(self) -> None:
        """Open the platform, and retry while it is unreachable; end it if it is misconfigured."""
        try:
            opened = await enter(
                self._stack, self.opening, self.name, patient=True, failed=self._failed
            )
        except ConfigError as error:
            self.end(error)
        else:
            self.opened = opened
        self._failed()

    def _failed(self) -> None:
        self.tried = True
        self.changed()

    def end(self, error: ConfigError) -> None:
        """Stop serving the platform."""
        self.ended = error
        log.error("%s has ended: %s", self.name, without_secrets(str(error)))

    async def listen(self, bot: Bot) -> None:
        """Receive until cancelled or refused by the platform; reconnect after other errors."""
        assert self.opened is not None, "It is open."
        loop, wait, logged = asyncio.get_running_loop(), FIRST_WAIT_SECONDS, ""
        while True:
            began = loop.time()
            try:
                await self.opened.intake.run(bot.orchestrator)
            except ConfigError as error:
                self.end(error)
                return
            except Exception as error:
                if loop.time() - began > STABLE_SECONDS:
                    wait, logged = FIRST_WAIT_SECONDS, ""
                reason = without_secrets(f"{type(error).__name__}: {error}")
                if reason != logged:
                    log.exception("%s cannot be received from any more; trying again", self.name)
                    logged = reason
            else:
                return
            self.reconnecting = True
            await asyncio.sleep(wait)
            self.reconnecting = False
            wait = min(LONGEST_WAIT_SECONDS, wait * 2)

    @property
    def problem(self) -> str:
        """The reason why the platform is not served now; empty if it is."""
        if self.ended is not None:
            return "it has ended; the log has the reason"
        if self.opened is None or self.reconnecting:
            return "it is unreachable; it is tried again"
        return ""

    async def close(self) -> None:
        """Close the platform."""
        await self._stack.aclose()


class Services:
    """All platforms of this process.

    Args:
        openings: Functions that open a platform, by its name.

    Attributes:
        outlets: The outlets by the key of their platform, once one is open; that of a platform
            replaces a `PendingOutlet` as soon as the platform is open.
    """

    def __init__(
        self, openings: Mapping[str, Callable[[], AbstractAsyncContextManager[OpenPlatform]]]
    ) -> None:
        self.outlets: dict[str, Outlet] = {}
        self._changed = asyncio.Event()
        self._all = [
            Service(name, name.lower(), opening, self._on_change)
            for name, opening in openings.items()
        ]
        self._tasks = Tasks()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Start to open all platforms, return when one is open, and close all when the block ends.

        Raises:
            ConfigError: No platform is usable; the text names the remedy.
        """
        for service in self._all:
            self._tasks.start(service.open(), name=f"open {service.name}")
        try:
            await self._until(lambda: any(each.opened for each in self._all) or self._over)
            self._raise_if_over()
            with suppress(TimeoutError):
                async with asyncio.timeout(FIRST_ATTEMPTS_SECONDS):
                    await self._until(lambda: all(each.tried for each in self._all))
            for each in self._all:
                if not each.ended:
                    self.outlets[each.key] = PendingOutlet(each.key)
            self._on_change()
            yield
        finally:
            await self._tasks.close()
            async with asyncio.TaskGroup() as group:
                for service in self._all:
                    group.create_task(service.close())

    def _on_change(self) -> None:
        """Replace the outlets of platforms that are open by now, and wake whoever waits."""
        for each in self._all:
            pending = self.outlets.get(each.key)
            if each.opened and isinstance(pending, PendingOutlet):
                self.outlets[each.key] = each.opened.outlet
                pending.connect(each.opened.outlet)
        self._changed.set()

    def problems(self) -> dict[str, str]:
        """Return the problem of each platform by its name; empty for one that is served."""
        return {each.key: each.problem for each in self._all}

    @property
    def _over(self) -> bool:
        return all(each.ended for each in self._all)

    def _raise_if_over(self) -> None:
        if self._over:
            raise next(each.ended for each in self._all if each.ended)

    async def _until(self, condition: Callable[[], object]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def serve(self, bot: Bot, *, receives: bool) -> None:
        """Receive on all platforms until all of them refuse the bot; a worker only sends.

        Raises:
            ConfigError: All platforms have ended; the error is that of the first.
        """
        ready = [each.name for each in self._all if each.opened]
        log.info("Ready for %s", " and ".join(ready))
        async with asyncio.TaskGroup() as group:
            for service in self._all:
                group.create_task(
                    self._serve(service, bot, receives=receives), name=f"{service.key}"
                )
        self._raise_if_over()

    async def _serve(self, service: Service, bot: Bot, *, receives: bool) -> None:
        await self._until(lambda: service.opened or service.ended)
        if not service.ended and not receives:
            await asyncio.Event().wait()
        if not service.ended:
            await service.listen(bot)
        if not service.ended:
            return
        # Stored for `doctor`, which is another process.
        reason = without_secrets(str(service.ended))
        try:
            await bot.database.write(
                workers.end_platform, bot.upkeep.worker_id, service.key, reason
            )
            notice = AdminNotice(
                key=f"platform {service.key} {bot.upkeep.now().date()}",
                text=f"{service.name} is not served any more: {reason}",
            )
            await bot.orchestrator.notices.announce(notice)
        except (BotError, DBAPIError, OSError) as error:
            log.warning("That %s has ended is not stored: %s", service.name, error)


async def enter(
    stack: AsyncExitStack,
    opening: Callable[[], AbstractAsyncContextManager[Opened]],
    name: str,
    *,
    patient: bool = False,
    failed: Callable[[], None] = lambda: None,
    trouble_of: Callable[[Exception], str | None] = lambda _: None,
) -> Opened:
    """Open a resource; retry with backoff while it is unreachable, and log changes.

    Args:
        stack: Closes the resource.
        opening: Opens the resource.
        name: The name for the log.
        patient: Whether to retry after every error except a wrong configuration.
        failed: Called after each failed attempt.
        trouble_of: Returns the problem behind an error, if more is known than the error tells.

    Raises:
        BotError: The resource is reachable but unusable.
    """
    wait, logged = FIRST_WAIT_SECONDS, ""
    while True:
        try:
            opened = await stack.enter_async_context(opening())
        except Exception as error:
            known = isinstance(error, PlatformUnreachableError) or is_connection_trouble(error)
            if not known and isinstance(error, DBAPIError):
                raise _unusable(name, error, trouble_of(error)) from error
            if not known and (isinstance(error, ConfigError) or not patient):
                raise
            cause = error.__cause__ or error
            # Without the text that SQLAlchemy adds.
            words = str(cause.orig if isinstance(cause, DBAPIError) else cause)
            if advice := _DISK_ADVICE.get(trouble.reason_of(error) or ""):
                words = f"{words}. {advice}"
            reason = without_secrets(trouble_of(error) or words)
            if reason != logged:
                shown = None if known else error
                log.warning("%s is unavailable; retrying: %s", name, reason, exc_info=shown)
                logged = reason
        else:
            if logged:
                log.info("%s is available again", name)
            return opened
        failed()
        await asyncio.sleep(wait)
        wait = min(LONGEST_WAIT_SECONDS, wait * 2)


def _unusable(name: str, error: DBAPIError, trouble: str | None) -> ConfigError:
    """Return the error for a database that answers but refuses the bot."""
    if trouble is not None:
        return ConfigError(f"{name} cannot be used: {trouble}")
    text = str(error.orig).partition("\n")[0].rpartition(">: ")[2].rstrip(".")
    return ConfigError(
        f"{name} cannot be used: {without_secrets(text)}. Check `database.url`; "
        "`python -m bot doctor` shows details."
    )

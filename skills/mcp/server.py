"""One MCP server: a task connects to it, and reconnects when the connection ends."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import anyio

from bot.agent.sanitizer import for_log
from bot.catalog.schemas import check_arguments
from bot.errors import DatabaseUnreachableError, ToolError
from bot.values import Json
from skills.base import Effects, Reach, Tool, ToolContext
from skills.mcp.images import ImageTaker, Save
from skills.mcp.pins import Pins
from skills.mcp.settings import McpServerSettings
from skills.mcp.starts import WAITS, StartRequest
from skills.mcp.tools import Offer, offers, result_text, too_slow

if TYPE_CHECKING:
    from skills.mcp.link import McpLink

log = logging.getLogger(__name__)

GRACE = 2.0
NOT_CONNECTED = "it is not connected yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTimings:
    """Intervals and timeouts, in seconds.

    Attributes:
        first_wait: Backoff before the second attempt to connect; it doubles each time.
        longest_wait: Longest backoff.
        stable_after: A connection that lasted this long resets the backoff.
        list_pause: Shortest time between two requests for the list of tools.
        list_every: Longest time between them, if the server notifies of no change.
        first_look: Longest wait of work for the first list of tools, once per process.
        pins_every: Poll interval of the pins while a tool waits: another process may have
            approved it.
    """

    first_wait: float = 1.0
    longest_wait: float = 300.0
    stable_after: float = 60.0
    list_pause: float = 5.0
    list_every: float = 300.0
    first_look: float = 10.0
    pins_every: float = 2.0


Connect = Callable[
    [str, McpServerSettings, Mapping[str, str], Callable[[], object]],
    AbstractAsyncContextManager["McpLink"],
]


def load_connect() -> Connect:
    """Return `skills.mcp.link.connect`; importing it takes a second."""
    from skills.mcp.link import connect  # noqa: PLC0415

    return connect


@dataclass(eq=False, slots=True)
class McpServer:
    """One server, connected or not.

    Attributes:
        request: Its request to be started, which an admin approves; `None` if it needs none.
        troubled: Called with the name and each new problem.
        problem: The reason why it is unusable in full or in part; empty when it is usable.
        waiting: The tools that wait for an admin's approval, by raw name.
        listed: Whether it is connected and has returned its list of tools.
        looked: Set when it has returned its first list, or work begins without its tools.
        tools: The tools that may be called now; empty while the server is away.
    """

    name: str
    settings: McpServerSettings
    pins: Pins
    _: KW_ONLY
    environ: Mapping[str, str]
    pace: McpTimings
    save: Save | None = None
    request: StartRequest | None = None
    troubled: Callable[[str, str], None] = lambda *_: None
    problem: str = NOT_CONNECTED
    waiting: tuple[str, ...] = ()
    listed: bool = False
    looked: asyncio.Event = field(default_factory=asyncio.Event)
    tools: tuple[Tool, ...] = ()
    _link: "McpLink | None" = None
    _offered: Mapping[str, Offer] = field(default_factory=dict)
    _accepted: Mapping[str, Offer] = field(default_factory=dict)
    #: Whether the offered tools were compared with the pins.
    _reviewed: bool = True
    _stale: asyncio.Event = field(default_factory=asyncio.Event)
    #: The logged reason why it is away; empty while it is connected.
    _logged: str = ""
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def connected(self) -> bool:
        """True if it is connected now."""
        return self._link is not None

    async def until(self, holds: Callable[["McpServer"], bool]) -> None:
        """Wait until a condition holds; it is checked after every change of the server's state."""
        async with self._changed:
            await self._changed.wait_for(lambda: holds(self))

    def look_again(self) -> None:
        """Request the list of tools again soon."""
        self._stale.set()

    async def run(self) -> None:
        """Stay connected until cancelled."""
        await self._approved_start()
        loop, wait = asyncio.get_running_loop(), self.pace.first_wait
        connect = await asyncio.to_thread(load_connect)
        while True:
            begun = loop.time()
            try:
                reason = await self._connect(connect)
            except Exception as error:  # noqa: BLE001 - whatever a server does to us
                reason = link_problem(error)
            finally:
                self._link, self._accepted, self.tools, self.listed = None, {}, (), False
            if loop.time() - begun >= self.pace.stable_after:
                wait = self.pace.first_wait
            await self._set_problem(reason)
            if reason != self._logged:
                self._logged = reason
                log.warning("The MCP server %s is away, it is tried again: %s", self.name, reason)
            # Jitter: many bots must not all reconnect at once.
            await asyncio.sleep(wait * random.uniform(0.8, 1.2))  # noqa: S311
            wait = min(wait * 2, self.pace.longest_wait)

    async def _approved_start(self) -> None:
        """Wait until an admin has approved the server in its present form, if it needs that."""
        while self.request is not None:
            self._stale.clear()
            try:
                if await self.pins.admits(self.request):
                    self.problem = NOT_CONNECTED
                    return
                await self._set_problem(WAITS)
            except DatabaseUnreachableError as error:
                await self._set_problem(str(error))
            # Work does not wait for a decision that may come tomorrow.
            self.looked.set()
            await self._pause()

    async def _pause(self) -> None:
        """Wait for a request to look again, at most until the pins are to be read again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.pace.pins_every):
                await self._stale.wait()

    async def _connect(self, connect: Connect) -> str:
        self._stale.clear()
        async with connect(self.name, self.settings, self.environ, self.look_again) as link:
            self._link = link
            if self._logged:
                log.info("The MCP server %s is back", self.name)
                self._logged = ""
            # From Python 3.13 on, asyncio's TaskGroup would cancel this task once more when the
            # link breaks, and no task would reconnect: the link cancels it in anyio's way.
            async with anyio.create_task_group() as group:
                group.start_soon(self._listen, link, name=f"changes of {self.name}")
                group.start_soon(_raise_at_end, link, name=f"end of {self.name}")
                await self._watch(link)
        return "the connection ended"

    async def _listen(self, link: "McpLink") -> None:
        while True:
            await link.listen(self.look_again)
            # The stream ended, or the server has none: polling finds the changes that were missed.
            await asyncio.sleep(self.pace.list_every)
            self.look_again()

    async def _watch(self, link: "McpLink") -> None:
        """Update the list of tools, on notification and periodically."""
        loop = asyncio.get_running_loop()
        while True:
            self._stale.clear()
            asked = loop.time()
            self._offered, problems = await offered_by(self.name, self.settings, link)
            await self._review(problems)
            await asyncio.sleep(self.pace.list_pause)
            while loop.time() - asked < self.pace.list_every and not self._stale.is_set():
                await self._pause()
                if self.waiting or not self._reviewed:
                    await self._review(problems)

    async def _review(self, problems: list[str]) -> None:
        """Compare the offered tools with the pins; a failed attempt is repeated by `_watch`."""
        self._reviewed = False
        try:
            self._accepted = await self.pins.review(
                self.name, self._offered, first_waits=self.settings.review_first
            )
        except DatabaseUnreachableError as error:
            await self._set_problem(str(error))
            return
        self._reviewed = True
        self.waiting = tuple(sorted(self._offered.keys() - self._accepted.keys()))
        self.tools = tuple(self._tool(offer) for offer in self._accepted.values())
        self.listed = True
        self.looked.set()
        await self._set_problem("; ".join(filter(None, [*problems, self._waiting_problem()])))

    def _waiting_problem(self) -> str:
        if not self.waiting:
            return ""
        return (
            f"{', '.join(self.waiting)} changed or is new, and waits for an admin: "
            "!retinue mcp, or python -m bot mcp list"
        )

    async def _set_problem(self, problem: str) -> None:
        problem = for_log(problem)
        async with self._changed:
            if problem and problem != self.problem:
                log.warning("The MCP server %s: %s", self.name, problem)
                self.troubled(self.name, problem)
            self.problem = problem
            self._changed.notify_all()

    def _tool(self, offer: Offer) -> Tool:
        settings, raw = self.settings, offer.raw_name
        return Tool(
            name=offer.name,
            description=f"{offer.description}\n(A tool of the MCP server {self.name}.)".strip(),
            schema=offer.schema,
            run=partial(self._call, offer),
            main_agent_only=raw not in settings.runs,
            needs_confirmation=raw in settings.confirm,
            effects=Effects.NONE if raw in settings.read_only else Effects.ONCE,
            foreign=True,
            private=True,
            reach=Reach.READS_BEYOND if raw in settings.read_only else Reach.ACTS_BEYOND,
            # The toolbox's own timeout comes later, as the error here is more specific.
            timeout_seconds=settings.timeout_seconds + GRACE,
            check=partial(check_arguments, offer.name, offer.schema),
            credential=f"mcp {self.name}" if settings.has_credential else "",
        )

    async def _call(self, offer: Offer, context: ToolContext, arguments: Json) -> str:
        """Call a tool from an earlier list, after checking that this form is still approved."""
        link = self._link
        if link is None:
            raise ToolError(
                f"The MCP server {self.name} is not connected now. Try again in a minute, or go on "
                "without it."
            )
        seconds = self.settings.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                result = await self._ask(link, self._accepted, offer, context, arguments)
        except TimeoutError:
            # A server that hangs does not answer this request either, and is restarted.
            self.look_again()
            raise too_slow(self.name, seconds) from None
        return await text_of(self.name, result)

    async def _ask(
        self,
        link: "McpLink",
        accepted: Mapping[str, Offer],
        offer: Offer,
        context: ToolContext,
        arguments: Json,
    ) -> Json:
        """Call a tool in its approved form, and take the images out of the result."""
        current = accepted.get(offer.raw_name)
        if current is None or current.hash != offer.hash:
            raise ToolError(
                f"{offer.name} is no longer what it was: the server took it back or changed it, "
                "and an admin has not approved that. Go on without it."
            )
        seconds = self.settings.timeout_seconds + GRACE
        result = await link.call(offer.raw_name, arguments, seconds=seconds)
        if result.get("isError"):
            return result
        return await ImageTaker(self.name, self.save).take(result, context, link.read)


async def text_of(server: str, result: Json) -> str:
    """Return the result of a call for a model; see `result_text`.

    Raises:
        ToolError: The server calls the result an error.
    """
    text = await asyncio.to_thread(result_text, server, result)
    if result.get("isError"):
        raise ToolError(text)
    return text


async def offered_by(
    name: str, settings: McpServerSettings, link: "McpLink"
) -> tuple[dict[str, Offer], list[str]]:
    """Request a server's tools; return the usable ones by raw name, and the problems found."""
    listed = await link.tools()
    wanted = settings.tools
    if wanted is not None:
        listed = [tool for tool in listed if tool.get("name") in wanted]
    found, problems = await asyncio.to_thread(offers, name, listed)
    named = {*(wanted or ()), *settings.runs, *settings.confirm}
    missing = sorted(named - {str(tool.get("name")) for tool in listed})
    if missing:
        # First, since the admin can fix it, and the list of the others may be long.
        problems.insert(0, f"it has no tool {', '.join(missing)}, which the configuration names")
    return found, problems


async def _raise_at_end(link: "McpLink") -> None:
    await link.ended.wait()
    raise ConnectionResetError("the connection ended")


def first_in(error: BaseException) -> BaseException:
    """Return the first error of a group of errors; another error is returned unchanged."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def link_problem(error: BaseException) -> str:
    """Return the reason why a connection failed, for an admin."""
    match error := first_in(error):
        case FileNotFoundError():
            return f"there is no program {error.filename}"
        case OSError():
            return error.strerror or type(error).__name__
    said = for_log(str(error))[:200]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__

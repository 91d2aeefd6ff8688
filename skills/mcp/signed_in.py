"""A server at which each user signs in: every call has a connection of its own."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, TypeVar

from pydantic import SecretStr

from bot.errors import DatabaseUnreachableError, ToolError
from bot.values import Identity, Json
from db.mcp_pins import Pin
from skills.base import ToolContext
from skills.mcp.server import (
    McpServer,
    first_in,
    link_problem,
    load_connect,
    offered_by,
    text_of,
)
from skills.mcp.sign_ins import SignInNeededError, SignIns
from skills.mcp.tools import Offer, too_slow

if TYPE_CHECKING:
    from skills.mcp.link import McpLink

log = logging.getLogger(__name__)
Result = TypeVar("Result")

NOBODY = "no user has signed in yet: /retinue connect"


@dataclass(eq=False, slots=True)
class PersonalServer(McpServer):
    """A server whose tools are those that admins approved, and whose calls are each user's own.

    Attributes:
        sign_ins: Returns the tokens of users, and asks them to sign in.
    """

    _: KW_ONLY
    sign_ins: SignIns

    @property
    def connected(self) -> bool:
        """True if its tools are known; there is no connection between calls."""
        return self.listed

    async def run(self) -> None:
        """Offer the approved tools until cancelled."""
        await self._approved_start()
        while True:
            self._stale.clear()
            try:
                await self._offer(await self.pins.known(self.name))
            except DatabaseUnreachableError as error:
                await self._set_problem(str(error))
            await self._pause()

    async def _offer(self, known: list[Pin]) -> None:
        """Offer what is approved, without a connection."""
        approved = {
            pin.tool: Offer(raw_name=pin.tool, hash=pin.approved_hash, **pin.approved)
            for pin in known
            if pin.approved
        }
        if approved != self._accepted or not self.listed:
            self._accepted = approved
            self.tools = tuple(self._tool(offer) for offer in approved.values())
        self.waiting = tuple(pin.tool for pin in known if pin.waits)
        self.listed = True
        self.looked.set()
        await self._set_problem(self._waiting_problem() if known else NOBODY)

    async def look_as(self, user: Identity) -> None:
        """Compare the tools that the server offers a new user with the approved ones.

        Raises:
            ToolError: The server does not answer, or refuses the user.
        """
        try:
            async with asyncio.timeout(self.settings.connect_seconds):
                await self._as(user, self._listed_now)
        except SignInNeededError:
            raise ToolError(
                f"{self.name} does not accept the access that it has just given. Begin the sign-in "
                "again; if it stays so, an admin can look at the address of the server."
            ) from None
        except TimeoutError:
            raise ToolError(
                f"You are signed in to {self.name}, but it does not answer now, and I do not know "
                "all of its tools. Sign in again later."
            ) from None
        self.look_again()

    async def _listed_now(self, link: "McpLink") -> dict[str, Offer]:
        found, problems = await offered_by(self.name, self.settings, link)
        for problem in problems:
            log.warning("The MCP server %s: %s", self.name, problem)
        return await self.pins.review(self.name, found, first_waits=self.settings.review_first)

    async def _call(self, offer: Offer, context: ToolContext, arguments: Json) -> str:
        """Call a tool with the rights of the user of the call."""
        seconds = self.settings.timeout_seconds

        async def call(link: "McpLink") -> Json:
            accepted = await self._listed_now(link)
            return await self._ask(link, accepted, offer, context, arguments)

        try:
            async with asyncio.timeout(seconds):
                result = await self._as(context.user, call)
        except SignInNeededError:
            await self.sign_ins.ask(context, self.name)
            raise ToolError(
                f"The user is not signed in to {self.name}, or the sign-in has ended. I have asked "
                "the user privately to sign in: say so, and go on without it."
            ) from None
        except TimeoutError:
            raise too_slow(self.name, seconds) from None
        return await text_of(self.name, result)

    async def _as(self, user: Identity, work: Callable[["McpLink"], Awaitable[Result]]) -> Result:
        """Connect with the token of a user, do some work, and disconnect."""
        token = await self.sign_ins.access(user, self.name)
        headers = {**self.settings.headers, "Authorization": SecretStr(f"Bearer {token}")}
        settings = self.settings.model_copy(update={"headers": headers})
        connect = await asyncio.to_thread(load_connect)
        try:
            async with connect(self.name, settings, self.environ, lambda: None) as link:
                return await work(link)
        except Exception as error:
            if isinstance(found := first_in(error), ToolError | SignInNeededError):
                raise found from None
            if isinstance(error, TimeoutError):
                raise
            # The SDK does not tell which status it got.
            if await self.sign_ins.forget_refused(user, self.name, token):
                raise SignInNeededError from None
            log.warning("The MCP server %s: %s", self.name, link_problem(error))
            raise ToolError(
                f"The MCP server {self.name} cannot be reached now. Try again in a minute, or go "
                "on without it."
            ) from None

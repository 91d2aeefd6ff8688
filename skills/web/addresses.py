"""Decides on web addresses that an agent may read without the user's yes.

Private material could leave through an address: an obedient model that has read a file can put its
words into a path. So after private material a composed address needs a yes. An address that others
wrote only reveals the choice among known ones, and the number of choices is bounded too.
"""

from collections.abc import Iterable
from typing import Literal

from bot.errors import ToolError
from bot.net.base import Follows
from bot.net.free_addresses import (
    MOST_FETCHES,
    MOST_KNOWN,
    addresses_in,
    canonical,
    merged,
    same_site,
)
from bot.values import Json
from db import conversations, runs, web_addresses
from db.database import Database, Transaction
from skills.base import ToolContext

#: Recent messages of the place whose addresses count as known.
MESSAGES_BACK = 50
_COMPOSED = (
    "private material has been read in this work, and this address stands in no message, search "
    "result or page of it, so it could carry that material away"
)
_USED_UP = (
    f"{MOST_FETCHES} pages have been read since private material was read, as many as are read "
    "without a yes"
)


class AddressPolicy:
    """Stores the known addresses of each turn, with all its runs, and judges each fetch.

    Args:
        database: Stores the addresses.
        composed: The treatment of an address that the model composed after private material.
    """

    def __init__(
        self, database: Database, composed: Literal["ask", "allow", "deny"] = "ask"
    ) -> None:
        self._database = database
        self._composed = composed

    async def reason_to_ask(self, context: ToolContext, arguments: Json) -> str:
        """Return the reason why the user must agree to a fetch; empty if no agreement is needed.

        A fetch without a yes after private material is counted here.

        Raises:
            ToolError: The configuration denies the address.
        """
        if not self._judges(context):
            return ""
        address = canonical(str(arguments.get("url") or ""))
        if not address:
            return ""  # the tool refuses it, with the reason
        async with self._database.transaction() as tx:
            known = await self._known(tx, context)
            free = address in known
            if free and await web_addresses.count_fetch(tx, context.root, most=MOST_FETCHES):
                return ""
        reason = _USED_UP if free else _COMPOSED
        if self._composed == "deny":
            raise ToolError(f"That page is not read: {reason}. Go on without it.")
        return reason

    async def learn(self, context: ToolContext, addresses: Iterable[str]) -> None:
        """Store addresses from a search or a page, as far as the limit allows."""
        if self._composed == "allow":
            return
        async with self._database.transaction() as tx:
            known = await self._known(tx, context)
            if len(known) < MOST_KNOWN:
                found = merged(known, (each for each in map(canonical, addresses) if each))
                await web_addresses.store(tx, context.root, found, context.now())

    async def redirects(self, context: ToolContext) -> Follows | None:
        """Return a function that allows redirects within one site or to a known address.

        Return `None`, which allows all, before private material has been read.
        """
        if not self._judges(context):
            return None
        known = frozenset(await self._database.write(self._known, context))
        return lambda one, other: other in known or same_site(one, other)

    def _judges(self, context: ToolContext) -> bool:
        return context.private and self._composed != "allow"

    async def _known(self, tx: Transaction, context: ToolContext) -> list[str]:
        """Return the known addresses; on first use, those in the messages of the place."""
        known = await web_addresses.known(tx, context.root)
        if known is None:
            texts = await conversations.user_texts(
                tx, context.conversation_id, context.user, MESSAGES_BACK
            )
            # For a run that a command or a schedule began: its task is the user's own words.
            run = None if context.run_id is None else await runs.get(tx, context.root)
            if run is not None:
                texts = [run.task, run.context, *texts]
            found = (each for text in texts for each in addresses_in(text, bare=True))
            known = merged([], found)
            await web_addresses.store(tx, context.root, known, context.now())
        return known

"""Pins tools: a tool that changed since its approval is unused until an admin approves it again."""

import logging
from collections.abc import Iterable, Mapping

from bot.run_texts import counted
from bot.values import Clock, Json, Place
from db import audit, commands, mcp_pins
from db.audit import CONSOLE, AuditEntry
from db.database import Database
from db.mcp_pins import Pin
from skills.mcp.starts import StartRequest
from skills.mcp.tools import Offer

log = logging.getLogger(__name__)


class Pins:
    """Stores the approved tools of every server.

    The first list of a new server is approved as it is, since an admin has just named it, unless
    its settings say otherwise. Later additions and changes wait for an approval.
    """

    def __init__(self, database: Database, now: Clock) -> None:
        self._database = database
        self._now = now

    async def review(
        self, server: str, offered: Mapping[str, Offer], *, first_waits: bool = False
    ) -> dict[str, Offer]:
        """Record the tools that a server offers now, and return the approved ones, by raw name.

        Args:
            server: The server.
            offered: Its tools by raw name.
            first_waits: Whether the first list of a server waits for an approval too.
        """
        known = {pin.tool: pin for pin in await self.known(server)}
        changed = any(
            raw not in known or known[raw].offered_hash != offer.hash
            for raw, offer in offered.items()
        )
        gone = any(not pin.approved_hash for raw, pin in known.items() if raw not in offered)
        if changed or gone:
            known = await self._note(server, offered, first_waits=first_waits)
        return {
            raw: offer
            for raw, offer in offered.items()
            if raw in known and known[raw].approved_hash == offer.hash
        }

    async def _note(
        self, server: str, offered: Mapping[str, Offer], *, first_waits: bool
    ) -> dict[str, Pin]:
        now = self._now()
        async with self._database.transaction() as tx:
            known = {pin.tool: pin for pin in await mcp_pins.all_of(tx, server)}
            for raw, offer in offered.items():
                pin = known.get(raw)
                if pin is None:
                    values: Json = {"offered_hash": offer.hash, "offered_at": now}
                    if not known and not first_waits:
                        values |= {"approved_hash": offer.hash, "approved_at": now}
                        values |= {"approved": offer.definition, "approved_by": "first connection"}
                    await mcp_pins.add(tx, server, raw, offer.definition, values=values)
                elif pin.offered_hash != offer.hash:
                    await mcp_pins.offer(tx, server, raw, offer.hash, offer.definition, now)
            # A server that invents a new name each time must not fill the table.
            await mcp_pins.forget(tx, server, sorted(set(known) - set(offered)))
            return {pin.tool: pin for pin in await mcp_pins.all_of(tx, server)}

    async def admits(self, request: StartRequest) -> bool:
        """Record a request to start a server, and return True if an admin approved it."""
        pin = await self.start_of(request.server)
        if pin is None or pin.offered_hash != request.hash:
            now = self._now()
            async with self._database.transaction() as tx:
                values = {"offered_hash": request.hash, "offered_at": now}
                await mcp_pins.add(tx, request.server, "", request.definition, values=values)
                await mcp_pins.offer(tx, request.server, "", request.hash, request.definition, now)
                pin = await mcp_pins.of_server(tx, request.server)
        return pin is not None and pin.approved_hash == request.hash

    async def start_of(self, server: str) -> Pin | None:
        """Return the pin of a server itself; `None` if it never asked to be started."""
        return await self._database.read(mcp_pins.of_server, server)

    async def known(self, server: str) -> list[Pin]:
        """Return all known tools of a server, in their approved and offered forms."""
        return await self._database.read(mcp_pins.all_of, server)

    async def waiting(self, server: str) -> list[Pin]:
        """Return the tools that wait for an approval, in their approved and offered forms."""
        return [pin for pin in await self.known(server) if pin.waits]

    async def approve(
        self,
        server: str,
        *,
        by: str,
        shown: Iterable[Pin] | None = None,
        command_id: str = "",
        place: Place = CONSOLE,
    ) -> tuple[str, ...]:
        """Approve waiting tools, record it in the audit log, and return the names of the tools.

        The pin of a server itself is approved in the same way; the name of its tool is empty.

        Args:
            server: The server.
            by: The key of the approver.
            shown: The pins that the admin has seen: a tool that has changed again is not approved.
                `None` for all that wait.
            command_id: The stored command of the approval. It is not repeated after a crash, since
                other tools may wait by then. Empty for none.
            place: The place from which they are approved.
        """
        pins = await self.waiting(server) if shown is None else list(shown)
        now, done = self._now(), []
        async with self._database.transaction() as tx:
            await commands.apply(tx, command_id, now)
            for pin in pins:
                if pin.server == server and await mcp_pins.approve(tx, pin, by=by, now=now):
                    done.append(pin.tool)
                    entry = AuditEntry(
                        actor=by,
                        action="mcp approve" if pin.tool else "mcp start",
                        place=place,
                        subject=f"{server} {pin.tool}".strip(),
                        effect=f"{pin.approved_hash or 'new'} became {pin.offered_hash}",
                        created_at=now,
                    )
                    await audit.record(tx, entry)
        what = "the start" if done == [""] else counted(len(done), "tool")
        log.info("%s approved %s of the MCP server %s", by, what, server)
        return tuple(done)

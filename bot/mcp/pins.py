"""Pins: a tool that changed since it was approved is not used until an admin approves it again."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bot.mcp.tools import Offer
from bot.values import Clock, Json
from db import commands, mcp_pins, workers
from db.database import Database
from db.mcp_pins import Pin

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What became of a list of tools.

    Attributes:
        accepted: Those in the form that was approved, by raw name.
        waiting: The raw names of those that are new or have changed.
    """

    accepted: Mapping[str, Offer]
    waiting: tuple[str, ...]


class Pins:
    """Keeps what was approved of every server.

    The first list of a server that nothing is known of is taken as it is: an admin has just named
    the server. Whatever is added or changed later waits for an approval.
    """

    def __init__(self, database: Database, now: Clock) -> None:
        self._database = database
        self._now = now

    async def review(self, server: str, offered: Mapping[str, Offer]) -> Reviewed:
        """Note what a server offers now, and tell what of it may be used."""
        async with self._database.snapshot() as tx:
            known = {pin.tool: pin for pin in await mcp_pins.all_of(tx, server)}
        if _differs(known, offered):
            known = await self._note(server, offered)
        accepted = {
            raw: offer
            for raw, offer in offered.items()
            if raw in known and known[raw].approved_hash == offer.hash
        }
        return Reviewed(accepted, tuple(sorted(set(offered) - set(accepted))))

    async def _note(self, server: str, offered: Mapping[str, Offer]) -> dict[str, Pin]:
        now = self._now()
        async with self._database.transaction() as tx:
            known = {pin.tool: pin for pin in await mcp_pins.all_of(tx, server)}
            for raw, offer in offered.items():
                pin = known.get(raw)
                if pin is None:
                    values: Json = {"offered_hash": offer.hash, "offered_at": now}
                    if not known:
                        values |= {"approved_hash": offer.hash, "approved_at": now}
                        values |= {"approved": offer.definition, "approved_by": "first connection"}
                    await mcp_pins.add(tx, server, raw, offer.definition, values=values)
                elif pin.offered_hash != offer.hash:
                    await mcp_pins.offer(tx, server, raw, offer.hash, offer.definition, now)
            # A server that invents a name each time must not fill the table.
            await mcp_pins.forget(tx, server, sorted(set(known) - set(offered)))
            return {pin.tool: pin for pin in await mcp_pins.all_of(tx, server)}

    async def known(self, server: str) -> list[Pin]:
        """Return all that is known of a server's tools, in both forms."""
        async with self._database.snapshot() as tx:
            return await mcp_pins.all_of(tx, server)

    async def waiting(self, server: str) -> list[Pin]:
        """Return what waits for an approval, in both forms."""
        return [pin for pin in await self.known(server) if pin.waits]

    async def approve(
        self, server: str, *, by: str, shown: Iterable[Pin] | None = None, command_id: str = ""
    ) -> tuple[str, ...]:
        """Approve what waits, with a note for the record, and return the names of the tools.

        Args:
            server: The server.
            by: The key of whoever says so.
            shown: What the admin has seen: what changed again since then is not approved. `None`
                for whatever waits.
            command_id: The stored command that says so: it is not carried out again after a crash,
                since other tools may wait by then. Empty for none.
        """
        pins = await self.waiting(server) if shown is None else list(shown)
        now, done = self._now(), []
        async with self._database.transaction() as tx:
            await commands.apply(tx, command_id, now)
            for pin in pins:
                if pin.server == server and await mcp_pins.approve(tx, pin, by=by, now=now):
                    done.append(pin.tool)
                    await workers.note(
                        tx,
                        user_id=by,
                        action="mcp approve",
                        subject=f"{server} {pin.tool}",
                        detail=f"{pin.approved_hash or 'new'} became {pin.offered_hash}",
                        now=now,
                    )
        log.info("%s approved %d tools of the MCP server %s", by, len(done), server)
        return tuple(done)


def _differs(known: Mapping[str, Pin], offered: Mapping[str, Offer]) -> bool:
    new = any(
        raw not in known or known[raw].offered_hash != offer.hash for raw, offer in offered.items()
    )
    return new or any(not pin.approved_hash for raw, pin in known.items() if raw not in offered)

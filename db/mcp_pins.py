"""Pins: the tools of MCP servers as they were approved, and as they are offered now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select, update

from db.database import Transaction
from db.tables import mcp_pins
from db.upsert import insert_into


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A tool of a server.

    Attributes:
        approved_hash: The form that may be used; empty for a tool that was never approved.
        approved: The definition with that hash.
        approved_by: The approver; empty for a tool that was never approved.
        offered_hash: The form that the server offered last.
        offered: The definition with that hash.
        offered_at: The time since which it is offered in that form.
    """

    server: str
    tool: str
    approved_hash: str
    approved: dict[str, Any] | None
    approved_by: str
    approved_at: datetime | None
    offered_hash: str
    offered: dict[str, Any]
    offered_at: datetime

    @property
    def waits(self) -> bool:
        """True if the offered form is not approved."""
        return self.offered_hash != self.approved_hash


async def all_of(tx: Transaction, server: str) -> list[Pin]:
    """Return the pins of a server, by the names of the tools."""
    rows = await tx.execute(
        select(mcp_pins).where(mcp_pins.c.server == server).order_by(mcp_pins.c.tool)
    )
    return [
        Pin(
            server=row.server,
            tool=row.tool,
            approved_hash=row.approved_hash,
            approved=row.approved,
            approved_by=row.approved_by,
            approved_at=row.approved_at,
            offered_hash=row.offered_hash,
            offered=row.offered,
            offered_at=row.offered_at,
        )
        for row in rows
    ]


async def add(
    tx: Transaction,
    server: str,
    tool: str,
    offered: Mapping[str, Any],
    *,
    values: Mapping[str, Any],
) -> None:
    """Store an unknown tool; if another process was faster, its row stays."""
    insert = insert_into(tx, mcp_pins).values(
        server=server, tool=tool, offered=dict(offered), **values
    )
    await tx.execute(insert.on_conflict_do_nothing(index_elements=["server", "tool"]))


async def offer(
    tx: Transaction, server: str, tool: str, hashed: str, offered: Mapping[str, Any], now: datetime
) -> None:
    """Record that a known tool is offered in another form."""
    await tx.execute(
        update(mcp_pins)
        .where(mcp_pins.c.server == server, mcp_pins.c.tool == tool)
        .values(offered_hash=hashed, offered=dict(offered), offered_at=now)
    )


async def approve(tx: Transaction, pin: Pin, *, by: str, now: datetime) -> bool:
    """Approve a tool in the form of this pin; return False if it is offered in another form now."""
    done = await tx.execute(
        update(mcp_pins)
        .where(
            mcp_pins.c.server == pin.server,
            mcp_pins.c.tool == pin.tool,
            mcp_pins.c.offered_hash == pin.offered_hash,
        )
        .values(
            approved_hash=mcp_pins.c.offered_hash,
            approved=mcp_pins.c.offered,
            approved_at=now,
            approved_by=by,
        )
    )
    return done.rowcount > 0


async def forget(tx: Transaction, server: str, tools: Sequence[str]) -> None:
    """Delete the pins of tools that were never approved."""
    if tools:
        await tx.execute(
            delete(mcp_pins).where(
                mcp_pins.c.server == server,
                mcp_pins.c.tool.in_(tools),
                mcp_pins.c.approved_hash == "",
            )
        )

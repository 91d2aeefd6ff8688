"""Pins: MCP servers and their tools as they were approved, and as they are offered now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from db.database import Transaction
from db.rows import RowMapper, change, insert_new, remove
from db.tables import mcp_pins


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A tool of a server, or the server itself.

    Attributes:
        tool: The name of the tool; empty for the server.
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


_PINS = RowMapper(Pin, mcp_pins)


async def all_of(tx: Transaction, server: str) -> list[Pin]:
    """Return the pins of a server's tools, by the names of the tools."""
    tools = (mcp_pins.c.server == server, mcp_pins.c.tool != "")
    return await _PINS.find_all(tx, *tools, order=[mcp_pins.c.tool])


async def of_server(tx: Transaction, server: str) -> Pin | None:
    """Return the pin of a server itself, without its tools; `None` if it never asked to start."""
    return await _PINS.find_one(tx, mcp_pins.c.server == server, mcp_pins.c.tool == "")


async def add(
    tx: Transaction,
    server: str,
    tool: str,
    offered: Mapping[str, Any],
    *,
    values: Mapping[str, Any],
) -> None:
    """Store an unknown tool; if another process was faster, its row stays."""
    row = {"server": server, "tool": tool, "offered": dict(offered), **values}
    await insert_new(tx, mcp_pins, row)


async def offer(
    tx: Transaction, server: str, tool: str, hashed: str, offered: Mapping[str, Any], now: datetime
) -> None:
    """Record that a known tool is offered in another form."""
    this = (mcp_pins.c.server == server, mcp_pins.c.tool == tool)
    values = {"offered_hash": hashed, "offered": dict(offered), "offered_at": now}
    await change(tx, mcp_pins, *this, **values)


async def approve(tx: Transaction, pin: Pin, *, by: str, now: datetime) -> bool:
    """Approve a tool in the form of this pin; return False if it is offered in another form now."""
    return await change(
        tx,
        mcp_pins,
        mcp_pins.c.server == pin.server,
        mcp_pins.c.tool == pin.tool,
        mcp_pins.c.offered_hash == pin.offered_hash,
        approved_hash=mcp_pins.c.offered_hash,
        approved=mcp_pins.c.offered,
        approved_at=now,
        approved_by=by,
    )


async def forget(tx: Transaction, server: str, tools: Sequence[str]) -> None:
    """Delete the pins of tools that were never approved."""
    these = (mcp_pins.c.server == server, mcp_pins.c.tool.in_(tools))
    await remove(tx, mcp_pins, *these, mcp_pins.c.approved_hash == "")

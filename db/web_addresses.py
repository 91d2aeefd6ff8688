"""Queries on addresses that a turn may fetch after private material, and on its fetches."""

from datetime import datetime

from sqlalchemy import select

from db.database import Transaction
from db.rows import change, insert_into
from db.tables import web_addresses


async def known(tx: Transaction, root_id: str) -> list[str] | None:
    """Return the addresses of a turn, oldest first; `None` before the first was stored."""
    found: list[str] | None = await tx.scalar(
        select(web_addresses.c.addresses)
        .where(web_addresses.c.root_id == root_id)
        .with_for_update()
    )
    return found


async def store(tx: Transaction, root_id: str, addresses: list[str], now: datetime) -> None:
    """Store the addresses of a turn; they replace those stored before."""
    row = {"root_id": root_id, "addresses": addresses, "created_at": now}
    insert = insert_into(tx, web_addresses).values(row)
    new = {"addresses": addresses}
    await tx.execute(insert.on_conflict_do_update(index_elements=["root_id"], set_=new))


async def count_fetch(tx: Transaction, root_id: str, *, most: int) -> bool:
    """Count one more fetch of a turn; return False, and count nothing, if it has made `most`."""
    this = (web_addresses.c.root_id == root_id, web_addresses.c.fetches < most)
    return await change(tx, web_addresses, *this, fetches=web_addresses.c.fetches + 1)

"""Tokens of users for MCP servers, encrypted by the caller, and sign-ins that have begun."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select, update

from db.database import Transaction
from db.rows import RowMapper, change, insert_new, remove
from db.tables import mcp_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTokens:
    """The access of one user to one server.

    Attributes:
        secret: The tokens, encrypted.
        version: Raised by each change of the tokens.
    """

    user_id: str
    server: str
    secret: str
    version: int


_TOKENS = RowMapper(StoredTokens, mcp_tokens)


async def find(tx: Transaction, user_id: str, server: str) -> StoredTokens | None:
    """Return the tokens of a user for a server; `None` without a completed sign-in."""
    this = (mcp_tokens.c.user_id == user_id, mcp_tokens.c.server == server)
    return await _TOKENS.find_one(tx, *this, mcp_tokens.c.secret != "")


async def servers_of(tx: Transaction, user_id: str) -> list[str]:
    """Return the servers to which a user has signed in."""
    mine = (mcp_tokens.c.user_id == user_id, mcp_tokens.c.secret != "")
    return list(await tx.scalars(select(mcp_tokens.c.server).where(*mine)))


async def earlier(tx: Transaction, user_id: str, server: str) -> str | None:
    """Return the encrypted tokens of the last completed sign-in of any user at a server.

    Return `None` without one, or if the last sign-in of this user did not end in tokens.
    """
    mine = (mcp_tokens.c.user_id == user_id, mcp_tokens.c.server == server)
    if await tx.scalar(select(mcp_tokens.c.server).where(*mine, mcp_tokens.c.pending != "")):
        return None
    done = (mcp_tokens.c.server == server, mcp_tokens.c.secret != "")
    newest = select(mcp_tokens.c.secret).where(*done).order_by(mcp_tokens.c.used_at.desc())
    found: str | None = await tx.scalar(newest.limit(1))
    return found


async def begin(
    tx: Transaction,
    user_id: str,
    server: str,
    *,
    state_hash: str,
    pending: str,
    until: datetime,
    now: datetime,
) -> None:
    """Store a sign-in that begins; it replaces an earlier one of the same user and server."""
    row = {"user_id": user_id, "server": server, "used_at": now}
    await insert_new(tx, mcp_tokens, row)
    values = {"state_hash": state_hash, "pending": pending, "state_until": until}
    this = (mcp_tokens.c.user_id == user_id, mcp_tokens.c.server == server)
    await change(tx, mcp_tokens, *this, **values)


async def claim(
    tx: Transaction, user_id: str, server: str, state_hash: str, now: datetime
) -> str | None:
    """End a sign-in, once, and return what was stored for its end; `None` if there is none.

    It stays stored until there are tokens, which tells that the sign-in has not succeeded.
    """
    this = (
        mcp_tokens.c.user_id == user_id,
        mcp_tokens.c.server == server,
        mcp_tokens.c.state_hash == state_hash,
        mcp_tokens.c.state_until > now,
    )
    pending: str | None = await tx.scalar(select(mcp_tokens.c.pending).where(*this))
    emptied = {"state_hash": "", "state_until": None}
    taken = await tx.execute(update(mcp_tokens).where(*this).values(emptied))
    return pending if taken.rowcount else None


async def store(
    tx: Transaction, user_id: str, server: str, secret: str, *, version: int | None, now: datetime
) -> bool:
    """Store tokens; return False if the user has none any more, or newer ones.

    Args:
        tx: The transaction.
        user_id: The user.
        server: The server.
        secret: The tokens, encrypted.
        version: The version that they replace; `None` for any, at the end of a sign-in.
        now: The time.
    """
    this = [mcp_tokens.c.user_id == user_id, mcp_tokens.c.server == server]
    if version is not None:
        this.append(mcp_tokens.c.version == version)
    changed = {"secret": secret, "version": mcp_tokens.c.version + 1, "used_at": now}
    if version is None:
        changed["pending"] = ""
    return await change(tx, mcp_tokens, *this, **changed)


async def used(tx: Transaction, user_id: str, server: str, now: datetime) -> None:
    """Record that the tokens were used."""
    this = (mcp_tokens.c.user_id == user_id, mcp_tokens.c.server == server)
    await change(tx, mcp_tokens, *this, used_at=now)


async def delete(tx: Transaction, user_id: str, server: str, version: int | None = None) -> bool:
    """Delete the access of a user to a server; with a version only in that version."""
    this = [mcp_tokens.c.user_id == user_id, mcp_tokens.c.server == server]
    if version is not None:
        this.append(mcp_tokens.c.version == version)
    return await remove(tx, mcp_tokens, *this)

"""Queries on the key-value store of skills that have no tables."""

from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from db import rows
from db.database import Transaction
from db.tables import skill_data

#: Most keys of one skill, and most characters of its keys and values. Calls at the same moment may
#: pass them by what they store themselves.
MOST_KEYS = 10_000
MOST_CHARACTERS = 10_000_000


async def get(tx: Transaction, skill: str, key: str) -> Any:
    """Return the value under a key of a skill; `None` if there is none."""
    return await tx.scalar(
        select(skill_data.c.value).where(skill_data.c.skill == skill, skill_data.c.key == key)
    )


async def keys(tx: Transaction, skill: str) -> list[str]:
    """Return the keys of a skill, sorted."""
    found = await tx.scalars(select(skill_data.c.key).where(skill_data.c.skill == skill))
    return sorted(found)


async def put(
    tx: Transaction, skill: str, key: str, value: Any, *, size: int, now: datetime
) -> bool:
    """Store a value under a key of a skill; return False, and store nothing, past its quota.

    Args:
        tx: The transaction.
        skill: The name of the skill.
        key: The key, whose value is replaced.
        value: The value, a JSON document.
        size: The characters of key and value.
        now: The time.
    """
    others = (skill_data.c.skill == skill, skill_data.c.key != key)
    used = select(func.count(), func.coalesce(func.sum(skill_data.c.size), 0)).where(*others)
    count, characters = (await tx.execute(used)).one()
    if count >= MOST_KEYS or characters + size > MOST_CHARACTERS:
        return False
    row = {"skill": skill, "key": key, "value": value, "size": size, "updated_at": now}
    await rows.put_row(tx, skill_data, row)
    return True


async def remove(tx: Transaction, skill: str, key: str) -> bool:
    """Delete a key of a skill; return True if it existed."""
    return await rows.remove(tx, skill_data, skill_data.c.skill == skill, skill_data.c.key == key)

"""Rows that other rows refer to, for tests that are about something else."""

from datetime import datetime

from sqlalchemy import insert

from bot.values import Identity, new_run_id
from db.database import Database
from db.tables import subagent_runs
from db.users import ensure_user


async def meet(database: Database, user: Identity, now: datetime) -> str:
    """Store a user and return the key."""
    async with database.transaction() as tx:
        await ensure_user(tx, user, user.account, now)
    return user.key


async def store_run(database: Database, user: Identity, now: datetime, *, number: int = 1) -> str:
    """Store a run of a user that the bot has met, and return its id."""
    run_id = new_run_id()
    async with database.transaction() as tx:
        await tx.execute(
            insert(subagent_runs).values(
                id=run_id,
                user_id=user.key,
                channel=user.platform,
                number=number,
                task="Count sheep",
                token_budget=1000,
                max_steps=5,
                timeout_ms=60_000,
                created_at=now,
                updated_at=now,
            )
        )
    return run_id

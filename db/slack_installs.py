"""Queries on Slack installations of the bot, complete or in progress."""

from dataclasses import asdict, dataclass, fields
from datetime import datetime

from sqlalchemy import delete, insert, select

from db.database import Transaction
from db.tables import slack_installs as installs
from db.tables import slack_states as states
from db.upsert import insert_into


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """An installation of the bot in a workspace or organisation.

    Attributes:
        client_id: The app.
        workspace: A workspace (T…), or an organisation (E…) with all of its workspaces.
        enterprise: The organisation; empty for none.
        bot_user: The user id of the bot's account there.
        bot: Its bot id.
        token: The bot token, encrypted.
    """

    client_id: str
    workspace: str
    enterprise: str
    bot_user: str
    bot: str
    token: str


async def put(tx: Transaction, install: Install, now: datetime) -> None:
    """Store an installation; it replaces an older one."""
    row = asdict(install) | {"installed_at": now}
    await tx.execute(
        insert_into(tx, installs)
        .values(row)
        .on_conflict_do_update(index_elements=["client_id", "workspace"], set_=row)
    )


async def find(tx: Transaction, client_id: str, workspace: str) -> Install | None:
    """Return an app's installation in a workspace or an organisation; `None` for none."""
    columns = [installs.c[field.name] for field in fields(Install)]
    ours = (installs.c.client_id == client_id, installs.c.workspace == workspace)
    row = (await tx.execute(select(*columns).where(*ours))).mappings().one_or_none()
    return None if row is None else Install(**row)


async def remove(tx: Transaction, install: Install) -> None:
    """Delete an installation, unless a newer one has replaced it."""
    await tx.execute(
        delete(installs).where(
            installs.c.client_id == install.client_id,
            installs.c.workspace == install.workspace,
            installs.c.token == install.token,
        )
    )


async def issue_state(tx: Transaction, state: str, now: datetime) -> None:
    """Store the state of an installation that has begun."""
    await tx.execute(insert(states).values(state=state, created_at=now))


async def consume_state(tx: Transaction, state: str, since: datetime) -> bool:
    """Delete the state of an installation; return True if it existed and began after `since`."""
    used = delete(states).where(states.c.state == state, states.c.created_at > since)
    return (await tx.execute(used)).rowcount == 1


async def forget_states(tx: Transaction, until: datetime) -> None:
    """Delete the states of installations that began until then and were never finished."""
    await tx.execute(delete(states).where(states.c.created_at <= until))

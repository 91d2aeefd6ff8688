"""Queries on Slack installations of the bot, complete or in progress."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import insert

from db import rows
from db.database import Transaction
from db.rows import RowMapper, put_row
from db.tables import slack_installs as installs
from db.tables import slack_states as states


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


_INSTALLS = RowMapper(Install, installs)


async def put(tx: Transaction, install: Install, now: datetime) -> None:
    """Store an installation; it replaces an older one."""
    await put_row(tx, installs, _INSTALLS.values(install) | {"installed_at": now})


async def find(tx: Transaction, client_id: str, workspace: str) -> Install | None:
    """Return an app's installation in a workspace or an organisation; `None` for none."""
    ours = (installs.c.client_id == client_id, installs.c.workspace == workspace)
    return await _INSTALLS.find_one(tx, *ours)


async def remove(tx: Transaction, install: Install) -> None:
    """Delete an installation, unless a newer one has replaced it."""
    await rows.remove(
        tx,
        installs,
        installs.c.client_id == install.client_id,
        installs.c.workspace == install.workspace,
        installs.c.token == install.token,
    )


async def issue_state(tx: Transaction, state: str, now: datetime) -> None:
    """Store the state of an installation that has begun."""
    await tx.execute(insert(states).values(state=state, created_at=now))


async def consume_state(tx: Transaction, state: str, since: datetime) -> bool:
    """Delete the state of an installation; return True if it existed and began after `since`."""
    return await rows.remove(tx, states, states.c.state == state, states.c.created_at > since)


async def forget_states(tx: Transaction, until: datetime) -> None:
    """Delete the states of installations that began until then and were never finished."""
    await rows.remove(tx, states, states.c.created_at <= until)

"""Queries on standing grants: calls that a rule asks about and that are allowed until a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.values import Place, new_sortable_id
from db.database import Transaction
from db.rows import RowMapper, is_at, remove
from db.tables import standing_grants

_SERVER = ("channel", "place_workspace")


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingGrant:
    """A rule whose question is answered for a user in a server or workspace.

    Attributes:
        rule: The rule as it is spelled, such as `shell:git push*: ask`.
        granted_by: The key of the user who allowed it: the owner, or a member of an approving role.
    """

    id: str
    user_id: str
    place: Place
    rule: str
    granted_by: str
    created_at: datetime
    expires_at: datetime

    @property
    def approver(self) -> str:
        """The role that the rule asks; empty for the owner of the call."""
        return self.rule.rpartition(": ")[2].partition(":")[2]


_GRANTS = RowMapper(StandingGrant, standing_grants)


async def give(
    tx: Transaction,
    user_id: str,
    place: Place,
    rules: Sequence[str],
    *,
    by: str,
    until: datetime,
    now: datetime,
) -> None:
    """Answer the questions of these rules for a user in the server of a place, until a time."""
    here = (standing_grants.c.user_id == user_id, *is_at(standing_grants, place, *_SERVER))
    for rule in rules:
        await remove(tx, standing_grants, *here, standing_grants.c.rule == rule)
        grant = StandingGrant(
            id=new_sortable_id(now),
            user_id=user_id,
            place=place,
            rule=rule,
            granted_by=by,
            created_at=now,
            expires_at=until,
        )
        await tx.execute(standing_grants.insert(), _GRANTS.values(grant))


async def of_server(
    tx: Transaction, user_id: str, place: Place, now: datetime
) -> list[StandingGrant]:
    """Return the standing grants of a user in the server of a place, oldest first."""
    here = (standing_grants.c.user_id == user_id, *is_at(standing_grants, place, *_SERVER))
    valid = standing_grants.c.expires_at > now
    return await _GRANTS.find_all(tx, *here, valid, order=[standing_grants.c.id])


async def of_user(tx: Transaction, user_id: str, now: datetime) -> list[StandingGrant]:
    """Return the standing grants of a user that have not expired, oldest first."""
    mine = (standing_grants.c.user_id == user_id, standing_grants.c.expires_at > now)
    return await _GRANTS.find_all(tx, *mine, order=[standing_grants.c.id])


async def revoke(tx: Transaction, user_id: str, rule: str | None) -> bool:
    """Delete the standing grants of a user for a rule, or all; `False` if there is none."""
    which = [] if rule is None else [standing_grants.c.rule == rule]
    return await remove(tx, standing_grants, standing_grants.c.user_id == user_id, *which)


async def expire(tx: Transaction, now: datetime) -> None:
    """Delete the expired standing grants."""
    await remove(tx, standing_grants, standing_grants.c.expires_at <= now)

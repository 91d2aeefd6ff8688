"""Queries on pauses: in the scope of a pause nothing new begins."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, text

from bot.values import Place
from db.database import PAUSE_LOCK, Transaction
from db.rows import PLACE, place_columns, put_row, remove
from db.tables import pauses, users

_SHARED = text("SELECT pg_advisory_xact_lock_shared(:key)")
_EXCLUSIVE = text("SELECT pg_advisory_xact_lock(:key)")


#: The place of a pause that covers all places.
EVERYWHERE = Place("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause of the work of all users or of one, everywhere, in a server or in a channel.

    Attributes:
        user_id: The key of the user whose work it is about; empty for all users.
        place: The server or channel; without a platform everywhere, without a channel a server.
        killed: Everything in the scope was stopped as well.
        paused_by: The key of the admin.
        name: The shown name of the admin; empty if it is unknown.
        by_operator: Only an operator may lift it.
    """

    paused_by: str
    created_at: datetime
    user_id: str = ""
    place: Place = EVERYWHERE
    killed: bool = False
    name: str = ""
    by_operator: bool = False

    @property
    def id(self) -> str:
        """The key of the scope."""
        return "|".join(
            (self.user_id, self.place.platform, self.place.workspace, self.place.channel)
        )

    def covers(self, user_id: str, place: Place) -> bool:
        """Return True for work of this user in this place."""
        if self.user_id not in {"", user_id}:
            return False
        if not self.place.platform:
            return True
        # A workspace of an organisation is named `E….T…`: either part means it as well.
        names = {place.workspace, *place.workspace.split(".")}
        if self.place.platform != place.platform or self.place.workspace not in names:
            return False
        return self.place.channel in {"", place.channel}


_ALL = (
    select(pauses, func.coalesce(users.c.name, "").label("name"))
    .outerjoin(users, users.c.id == pauses.c.paused_by)
    .order_by(pauses.c.created_at, pauses.c.id)
)


async def listed(tx: Transaction) -> list[Pause]:
    """Return all pauses, oldest first."""
    return [
        Pause(
            user_id=row.user_id,
            place=Place(*(getattr(row, name) for name in PLACE)),
            killed=row.killed,
            paused_by=row.paused_by,
            name=row.name,
            by_operator=row.by_operator,
            created_at=row.created_at,
        )
        for row in await tx.execute(_ALL)
    ]


async def hold_off(tx: Transaction) -> None:
    """Let no pause be committed before the end of a transaction that begins work."""
    if tx.dialect.name == "postgresql":
        # A statement of its own: the next one sees what was committed while this one waited.
        await tx.execute(_SHARED, {"key": PAUSE_LOCK})


def covering(found: Iterable[Pause], user_id: str, place: Place) -> Pause | None:
    """Return the oldest pause of the work of a user in a place; `None` without one."""
    return next((each for each in found if each.covers(user_id, place)), None)


async def of(tx: Transaction, user_id: str, place: Place) -> Pause | None:
    """Return the oldest pause of the work of a user in a place; `None` without one."""
    return covering(await listed(tx), user_id, place)


async def put(tx: Transaction, pause: Pause) -> None:
    """Store a pause, first in its transaction; a pause of the same scope is replaced.

    The pause of an operator is not replaced by that of another admin.
    """
    if tx.dialect.name == "postgresql":
        await tx.execute(_EXCLUSIVE, {"key": PAUSE_LOCK})
    before = select(pauses.c.by_operator).where(pauses.c.id == pause.id)
    if not pause.by_operator and await tx.scalar(before):
        return
    row = {
        "id": pause.id,
        "user_id": pause.user_id,
        "killed": pause.killed,
        "paused_by": pause.paused_by,
        "by_operator": pause.by_operator,
        "created_at": pause.created_at,
        **place_columns(pause.place),
    }
    await put_row(tx, pauses, row)


async def lift(tx: Transaction, pause_id: str) -> bool:
    """Delete a pause; `False` if there is none of that scope."""
    return await remove(tx, pauses, pauses.c.id == pause_id)


async def is_of_operator(tx: Transaction, pause_id: str) -> bool:
    """Return True if the pause of a scope is an operator's."""
    return bool(await tx.scalar(select(pauses.c.by_operator).where(pauses.c.id == pause_id)))

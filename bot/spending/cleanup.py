"""Follows changed limits: pools of removed ones are deleted, and others are reported again.

A limit that comes back counts its whole period.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bot.spending.pools import Scope, limits_of_channel, limits_of_workspace, pseudonym
from bot.spending.settings import PeriodLimits, SpendingSettings
from bot.values import Clock, Identity, Live, Place
from db import pools
from db.database import Database

#: Pools that one transaction deletes.
BATCH = 500
#: Length of the period of a day, in characters: the others are months, or runs without a period.
_DAY = len("2026-11-30")


@dataclass(slots=True)
class PoolCleanup:
    """Deletes pools without a limit, once for each change of the limits.

    While no limit applies, calls are not added to a pool. Without its row the pool is made anew
    from what the turns and runs of its period have used.
    """

    database: Database
    settings: Live[SpendingSettings]
    now: Clock
    _done: SpendingSettings | None = field(default=None)

    async def forget_unlimited(self) -> None:
        """Delete the pools without a limit; later those from which calls in progress draw.

        The use of a limit that has changed is reported again.
        """
        settings = self.settings()
        if settings is self._done:
            return
        stored = await self.database.read(pools.of_now, self.now())
        without = [each for each in stored if not is_limited(each, settings)]
        gone = 0
        for begin in range(0, len(without), BATCH):
            gone += await self.database.write(pools.forget, without[begin : begin + BATCH])
        if gone == len(without):
            if self._done is not None and settings != self._done:
                await self.database.write(pools.unmark, self.now())
            self._done = settings


def is_limited(pool_id: str, settings: SpendingSettings) -> bool:
    """Return True for a pool whose subject has a limit in its period.

    The pool of a role counts as limited: what a role has used is nowhere else.
    """
    scope, period, subject = pool_id.split("|", 2)
    if scope == Scope.ROLE:
        return True
    limits = [settings.run]
    if scope != Scope.RUN:
        found = _limits(Scope(scope), subject, settings)
        limits = [each.day if len(period) == _DAY else each.month for each in found]
    return any(each.is_set for each in limits)


def _limits(scope: Scope, subject: str, settings: SpendingSettings) -> Iterator[PeriodLimits]:
    match scope:
        case Scope.USER:
            named: dict[str, PeriodLimits] = {}
            for name, each in settings.users.items():
                platform, *parts = name.split(":")
                account = Identity(platform, parts[0] if len(parts) == 2 else "", parts[-1])
                named[pseudonym(account)] = each
            yield named.get(subject, settings.user)
            yield from (each.each for each in settings.roles.values())
        case Scope.CHANNEL:
            yield limits_of_channel(Place(*subject.split(":", 2)), settings)
        case Scope.WORKSPACE:
            yield limits_of_workspace(Place(*subject.split(":", 1)), settings)
        case _:
            yield settings.bot

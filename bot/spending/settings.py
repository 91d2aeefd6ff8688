"""The settings of limits on tokens and money (`spending:`)."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from bot.values import Settings

#: `discord:1234`, for Slack `slack:T1:U2`.
AccountName = Annotated[str, Field(pattern=r"^[a-z]+(:[A-Za-z0-9_.@-]+){1,2}$")]
#: `discord:CHANNEL` or `slack:TEAM:CHANNEL`.
ChannelName = Annotated[str, Field(pattern=r"^[a-z]+(:[A-Za-z0-9_-]+){1,2}$")]
#: `discord:SERVER` or `slack:TEAM`.
WorkspaceName = Annotated[str, Field(pattern=r"^[a-z]+:[A-Za-z0-9_-]+$")]


class SpendingLimit(Settings):
    """A limit; 0 allows nothing."""

    usd: Decimal | None = Field(None, ge=0, decimal_places=6, le=10**9)
    """Dollars; empty for no limit."""

    tokens: int | None = Field(None, ge=0, le=10**15)
    """Weighted tokens: output and new input count 1, input read from a cache by its price; empty
    for no limit.
    """

    @property
    def is_set(self) -> bool:
        """True if it limits anything."""
        return self.usd is not None or self.tokens is not None

    def __str__(self) -> str:
        """Return the limit as admins read it."""
        dollars = "" if self.usd is None else f"${self.usd:,f}"
        tokens = "" if self.tokens is None else f"{self.tokens:,} weighted tokens"
        return " and ".join(filter(None, (dollars, tokens)))


class PeriodLimits(Settings):
    """Limits of a day and a month, which begin at midnight UTC."""

    day: SpendingLimit = SpendingLimit()
    month: SpendingLimit = SpendingLimit()


class RoleLimits(Settings):
    """Limits of a role."""

    each: PeriodLimits = PeriodLimits()
    """Limits of each user with the role; the lower of these and those of `user` counts."""

    together: PeriodLimits = PeriodLimits()
    """Limits of all users with the role together."""


class SpendingSettings(Settings):
    """Everything under `spending:`: the most that model calls may cost; none is set by default."""

    run: SpendingLimit = SpendingLimit()
    """One background run or delegated task, with the tasks that it delegates."""

    user: PeriodLimits = PeriodLimits()
    """Each user, in all places together."""

    channel: PeriodLimits = PeriodLimits()
    """Each channel with its threads, all users together."""

    workspace: PeriodLimits = PeriodLimits()
    """Each Discord server and Slack workspace."""

    bot: PeriodLimits = PeriodLimits()
    """The whole bot."""

    roles: Mapping[str, RoleLimits] = Field({})
    """Limits of roles, by the name of the role."""

    users: Mapping[AccountName, PeriodLimits] = Field({})
    """Other limits for single users instead of `user`, by `discord:1234` or `slack:T1:U2`."""

    channels: Mapping[ChannelName, PeriodLimits] = Field({})
    """Other limits for single channels instead of `channel`, by `discord:CHANNEL` or
    `slack:TEAM:CHANNEL`.
    """

    workspaces: Mapping[WorkspaceName, PeriodLimits] = Field({})
    """Other limits for single servers and workspaces instead of `workspace`, by `discord:SERVER`
    or `slack:TEAM`.
    """

    def describe(self) -> list[str]:
        """Return the lines about the limits that `check` prints."""
        found = [f"{name}: {limit}" for name, limit in self._limits() if limit.is_set]
        return found or ["no limits in tokens or money (`spending`)"]

    @property
    def limits_money(self) -> bool:
        """True if a limit is in dollars."""
        return any(limit.usd is not None for _, limit in self._limits())

    def _limits(self) -> Iterator[tuple[str, SpendingLimit]]:
        """Return all limits with their names."""
        yield "each run", self.run
        periods = {
            "each user": self.user,
            "each channel": self.channel,
            "each server or workspace": self.workspace,
            "the whole bot": self.bot,
            **self.users,
            **self.channels,
            **self.workspaces,
            **{f"each user of the role {name}": role.each for name, role in self.roles.items()},
            **{f"the role {name} together": role.together for name, role in self.roles.items()},
        }
        for name, limits in periods.items():
            yield f"{name} and day", limits.day
            yield f"{name} and month", limits.month

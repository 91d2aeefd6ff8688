"""The pools that a model call draws from, and the decision whether it fits them all (pure)."""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from bot.conversations.access import is_private
from bot.platforms.catalog import declared
from bot.run_texts import dollars
from bot.spending.amounts import PoolState
from bot.spending.settings import PeriodLimits, RoleLimits, SpendingLimit, SpendingSettings
from bot.subagents.limits import spoken
from bot.values import Identity, Place

MICRO_DOLLARS = 1_000_000
#: The most of what is left that the output of one call may use, and the output that is always
#: allowed if it fits.
OUTPUT_SHARE = 4
LEAST_OUTPUT = 1_000
#: The shares of a limit, in percent, that ordinary calls may use: of a run, and of a turn, whose
#: user waits. The rest is left for last reports.
RUN_PERCENT, TURN_PERCENT = 90, 95
WARN_PERCENT = 80
_UNLIMITED = SpendingSettings()


class Scope(StrEnum):
    """The sharers of a pool."""

    RUN = "run"
    USER = "user"
    ROLE = "role"
    CHANNEL = "channel"
    WORKSPACE = "workspace"
    BOT = "bot"

    @property
    def shared(self) -> bool:
        """True if several users draw from the pool."""
        return self not in {Scope.RUN, Scope.USER}

    @property
    def of_place(self) -> bool:
        """True if the admins of a server or workspace may raise the limit, not only operators."""
        return self in {Scope.CHANNEL, Scope.WORKSPACE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Payer:
    """The user, the place and the work that pay for a model call.

    Attributes:
        work_id: The turn or run.
        runs: The run and the runs that began it; empty for a turn.
    """

    user: Identity
    place: Place
    work_id: str
    runs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A limit that a payer shares with the other calls of its scope and period.

    Attributes:
        subject: The sharer: a run, a pseudonym of a user, a role, a channel or a workspace; empty
            for the whole bot.
        name: The sharer as users read it, such as `this channel`.
        period: The day or the month, as ISO 8601; empty for a run.
        tokens: The limit in weighted tokens; `None` for none.
        cost: The limit in micro-dollars; `None` for none.
        since: The begin of the period.
        resets_at: The end of the period; `None` for a run.
    """

    scope: Scope
    subject: str
    name: str
    period: str
    tokens: int | None
    cost: int | None
    since: datetime | None = None
    resets_at: datetime | None = None

    @property
    def id(self) -> str:
        """The key of the pool."""
        return "|".join((self.scope, self.period, self.subject))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBounds:
    """The most that a model call can cost.

    Attributes:
        input_tokens: An upper estimate of the input.
        input_cost: Micro-dollars of that input if none of it is cached; `None` without a price.
        output_cost: Micro-dollars of one output token.
        max_output: The most output tokens that are wanted.
        last: Whether the call asks for the last answer, for which a share is kept.
    """

    input_tokens: int
    input_cost: Decimal | None
    output_cost: Decimal
    max_output: int
    last: bool = False

    def cost(self, output: int) -> int:
        """Return the most micro-dollars with so many output tokens, rounded up."""
        return math.ceil((self.input_cost or 0) + self.output_cost * output)


@dataclass(frozen=True, slots=True)
class SpendingGrant:
    """A call that fits.

    Attributes:
        max_output: The most output tokens of the call.
        near: Whether the input is more than a quarter of what a limit has left.
    """

    max_output: int
    near: bool


@dataclass(frozen=True, slots=True)
class SpendingRefusal:
    """A call that exceeds a limit.

    Attributes:
        pool: The tightest limit.
        text: The limit, what is used, and when it resets, as sentences for the user.
    """

    pool: Pool
    state: PoolState
    text: str


@dataclass(frozen=True, slots=True)
class _Remainder:
    """The room that one limit of a pool leaves to a call, in its own unit."""

    left: Decimal
    input: Decimal
    per_output: Decimal

    @property
    def output(self) -> int:
        """The output tokens that fit behind the input; negative if not even that fits."""
        rest = self.left - self.input
        if not self.per_output:
            return 10**12 if rest >= 0 else -1
        return math.floor(rest / self.per_output)

    @property
    def share(self) -> int:
        """The most output tokens by the share of what is left."""
        if not self.per_output:
            return 10**12
        return math.floor(max(self.left, Decimal(0)) / self.per_output / OUTPUT_SHARE)

    @property
    def near(self) -> bool:
        """True if the input is a large part of what is left, so that an error counts."""
        return self.input * OUTPUT_SHARE > self.left


def decide(
    payer: Payer, pools: Sequence[tuple[Pool, PoolState]], call: CallBounds, now: datetime
) -> SpendingGrant | SpendingRefusal:
    """Decide whether a call fits all pools, and how long its answer may be.

    The output is at most a quarter of what the tightest limit has left, but never under
    `LEAST_OUTPUT` tokens, if these fit.
    """
    percent = 100 if call.last else RUN_PERCENT if payer.runs else TURN_PERCENT
    output, near = call.max_output, False
    for pool, state in pools:
        for room in _rooms(pool, state, call, percent):
            output = min(output, max(LEAST_OUTPUT, room.share))
            near |= room.near
    for pool, state in pools:
        fits = min((room.output for room in _rooms(pool, state, call, percent)), default=output)
        if fits < min(call.max_output, LEAST_OUTPUT):
            return SpendingRefusal(pool, state, refusal_text(pool, state, now))
        output = min(output, fits)
    return SpendingGrant(output, near)


def report_room(
    pools: Sequence[tuple[Pool, PoolState]], call: CallBounds
) -> tuple[int, int] | None:
    """Return the most input and output tokens of a last report; `None` if none fits."""
    output, room_of_input = call.max_output, call.input_tokens
    last = [room for pool, state in pools for room in _rooms(pool, state, call, 100)]
    for room in last:
        output = min(output, max(LEAST_OUTPUT, room.share))
    for room in last:
        rest = room.left - output * room.per_output
        if room.input:
            room_of_input = min(room_of_input, math.floor(rest * call.input_tokens / room.input))
    return (room_of_input, output) if room_of_input > 0 else None


def _rooms(pool: Pool, state: PoolState, call: CallBounds, percent: int) -> Iterator[_Remainder]:
    """Return the room that each limit of a pool leaves to a call."""
    if pool.tokens is not None:
        limit = (pool.tokens + state.extra_tokens) * percent // 100
        left = Decimal(limit - state.used_tokens - state.reserved_tokens)
        yield _Remainder(left, Decimal(call.input_tokens), Decimal(1))
    if pool.cost is not None:
        limit = (pool.cost + state.extra_cost) * percent // 100
        left = Decimal(limit - state.used_cost - state.reserved_cost)
        yield _Remainder(left, Decimal(math.ceil(call.input_cost or 0)), call.output_cost)


def is_used_up(pool: Pool, state: PoolState) -> bool:
    """Return True if no call of a run can fit any more, unless it costs nothing."""
    limits = (
        (pool.tokens, state.extra_tokens, state.used_tokens),
        (pool.cost, state.extra_cost, state.used_cost),
    )
    return any(
        limit is not None and used > 0 and used >= (limit + extra) * RUN_PERCENT // 100
        for limit, extra, used in limits
    )


def used_percent(pool: Pool, state: PoolState) -> int:
    """Return the used part of a pool in percent, by its tightest limit, without open calls."""
    parts = [
        used * 100 // limit if limit else 100
        for used, limit in (
            (state.used_tokens, _raised(pool.tokens, state.extra_tokens)),
            (state.used_cost, _raised(pool.cost, state.extra_cost)),
        )
        if limit is not None
    ]
    return max(parts, default=0)


def _raised(limit: int | None, extra: int) -> int | None:
    return None if limit is None else limit + extra


def amounts(pool: Pool, state: PoolState) -> str:
    """Return the used and the allowed amounts of a pool: `$1.97 of $2.00`."""
    parts = []
    if (cost := _raised(pool.cost, state.extra_cost)) is not None:
        parts.append(f"{dollars(state.used_cost)} of {dollars(cost)}")
    if (tokens := _raised(pool.tokens, state.extra_tokens)) is not None:
        parts.append(f"{state.used_tokens:,} of {tokens:,} weighted tokens")
    return " and ".join(parts)


def refusal_text(pool: Pool, state: PoolState, now: datetime) -> str:
    """Return the sentences about a used limit: its name, the use, the reset, and whom to ask."""
    text = f"The spending limit of {limit_name(pool)} is reached: {amounts(pool, state)} used"
    if state.reserved_cost or state.reserved_tokens:
        text += ", and more is reserved for work in progress"
    if pool.resets_at is None:
        return f"{text}. An operator of the bot sets it: `spending.run`."
    wait = spoken((pool.resets_at - now).total_seconds())
    who = "An admin" if pool.scope.of_place else "An operator of the bot"
    return (
        f"{text}. It resets at {pool.resets_at:%Y-%m-%d %H:%M} UTC, in {wait}. {who} can raise it "
        "for today."
    )


def limit_name(pool: Pool) -> str:
    """Return the name of a limit with its period."""
    length = {10: " today", 7: " this month"}.get(len(pool.period), "")
    return f"{pool.name}{length}"


def pseudonym(user: Identity) -> str:
    """Return the subject of a user's pools: they outlive the user's deletion until they reset."""
    return hashlib.sha256(f"retinue pool {user.key}".encode()).hexdigest()[:32]


def pools_of(payer: Payer, role: str, settings: SpendingSettings, now: datetime) -> list[Pool]:
    """Return the pools that limit a payer of this role, ordered by their keys."""
    found: list[Pool] = []
    if settings == _UNLIMITED:
        return found
    for run_id in payer.runs:
        found += _pools(Scope.RUN, run_id, "this run", {"": settings.run}, now)
    user = settings.users.get(":".join(part for part in payer.user.parts if part), settings.user)
    of_role = settings.roles.get(role, RoleLimits())
    strict = [user, of_role.each]

    def lowest(limits: Sequence[SpendingLimit]) -> SpendingLimit:
        usd = [each.usd for each in limits if each.usd is not None]
        tokens = [each.tokens for each in limits if each.tokens is not None]
        return SpendingLimit(usd=min(usd, default=None), tokens=min(tokens, default=None))

    limits = _periods(
        PeriodLimits(
            day=lowest([each.day for each in strict]), month=lowest([each.month for each in strict])
        )
    )
    found += _pools(Scope.USER, pseudonym(payer.user), "your own work", limits, now)
    found += _pools(Scope.ROLE, role, f"the role {role}", _periods(of_role.together), now)
    place = payer.place
    if not is_private(place):
        subject = f"{place.platform}:{place.workspace}:{place.channel}"
        limits = _periods(limits_of_channel(place, settings))
        found += _pools(Scope.CHANNEL, subject, "this channel", limits, now)
    if place.workspace:
        subject = f"{place.platform}:{place.workspace}"
        limits = _periods(limits_of_workspace(place, settings))
        title = f"this {declared(place.platform).server_name}"
        found += _pools(Scope.WORKSPACE, subject, title, limits, now)
    found += _pools(Scope.BOT, "", "the whole bot", _periods(settings.bot), now)
    return sorted(found, key=lambda pool: pool.id)


def limits_of_channel(place: Place, settings: SpendingSettings) -> PeriodLimits:
    """Return the limits of the channel of a place."""
    names = [f"{server}:{place.channel}" for server in _servers(place)]
    names.append(f"{place.platform}:{place.channel}")
    return _first(settings.channels, names, settings.channel)


def limits_of_workspace(place: Place, settings: SpendingSettings) -> PeriodLimits:
    """Return the limits of the server or workspace of a place."""
    return _first(settings.workspaces, _servers(place), settings.workspace)


def _servers(place: Place) -> list[str]:
    """Return the names of a server or workspace; of `E….T…` also those of its two parts."""
    parts = dict.fromkeys([place.workspace, *reversed(place.workspace.split("."))])
    return [f"{place.platform}:{part}" for part in parts]


def _first(
    given: Mapping[str, PeriodLimits], names: Iterable[str], default: PeriodLimits
) -> PeriodLimits:
    return next((given[name] for name in names if name in given), default)


def _periods(limits: PeriodLimits) -> Mapping[str, SpendingLimit]:
    return {"%Y-%m-%d": limits.day, "%Y-%m": limits.month}


def _pools(
    scope: Scope, subject: str, name: str, limits: Mapping[str, SpendingLimit], now: datetime
) -> Iterator[Pool]:
    """Return the pools of a sharer that have a limit."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for form, limit in limits.items():
        if not limit.is_set:
            continue
        since: datetime | None = today
        resets_at: datetime | None = today + timedelta(days=1)
        if not form:
            since = resets_at = None
        elif form == "%Y-%m":
            since = today.replace(day=1)
            resets_at = (since + timedelta(days=32)).replace(day=1)
        yield Pool(
            scope=scope,
            subject=subject,
            name=name,
            period=f"{today:{form}}" if form else "",
            tokens=limit.tokens,
            cost=None if limit.usd is None else int(limit.usd * MICRO_DOLLARS),
            since=since,
            resets_at=resets_at,
        )

"""Handles the commands about spending limits."""

import math
import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from bot.agent.sanitizer import one_line
from bot.conversations.access import has_admin_powers
from bot.conversations.commands import CommandCall
from bot.errors import BadRequestError, NotAllowedError, NotFoundError
from bot.platforms.base import CommandReply
from bot.spending.amounts import PoolState
from bot.spending.pools import (
    MICRO_DOLLARS,
    Payer,
    Pool,
    Scope,
    amounts,
    limit_name,
    used_percent,
)
from bot.values import Place
from db import audit, pools

#: As many digits as the highest limit has, see `bot.spending.settings.SpendingLimit`.
_DOLLARS = re.compile(r"\$(\d{1,9}(?:\.\d{1,6})?)")
_TOKENS = re.compile(r"\d{1,15}")
#: The highest limit, in tokens and in micro-dollars: the most of one raise.
MOST_RAISED = 10**15
#: Limits by the words that are typed for them, of the place in which they are typed.
WORDS = {
    "channel": Scope.CHANNEL,
    "server": Scope.WORKSPACE,
    "workspace": Scope.WORKSPACE,
    "bot": Scope.BOT,
    "me": Scope.USER,
}
NOT_RAISED = (
    "Nothing was raised: there is no limit “{name}” here, its day or month has ended, or nothing "
    "was used of it yet. One of which nothing is used is changed in `config.yaml`.\n{limits}"
)
OTHER_UNIT = (
    "Nothing was raised: no limit “{name}” is in that unit. Write `$5` for one in dollars, and a "
    "number for one in weighted tokens.\n{limits}"
)
NO_LIMITS = "No spending limit applies here."
USAGE = (
    "Write the limit (channel, server, bot or me) and by how much to raise it today: `$5` or a "
    "number of tokens, such as `{}`."
)


@dataclass(frozen=True, slots=True)
class Raise:
    """The amounts by which a limit is raised: tokens, and micro-dollars."""

    tokens: int = 0
    cost: int = 0

    @classmethod
    def read(cls, words: str) -> "Raise | None":
        """Return the amounts in the words of a command; `None` if malformed or too high."""
        tokens = cost = 0
        for word in words.split():
            if match := _DOLLARS.fullmatch(word):
                cost += int(Decimal(match[1]) * MICRO_DOLLARS)
            elif _TOKENS.fullmatch(word.replace(",", "")):
                tokens += int(word.replace(",", ""))
            else:
                return None
        return cls(tokens, cost) if 0 < max(tokens, cost) <= MOST_RAISED else None

    @classmethod
    def half_of(cls, pool: Pool) -> "Raise":
        """Return half of a limit, rounded up."""
        halves = (math.ceil((each or 0) / 2) for each in (pool.tokens, pool.cost))
        return cls(*halves)

    def changes(self, pool: Pool) -> bool:
        """Return True if a limit is in one of the units of the amounts."""
        in_tokens = self.tokens > 0 and pool.tokens is not None
        return in_tokens or (self.cost > 0 and pool.cost is not None)

    def __str__(self) -> str:
        """Return the amounts as the command takes them."""
        dollars = f"${Decimal(self.cost) / MICRO_DOLLARS:f}" if self.cost else ""
        return " ".join(filter(None, (dollars, str(self.tokens or ""))))


async def raise_limit(call: CommandCall) -> CommandReply:
    """Raise a spending limit until the end of the day; only admins of what it limits may."""
    bot, caller = call.bot, call.caller
    raised = Raise.read(call.get("amount"))
    if raised is None:
        return CommandReply(text=USAGE.format(call.typed("raise channel $5")), failed=True)
    name = call.get("limit").lower()
    payer = Payer(user=caller.user, place=caller.place, work_id="")
    if scope := WORDS.get(name):
        found = [pool for pool, _ in await bot.ledger.states(payer) if pool.scope is scope]
        ids = [pool.id for pool in found if raised.changes(pool)]
        about = place_of(scope, caller.place)
    else:
        found, ids, about = [], [call.get("limit")], _place_in(call.get("limit"))
    if not has_admin_powers(caller, about):
        raise NotAllowedError("Only an admin of what this limits may raise it.")
    if found and not ids:
        limits = limits_text(await bot.ledger.states(payer))
        raise BadRequestError(OTHER_UNIT.format(name=one_line(name, 40), limits=limits))
    now = bot.now()
    until = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    async with call.applied() as tx:
        states = await pools.raise_limits(
            tx, ids, tokens=raised.tokens, cost=raised.cost, until=until, now=now
        )
        if states:
            effect = f"by {raised} until midnight UTC"
            raised_ids = ", ".join(each.id for each in states)
            await audit.record(tx, caller.entry("raise", now, subject=raised_ids, effect=effect))
    if not states:
        shown = limits_text(await bot.ledger.states(payer)) or NO_LIMITS
        raise NotFoundError(NOT_RAISED.format(name=one_line(name, 40), limits=shown))
    return CommandReply(
        text=f"Raised by {raised} until midnight UTC. What was refused can be asked again."
    )


def place_of(scope: Scope, place: Place) -> Place | None:
    """Return the place that a limit is about; `None` for one that is about several."""
    return place if scope.of_place else None


def _place_in(pool_id: str) -> Place | None:
    """Return the place that a limit, named by the key of its pool, is about.

    Raises:
        BadRequestError: It is no key of a pool.
    """
    scope, _, rest = pool_id.partition("|")
    subject = rest.partition("|")[2]
    if scope not in set(Scope):
        raise BadRequestError("There is no such limit: write channel, server, bot or me.")
    if not Scope(scope).of_place:
        return None
    platform, workspace, channel = [*subject.split(":"), "", ""][:3]
    return Place(platform, workspace, channel)


def limits_text(states: list[tuple[Pool, PoolState]]) -> str:
    """Return the lines about the spending limits of a user in a place; empty for none."""
    lines = [
        f"- {limit_name(pool)}: {amounts(pool, state)} ({used_percent(pool, state)} %)"
        + (f", resets at {pool.resets_at:%Y-%m-%d %H:%M} UTC" if pool.resets_at else "")
        for pool, state in states
    ]
    return "\n".join(["", "**Spending limits**", *lines]) if lines else ""

"""Admits accounts to direct messages: a user gets a code, and an admin confirms it."""

import secrets
from dataclasses import dataclass
from datetime import timedelta

from bot.agent.sanitizer import one_line
from bot.conversations.access import has_admin_powers, spelled
from bot.conversations.commands import CommandCall
from bot.errors import BadRequestError, NotFoundError
from bot.platforms.base import CommandReply
from bot.values import Clock, Identity, Place
from db import audit, pairings, users
from db.database import Database, Transaction

#: Characters of codes: none looks like another one.
ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
CODE_LENGTH = 8
#: Time in which a code can be confirmed.
VALID_FOR = timedelta(hours=1)
MOST_LISTED, MOST_READ = 50, 100_000
ASKS_FOR_PAIRING = (
    "An admin has to admit you to direct messages. Give an admin this code within an hour: "
    "`{code}`. The admin confirms it with the command pair."
)
UNKNOWN_CODE = (
    "No one has got that code, or it is older than an hour. The user gets a new one here."
)


@dataclass(frozen=True, slots=True)
class Pairings:
    """Issues codes to users, and knows the admitted ones."""

    database: Database
    now: Clock

    async def is_paired(self, user: Identity) -> bool:
        """Return True if an admin has confirmed a code of this user."""
        found = await self.database.read(pairings.of_user, user)
        return found is not None and found.confirmed_at is not None

    async def request(self, user: Identity) -> str:
        """Return the text with the code of a user, a new one when the last has expired."""
        now = self.now()
        async with self.database.transaction() as tx:
            found = await pairings.of_user(tx, user)
            if found is not None and now - found.created_at < VALID_FOR:
                code = found.code
            else:
                code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
                await users.ensure_user(tx, user, "", now)
                await pairings.put(tx, user, code, now)
        return ASKS_FOR_PAIRING.format(code=code)


async def pair(call: CommandCall) -> CommandReply:
    """Confirm a code, list the admitted accounts, or withdraw one.

    Raises:
        BadRequestError: The form of the command is wrong.
        NotFoundError: The code or the account is unknown, or not for this admin.
    """
    match call.get("words").split():
        case []:
            found = await call.bot.database.read(pairings.confirmed, limit=MOST_READ)
            lines = [f"- `{spelled(each.user)}`" for each in found if _may_admit(call, each.user)]
            if not lines:
                return CommandReply(text="No account is admitted by a code.")
            if len(lines) > MOST_LISTED:
                lines[MOST_LISTED:] = [f"- and {len(lines) - MOST_LISTED} older ones"]
            remove = f"`{call.typed('pair remove ACCOUNT')}` withdraws one."
            return CommandReply(
                text="\n".join(["**Admitted to direct messages**", *lines, "", remove])
            )
        case ["remove", account]:
            return await _remove(call, account)
        case [code]:
            return await _confirm(call, code.upper())
    raise BadRequestError(
        f"Usage: {call.typed('pair CODE')}, {call.typed('pair')} or "
        f"{call.typed('pair remove ACCOUNT')}."
    )


def _may_admit(call: CommandCall, user: Identity) -> bool:
    # Only a Slack account belongs to a workspace: others are for operators.
    return has_admin_powers(call.caller, Place(user.platform, user.workspace))


async def _confirm(call: CommandCall, code: str) -> CommandReply:
    bot, by = call.bot, call.caller.user
    async with call.applied() as tx:
        found = await pairings.of_code(tx, code)
        known = found is not None and bot.now() - found.created_at < VALID_FOR
        if found is None or not known or not _may_admit(call, found.user):
            raise NotFoundError(UNKNOWN_CODE)
        first = await pairings.confirm(tx, code, by=by.key, now=bot.now())
        if first:
            await _note(call, tx, "pair", found.user)
    done = "is admitted to direct messages" if first else "is admitted already"
    return CommandReply(text=f"`{spelled(found.user)}` {done}.")


async def _remove(call: CommandCall, account: str) -> CommandReply:
    async with call.applied() as tx:
        found = await pairings.confirmed(tx, limit=MOST_READ)
        meant = [each.user for each in found if spelled(each.user) == account]
        if not meant or not _may_admit(call, meant[0]):
            raise NotFoundError(f"`{one_line(account, 60)}` is not admitted by a code.")
        await pairings.end(tx, meant[0])
        await _note(call, tx, "unpair", meant[0])
    return CommandReply(text=f"`{one_line(account, 60)}` is no longer admitted.")


async def _note(call: CommandCall, tx: Transaction, action: str, user: Identity) -> None:
    await audit.record(tx, call.caller.entry(action, call.bot.now(), owner=user.key))

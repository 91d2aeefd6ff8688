"""Handles `/retinue audit`: what was done, for admins of the place in which it was done."""

from bot.agent.sanitizer import one_line
from bot.conversations.access import has_admin_powers, is_operator, spelled_place
from bot.conversations.audit import MOST_EXPORTED, json_lines, since_of
from bot.conversations.commands import CommandCall
from bot.conversations.control import account_named
from bot.errors import BadRequestError, NotAllowedError
from bot.platforms.base import CommandReply, OutgoingFile
from bot.run_texts import counted
from bot.subagents.records import VIEW
from db import audit as stored
from db.audit import StoredEntry

#: Entries in one reply.
SHOWN = 15
FILE = "file"


async def audit(call: CommandCall) -> CommandReply:
    """Show the newest entries of the audit log, or send all that are wanted as a file."""
    bot, caller = call.bot, call.caller
    if not has_admin_powers(caller, caller.place):
        raise NotAllowedError("Only admins can read the audit log.")
    if call.get("form") not in {"", FILE}:
        raise BadRequestError(f"Write `{FILE}` for all of them as a file, or leave it out.")
    user = call.get("user").strip("` ")
    wanted = bot.audit.wanted(
        user=account_named(user, caller.user).key if user else "",
        action=call.get("action").replace("_", " ").lower(),
        since=since_of(call.get("since"), bot.now()),
        # Admins of a server or workspace see what was done there.
        place=None if is_operator(caller) else caller.place,
    )
    whole = call.get("form") == FILE
    # Stored before it is read, so that one who reads sees that too.
    entry = caller.entry(
        VIEW,
        bot.now(),
        owner=wanted.user if wanted.user != caller.user.key else "",
        subject=wanted.action,
        effect="audit, a file" if whole else "audit",
    )
    await bot.database.write(stored.record, entry)
    found = await bot.audit.find(wanted, limit=MOST_EXPORTED if whole else SHOWN + 1)
    if whole:
        content = json_lines(found[::-1]).encode()
        file = OutgoingFile(f"retinue-audit-{bot.now():%Y-%m-%d}.jsonl", content)
        where = await bot.copies.deliver(file, caller.user, caller.place, caller.command_id)
        return CommandReply(text=f"{counted(len(found), 'entry', 'entries')} in {where}.")
    lines = [f"- {shown(each)}" for each in found[:SHOWN]]
    if len(found) > SHOWN:
        lines.append(f"Older ones, all as a file: `{call.typed('audit file')}`.")
    return CommandReply(text="\n".join(lines or ["Nothing of that kind is recorded."]))


def shown(each: StoredEntry) -> str:
    """Return an entry as a line of Markdown."""
    entry = each.entry
    time = f"{entry.created_at:%d %b %H:%M:%S}"
    if each.erased and not entry.actor:
        of = f" of `{each.owner_pseudonym}`" if each.owner_pseudonym else ""
        return f"{time} `{each.pseudonym}` {one_line(entry.action, 50)}{of} (its text was erased)"
    where = spelled_place(entry.place)
    owner = entry.owner if entry.owner not in {"", entry.actor} else ""
    parts = (
        time,
        _account(entry.actor),
        f"**{one_line(entry.action, 50)}**",
        owner and f"of {_account(owner)}",
        _code(entry.subject) if entry.subject not in {"", owner} else "",
        entry.effect and f"→ {one_line(entry.effect, 120).replace('`', 'ˋ')}",
        where and f"in {_code(where)}",
    )
    return " ".join(filter(None, parts))


def _account(key: str) -> str:
    return _code(key.replace("::", ":"))


def _code(text: str) -> str:
    """Return text that a user may have chosen, so that it cannot pass for another entry."""
    return f"`{one_line(text, 80).replace('`', 'ˋ')}`"

"""Handles `/retinue settings`: what applies to a user in a place, and the source of each value."""

from bot.conversations.access import has_admin_powers, place_named, spelled, spelled_place
from bot.conversations.commands import CommandCall, rights_of
from bot.conversations.control import account_named
from bot.errors import NotAllowedError, NotFoundError
from bot.platforms.base import CommandReply
from bot.subagents.records import VIEW
from bot.values import Identity, Place
from db import audit, conversations

NOT_THERE = (
    "Only an admin of that server or workspace, or an operator, sees what applies to others there."
)


async def settings(call: CommandCall) -> CommandReply:
    """Show what applies to the user in the place, and the source of each value.

    To an admin also what applies to another user, and in another place; that is recorded.

    Raises:
        NotAllowedError: The caller is no admin of that place.
        BadRequestError: There is no such account or place; the text has the forms.
    """
    bot, caller = call.bot, call.caller
    if bot.report is None:
        raise NotFoundError("The settings cannot be shown here.")
    account, where = call.get("user").strip("` "), call.get("place").strip("` ")
    user = account_named(account, caller.user) if account else caller.user
    place = place_named(where) if where else caller.place
    if (user, place) != (caller.user, caller.place):
        if not has_admin_powers(caller, place):
            raise NotAllowedError(NOT_THERE)
        owner = "" if user == caller.user else user.key
        entry = caller.entry(
            VIEW, bot.now(), owner=owner, subject=spelled_place(place), effect="settings"
        )
        await bot.database.write(audit.record, entry)
        lines = await bot.report.lines(user, place)
        lines += await _no_longer_asked(call, user, place)
        head = f"**What applies to `{spelled(user)}` in `{spelled_place(place)}`**"
        return CommandReply(text="\n".join([head, *lines]))
    lines = [f"- you: `{spelled(caller.user)}`, {rights_of(caller)} (`access`)"]
    lines += await bot.report.lines(caller.user, caller.place)
    async with bot.database.snapshot() as tx:
        chosen = await conversations.model_of(tx, caller.conversation_id, caller.user)
    if chosen:
        lines.append(f"- model: `{chosen}` (this chat, `{call.typed('model NAME')}`)")
    lines += await _no_longer_asked(call, caller.user, caller.place)
    return CommandReply(text="\n".join(["**What applies to you here**", *lines]))


async def _no_longer_asked(call: CommandCall, user: Identity, place: Place) -> list[str]:
    assert call.bot.report is not None
    always = await call.bot.report.standing(user, place)
    source = f"this chat, `{call.typed('grants')}`"
    return [f"- no longer asks: `{rule}` ({source})" for rule in sorted(always)]

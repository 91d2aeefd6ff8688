"""Handles `/retinue settings`: what applies to a user in a place, and the source of each value."""

from bot.conversations.access import spelled
from bot.conversations.commands import CommandCall, rights_of
from bot.errors import NotFoundError
from bot.platforms.base import CommandReply
from db import conversations, standing_grants


async def settings(call: CommandCall) -> CommandReply:
    """Show what applies to the user in the place, and the source of each value."""
    bot, caller = call.bot, call.caller
    if bot.report is None:
        raise NotFoundError("The settings cannot be shown here.")
    lines = [f"- you: `{spelled(caller.user)}`, {rights_of(caller)} (`access`)"]
    lines += await bot.report.lines(caller.user, caller.place)
    async with bot.database.snapshot() as tx:
        chosen = await conversations.model_of(tx, caller.conversation_id, caller.user)
        always = await standing_grants.rules_of(tx, caller.user.key, caller.place, bot.now())
    if chosen:
        lines.append(f"- model: `{chosen}` (this chat, `{call.typed('model NAME')}`)")
    lines += [
        f"- no longer asks: `{rule}` (this chat, `{call.typed('grants')}`)" for rule in always
    ]
    return CommandReply(text="\n".join(["**What applies to you here**", *lines]))

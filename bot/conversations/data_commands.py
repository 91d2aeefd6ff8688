"""Handles the commands about everything that is stored of a user: a copy, and the deletion."""

from dataclasses import replace

from bot.conversations.commands import CommandCall
from bot.errors import BadRequestError
from bot.platforms.base import CommandReply
from bot.run_texts import counted
from db import audit

#: The tables that the preview of a deletion names, with the word for a row.
_NAMED = {
    "messages": "message",
    "files": "attached file",
    "subagent_runs": "run",
    "notes": "note",
    "schedules": "schedule",
    "todos": "to-do list",
}
WHAT = (
    "**This would delete for good what I have stored about you**: {there}; also your memories, "
    "your settings, your runs with their results, {files}. Your work is "
    "stopped first. Your words in shared threads become empty messages by “deleted”, and "
    "summaries that contain them go.\n\n"
    "**What stays**: {platform}, what I answered in shared threads, and what others quoted there; "
    "hashes, times, actions and pseudonyms in the audit log, and what you did there as an admin; "
    "and the token counts of your runs of the last day, since limits count them.\n\n"
    "`{export}` sends you a copy first. `{yes}` deletes it: there is no way back."
)
WORKSPACE = "and the files of your workspace"
AND_COPIES = (
    "the files of your workspace, and the copies that `{export}` saved (move what you want to keep)"
)
POSTED = "your own posts (delete them on the platform)"
IN_TERMINAL = "what the terminal shows"
GONE = (
    "Done: what I had stored about you is deleted. {kept}The audit log has only times, actions and "
    "pseudonyms left. What you write from now on is stored anew."
)
KEPT = "The token counts of {runs} stay until then, since limits count them. "


async def export(call: CommandCall) -> CommandReply:
    """Send the user a copy of everything, which nobody else can read."""
    bot, caller = call.bot, call.caller
    text = await bot.copies.send(caller.user, caller.place, caller.command_id)
    entry = caller.entry("export", bot.now(), owner=caller.user.key)
    await bot.database.write(audit.record, entry)
    return CommandReply(text=text)


async def forget(call: CommandCall) -> CommandReply:
    """Show the effect of a deletion, or delete everything once the user has confirmed.

    Raises:
        BadRequestError: The words are unclear, or some work does not end.
        OnHoldError: The user is under a legal hold.
    """
    words = call.get("whom").lower().split()
    await call.bot.copies.data.refuse_held(call.caller.user)
    if words in ([], ["me"]):
        found = await call.bot.copies.data.counts(call.caller.user)
        there = [counted(found[name], word) for name, word in _NAMED.items() if found.get(name)]
        at_terminal = call.caller.place.platform == "terminal"
        export = call.typed("export")
        text = WHAT.format(
            there=", ".join(there) or "no messages",
            files=AND_COPIES.format(export=export) if at_terminal else WORKSPACE,
            platform=IN_TERMINAL if at_terminal else POSTED,
            export=export,
            yes=call.typed("forget me yes"),
        )
        return CommandReply(text=text)
    if words != ["me", "yes"]:
        forms = f"`{call.typed('forget me')}`, and `{call.typed('forget me yes')}`"
        raise BadRequestError(f"Nothing is deleted. There are {forms}.")
    caller = call.caller
    # So that their cards show it; the command is not done with that.
    await call.bot.manager.stop("all", replace(caller, command_id=""))
    kept = await call.bot.copies.data.delete(caller.user, command_id=caller.command_id)
    runs = KEPT.format(runs=counted(kept, "run")) if kept else ""
    return CommandReply(text=GONE.format(kept=runs))

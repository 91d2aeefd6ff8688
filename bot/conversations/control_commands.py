"""Handles the commands by which admins pause, resume, stop and drain, and see the state."""

from bot.conversations.access import spelled_place
from bot.conversations.commands import CommandCall
from bot.conversations.control import Affected
from bot.conversations.pause_lines import where_text
from bot.platforms.base import CommandReply
from bot.run_texts import counted
from db.pauses import Pause

NOTHING = "Nothing is paused there."
DRAINS = "This process begins nothing new, finishes its work, and ends. The next start goes on."


async def pause(call: CommandCall) -> CommandReply:
    """Pause a scope: nothing new begins, running work continues, messages are kept."""
    control, caller = call.bot.control, call.caller
    scope = control.scope(call.get("scope"), caller)
    await control.pause(scope, caller)
    resume = call.typed(f"resume {_words(scope)}")
    return CommandReply(
        text=f"⏸ Paused: {_named(scope)}. Nothing new begins, what runs goes on, and messages are "
        f"kept. `{resume}` ends it."
    )


async def resume(call: CommandCall) -> CommandReply:
    """End the pause of a scope: what waits begins."""
    control, caller = call.bot.control, call.caller
    scope = control.scope(call.get("scope"), caller)
    lifted, left = await control.resume(scope, caller)
    lines = [f"▶ Resumed: {_named(scope)}. What waited begins now." if lifted else NOTHING]
    if left:
        lines += ["", "**Still paused**"]
    for each in left:
        by, since = each.name or each.paused_by, f"{each.created_at:%d %b %H:%M} UTC"
        typed = call.typed(f"resume {_words(each)}")
        lines.append(f"- {_named(each)}, by {by} since {since}: `{typed}`")
    return CommandReply(text="\n".join(lines), failed=not lifted)


async def kill(call: CommandCall) -> CommandReply:
    """Show what would be stopped in a scope, or stop it and pause."""
    control, caller, words = call.bot.control, call.caller, call.get("scope")
    head, _, last = words.rpartition(" ")
    confirmed = last.lower() == "yes"
    scope = control.scope(head if confirmed else words, caller)
    if not confirmed:
        found = await control.affected(scope)
        yes = call.typed(f"kill {_words(scope)} yes")
        return CommandReply(
            text=f"This stops {_counted(found)} in {_named(scope)}, with what there is so far, and "
            f"pauses. `{yes}` does it."
        )
    found = await control.kill(scope, caller)
    again = call.typed(f"resume {_words(scope)}")
    return CommandReply(
        text=f"⏹ Stopped {_counted(found)}, and paused: {_named(scope)}. `{again}` ends the pause."
    )


async def drain(call: CommandCall) -> CommandReply:
    """Let this process finish its work and end."""
    await call.bot.control.drain(call.caller)
    return CommandReply(text=DRAINS)


async def health(call: CommandCall) -> CommandReply:
    """Show the state of the bot."""
    return CommandReply(text=await call.bot.health.text())


def _counted(found: Affected) -> str:
    runs, answers = counted(len(found.runs), "run"), counted(len(found.turns), "answer")
    return f"{runs} and {answers} of {counted(found.users, 'user')}"


def _named(scope: Pause) -> str:
    """Return a scope for the admin who typed it."""
    where = where_text(scope.place) and f"`{spelled_place(scope.place)}`"
    if not scope.user_id:
        return where or "the whole bot"
    return f"the user `{scope.user_id}` in {where}" if where else f"the user `{scope.user_id}`"


def _words(scope: Pause) -> str:
    """Return the words that name a scope everywhere."""
    if scope.user_id:
        return f"user {scope.user_id.replace('::', ':')}"
    if not scope.place.platform:
        return "all"
    if not scope.place.channel:
        return f"server {spelled_place(scope.place)}"
    return f"channel {spelled_place(scope.place)}" if scope.place.workspace else "here"

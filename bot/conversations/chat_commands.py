"""Handles the commands about the conversation."""

from datetime import timedelta

from bot.agent.sanitizer import one_line
from bot.catalog.agents import described
from bot.conversations.access import has_admin_powers
from bot.conversations.command_lines import CommandSpec, CommandTable
from bot.conversations.commands import CommandCall
from bot.conversations.context_preview import imagined
from bot.conversations.control import stop_turn
from bot.errors import NotAllowedError
from bot.events import TurnWaiting
from bot.platforms.base import CommandReply
from bot.rights.effective import model_names
from bot.values import ConversationMode
from db import audit, conversations, grants, history, renewal, standing_grants, turns, users

UNDONE_FOR = timedelta(hours=24)
SET_ASIDE = "I set aside what was said before."
ANEW = (
    "A new conversation. Runs that are going on will report here. "
    "`{undo}` goes back within 24 hours."
)
BACK = "The conversation before goes on, with what was said since."
NOT_YOURS = "Only {name} or an admin can stop this."


async def new(call: CommandCall) -> CommandReply:
    """Begin a new conversation, or go back to the one before; tell all who share it."""
    bot, caller = call.bot, call.caller
    mode, back = ConversationMode(shared=caller.shared), bool(call.get("undo"))
    begun, outcome = None, ""
    async with call.applied() as tx:
        user = await users.get(tx, caller.user.key)
        if back:
            since = bot.now() - UNDONE_FOR
            outcome = await renewal.go_back(tx, caller.user, caller.place, mode, since=since)
        else:
            begun = await renewal.begin_anew(tx, caller.user, caller.place, mode, bot.now())
    if begun is not None:
        bot.events.publish(TurnWaiting(conversation_id=begun, platform=caller.place.platform))
    if outcome == "busy":
        return CommandReply(
            text="I am answering here. Send it again after the answer.", failed=True
        )
    if outcome == "none":
        return CommandReply(text="No conversation ended here in the last 24 hours.", failed=True)
    text = BACK if back else ANEW.format(undo=call.typed("new undo"))
    if caller.shared:
        name = one_line(user.name, 60) if user else "Somebody"
        what = "went back to the conversation before" if back else "began a new conversation"
        bot.say(caller.place, caller.user, f"{name} {what}. {SET_ASIDE * (not back)}".strip())
    return CommandReply(text=text)


async def ask(_: CommandCall) -> CommandReply:
    """Explain how to ask: a command with a question is passed on as a message."""
    return CommandReply(text="Write your question behind the command.", failed=True)


async def model(call: CommandCall) -> CommandReply:
    """Show the models, or choose one for the conversation."""
    bot, caller, name = call.bot, call.caller, call.get("name")
    rights = await bot.rights(caller.user, caller.place)

    def refusal(model: str) -> str:
        return rights.refusal("models", *model_names(*model.split("/", 1)))

    if not name:
        earlier = await bot.database.read(
            conversations.model_of, caller.conversation_id, caller.user
        )
        chosen = bot.models.kept(bot.models.admitted(earlier, rights))
        lines = [
            f"- `{each}`"
            + " (only talks: it calls no tools)" * bot.models.only_talks(each)
            + " ← answers here" * (each == chosen)
            for each in bot.models.names()
            if not refusal(each)
        ]
        switch = f"`{call.typed('model NAME')}` switches."
        return CommandReply(text="\n".join(["**Models**", *lines, "", switch]))
    default = name.lower() in {"default", "reset"}
    chosen = bot.models.named("" if default else name)
    if not default and (refused := refusal(chosen)):
        raise NotAllowedError(f"{refused[:1].upper()}{refused[1:]}.")
    async with call.applied() as tx:
        await conversations.choose_model(
            tx, caller.conversation_id, caller.user, "" if default else chosen
        )
    talks = " It only talks, since it calls no tools." * bot.models.only_talks(chosen)
    text = f"From now on `{chosen}` answers here.{talks} Runs keep their own model."
    return CommandReply(text=text)


async def stop(call: CommandCall) -> CommandReply:
    """Stop this user's turn that is in progress in this place or in a thread of it."""
    bot, caller = call.bot, call.caller
    async with call.applied() as tx:
        # A command that is carried out late, after a restart, stops no turn that came after it.
        active = await turns.active_of(
            tx, caller.user.key, caller.place, before=caller.command_id or None
        )
        other = None
        if active is None and caller.shared:
            other = await turns.active_of(tx, None, caller.place, before=caller.command_id or None)
            active = other if other and has_admin_powers(caller, other.place) else None
        stopped = active is not None and await stop_turn(tx, active, caller, bot.now())
    if other is not None and active is None:
        return CommandReply(text=NOT_YOURS.format(name=one_line(other.user_name, 60)), failed=True)
    if active is None or not stopped:
        return CommandReply(text="Nothing is being answered. `/subagents stop ID` stops a run.")
    bot.turns.stop(active.id)
    return CommandReply(text="Stopped. Background runs go on; `/subagents stop all` ends them.")


async def context(call: CommandCall) -> CommandReply:
    """Show what is sent with each message of the user, or let an admin forget a summary.

    The answer is for the user alone: it has the block that no other user may read.
    """
    bot, caller = call.bot, call.caller
    mode = ConversationMode(shared=caller.shared)
    if call.get("forget"):
        if not has_admin_powers(caller, caller.place):
            return CommandReply(text="Only an admin can do that.", failed=True)
        async with call.applied() as tx:
            found = await conversations.find(tx, caller.user, caller.place, mode)
            gone = found is not None and await history.forget_summary(tx, found)
            if gone:
                await audit.record(tx, caller.entry("delete summary", bot.now()))
        text = "The summary is deleted." if gone else "There is no summary here."
        return CommandReply(text=text, failed=not gone)
    async with bot.database.snapshot() as tx:
        found = await conversations.find(tx, caller.user, caller.place, mode)
        user = await users.get(tx, caller.user.key)
        number = await history.number_of(tx, found, caller.user.key) if found else 0
    name = user.name if user else ""
    turn = imagined(caller, found or "", name=name, number=number, now=bot.now)
    preview = await bot.preview(turn)
    head = "**What I send with each message of yours here**, in tokens (estimates)"
    return CommandReply(text="\n".join([head, *preview.lines()]))


async def grants_(call: CommandCall) -> CommandReply:
    """List what is allowed for a while, or take it back."""
    bot, caller, name = call.bot, call.caller, call.get("tool")
    if name:
        async with call.applied() as tx:
            wanted = None if name == "all" else name
            there = await grants.revoke(tx, caller.user.key, wanted)
            there |= await standing_grants.revoke(tx, caller.user.key, wanted)
            if there:
                mine = caller.user.key
                await audit.record(tx, caller.entry("revoke", bot.now(), owner=mine, subject=name))
        shown = one_line(name, 60)
        text = f"From now on I ask again: {shown}." if there else f"You have not allowed {shown}."
        return CommandReply(text=text, failed=not there, private=True)
    async with bot.database.snapshot() as tx:
        tools = await grants.given(tx, caller.user.key, bot.now())
        rules = await standing_grants.of_user(tx, caller.user.key, bot.now())
    if not tools and not rules:
        return CommandReply(text="You have allowed nothing beyond a single call.", private=True)
    lines = [f"- `{name}`, until {until:%d %b %H:%M} UTC" for name, until in sorted(tools.items())]
    if lines:
        lines = ["**What you have allowed in threads**", *lines, ""]
    if rules:
        lines += ["**What these rules no longer ask about**"]
        for each in rules:
            by = "" if each.granted_by == caller.user.key else ", allowed by another user"
            where = each.place.platform + f" {each.place.workspace}" * bool(each.place.workspace)
            lines.append(f"- `{each.rule}`, on {where} until {each.expires_at:%d %b}{by}")
        lines.append("")
    take_back = f"`{call.typed('grants NAME')}` takes one back, `{call.typed('grants all')}` all."
    return CommandReply(text="\n".join([*lines, take_back]), private=True)


async def undo(call: CommandCall) -> CommandReply:
    """List the user's changes, or take one back."""
    return await call.bot.undo.run(call.get("change"), call.caller)


async def help_(call: CommandCall) -> CommandReply:
    """Show the commands and the agents."""
    bot, platform = call.bot, call.caller.place.platform
    commands = bot.table().help(platform, call.rights)
    agents = "\n".join(f"- {line}" for line in described(bot.agents))
    return CommandReply(text=f"{commands}\n\n**Agents**\n{agents}")


def greeting(table: CommandTable[CommandSpec], platform: str) -> str:
    """Return the answer to a message that only mentions the bot, Markdown."""
    sign = "!" if platform == "slack" else "/"
    commands = "!help" if platform == "slack" else table.typed("help", platform)
    return (
        "Hello! I answer questions, work with your files, and hand longer work to subagents that "
        "report back here. Tell me what to do, such as “Research the history of tea in the "
        f"background”. `{sign}subagents list` shows your runs, `{commands}` all commands."
    )

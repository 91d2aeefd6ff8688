"""Handles the commands about runs."""

from bot.agent.sanitizer import one_line
from bot.catalog.agents import check_name
from bot.conversations.commands import CommandCall
from bot.conversations.run_lines import (
    agents_text,
    info_text,
    named,
    run_line,
    spawned_text,
    usage_text,
)
from bot.conversations.spending_commands import limits_text
from bot.conversations.usage_lines import spending_text, usage_csv
from bot.platforms.base import CommandReply, OutgoingFile
from bot.run_texts import status_text
from bot.spending.pools import Payer
from bot.subagents.requests import NOTIFY, RunRequest
from bot.subagents.wording import report, title
from bot.values import short
from db import outbox, users

#: The meanings of `NOTIFY`.
NOTIFICATIONS = {
    "done": "You are notified when a run has ended, unless you wrote there within a minute.",
    "progress": "You are notified when a run has ended, and read here what it reports meanwhile.",
    "silent": "Results of runs come without a notification.",
}
NOT_WAITING = "That result is not waiting to be delivered."


# -- watching ------------------------------------------------------------------------------------


async def list_runs(call: CommandCall) -> CommandReply:
    """List the user's runs and undelivered results, or everyone's runs for an admin."""
    bot, caller = call.bot, call.caller
    active, ended = await bot.records.list(caller, everyone=bool(call.get("everyone")))
    undelivered = await bot.database.read(outbox.blocked, caller.user.key, limit=8)
    if not active and not ended and not undelivered:
        return CommandReply(
            text="No runs are going on. Ask me for something that takes a while, or type "
            "`/subagents spawn TASK`."
        )
    lines = [f"**Active runs** ({len(active)})", *(run_line(run, bot.now()) for run in active)]
    if ended:
        lines += ["", "**Recently finished**", *(run_line(run, bot.now()) for run in ended)]
    if undelivered:
        lines += ["", "**Could not be delivered** – `/subagents read ID`, `retry` or `dismiss`"]
        lines += [
            f"- `{item.handle}` {one_line(item.title, 120)}{' (its files)' * item.text_delivered}"
            for item in undelivered
        ]
    return CommandReply(text="\n".join(lines))


async def info(call: CommandCall) -> CommandReply:
    """Show the status and the numbers of a run."""
    return CommandReply(text=info_text(await call.bot.records.info(call.get("run"), call.caller)))


async def log(call: CommandCall) -> CommandReply:
    """Show a page of a run's log."""
    page = int(call.get("page") or 1)
    found = await call.bot.records.log(call.get("run"), call.caller, page=page)
    run = found.run
    head = f"Log of **{run.label}** (`{short(run.id)}`), page {found.page} of {found.pages}"
    body = "\n".join(f"- {line}" for line in found.lines)
    more = f"/subagents log {short(run.id)} {found.page + 1}" * (found.page < found.pages)
    return CommandReply(text=f"{head}\n{body}", more=more)


async def usage(call: CommandCall) -> CommandReply:
    """Show the user's usage, costs and limits; to an admin everyone's costs, or a file of them."""
    bot, caller, whose = call.bot, call.caller, call.get("whose").lower()
    if whose not in {"", "all", "csv"}:
        return CommandReply(text="Choose all or csv, or leave it out.", failed=True)
    if whose == "csv":
        content = usage_csv(await bot.records.spending_table(caller)).encode()
        file = OutgoingFile(f"retinue-usage-{bot.now():%Y-%m-%d}.csv", content)
        where = await bot.copies.deliver(file, caller.user, caller.place, caller.command_id)
        return CommandReply(text=f"What everyone used this month is in {where}.")
    spent = spending_text(await bot.records.spending(caller, everyone=whose == "all"))
    payer = Payer(user=caller.user, place=caller.place, work_id="")
    limits = limits_text(await bot.ledger.states(payer))
    lines = (usage_text(await bot.manager.usage(caller)), spent, limits)
    return CommandReply(text="\n".join(filter(None, lines)))


async def agents(call: CommandCall) -> CommandReply:
    """Show a page of the agents with their tools and limits, or of those with certain words."""
    words = call.get("which").split()
    page = int(words.pop()[:6]) if words and words[-1].isdecimal() else 1
    settings = call.bot.manager.settings()
    text = agents_text(call.bot.agents, settings, words=" ".join(words), page=page)
    return CommandReply(text=text)


# -- steering ------------------------------------------------------------------------------------


async def stop(call: CommandCall) -> CommandReply:
    """Stop a run, or all runs of the user."""
    stopped = await call.bot.manager.stop(call.get("run"), call.caller)
    if not stopped:
        return CommandReply(text="Nothing to stop: it is over already.")
    names = ", ".join(f"“{run.label}” (`{short(run.id)}`)" for run in stopped)
    began = any(
        run.started_at is not None and run.announce != "silent" and run.mode == "async"
        for run in stopped
    )
    return CommandReply(text=f"Stopping {names}.{' What it has so far follows.' * began}")


async def send(call: CommandCall) -> CommandReply:
    """Send a message to a run."""
    text = await call.bot.manager.send(call.get("run"), call.get("message"), call.caller)
    return CommandReply(text=text)


async def spawn(call: CommandCall) -> CommandReply:
    """Start a run.

    Raises:
        BadRequestError: No agent has the given name.
    """
    check_name(call.bot.agents, call.get("agent"))
    number = {
        name: int(call.get(name)) if call.get(name) else None
        for name in ("budget", "minutes", "steps")
    }
    request = RunRequest(
        task=call.get("task"),
        agent=call.get("agent"),
        label=call.get("label"),
        model=call.get("model") or None,
        provider=call.get("provider") or None,
        token_budget=number["budget"],
        timeout_minutes=number["minutes"],
        max_turns=number["steps"],
        announce=call.get("announce") or None,
        notify=call.get("notify") or None,
    )
    spawned = await call.bot.manager.spawn(request, call.caller)
    run = spawned.run
    text = f"✅ Started “{run.label}” ({named(run)})."
    follows = "" if run.announce == "silent" else " The result will be announced here."
    return CommandReply(text=spawned_text(spawned, text, follows))


async def notify(call: CommandCall) -> CommandReply:
    """Show the notifications about runs that the user gets, or change them."""
    bot, user = call.bot, call.caller.user.key
    wanted = call.get("how").lower()
    if wanted and wanted not in NOTIFY:
        return CommandReply(text=f"Choose one of {', '.join(NOTIFY)}.", failed=True)
    if wanted:
        async with call.applied() as tx:
            await users.set_notify(tx, user, wanted)
    else:
        known = await bot.database.read(users.get, user)
        wanted = (known.notify if known else "") or NOTIFY[0]
    return CommandReply(text=f"{NOTIFICATIONS[wanted]} `/subagents notify` changes that.")


async def resume(call: CommandCall) -> CommandReply:
    """Resume a run that did not complete, as a new run."""
    spawned = await call.bot.manager.resume(call.get("run"), call.caller)
    run = spawned.run
    if not spawned.new:
        text = f"“{run.label}” was resumed before, as {named(run)}: "
        text += f"{status_text(run.status, degraded=run.degraded).words}."
        if run.status.resumable:
            text += f" `/subagents resume {short(run.id)}` resumes that run."
        return CommandReply(text=text)
    text = f"✅ Resumed “{run.label}” as a new run ({named(run)})."
    follows = " Its result will be announced where the first run was started."
    return CommandReply(text=spawned_text(spawned, text, follows))


# -- results -------------------------------------------------------------------------------------


async def read(call: CommandCall) -> CommandReply:
    """Show the whole result of a run, or a reply that could not be delivered."""
    reply = await _late_reply(call)
    if reply is not None:
        return CommandReply(text=f"**{one_line(reply.title, 200)}**\n\n{reply.text}")
    run = await call.bot.records.find(call.get("run"), call.caller, action="read")
    if not run.status.final:
        return CommandReply(text="That run is not over: there is no result yet.", failed=True)
    return CommandReply(text=f"**{title(run)}**\n\n{report(run)}")


async def retry(call: CommandCall) -> CommandReply:
    """Deliver a result again that could not be delivered."""
    return await _deliver(call, again=True)


async def dismiss(call: CommandCall) -> CommandReply:
    """Dismiss a result that could not be delivered."""
    return await _deliver(call, again=False)


async def _deliver(call: CommandCall, *, again: bool) -> CommandReply:
    """Retry or dismiss the delivery of a late reply or of the result of a run.

    Raises:
        NotFoundError: The handle means neither a reply nor a run in reach.
        AmbiguousError: It means several runs.
    """
    bot, caller = call.bot, call.caller
    reply, run = await _late_reply(call), None
    if reply is not None:
        key, owner, name = reply.key, reply.user.key, f"“{one_line(reply.title, 120)}”"
    else:
        run = await bot.records.find(call.get("run"), caller, action="")
        key, owner, name = run.id, run.user_id, f"the result of “{run.label}”"
    async with call.applied() as tx:
        if again:
            done = await outbox.retry_blocked(tx, key, owner, bot.now())
        else:
            done = await outbox.dismiss(tx, key, owner)
        if done and run is not None and owner != caller.user.key:
            await bot.records.record(tx, "retry" if again else "dismiss", run, caller)
    if not done:
        return CommandReply(text=NOT_WAITING, failed=True)
    if again:
        return CommandReply(text=f"Trying again to deliver {name}.")
    return CommandReply(text=f"Dismissed {name}. `/subagents read` shows the result of a run.")


async def _late_reply(call: CommandCall) -> outbox.OutboxEntry | None:
    """Return the undelivered reply that the handle means; `None` if it means no reply."""
    handle = call.get("run").strip("` ").lower()
    found = await call.bot.database.read(outbox.blocked, call.caller.user.key, limit=100)
    return next((item for item in found if not item.run_id and item.handle == handle), None)

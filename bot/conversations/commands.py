"""`/subagents` and its relatives: one implementation for every platform, without the model."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.agent.definition import Agents
from bot.agent.sanitizer import one_line
from bot.errors import BadRequestError, BotError
from bot.platforms.base import CommandReply
from bot.subagents.limits import spoken
from bot.subagents.manager import SubagentManager, UsageReport
from bot.subagents.records import Records
from bot.subagents.requests import Caller, RunRequest
from bot.subagents.wording import mark
from bot.values import Clock, Role, short
from db import conversations, outbox
from db.database import Database
from db.runs import Run

HELP = """\
**Runs** (an id is its first letters, a label, `#n`, or `last`)
- `/subagents list` – your runs (`list all`: everyone's, for admins)
- `/subagents info ID` – status, tokens, timing, result
- `/subagents log ID [page]` – what it said and did, step by step
- `/subagents send ID MESSAGE` – tell it something
- `/subagents stop ID` – stop it; `stop all` stops all of yours
- `/subagents spawn [--agent A] [--label L] [--model M] [--budget N] [--minutes N] TASK`
- `/subagents usage` – what you have used of what you may use
- `/subagents retry ID`, `/subagents dismiss ID` – a result that could not be delivered

**Chat**
- `/new` – start afresh; runs go on
- `/stop` – stop the answer that is being written
- `/help` – this"""

USAGE = {
    "stop": "/subagents stop ID (or `all`, or `last`)",
    "log": "/subagents log ID [page]",
    "info": "/subagents info ID",
    "send": "/subagents send ID MESSAGE",
    "spawn": "/subagents spawn [--agent A] [--label L] [--model M] [--budget N] [--minutes N] TASK",
    "retry": "/subagents retry ID",
    "dismiss": "/subagents dismiss ID",
}

_OPTION = re.compile(r"--(\w[\w-]*)(?:=|\s+)(\"[^\"]*\"|'[^']*'|(?!--)\S+)\s*")

Handler = Callable[[str, Caller], Awaitable[CommandReply]]


@dataclass(frozen=True, slots=True)
class Commands:
    """Carries out commands for whoever types, clicks or picks them."""

    database: Database
    manager: SubagentManager
    records: Records
    agents: Agents
    now: Clock

    async def run(self, text: str, caller: Caller) -> CommandReply:
        """Carry out a command line such as `/subagents stop 1a2b`.

        Whatever cannot be done is answered in a sentence that says what would work.
        """
        name, _, rest = text.strip().removeprefix("/").partition(" ")
        handlers: dict[str, Handler] = {
            "subagents": self._subagents,
            "subagent": self._subagents,
            "new": self._new,
            "help": self._help,
        }
        handler = handlers.get(name.lower())
        if handler is None:
            known = ", ".join(f"/{known}" for known in ("subagents", "new", "stop", "help"))
            return CommandReply(
                text=f"There is no command /{one_line(name, 30)}. There are: {known}.", failed=True
            )
        try:
            return await handler(rest.strip(), caller)
        except BotError as error:
            return CommandReply(text=str(error), failed=True)

    async def _subagents(self, rest: str, caller: Caller) -> CommandReply:
        action, _, words = rest.partition(" ")
        handlers: dict[str, Handler] = {
            "": self._list,
            "list": self._list,
            "ls": self._list,
            "stop": self._stop,
            "kill": self._stop,
            "log": self._log,
            "info": self._info,
            "send": self._send,
            "spawn": self._spawn,
            "usage": self._usage,
            "retry": self._retry,
            "dismiss": self._dismiss,
            "help": self._help,
        }
        handler = handlers.get(action.lower())
        if handler is None:
            known = "list, stop, log, info, send, spawn, usage, retry, dismiss, help"
            return CommandReply(
                text=f"/subagents {one_line(action, 30)} is unknown. There are: {known}.",
                failed=True,
            )
        return await handler(words.strip(), caller)

    # -- watching --------------------------------------------------------------------------------

    async def _list(self, words: str, caller: Caller) -> CommandReply:
        everyone = words.lower() == "all"
        if everyone and caller.role is not Role.ADMIN:
            return CommandReply(text="Only admins can list everyone's runs.", failed=True)
        active, ended = await self.records.list(caller, everyone=everyone)
        async with self.database.snapshot() as tx:
            kept = await outbox.undelivered(tx, caller.user.key, limit=8)
        kept = [item for item in kept if item.status == "blocked"]
        if not active and not ended and not kept:
            return CommandReply(
                text="No runs are going on. Ask me for something that takes a while, or type "
                "`/subagents spawn TASK`."
            )
        lines = [f"**Active runs** ({len(active)})", *(self._line(run) for run in active)]
        if ended:
            lines += ["", "**Ended lately**", *(self._line(run) for run in ended)]
        if kept:
            lines += ["", "**Could not be delivered** – `/subagents retry ID` or `dismiss ID`"]
            lines += [f"- {one_line(item.title, 120)}" for item in kept]
        return CommandReply(text="\n".join(lines))

    def _line(self, run: Run) -> str:
        elapsed = spoken(run.seconds_used)
        if not run.status.final and run.started_at is not None:
            elapsed = spoken((self.now() - run.started_at).total_seconds())
        return (
            f"- {mark(run.status)} `{short(run.id)}` #{run.number} **{run.label}** "
            f"({run.agent}) {run.status} · {elapsed} · {run.tool_call_count} tool calls · "
            f"{run.tokens:,} of {run.token_budget:,} tokens"
        )

    async def _info(self, words: str, caller: Caller) -> CommandReply:
        _needs(words, "info")
        details = await self.records.info(words, caller)
        run = details.run
        lines = [
            f"{mark(run.status)} **{run.label}** (`{run.id}`, #{run.number})",
            f"- Status: {run.status}"
            + (f", place {details.position} in the queue" if details.position else ""),
            f"- Agent: {run.agent}, model {run.model} ({run.provider}), {run.mode}",
            f"- Task: {one_line(run.task, 300)}",
            f"- Tokens: {run.input_tokens:,} in, {run.output_tokens:,} out, of "
            f"{run.token_budget:,}",
            f"- Work: {details.steps} steps, {run.tool_call_count} tool calls, "
            f"{spoken(run.seconds_used)} of {spoken(run.timeout_ms / 1000)}",
            f"- Asked for: {run.created_at:%Y-%m-%d %H:%M:%S} UTC"
            + (f", ended {run.completed_at:%H:%M:%S}" if run.completed_at else ""),
        ]
        for message in details.messages:
            read = f"read at step {message.read_at_step}" if message.read_at_step else "queued"
            if run.status.final and not message.read_at_step:
                read = "came too late"
            lines.append(f"- Message ({read}): {one_line(message.text, 200)}")
        if run.error:
            lines.append(f"- {run.error}")
        if run.result:
            lines += ["", run.result[:1500] + (" …" if len(run.result) > 1500 else "")]
        return CommandReply(text="\n".join(lines))

    async def _log(self, words: str, caller: Caller) -> CommandReply:
        _needs(words, "log")
        handle, page = words, 1
        head, _, last = words.rpartition(" ")
        if head and last.isdecimal() and not words.endswith(('"', "”")):
            handle, page = head, int(last[:6])
        found = await self.records.log(handle, caller, page=page)
        run = found.run
        title = f"Log of **{run.label}** (`{short(run.id)}`), page {found.page} of {found.pages}"
        body = "\n".join(f"- {line}" for line in found.lines)
        more = ""
        if found.page < found.pages:
            more = f"/subagents log {short(run.id)} {found.page + 1}"
        return CommandReply(text=f"{title}\n{body}", more=more)

    async def _usage(self, _: str, caller: Caller) -> CommandReply:
        return CommandReply(text=usage_text(await self.manager.usage(caller)))

    # -- steering --------------------------------------------------------------------------------

    async def _stop(self, words: str, caller: Caller) -> CommandReply:
        _needs(words, "stop")
        stopped = await self.manager.stop(words, caller)
        if not stopped:
            return CommandReply(text="Nothing to stop: it is over already.")
        names = ", ".join(f"“{run.label}” (`{short(run.id)}`)" for run in stopped)
        began = any(run.started_at is not None and run.announce != "silent" for run in stopped)
        follows = " What it has so far follows." if began else ""
        return CommandReply(text=f"Stopping {names}.{follows}")

    async def _send(self, words: str, caller: Caller) -> CommandReply:
        handle, message = _handle_and_rest(words)
        if not handle or not message:
            raise BadRequestError(f"Usage: {USAGE['send']}")
        return CommandReply(text=await self.manager.send(handle, message, caller))

    async def _spawn(self, words: str, caller: Caller) -> CommandReply:
        request = parse_spawn(words)
        spawned = await self.manager.spawn(request, caller)
        run = spawned.run
        if spawned.position is None:
            text = f"✅ Started “{run.label}” (`{short(run.id)}`, #{run.number})."
        else:
            text = (
                f"✅ “{run.label}” (`{short(run.id)}`, #{run.number}) waits for a slot: place "
                f"{spawned.position} in your queue."
            )
        notes = "".join(f"\n- {note}" for note in spawned.notes)
        told = "" if run.announce == "silent" else " The result will be announced here."
        return CommandReply(text=f"{text}{told}{notes}")

    async def _retry(self, words: str, caller: Caller) -> CommandReply:
        _needs(words, "retry")
        run = await self.records.find(words, caller, action="retry")
        async with self.database.transaction() as tx:
            again = await outbox.retry_blocked(tx, run.id, caller.user.key, self.now())
        if not again:
            return CommandReply(text="That result is not waiting to be delivered.", failed=True)
        return CommandReply(text=f"Trying again to deliver the result of “{run.label}”.")

    async def _dismiss(self, words: str, caller: Caller) -> CommandReply:
        _needs(words, "dismiss")
        run = await self.records.find(words, caller, action="dismiss")
        async with self.database.transaction() as tx:
            done = await outbox.dismiss(tx, run.id, caller.user.key)
        if not done:
            return CommandReply(text="That result is not waiting to be delivered.", failed=True)
        return CommandReply(text=f"Dismissed. `/subagents info {short(run.id)}` still shows it.")

    # -- chat ------------------------------------------------------------------------------------

    async def _new(self, _: str, caller: Caller) -> CommandReply:
        async with self.database.transaction() as tx:
            found = await conversations.find(tx, caller.user, caller.place)
            if found is not None:
                await conversations.close(tx, found, self.now())
        return CommandReply(text="A new conversation. Runs that are going on will report here.")

    async def _help(self, _: str, caller: Caller) -> CommandReply:
        agents = "\n".join(f"- {line}" for line in self.agents.lines())
        return CommandReply(text=f"{HELP}\n\n**Agents**\n{agents}")


def usage_text(report: UsageReport) -> str:
    """Return what a person has used of what they may use."""
    settings = report.settings
    rate = settings.spawn_rate_limit
    lines = [
        f"- Runs started in the last {spoken(rate.window_seconds)}: {report.started} of "
        f"{rate.max_requests}",
        f"- Going on: {report.running} of {settings.max_concurrent_per_user}",
        f"- Waiting: {report.queued} of {settings.max_queued_per_user}",
        f"- Last 24 hours: {report.runs_today} runs, {report.tokens_today:,} tokens",
        f"- One run: {settings.default_token_budget:,} tokens (at most "
        f"{settings.max_token_budget:,}), {settings.default_timeout_minutes:g} min (at most "
        f"{settings.max_timeout_minutes:g})",
    ]
    if report.people is not None:
        lines.append(
            f"- Everyone: {report.running_global} of {settings.max_concurrent_global} slots taken, "
            f"{report.people} people"
        )
    return "**Your usage**\n" + "\n".join(lines)


def parse_spawn(words: str) -> RunRequest:
    """Return the request in `[--option value …] task`.

    Raises:
        BadRequestError: An option is unknown or has a bad value; the text says what would do.
    """
    options: dict[str, str] = {}
    rest = words
    while match := _OPTION.match(rest):
        options[match[1].lower()] = match[2].strip("\"'")
        rest = rest[match.end() :]
    known = {"agent", "label", "model", "provider", "budget", "minutes", "steps", "announce"}
    unknown = sorted(set(options) - known)
    if unknown or rest.startswith("--"):
        name = unknown[0] if unknown else re.split(r"[\s=]", rest[2:], maxsplit=1)[0].lower()
        wrong = "needs a value" if name in known else "is unknown"
        raise BadRequestError(f"--{one_line(name, 30)} {wrong}. Usage: {USAGE['spawn']}")
    return RunRequest(
        task=rest,
        agent=options.get("agent", ""),
        label=options.get("label", ""),
        model=options.get("model"),
        provider=options.get("provider"),
        token_budget=_number(options, "budget"),
        timeout_minutes=_number(options, "minutes"),
        max_turns=_number(options, "steps"),
        announce=options.get("announce"),
    )


def _number(options: dict[str, str], name: str) -> int | None:
    given = options.get(name)
    if given is None:
        return None
    if not given.isdecimal() or len(given) > 9:
        raise BadRequestError(f"--{name} takes a whole number, such as --{name} 5.")
    return int(given)


def _handle_and_rest(words: str) -> tuple[str, str]:
    """Return the handle of a run, which may be a quoted label, and the raw text after it."""
    if words[:1] in {'"', "'"}:
        end = words.find(words[0], 1)
        if end > 0:
            return words[1:end], words[end + 1 :].strip()
    handle, _, rest = words.partition(" ")
    return handle, rest.strip()


def _needs(words: str, action: str) -> None:
    if not words:
        raise BadRequestError(f"Which run? Usage: {USAGE[action]}. /subagents list shows yours.")
